"""What the Protobuf message of a writer has, as columns: the table's as they would have to be to take its values.

Fields are known by their numbers, whatever they are called. What no column can be is left out, and what cannot grow
stays as it is. Anyone who may register a schema decides how wide and how deep it is, so both are limited here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import protobuf_descriptor as descriptors
from rivermouth.names import folded
from rivermouth.schemas.evolution import FIELD_NUMBER

WHOLE: Final = (T.IntegerType, T.LongType, T.DecimalType)
"""Types of whole numbers, each wider than the one before."""
FRACTIONS: Final = (T.FloatType, T.DoubleType)
"""Types of fractions, the wider one last."""
MOST_FIELDS: Final = 5_000
"""As many as a schema may have at all. Messages that each hold others twice have more than can be counted."""
MOST_LEVELS: Final = 50
"""Of messages, lists and maps within each other. Arrow brings 64 from Spark's workers, those of the batch included."""
_LIST: Final = ("[]",)
_MAP: Final = ("{}", "[]")


class _TooLarge(Exception):
    """No table has room for it."""


def of_message(
    descriptor: Any,
    target: T.StructType | None = None,
    within: tuple[str, ...] = (),
    room: Iterator[int] | None = None,
) -> T.StructType:
    """The columns of a message; without a field where none of its fields can be one.

    Args:
        descriptor: The message.
        target: The columns, or the struct, that hold its values; None where there is none yet.
        within: Full names of the messages around it, and a sign for each list and map.
        room: Counts the fields of a new column; None where the column, or the struct, is there.
    """
    known = by_number(target)
    names = {folded(each.name) for each in known.values()}
    within, fields = (*within, descriptor.full_name), []
    for field in sorted(descriptor.fields, key=lambda each: each.number):
        mine = known.get(field.number)
        kind = _new(field, within, room) if mine is None else _type(field, mine.dataType, within, None)
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


def _new(field: Any, within: tuple[str, ...], room: Iterator[int] | None) -> T.DataType | None:
    """The type of a field that no column has; None if none can be made of it."""
    if room is not None:
        if next(room) > MOST_FIELDS:
            raise _TooLarge
        return _type(field, None, within, room)
    try:
        return _type(field, None, within, itertools.count(2))
    except _TooLarge:
        return None


def _type(
    field: Any, target: T.DataType | None, within: tuple[str, ...], room: Iterator[int] | None
) -> T.DataType | None:
    """None if no column can be made of it."""
    if descriptors.is_map(field):
        if target is not None and not isinstance(target, T.MapType):
            return target
        key, value = descriptors.map_parts(field)
        inner = _single(value, None if target is None else target.valueType, (*within, *_MAP), room)
        keys = descriptors.SCALARS[key.type] if target is None else target.keyType
        return None if inner is None else T.MapType(keys, inner)
    if isinstance(target, T.ArrayType) or (target is None and descriptors.is_repeated(field)):
        inner = _single(field, None if target is None else target.elementType, (*within, *_LIST), room)
        return None if inner is None else T.ArrayType(inner)
    return target if descriptors.is_repeated(field) else _single(field, target, within, room)


def _single(
    field: Any, target: T.DataType | None, within: tuple[str, ...], room: Iterator[int] | None
) -> T.DataType | None:
    if not descriptors.has_columns(field):
        written = descriptors.single_type(field, within, "")
        return written if target is None else joined(target, written)
    if target is not None and not isinstance(target, T.StructType):
        return target
    if field.message_type.full_name in within or (target is None and len(within) >= MOST_LEVELS):
        return target
    made = of_message(field.message_type, target, within, room)
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
