"""Which types Delta can change a column to without rewriting its files."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

_WIDENINGS = {
    ("tinyint", "double"),
    ("smallint", "double"),
    ("int", "double"),
    ("float", "double"),
}


_TEXTS = (StringType, CharType, VarcharType)
_TIMES = (TimestampType, TimestampNTZType)

WHOLE_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""Digits before the point of the least decimal to which Delta changes a type of whole numbers."""


def widens(old: DataType, new: DataType) -> bool:
    """Whether Delta can change a column from ``old`` to ``new``, a wider type that holds each of its values.

    The rules are those of Delta's type widening: https://docs.delta.io/delta-type-widening/. A struct is wider with
    further fields, and whatever is nested with wider types in it.
    """
    return holds(old, new) and not holds(new, old)


def takes(column: DataType, brought: DataType) -> bool:
    """Whether a column can be given each value of another type without a change of what it says.

    Structs are compared by the names of their fields. A text can say any number, date or time.
    """
    match brought, column:
        case StructType(), StructType():
            mine = {each.name.lower(): each.dataType for each in column.fields}
            return all(
                each.name.lower() in mine and takes(mine[each.name.lower()], each.dataType) for each in brought.fields
            )
        case ArrayType(), ArrayType():
            return takes(column.elementType, brought.elementType)
        case MapType(), MapType():
            return takes(column.keyType, brought.keyType) and takes(column.valueType, brought.valueType)
    if isinstance(column, _TEXTS):
        return isinstance(brought, (*_TEXTS, *_TIMES, NullType, NumericType, BooleanType, DateType))
    if isinstance(column, _TIMES):
        return isinstance(brought, (*_TIMES, NullType, DateType))
    return isinstance(brought, NullType) or holds(brought, column)


def holds(old: DataType, new: DataType) -> bool:
    """Whether ``new`` is the same type, or a wider one by Delta's rules; the order of fields is ignored."""
    match old, new:
        case StructType(), StructType():
            mine = {each.name: each.dataType for each in new.fields}
            return all(each.name in mine and holds(each.dataType, mine[each.name]) for each in old.fields)
        case ArrayType(), ArrayType():
            return holds(old.elementType, new.elementType)
        case MapType(), MapType():
            return holds(old.keyType, new.keyType) and holds(old.valueType, new.valueType)
    return old.simpleString() == new.simpleString() or _number_widens(old, new)


def _number_widens(old: DataType, new: DataType) -> bool:
    before, after = old.simpleString(), new.simpleString()
    whole = list(WHOLE_DIGITS)
    if before in whole and after in whole:
        return whole.index(before) < whole.index(after)
    if isinstance(new, DecimalType):
        if before in whole:
            return new.precision - new.scale >= WHOLE_DIGITS[before]
        if isinstance(old, DecimalType):
            more_scale = new.scale >= old.scale
            more_whole = new.precision - new.scale >= old.precision - old.scale
            return more_scale and more_whole and before != after
    return (before, after) in _WIDENINGS
