"""Rows that Spark wrote as JSON, in Python's own types: nothing of the machine's time zone is in them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

WHOLE_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""Options of Spark's ``to_json`` with which it writes microseconds; else it cuts them off."""

OPTIONS: Final = {"ignoreNullFields": "false", **WHOLE_TIMES}
"""Options of Spark's ``to_json`` with which it writes rows that ``row_of`` reads."""


def row_of(text: str, columns: StructType) -> dict[str, Any]:
    """The row in a JSON object, by column: numbers, text, ``bytes``, ``Decimal``, ``date`` and ``datetime``.

    Timestamps have a time zone, those without one in Spark have none. A time that Python has no value for stays text,
    and so do intervals.
    """
    return dict(_value(json.loads(text, parse_float=Decimal), columns))


def _value(value: Any, kind: DataType) -> Any:  # noqa: C901 - a type, a line
    if value is None:
        return None
    match kind:
        case StructType():
            return {field.name: _value(value.get(field.name), field.dataType) for field in kind}
        case ArrayType():
            return [_value(each, kind.elementType) for each in value]
        case MapType():
            return {_key(name, kind.keyType): _value(each, kind.valueType) for name, each in value.items()}
        case VariantType():
            return _plain(value)
        case BinaryType():
            return base64.b64decode(value)
        case DecimalType():
            return Decimal(value)
        case DoubleType() | FloatType():
            return float(value)
        case DateType():
            return _time(value, dt.date)
        case TimestampType() | TimestampNTZType():
            found = _time(value, dt.datetime)
            return found.astimezone(dt.UTC) if isinstance(found, dt.datetime) and found.tzinfo else found
        case _:
            return value


def _key(name: str, kind: DataType) -> Any:
    """A key of a map, which JSON knows as text alone."""
    if kind.typeName() in {"byte", "short", "integer", "long"}:
        return int(name)
    return name == "true" if kind.typeName() == "boolean" else _value(name, kind)


def _time(text: str, kind: type[dt.date]) -> dt.date | str:
    with suppress(ValueError):  # a year that Python does not have
        return kind.fromisoformat(text)
    return text


def _plain(value: Any) -> Any:
    """A document with numbers as JSON has them."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_plain(each) for each in value]
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case _:
            return value
