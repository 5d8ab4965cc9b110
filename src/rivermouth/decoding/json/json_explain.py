"""Why a value is not the JSON that was declared: plain Python over bytes, for refused records only.

Spark decides which records are refused; this names the first thing that is wrong with one of them. No text
holds anything of the record beyond the names of declared fields.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json import json_explain_values, no_declared_field
from rivermouth.decoding.json.json_python_parser import Number, Object, kind, parts, texts
from rivermouth.decoding.json.json_types import with_floats_of_rows
from rivermouth.decoding.json.undeclared_fields import first_pointer
from rivermouth.decoding.times.json_times import TimeForms
from rivermouth.names import below
from rivermouth.schemas import json_limits, type_limits
from rivermouth.schemas.column_types import name_in_json

MAX_POINTER: Final = 200
"""Characters of a JSON pointer that are told."""
# Each part of a VARIANT takes at most this many bytes, besides those of its text.
_BYTES_AROUND_A_PART: Final = 24

VERDICT: Final = T.StructType([T.StructField(name, T.StringType()) for name in ("reason", "field", "message")])
FINDINGS: Final = T.ArrayType(VERDICT)


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


class _NotJson(ValueError):
    """A word that Python's parser takes for a number, and JSON does not know."""


@dataclass(frozen=True, slots=True)
class Documents:
    """How documents are read.

    Attributes:
        schema_json: The declared schema in Spark's JSON form.
        forms: How they say timestamps and dates.
        of_rows: Whether they were written of rows, with ``FloatOfRows`` in them.
    """

    schema_json: str
    forms: TimeForms
    of_rows: bool = False


def explainer(
    documents: Documents,
    *,
    array: str | None = None,
    known: str = "{}",
    exact: str = "{}",
    named: str = "null",
) -> Callable[..., Any]:
    """A Spark function from ``__value`` (binary) to a struct (reason, field, message) that is never null.

    Args:
        documents: How they are read.
        array: The one column that it has, where a value is nothing but the array of that; None for objects.
        known: The names that documents may have, as JSON text of ``undeclared_fields.fields_tree``.
        exact: Where each digit counts, as JSON text of ``undeclared_fields.exact_tree``.
        named: Names besides those of the schema, as JSON text. A document must have one of all these names. An array,
            or true where any name will do; null where a document need not have any.
    """

    def verdict(value: bytes | bytearray | None) -> tuple[str, str | None, str]:
        try:
            read, others = _schema(documents), _tree(named)
            found = explain(bytes(value or b""), read, array, _tree(known), _tree(exact), others)
        except Exception:  # noqa: BLE001 - the record is a dead letter in any case; its reason must not stop the flow
            return ("UNEXPLAINED", None, "the value was refused, and naming the reason failed")
        return (found.reason, found.field, found.message)

    return F.udf(verdict, VERDICT, useArrow=False)


def finder(documents: Documents, known: str, exact: str = "{}") -> Callable[..., Any]:
    """As ``explainer``, to an array of all that is wrong with a value: of undeclared fields the first; never null."""

    def findings(value: bytes | bytearray | None) -> list[tuple[str, str | None, str]]:
        try:
            read = _schema(documents)
            found = list(_verdicts(bytes(value or b""), read, None, _tree(known), _tree(exact)))
        except Exception:  # noqa: BLE001 - as above
            return []
        return [(each.reason, each.field, each.message) for each in found]

    return F.udf(findings, FINDINGS, useArrow=False)


@functools.cache
def _schema(documents: Documents) -> T.StructType:
    """Once for each of Spark's Python processes, not for each record."""
    found = documents.forms.marked(T.StructType.fromJson(json.loads(documents.schema_json)))
    return with_floats_of_rows(found) if documents.of_rows else found


@functools.cache
def _tree(text: str) -> Any:
    return json.loads(text)


def explain(
    value: bytes,
    schema: T.StructType,
    array: str | None = None,
    known: dict[str, Any] | None = None,
    exact: dict[str, Any] | None = None,
    named: list[str] | bool | None = None,
) -> Verdict:
    """The first thing that is wrong with a value that was refused."""
    unexplained = Verdict("UNEXPLAINED", None, "the value was refused, and no field could be named for it")
    found = next(_verdicts(value, schema, array, known or {}, exact or {}), None)
    if (found is None or not found.sure) and named is not None and array is None:
        found = _without_fields(value, schema, named) or found
    return found or unexplained


def _without_fields(value: bytes, schema: T.StructType, named: list[str] | bool) -> Verdict | None:
    """What is said of an object that has none of the declared fields, nor one of the others that will do."""
    document = parsed(value)
    if not isinstance(document, Object):
        return None
    there, declared = [name for name, _ in document], [name_in_json(field) for field in schema.fields]
    others = named if isinstance(named, list) else there if named else []
    if {*there} & {*declared, *others}:
        return None
    return Verdict(no_declared_field.REASON, *no_declared_field.verdict(declared, there))


def _verdicts(
    value: bytes, schema: T.StructType, array: str | None, known: dict[str, Any], exact: dict[str, Any]
) -> Iterator[Verdict]:
    document = parsed(value)
    yield from [document] if isinstance(document, Verdict) else _judge(document, schema, array, known, exact)


