"""Dates and times that a flow's own expressions make: they too must be in the years 1 to 9999.

What formats read is checked by them. ``select``, keys and partitions may compute others: ``date(timestamp_millis(n))``.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.json.json_types import any_of
from rivermouth.names import quoted
from rivermouth.rows.columns import attempts
from rivermouth.schemas.type_limits import within

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame

TIME_REASON: Final = "TIME_RANGE"
TIME_MESSAGE: Final = "its column {} would be a date or a time that is not in the years 1 to 9999"


def checked(shaped: DataFrame, made: Collection[str]) -> DataFrame:
    """Conformed rows whose ``__key_valid`` is false also where one of the columns ``made`` is out of range.

    ``__unmade`` says which.
    """
    found = _outside_of(shaped.schema, made)
    wrong = any_of(found.values())
    if wrong is None:
        return shaped
    named = " ".join(f"WHEN {sql} THEN {names.literal(name)}" for name, sql in found.items())
    return attempts.refused(shaped, TIME_REASON, wrong, f"CASE {named} END")


def _outside_of(schema: T.StructType, made: Collection[str]) -> dict[str, str]:
    """By the names of those columns that may be out of range: SQL that is true where one is."""
    numbers = count()
    mine = (field for field in schema.fields if field.name in made)
    found = ((field.name, _outside(quoted(field.name), field.dataType, numbers)) for field in mine)
    return {name: sql for name, sql in found if sql is not None}


def _outside(value: str, declared: T.DataType, numbers: Iterator[int]) -> str | None:
    match declared:
        case T.StructType():
            parts = (_outside(f"{value}.{quoted(each.name)}", each.dataType, numbers) for each in declared.fields)
            return any_of(parts)
        case T.ArrayType():
            return _within_items(value, declared.elementType, numbers)
        case T.MapType():
            keys = _within_items(f"map_keys({value})", declared.keyType, numbers)
            return any_of([keys, _within_items(f"map_values({value})", declared.valueType, numbers)])
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return f"NOT ({within(value, declared.simpleString())})"
    return None


def _within_items(items: str, declared: T.DataType, numbers: Iterator[int]) -> str | None:
    item = f"t{next(numbers)}"
    inner = _outside(item, declared, numbers)
    return inner and f"exists({items}, {item} -> coalesce({inner}, false))"
