"""What a column of a row holds instead of a value of its type, and what would fit: for refused records only.

Spark decides which columns are refused. This module reads the document again in Python and describes what it has there.
No text holds anything of the record beyond the names of declared fields, and what its schema block calls their types.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json import json_explain, json_explain_values, json_types
from rivermouth.decoding.json.json_explain import VERDICT
from rivermouth.decoding.json.json_python_parser import Number, Object, kind
from rivermouth.decoding.text import text_types
from rivermouth.schemas.type_limits import DAY_US, FIRST_US, LAST_US

UNSOUND: Final = "unsound"
"""In the place of a reason: the parser refused the document."""
DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_BEYOND: Final = "a number beyond the years 1 to 9999"
_HEADER_BYTES: Final = 5
_LONGEST_NAME: Final = 100
_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_FITS: Final[tuple[tuple[tuple[type[T.DataType], ...], str], ...]] = (
    ((T.DecimalType,), "a number, or text as the schema block or decimals says, with no more digits than that"),
    ((T.DateType,), "a number of days since 1970, or text like 2026-01-31"),
    (_TIMES, "text as ISO 8601 has it, or a number whose unit the schema block or time_precision says"),
    ((T.BinaryType,), "base64, or hexadecimal digits with binaries: hex"),
    ((T.VariantType,), "text that is JSON, or any other value"),
)


_UNITS: Final = {".NanoTimestamp": 1 / 1000, ".MicroTimestamp": 1, ".Timestamp": 1000}


@dataclass(frozen=True, slots=True)
class Row:
    """How a format's documents have their rows.

    Attributes:
        declared: The columns, in Spark's JSON form of a schema.
        document: What the parser is told of a document, in the same form.
        paths: Where a row may be.
        below: A regular expression of what paths in the document have before the columns of a row.
        values: How its values are written: ``json``, ``text`` (also of numbers), or ``connect``, by a schema block.
        kind: The name of the format.
    """

    declared: str
    document: str
    paths: tuple[str, ...]
    below: str
    values: str
    kind: str


def explainer(row: Row) -> Callable[..., Any]:
    """A Spark function from ``__value`` (binary) and ``__misfit`` (string) to a struct (reason, field, message).

    Null for reasons that are about the whole value.
    """

    def verdict(value: bytes | bytearray | None, misfit: str | None) -> tuple[str, str | None, str] | None:
        if value is None or misfit is None:
            return None
        try:
            return explain(bytes(value), misfit, row)
        except Exception:  # noqa: BLE001 - the record is a dead letter in any case; its reason must not stop the flow
            return ("UNEXPLAINED", None, "the value was refused, and naming the reason failed")

    return F.udf(verdict, VERDICT, useArrow=False)


def explain(value: bytes, misfit: str, row: Row) -> tuple[str, str | None, str] | None:
    """Reason, field and message of a value that was refused; None if its columns are not what is wrong with it."""
    if misfit == UNSOUND:
        found = json_explain.explain(value, _schema(row.document))
        field, message = _of_row(found.field, found.message, row)
        return (found.reason, field, _framed(value, row.kind) or message)
    reason, _, name = misfit.partition(" ")
    if reason not in ("FIELD_TYPE", "FIELD_AMBIGUOUS"):
        return None
    declared = _schema(row.declared)[name].dataType
    document = json_explain.parsed(value)
    hint = _hint(document, name)
    for each in _rows(document, row.paths):
        given = _member(each, name)
        found_at = next(_wrong(given, declared, hint, row.values, name, reason), None)
        if found_at is not None:
            return (reason, name, found_at)
    told = declared.simpleString()
    return (reason, name, f"field {name} is declared {told} and holds a value that does not fit")


def _of_row(field: str | None, message: str, row: Row) -> tuple[str | None, str]:
    """The path of a field in the row, and a message about it; a part that is read as a variant by its declared type."""
    if field is None:
        return (None, message)
    path = re.sub(f"^{row.below}", "", field)
    found = message.replace(f"field {field} ", f"field {path} ", 1)
    declared = _schema(row.declared)
    if path not in declared.names:
        return (path, found)
    told = f"declared {declared[path].dataType.simpleString()} and"
    found = re.sub(r"declared \S*\bvariant\b.* and", lambda _: told, found)
    if row.values == "connect" and isinstance(declared[path].dataType, T.MapType) and found.endswith("holds a string"):
        found += ": JSON text is read as map<string,string> alone"
    return (path, found)


def _framed(value: bytes, form: str) -> str | None:
    """What is said of values behind the header of a schema registry's serializer."""
    if len(value) < _HEADER_BYTES or value[0] != 0:
        return None
    header = "the value begins with a zero byte and the id of a schema, as the serializers of a schema registry write"
    if value[_HEADER_BYTES:].lstrip()[:1] == b"{":
        return f"{header} JSON Schema: the format {form} reads JSON without such a header"
    return (
        f"{header} Avro: the format {form} reads JSON alone; set the connector's value.converter to "
        "org.apache.kafka.connect.json.JsonConverter, or read the fields of the envelope as columns with format: avro"
    )


@functools.cache
def _schema(text: str) -> T.StructType:
    """Once for each of Spark's Python processes, not for each record."""
    return T.StructType.fromJson(json.loads(text))


def _member(value: Any, name: str) -> Any:
    """The last member of that name; None without one."""
    found = [item for key, item in value if key == name] if isinstance(value, Object) else []
    return found[-1] if found else None


def _rows(document: Any, paths: tuple[str, ...]) -> Iterator[Any]:
    for path in paths:
        found = document
        for part in path.removeprefix("$.").removesuffix("[0]").split("."):
            found = _member(found, part)
        if isinstance(found, list) and not isinstance(found, Object):
            yield from found
        elif found is not None:
            yield found


