"""Why a value is not the JSON that was declared: plain Python over bytes, for refused records only.

Spark decides which records are refused; this names the first thing that is wrong with one of them. No text
holds anything of the record beyond the names of declared fields.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.rows import exact_values
from rivermouth.rows.json_times import EPOCHS, TimeByForm, TimeForms
from rivermouth.rows.json_types import EXACT_IN_DOUBLE, LONGEST_DECIMAL, name_in_json
from rivermouth.rows.undeclared import first_pointer

# Jackson's limits; the parser is held to them too.
MAX_DEPTH: Final = 1000
MAX_NUMBER: Final = 1000
MAX_NAME: Final = 50_000
MAX_STRING: Final = 20_000_000
MAX_POINTER: Final = 200
MAX_VARIANT: Final = 1 << 24
# A part of a VARIANT takes so many bytes at most, beside those of its text.
_AROUND_A_PART: Final = 24

VERDICT: Final = T.StructType([T.StructField(name, T.StringType()) for name in ("reason", "field", "message")])
FINDINGS: Final = T.ArrayType(VERDICT)
_RANGES: Final = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIMESTAMP: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.]\d*)?(Z|[+-]\d{2}(:?\d{2})?)?)?)?", re.ASCII
)
_LIKE_A_DATE: Final = re.compile(r"\s*[+-]?\d{4,7}-\d{1,2}", re.ASCII)
_NTZ: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}([.]\d{1,9})?)?)?", re.ASCII)
_ISO: Final[dict[type[T.DataType], tuple[re.Pattern[str], str]]] = {
    T.DateType: (_DATE, "date (YYYY-MM-DD)"),
    T.TimestampType: (_TIMESTAMP, "timestamp (YYYY-MM-DDThh:mm:ss, with an offset or in UTC)"),
    T.TimestampNTZType: (_NTZ, "timestamp without an offset (YYYY-MM-DDThh:mm:ss)"),
}
_DECIMAL: Final = re.compile(r"[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_LONG: Final = "a number with more digits than a double keeps"
_OUTSIDE_STRINGS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with a value.

    Attributes:
        reason: One of the closed codes.
        field: Path of the declared field, ``items[].price``; None where it is about the whole value.
        message: A sentence.
        sure: False where Spark may have taken the value all the same, and something else is the cause.
    """

    reason: str
    field: str | None
    message: str
    sure: bool = True


@dataclass(frozen=True, slots=True)
class _Number:
    """A number as it stands in the document."""

    text: str
    whole: bool


class _Object(list[tuple[str, Any]]):
    """The members of an object in order, twins included."""


class _NotJson(ValueError):
    """A word that Python's parser takes for a number, and JSON does not know."""


def explainer(
    schema_json: str,
    *,
    array: str | None = None,
    known: str = "{}",
    forms: TimeForms | None = None,
    exact: str = "{}",
) -> Callable[..., Any]:
    """A Spark function from ``__value`` (binary) to a struct (reason, field, message) that is never null.

    Args:
        schema_json: The declared schema in Spark's JSON form.
        array: The one column that it has, where a value is nothing but the array of that; None for objects.
        known: The names that documents may have, as JSON text of ``undeclared.fields_tree``.
        forms: How documents say timestamps and dates.
        exact: Where each digit counts, as JSON text of ``undeclared.exact_tree``.
    """

    def verdict(value: bytes | bytearray | None) -> tuple[str, str | None, str]:
        try:
            found = explain(bytes(value or b""), _schema(schema_json, forms), array, _tree(known), _tree(exact))
        except Exception:  # noqa: BLE001 - the record is a dead letter in any case; its reason must not stop the flow
            return ("UNEXPLAINED", None, "the value was refused, and naming the reason failed")
        return (found.reason, found.field, found.message)

    return F.udf(verdict, VERDICT, useArrow=False)


def finder(schema_json: str, known: str, forms: TimeForms | None = None, exact: str = "{}") -> Callable[..., Any]:
    """As ``explainer``, to an array of all that is wrong with a value: of undeclared fields the first; never null."""

    def findings(value: bytes | bytearray | None) -> list[tuple[str, str | None, str]]:
        try:
            read = _schema(schema_json, forms)
            found = list(_verdicts(bytes(value or b""), read, None, _tree(known), _tree(exact)))
        except Exception:  # noqa: BLE001 - as above
            return []
        return [(each.reason, each.field, each.message) for each in found]

    return F.udf(findings, FINDINGS, useArrow=False)


