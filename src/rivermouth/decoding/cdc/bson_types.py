"""How declared types are read from MongoDB's extended JSON: values that stand alone, or under a name for their type."""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.text import text_types
from rivermouth.schemas.type_limits import time_range

_FIRST_MS, _LAST_MS = time_range(1000)
_WRAPPED: Final = (
    ("number(?:Long|Int|Double|Decimal)", '"(-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?)"', "$1"),
    ("oid", '("[0-9a-f]{24}")', "$1"),
)
# As many digits as a double keeps.
_WITH_EXPONENT: Final = r"^[+-]?[0-9]([.][0-9]{1,14})?[eE][+-]?[0-9]{1,2}\z"
_NUMBERS: Final = ("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")


def value(read: str, kind: str, declared: T.DataType, *, exact_times: bool = False) -> str:
    """SQL of the declared type; null where the variant ``read``, of the kind in ``kind``, does not fit it."""
    text = f"CAST({read} AS STRING)"
    is_text, is_object = f"{kind} = 'STRING'", f"startswith({kind}, 'OBJECT')"
    is_number = f"({kind} IN ('BIGINT', 'DOUBLE') OR startswith({kind}, 'DECIMAL'))"
    match declared:
        case T.StringType():
            named = ", ".join(_part(read, name) for name in ("$oid", *_NUMBERS))
            return f"CASE WHEN {is_object} THEN coalesce({named}, {text}) ELSE {text} END"
        case T.BooleanType():
            return f"CASE WHEN {kind} = 'BOOLEAN' THEN try_variant_get({read}, '$', 'boolean') END"
        case T.BinaryType():
            encoded = f"coalesce({_part(read, '$binary', 'base64')}, {_part(read, '$binary')})"
            return f"CASE WHEN {is_object} THEN {text_types.base64(f'({encoded})')} END"
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            plain_text = f"CASE WHEN {is_text} THEN {text} END"
            return _time(read, declared, is_object=is_object, plain=plain_text, exact=exact_times)
    named = ", ".join(_part(read, name) for name in _NUMBERS)
    number = f"CASE WHEN {is_number} THEN {text} WHEN {is_object} THEN coalesce({named}) END"
    if isinstance(declared, T.DecimalType):
        number = f"coalesce({_without_exponent(f'({number})')}, {number})"
    return text_types.of_text(f"({number})", declared)


def _without_exponent(text: str) -> str:
    """SQL of a number that has an exponent as text without one; null for others, and for those with many digits."""
    exact = f"try_cast({text} AS DECIMAL(38, 18))"
    form = f"{text} RLIKE r'{_WITH_EXPONENT}' AND CAST({exact} AS DOUBLE) = try_cast({text} AS DOUBLE)"
    return f"CASE WHEN {form} THEN CAST({exact} AS STRING) END"


def plain(read: str) -> str:
    """SQL of the JSON of the variant ``read``, in which ids and numbers that stand under their type stand alone."""
    text = f"CAST({read} AS STRING)"
    for name, inside, made in _WRAPPED:
        wrapped = rf'\{{"\${name}":{inside}\}}'
        text = f"regexp_replace({text}, r'{wrapped}', '{made}')"
    return text


def _part(read: str, *path: str) -> str:
    names = "".join(f'["{name}"]' for name in path)
    return f"try_variant_get({read}, '${names}', 'string')"


def _time(read: str, declared: T.DataType, *, is_object: str, plain: str, exact: bool) -> str:
    """A date in extended JSON is milliseconds, alone or as a long, or text."""
    inner = f"coalesce({_part(read, '$date', '$numberLong')}, {_part(read, '$date')})"
    number = f"CASE WHEN {is_object} THEN try_cast({inner} AS BIGINT) END"
    millis = f"timestamp_micros(CASE WHEN ({number}) BETWEEN {_FIRST_MS} AND {_LAST_MS} THEN ({number}) * 1000 END)"
    if isinstance(declared, T.DateType):
        whole = f"CASE WHEN date_trunc('DAY', {millis}) = {millis} THEN CAST({millis} AS date) END"
        return f"coalesce({whole}, {text_types.of_text(plain, declared)})"
    said = f"(CASE WHEN {is_object} THEN {_part(read, '$date')} ELSE {plain} END)"
    text = text_types.of_text(said, declared, exact_times=exact)
    return f"coalesce(CAST({millis} AS {declared.simpleString()}), {text})"