def parsed(value: bytes) -> Any:
    """The document, or what keeps the value from being one."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return Verdict("INVALID_UTF8", None, "the value is not valid UTF-8")
    if json_limits.deeper_than(json_limits.MAX_DEPTH, text):
        return Verdict("TOO_DEEP", None, f"the value is nested deeper than {json_limits.MAX_DEPTH} levels")
    try:
        return json.loads(
            text,
            object_pairs_hook=Object,
            parse_int=lambda digits: Number(digits, whole=True),
            parse_float=lambda digits: Number(digits, whole=False),
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
    if not all(map(type_limits.is_text, texts(document))):
        yield Verdict("LONE_SURROGATE", None, "an escape is half a character (a surrogate without its pair)")
        return
    if array is not None:
        if not isinstance(document, list) or isinstance(document, Object):
            yield Verdict("NOT_AN_ARRAY", None, f"the value is {kind(document)}, not an array")
            return
        document = Object([(array, document)])
    if not isinstance(document, Object):
        yield Verdict("NOT_AN_OBJECT", None, f"the value is {kind(document)}, not an object")
        return
    found = list(_object(document, schema, "", exact))
    sure = [verdict for verdict in found if verdict.sure]
    yield from sure
    pointer = first_pointer(document, known, lambda part: part if isinstance(part, Object) else None)
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


def _too_long(value: Any) -> Iterator[str]:
    for part in parts(value):
        if isinstance(part, Number) and len(part.text) > json_limits.MAX_NUMBER:
            yield f"a number is longer than {json_limits.MAX_NUMBER} characters"
        elif isinstance(part, Object) and any(len(name) > json_limits.MAX_NAME for name, _ in part):
            yield f"a field's name is longer than {json_limits.MAX_NAME} characters"


# --- fields: each yields what does not fit, the first one first ------------------------------------


def _object(members: Object, schema: T.StructType, path: str, exact: dict[str, Any]) -> Iterator[Verdict]:
    for field in schema.fields:
        name = below(path, field.name)
        in_json = name_in_json(field)
        found = [value for key, value in members if key == in_json]
        if not field.nullable and (not found or found[-1] is None):
            told = "null" if found else f"missing{no_declared_field.spelling(in_json, (key for key, _ in members))}"
            yield Verdict("FIELD_MISSING", name, f"field {name} is declared NOT NULL and is {told}")
        for value in found:
            yield from _value(value, field.dataType, name, exact.get("fields", {}).get(in_json, {}))


def _value(value: Any, declared: T.DataType, path: str, exact: dict[str, Any]) -> Iterator[Verdict]:
    if value is None:
        return
    match declared:
        case T.StructType() if isinstance(value, Object):
            yield from _object(value, declared, path, exact)
        case T.MapType() if isinstance(value, Object):
            items = [item for _, item in value]
            inner = exact.get("values", {})
            yield from _items(items, declared.valueType, path, inner, may_be_null=declared.valueContainsNull)
        case T.ArrayType() if isinstance(value, list) and not isinstance(value, Object):
            inner = exact.get("items", {})
            yield from _items(value, declared.elementType, path, inner, may_be_null=declared.containsNull)
        case _ if isinstance(value, str) and json_limits.characters(value) > json_limits.MAX_STRING:
            message = f"field {path} holds a string longer than {json_limits.MAX_STRING} characters"
            yield Verdict("TOO_LONG", path, message)
        case T.VariantType() if _most_bytes(value) > json_limits.MAX_VARIANT:
            yield from _too_large(value, path)
        case _:
            is_exact = "exact" in exact and not json_explain_values.is_word(value, declared)
            lost = json_explain_values.lost_digits(value) if is_exact else None
            wrong = json_explain_values.misfit(value, declared) or lost
            if wrong is not None:
                message = f"field {path} is declared {declared.simpleString()} and holds {wrong}"
                yield Verdict("FIELD_TYPE", path, message, sure=not json_explain_values.may_fit(value, declared))


def _most_bytes(value: Any) -> int:
    """No fewer than a VARIANT of the value has."""
    length = sum(4 * len(text) for text in texts(value))
    numbers = sum(len(part.text) for part in parts(value) if isinstance(part, Number))
    return length + numbers + _BYTES_AROUND_A_PART * sum(1 for _ in parts(value))


def _too_large(value: Any, path: str) -> Iterator[Verdict]:
    wrong = json_explain_values.not_a_variant(value)
    if wrong is not None:
        yield Verdict("FIELD_TYPE", path, f"field {path} is declared variant and holds {wrong}")
        return
    message = f"field {path} is declared variant and holds more than {json_limits.MAX_VARIANT:,} bytes of one"
    yield Verdict("TOO_LONG", path, message, sure=False)


def _items(
    items: list[Any], declared: T.DataType, path: str, exact: dict[str, Any], *, may_be_null: bool
) -> Iterator[Verdict]:
    for item in items:
        if item is None and not may_be_null:
            yield Verdict("FIELD_MISSING", f"{path}[]", f"field {path} is declared without null elements and holds one")
        yield from _value(item, declared, f"{path}[]", exact)