@functools.cache
def _schema(schema_json: str, forms: TimeForms | None) -> T.StructType:
    """Once for each of Spark's Python processes, not for each record."""
    return (forms or TimeForms()).marked(T.StructType.fromJson(json.loads(schema_json)))


@functools.cache
def _tree(known: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(known)
    return found


def explain(
    value: bytes,
    schema: T.StructType,
    array: str | None = None,
    known: dict[str, Any] | None = None,
    exact: dict[str, Any] | None = None,
) -> Verdict:
    """The first thing that is wrong with a value that was refused."""
    unexplained = Verdict("UNEXPLAINED", None, "the value was refused, and no field could be named for it")
    return next(_verdicts(value, schema, array, known or {}, exact or {}), unexplained)


def _verdicts(
    value: bytes, schema: T.StructType, array: str | None, known: dict[str, Any], exact: dict[str, Any]
) -> Iterator[Verdict]:
    document = _parsed(value)
    yield from [document] if isinstance(document, Verdict) else _judge(document, schema, array, known, exact)


def _parsed(value: bytes) -> Any:
    """The document, or what keeps the value from being one."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return Verdict("INVALID_UTF8", None, "the value is not valid UTF-8")
    if deeper_than(MAX_DEPTH, text):
        return Verdict("TOO_DEEP", None, f"the value is nested deeper than {MAX_DEPTH} levels")
    try:
        return json.loads(
            text,
            object_pairs_hook=_Object,
            parse_int=lambda digits: _Number(digits, whole=True),
            parse_float=lambda digits: _Number(digits, whole=False),
            parse_constant=_refuse,
        )
    except RecursionError:
        return Verdict("TOO_DEEP", None, "the value is nested too deeply to be explained")
    except ValueError as error:
        return Verdict("INVALID_JSON", None, _syntax(error, text))


def _judge(
    document: Any, schema: T.StructType, array: str | None, known: dict[str, Any], exact: dict[str, Any]
) -> Iterator[Verdict]:
    """What is wrong with a document; what Spark may have taken all the same only where there is nothing else."""
    long = next(_too_long(document), None)
    if long is not None:
        yield Verdict("TOO_LONG", None, long)
        return
    if any(_half_a_character(text) for text in _texts(document)):
        yield Verdict("LONE_SURROGATE", None, "an escape stands for half a character (a surrogate without its pair)")
        return
    if array is not None:
        if not isinstance(document, list) or isinstance(document, _Object):
            yield Verdict("NOT_AN_ARRAY", None, f"the value is {_kind(document)}, not an array")
            return
        document = _Object([(array, document)])
    if not isinstance(document, _Object):
        yield Verdict("NOT_AN_OBJECT", None, f"the value is {_kind(document)}, not an object")
        return
    found = list(_object(document, schema, "", exact))
    sure = [verdict for verdict in found if verdict.sure]
    yield from sure
    pointer = first_pointer(document, known, lambda part: part if isinstance(part, _Object) else None)
    if pointer is not None:
        yield Verdict("FIELD_UNDECLARED", pointer[:MAX_POINTER], "the value has a field that is not in the schema")
    elif not sure:
        yield from found


def _refuse(_word: str) -> None:
    raise _NotJson


def _syntax(error: ValueError, text: str) -> str:
    if not text.strip(" \t\r\n"):
        return "the value is empty"
    if isinstance(error, _NotJson):
        return "the value is not JSON: NaN and Infinity are no JSON numbers"
    if isinstance(error, json.JSONDecodeError):
        if error.msg == "Extra data":
            return f"something follows the end of the JSON document, at character {error.pos}"
        if error.msg.startswith("Unexpected UTF-8 BOM"):
            return "the value begins with a byte order mark, which is not JSON"
        # Nothing after a colon: some versions of Python quote the document there.
        what = error.msg.split(":")[0].removesuffix(" at")
        return f"the value is not JSON: {what[0].lower()}{what[1:]} at character {error.pos}"
    return "the value is not JSON"


def deeper_than(limit: int, text: str) -> bool:
    """Whether the brackets of a JSON text are nested deeper than that."""
    depth = 0
    for token in _OUTSIDE_STRINGS.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > limit:
                return True
        elif token[0] in "]}":
            depth -= 1
    return False


def _parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it."""
    todo = [value]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, _Object):
            todo.extend(item for _, item in part)
        elif isinstance(part, list):
            todo.extend(part)


def _texts(value: Any) -> Iterator[str]:
    for part in _parts(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Object):
            yield from (name for name, _ in part)


