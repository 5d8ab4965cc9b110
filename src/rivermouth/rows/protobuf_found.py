"""What the Protobuf message of a writer has, as columns: the table's as they would have to be to take its values.

Fields are known by their numbers, whatever they are called. What no column can be is left out, and what cannot grow
stays as it is.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import folded
from rivermouth.rows import protobuf_descriptor as descriptors
from rivermouth.rows.evolution import FIELD_NUMBER

WHOLE: Final = (T.IntegerType, T.LongType, T.DecimalType)
"""Types of whole numbers, each wider than the one before."""
FRACTIONS: Final = (T.FloatType, T.DoubleType)
"""Types of fractions, the wider one last."""


def of_message(descriptor: Any, target: T.StructType | None = None, within: tuple[str, ...] = ()) -> T.StructType:
    """The columns of a message; without a field where none of its fields can be one.

    Args:
        descriptor: The message.
        target: The columns, or the struct, that hold its values; None where there is none yet.
        within: Full names of the messages around it.
    """
    known = by_number(target)
    names = {folded(each.name) for each in known.values()}
    within, fields = (*within, descriptor.full_name), []
    for field in sorted(descriptor.fields, key=lambda each: each.number):
        mine = known.get(field.number)
        kind = _type(field, None if mine is None else mine.dataType, within)
        is_free = mine is not None or target is not None or folded(field.name) not in names
        if kind is not None and is_free:
            names.add(folded(field.name))
            name = field.name if mine is None else mine.name
            fields.append(T.StructField(name, kind, True, {FIELD_NUMBER: field.number}))
    return T.StructType(fields)


def by_number(target: T.StructType | None) -> dict[int, T.StructField]:
    """The columns, or the fields of a struct, by the numbers of the fields that they hold."""
    fields = () if target is None else reversed(target.fields)
    return {each.metadata[FIELD_NUMBER]: each for each in fields if FIELD_NUMBER in each.metadata}


def _type(field: Any, target: T.DataType | None, within: tuple[str, ...]) -> T.DataType | None:
    """None if no column can be made of it."""
    if descriptors.is_map(field):
        if target is not None and not isinstance(target, T.MapType):
            return target
        key, value = descriptors.map_parts(field)
        inner = _single(value, None if target is None else target.valueType, within)
        keys = descriptors.SCALARS[key.type] if target is None else target.keyType
        return None if inner is None else T.MapType(keys, inner)
    if isinstance(target, T.ArrayType) or (target is None and descriptors.is_repeated(field)):
        inner = _single(field, None if target is None else target.elementType, within)
        return None if inner is None else T.ArrayType(inner)
    return target if descriptors.is_repeated(field) else _single(field, target, within)


def _single(field: Any, target: T.DataType | None, within: tuple[str, ...]) -> T.DataType | None:
    if not descriptors.has_columns(field):
        written = descriptors.single_type(field, within, "")
        return written if target is None else joined(target, written)
    if target is not None and not isinstance(target, T.StructType):
        return target
    if field.message_type.full_name in within:
        return target
    made = of_message(field.message_type, target, within)
    return made if made.fields else target


def joined(target: T.DataType, written: T.DataType) -> T.DataType:
    """The least type of numbers that Delta can change a column to and that holds those of both; else the column's."""
    if isinstance(target, WHOLE) and isinstance(written, WHOLE):
        return max(target, written, key=lambda each: WHOLE.index(type(each)))
    if isinstance(target, FRACTIONS) and isinstance(written, FRACTIONS):
        return max(target, written, key=lambda each: FRACTIONS.index(type(each)))
    if isinstance(target, T.IntegerType) and isinstance(written, FRACTIONS):
        return T.DoubleType()
    return target