def _hint(document: Any, name: str) -> Any:
    """A column's part of the schema block, below ``after`` or ``before``, or of the block itself."""
    fields = _member(_member(document, "schema"), "fields")
    within = [each for each in fields or [] if _member(each, "field") in ("before", "after")]
    wanted = (item for each in within for item in _member(each, "fields") or [])
    return next((each for each in (*wanted, *(fields or [])) if _member(each, "field") == name), None)


def _wrong(value: Any, declared: T.DataType, hint: Any, how: str, path: str, reason: str) -> Iterator[str]:
    """What is said of the first part that is not of its type."""
    match declared:
        case T.StructType() if isinstance(value, Object):
            for field in declared.fields:
                hints = _member(hint, "fields") or []
                its = next((each for each in hints if _member(each, "field") == field.name), None)
                yield from _wrong(_member(value, field.name), field.dataType, its, how, f"{path}.{field.name}", reason)
        case T.ArrayType() | T.MapType() if isinstance(value, list):
            items = [item for _, item in value] if isinstance(value, Object) else value
            its = _member(hint, "items" if isinstance(declared, T.ArrayType) else "values")
            for item in items:
                yield from _wrong(item, json_types.item_type(declared), its, how, f"{path}[]", reason)
        case _ if value is None:
            return
        case _ if reason == "FIELD_AMBIGUOUS":
            if found := _unclear(value, declared, hint):
                yield f"field {path} is declared {declared.simpleString()} and holds {found}"
        case _:
            found = {"json": json_explain_values.misfit, "text": _text_misfit}.get(how, json_explain_values.misfit)(
                value, declared
            )
            if how == "connect":
                found = _connect_misfit(value, declared, hint)
            if found is not None:
                yield f"field {path} is declared {declared.simpleString()} and holds {found}"


def _unclear(value: Any, declared: T.DataType, hint: Any) -> str | None:
    """What could mean several things, and the setting that says which."""
    match declared:
        case T.StringType() if _member(hint, "name") == DECIMAL:
            return "a decimal, as its schema block says: declare it as decimal"
        case T.DecimalType() if isinstance(value, str):
            return "a string that no schema block explains: write decimals: string, or decimals: base64, in the format"
        case T.TimestampType() | T.TimestampNTZType() if isinstance(value, Number):
            units = "time_precision: millis, micros or nanos"
            return f"{kind(value)} whose unit is in no schema block: write {units} in the format"
        case T.BinaryType() if isinstance(value, str):
            settings = "binaries: base64, or binaries: hex"
            return f"a string, as which its schema block does not say how bytes are written: write {settings}"
    return None


def _connect_misfit(value: Any, declared: T.DataType, hint: Any) -> str | None:
    """The kind of the value, what the schema block calls its type, and what would fit; None if the value fits."""
    called = _member(hint, "name") or _member(hint, "type")
    called = called if isinstance(called, str) and len(called) <= _LONGEST_NAME else None
    if json_types.is_text_map(declared):
        what = "a string that is no JSON object" if isinstance(value, str) else kind(value)
        return f"{what}; what fits is an object, or the JSON text of one"
    for kinds, fits in _FITS:
        if isinstance(declared, kinds):
            found = _connect_leaf(value, declared, called)
            if found == _BEYOND:
                return f"{found}: declare it as bigint to keep such numbers"
            keeps = ", or declare it as string to keep any text" if isinstance(value, str) and called != DECIMAL else ""
            return found and f"{found}; what fits is {fits}{keeps}"
    return json_explain_values.misfit(value, declared)


def _connect_leaf(value: Any, declared: T.DataType, called: str | None) -> str | None:
    what = f"{kind(value)} that its schema block calls {called}" if called else kind(value)
    match declared:
        case T.DecimalType() if called == DECIMAL and isinstance(value, str):
            return None if json_explain_values.misfit(value, T.BinaryType()) is None else "a string that is no base64"
        case T.DecimalType() if isinstance(value, Number) or (isinstance(value, str) and called in (None, "string")):
            return json_explain_values.misfit(value, declared)
        case T.DecimalType() | T.BinaryType() | T.VariantType():
            return what if isinstance(declared, T.DecimalType) else json_explain_values.misfit(value, declared)
        case _ if isinstance(value, str):
            return json_explain_values.misfit(value, declared)
    unit = _unit(declared, called) if isinstance(value, Number) and value.whole else None
    if unit is None:
        return what
    return None if FIRST_US <= int(value.text) * unit <= LAST_US else _BEYOND


def _unit(declared: T.DataType, called: str | None) -> float | None:
    """Of a number that is a time: its microseconds; None if nothing says so."""
    if isinstance(declared, T.DateType):
        return DAY_US if called is None or called.endswith(".Date") else None
    return next((unit for end, unit in _UNITS.items() if called and called.endswith(end)), None)


def _text_misfit(value: Any, declared: T.DataType) -> str | None:
    """What a text is instead of its declared type; a number is judged by its text."""
    text = value.text if isinstance(value, Number) else value
    if not isinstance(text, str):
        return kind(value)
    match declared:
        case T.BooleanType():
            return "text other than true, false, 1 and 0"
        case T.BinaryType():
            return "text that is no bytes"
        case _ if isinstance(declared, text_types.WHOLE):
            is_whole = text.lstrip("+-").isdigit() and text.isascii()
            return json_explain_values.BEYOND_RANGE if is_whole else "text that is no whole number"
        case _ if isinstance(declared, text_types.FLOATING):
            return "text that is no number, or a number beyond its range"
    found = json_explain_values.misfit(text, declared)
    return found and found.replace("a string", "text", 1)