def _too_long(value: Any) -> Iterator[str]:
    for part in _parts(value):
        if isinstance(part, _Number) and len(part.text) > MAX_NUMBER:
            yield f"a number is longer than {MAX_NUMBER} characters"
        elif isinstance(part, _Object) and any(len(name) > MAX_NAME for name, _ in part):
            yield f"a field's name is longer than {MAX_NAME} characters"


def _half_a_character(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case _Number():
            return "a whole number" if value.whole else "a number with a fraction or an exponent"
        case _Object():
            return "an object"
    return "an array"


# --- fields: each yields what does not fit, the first one first ------------------------------------


def _object(members: _Object, schema: T.StructType, path: str, exact: dict[str, Any]) -> Iterator[Verdict]:
    for field in schema.fields:
        name = f"{path}.{field.name}" if path else field.name
        in_json = name_in_json(field)
        found = [value for key, value in members if key == in_json]
        if not field.nullable and (not found or found[-1] is None):
            yield Verdict(
                "FIELD_MISSING", name, f"field {name} is declared NOT NULL and is {'null' if found else 'missing'}"
            )
        for value in found:
            yield from _value(value, field.dataType, name, exact.get("fields", {}).get(in_json, {}))


def _value(value: Any, declared: T.DataType, path: str, exact: dict[str, Any]) -> Iterator[Verdict]:
    if value is None:
        return
    match declared:
        case T.StructType() if isinstance(value, _Object):
            yield from _object(value, declared, path, exact)
        case T.MapType() if isinstance(value, _Object):
            items = [item for _, item in value]
            inner = exact.get("values", {})
            yield from _items(items, declared.valueType, path, inner, may_be_null=declared.valueContainsNull)
        case T.ArrayType() if isinstance(value, list) and not isinstance(value, _Object):
            inner = exact.get("items", {})
            yield from _items(value, declared.elementType, path, inner, may_be_null=declared.containsNull)
        case _ if isinstance(value, str) and characters(value) > MAX_STRING:
            message = f"field {path} holds a string longer than {MAX_STRING} characters"
            yield Verdict("TOO_LONG", path, message)
        case T.VariantType() if _most_bytes(value) > MAX_VARIANT:
            yield from _too_large(value, path)
        case _:
            wrong = _leaf(value, declared) or (_lost(value) if "exact" in exact else None)
            if wrong is not None:
                message = f"field {path} is declared {declared.simpleString()} and holds {wrong}"
                yield Verdict("FIELD_TYPE", path, message, sure=not _maybe(value, declared))
            elif isinstance(declared, T.StringType) and any(map(_is_long, _parts(value))):
                message = f"field {path} is declared string and holds a number of so many digits that without the "
                message += "classes of rivermouth its text is not sure"
                yield Verdict("FIELD_TYPE", path, message, sure=False)


def _most_bytes(value: Any) -> int:
    """No fewer than a VARIANT of the value has."""
    texts = sum(4 * len(text) for text in _texts(value))
    numbers = sum(len(part.text) for part in _parts(value) if isinstance(part, _Number))
    return texts + numbers + _AROUND_A_PART * sum(1 for _ in _parts(value))


def _too_large(value: Any, path: str) -> Iterator[Verdict]:
    wrong = _variant(value)
    if wrong is not None:
        yield Verdict("FIELD_TYPE", path, f"field {path} is declared variant and holds {wrong}")
        return
    message = f"field {path} is declared variant and holds more than {MAX_VARIANT:,} bytes of one"
    yield Verdict("TOO_LONG", path, message, sure=False)


def characters(text: str) -> int:
    """As Jackson counts them: in units of UTF-16. Counted only where it can matter."""
    return len(text) if 2 * len(text) <= MAX_STRING else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _items(
    items: list[Any], declared: T.DataType, path: str, exact: dict[str, Any], *, may_be_null: bool
) -> Iterator[Verdict]:
    for item in items:
        if item is None and not may_be_null:
            yield Verdict("FIELD_MISSING", f"{path}[]", f"field {path} is declared without null elements and holds one")
        yield from _value(item, declared, f"{path}[]", exact)


def _leaf(value: Any, declared: T.DataType) -> str | None:
    """What a value is instead of its declared type; None if it fits."""
    match declared:
        case T.StringType():
            return None
        case T.BooleanType():
            return None if isinstance(value, bool) else _kind(value)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return _integer(value, _RANGES[type(declared)])
        case T.FloatType() | T.DoubleType():
            return _floating(value, declared)
        case T.DecimalType():
            return _decimal(value, declared)
        case T.BinaryType():
            return _binary(value)
        case TimeByForm():
            return _by_form(value, declared)
        case T.VariantType():
            return _variant(value)
        case _ if type(declared) in _ISO:
            return _time(value, *_ISO[type(declared)])
    return _kind(value)


def _lost(value: Any) -> str | None:
    """What a value of the right type says more exactly than its column keeps it."""
    if isinstance(value, _Number):
        return _LONG if _is_lost(value) else None
    if isinstance(value, str) and not exact_values.is_micros(value):
        return "a time with digits behind the microsecond"
    return None


def _is_lost(value: Any) -> bool:
    return isinstance(value, _Number) and not exact_values.is_double(value.text)


def _is_long(value: Any) -> bool:
    """Whether Spark's own parser may not keep the digits of a number in a text."""
    return isinstance(value, _Number) and (len(value.text) > EXACT_IN_DOUBLE or "e" in value.text.lower())


def _integer(value: Any, bits: int) -> str | None:
    if not (isinstance(value, _Number) and value.whole):
        return _kind(value)
    return None if -(1 << bits - 1) <= int(value.text) < 1 << bits - 1 else "a whole number beyond its range"


def _floating(value: Any, declared: T.DataType) -> str | None:
    if not isinstance(value, _Number):
        return _kind(value)
    largest = 3.4028235677973366e38 if isinstance(declared, T.FloatType) else math.inf
    return "a number beyond its range" if abs(float(value.text)) >= largest else None


def _variant(value: Any) -> str | None:
    """What keeps a value of any shape from being a VARIANT, whose numbers are decimals or doubles."""
    numbers = (part for part in _parts(value) if isinstance(part, _Number))
    return "a number beyond its range" if any(math.isinf(float(each.text)) for each in numbers) else None


def _decimal(value: Any, declared: T.DecimalType) -> str | None:
    if isinstance(value, str):
        text = value.strip("".join(map(chr, range(33))))
        if not _DECIMAL.fullmatch(text) or len(value) > LONGEST_DECIMAL:
            return "a string that is no decimal number"
    elif isinstance(value, _Number):
        text = value.text
    else:
        return _kind(value)
    # Of a number with an exponent the parser makes a double.
    as_double = isinstance(value, _Number) and "e" in text.lower()
    if as_double or not _is_decimal(text, declared):
        return "a number with more digits than that, before or after the point"
    return None


def _is_decimal(text: str, declared: T.DecimalType) -> bool:
    """Whether a number fits a decimal exactly."""
    try:
        number = Decimal(text)
    except (InvalidOperation, ValueError):
        return False
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        return False
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if digits == (0,):
        return True
    return -exponent <= declared.scale and len(digits) + exponent <= declared.precision - declared.scale


def _binary(value: Any) -> str | None:
    if not isinstance(value, str):
        return _kind(value)
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return "a string that is no base64"
    return None


def _maybe(value: Any, declared: T.DataType) -> bool:
    """Whether Spark may take a value that does not look as if it fitted.

    It knows more forms of a timestamp, and the digits of a double depend on the version of Java.
    """
    match declared:
        case T.TimestampType():
            return isinstance(value, str) and _LIKE_A_DATE.match(value) is not None
        case T.DecimalType():
            return isinstance(value, _Number) and "e" in value.text.lower()
        case TimeByForm():
            # Its text is that of the nearest double.
            return isinstance(value, _Number) and not value.whole and declared.form not in EPOCHS
    return False


def _time(value: Any, form: re.Pattern[str], what: str) -> str | None:
    if not isinstance(value, str):
        return _kind(value)
    return None if form.fullmatch(value) and _is_in_the_calendar(value) else f"a string that is no {what}"


def _by_form(value: Any, declared: TimeByForm) -> str | None:
    if declared.form in EPOCHS:
        wrong = _integer(value, _RANGES[T.LongType])
        return wrong or (None if declared.fits(value.text) else "a number beyond the years 1 to 9999")
    if not isinstance(value, str | _Number):
        return _kind(value)
    text = value if isinstance(value, str) else value.text
    return None if declared.fits(text) else f"{_kind(value)} that does not fit its format"


def _is_in_the_calendar(text: str) -> bool:
    """Whether there is such a day and time; ``text`` has the form of one."""
    try:
        dt.datetime.fromisoformat(text[:19].replace(" ", "T"))
    except ValueError:
        return False
    return True
