"""One record, several rows: an array in it, or the array that it is, taken apart; each row knows its position.

Topic, partition, offset and position identify a row. A position counts from 0; an entry for the whole record has a
number below that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from rivermouth import names
from rivermouth.names import folded, quoted
from rivermouth.rows.columns import attempts
from rivermouth.spec import ArrayFormat, require_capability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from rivermouth.spec import Flow
    from rivermouth.spec.explosion import Explosion

Part = TypeVar("Part")

WHOLE: Final = -1
"""The position of a record that was refused as a whole, or has no value."""
NONE: Final = -2
"""The position of a record that has no element."""
WANTED: Final = "__wanted"
"""Of dead letters that are tried again: the position that is meant, or ``WHOLE`` for all of the record."""

FIRST: Final = f"{names.POSITION} <= 0"
"""SQL: whether a row is the first of its record; each record that is judged has one such row."""

_COLUMN: Final = names.ROW_IN_TABLE[names.POSITION]
PLACE: Final = f"coalesce({_COLUMN}, {WHOLE}) AS {_COLUMN}"
"""SQL over dead letters: their position, ``WHOLE`` for a record as a whole."""

_ELEMENTS: Final = "__elements"
_NTH: Final = "__nth"
_UNKNOWN: Final = "__unknown"


def names_of(explosion: Explosion, kind: DataType) -> tuple[str, ...]:
    """What the columns of an element are called.

    Raises:
        ValueError: Nothing can be exploded of this type, or it has other columns than are named; the text says so.
    """
    if not isinstance(kind, ArrayType | MapType):
        msg = f"it is {kind.simpleString()}, and neither an array nor a map"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    if isinstance(kind, MapType):
        called = explosion.called or ("key", "value")
        if len(called) == 1:
            msg = "an element of a map has two columns: write AS (key, value) behind it"
            raise ValueError(msg)
        return called
    called = explosion.called or ((explosion.column,) if explosion.column else ())
    if len(called) != 1:
        msg = "an element of an array is one column: write AS item behind it"
        raise ValueError(msg)
    return called


def columns(explosion: Explosion, declared: StructType, kind: DataType) -> StructType:
    """The payload columns: those that the format reads, and in the place of an exploded one those of an element.

    Args:
        explosion: What is exploded.
        declared: The columns of the format.
        kind: The type of what is exploded.

    Raises:
        ValueError: It cannot be had; the text says why.
    """
    called = names_of(explosion, kind)
    types = [kind.keyType, kind.valueType] if isinstance(kind, MapType) else [getattr(kind, "elementType", kind)]
    elements = [StructField(name, each) for name, each in zip(called, types, strict=True)]
    beside = {field.name: field for field in declared if not _gives_way(explosion, field.name)}
    found = _in_order(declared.names, beside, elements)
    taken = [folded(each.name) for each in found]
    if twice := [each.name for each in found if taken.count(folded(each.name)) > 1]:
        msg = f"column {twice[0]} is there twice: write AS and another name behind it"
        raise ValueError(msg)
    return StructType(found)


def split(rows: DataFrame, flow: Flow) -> DataFrame:
    """Envelope rows, and where a value is an array a row for each element, with ``__value`` as it is in the array.

    Returns:
        ``rows`` with ``__position``; as they are where no whole value is exploded. Rows with ``__wanted`` hold the
        element that is meant already, where that is one.
    """
    if flow.explosion is None or not flow.explosion.is_whole:
        return rows
    elements = require_capability(flow.value_format, ArrayFormat).elements(rows.sparkSession)
    kept = [F.col(name) for name in rows.columns if name != names.VALUE]
    if WANTED in rows.columns:
        elements = F.when(F.col(WANTED) >= 0, F.array(names.VALUE)).otherwise(elements)
    taken = rows.select(*kept, names.VALUE, elements.alias(_ELEMENTS))
    apart = _apart(taken.selectExpr("*", f"{_ELEMENTS} IS NULL AS {_UNKNOWN}"), ["__element"])
    nth = f"greatest({_NTH}, {WANTED})" if WANTED in rows.columns else _NTH
    return apart.select(
        *kept,
        F.expr(f"CASE WHEN {_NTH} IS NULL THEN {names.VALUE} ELSE __element END").alias(names.VALUE),
        _position(nth),
    )


def explode(rows: DataFrame, flow: Flow) -> DataFrame:
    """Decoded rows, and a row for each element of those that have some.

    Returns:
        ``rows`` with ``__position``, and ``__data`` as ``columns`` says. Those without elements count as decoded.
    """
    if flow.explosion is None:
        return rows
    if flow.explosion.is_whole:
        # An array without elements is no document.
        taken = f"{names.DECODED} OR {names.POSITION} = {NONE} AS {names.DECODED}"
        return rows.selectExpr(f"* EXCEPT ({names.DECODED})", taken)
    kinds: Any = rows.schema[names.DATA].dataType
    there = f"{names.DECODED} AND {names.VALUE} IS NOT NULL"
    # On a line of its own, as it may end in a comment.
    sql = names.as_sql(flow.explosion.sql, kinds.names)
    elements = f"CASE WHEN {there} THEN (\n{sql}\n) END AS {_ELEMENTS}"
    found = rows.select("*", f"{names.DATA}.*").selectExpr(*map(quoted, rows.columns), elements)
    found = attempts.marked(found, {_ELEMENTS: "explode"}, there)
    kind: Any = found.schema[_ELEMENTS].dataType
    called = names_of(flow.explosion, kind)
    kept = [name for name in found.columns if name not in (names.DATA, _ELEMENTS)]
    unknown = f"NOT ({there})" + (f" OR {names.UNMADE} IS NOT NULL" if names.UNMADE in kept else "")
    # By field, or the array itself would go along with each of its elements.
    said = {name: f"__said_{number}" for number, name in enumerate(kinds.names) if not _gives_way(flow.explosion, name)}
    beside = (F.col(names.DATA)[name].alias(alias) for name, alias in said.items())
    ready = found.select(*kept, *beside, _ELEMENTS, F.expr(unknown).alias(_UNKNOWN))
    parts = [f"__part_{number}" for number, _name in enumerate(called)]
    members = [F.col(part).alias(name) for part, name in zip(parts, called, strict=True)]
    others = {name: F.col(alias).alias(name) for name, alias in said.items()}
    data = _in_order(kinds.names, others, members)
    exploded = _apart(ready, parts).select(*kept, F.struct(*data).alias(names.DATA), _position(_NTH))
    if WANTED not in rows.columns:
        return exploded
    return exploded.where(f"{WANTED} < 0 OR {WANTED} = {names.POSITION}")


def identity(flow: Flow) -> list[str]:
    """SQL over rows on their way: what identifies a row or a dead letter."""
    records = list(names.IN_TABLE)
    return records if flow.explosion is None else [*records, f"greatest({names.POSITION}, {WHOLE})"]


def identity_of_letters(flow: Flow) -> list[str]:
    """SQL over dead letters: the same."""
    records = list(names.COORDINATES)
    return records if flow.explosion is None else [*records, f"coalesce({_COLUMN}, {WHOLE})"]


def with_position(rows: DataFrame) -> DataFrame:
    """Dead letters with ``kafka_position``, null where their table has no such column."""
    return rows if _COLUMN in rows.columns else rows.withColumn(_COLUMN, F.lit(None).cast("int"))


def _apart(rows: DataFrame, parts: Sequence[str]) -> DataFrame:
    """A row for each element, or one without; ``__nth`` counts them."""
    kept = [name for name in rows.columns if name != _ELEMENTS]
    return rows.select(*kept, F.posexplode_outer(_ELEMENTS).alias(_NTH, *parts))


def _position(nth: str) -> Column:
    whole = f"WHEN {_UNKNOWN} THEN {WHOLE} ELSE {NONE} END"
    return F.expr(f"CASE WHEN {_NTH} IS NOT NULL THEN {nth} {whole}").alias(names.POSITION)


def _gives_way(explosion: Explosion, name: str) -> bool:
    """Whether the elements take the place of a column."""
    return explosion.column is not None and folded(name) == folded(explosion.column)


def _in_order(declared: Sequence[str], beside: Mapping[str, Part], elements: Sequence[Part]) -> list[Part]:
    """The parts of a payload: those of ``beside``, and the elements in the place of what is exploded, or at the end."""
    found: list[Part] = []
    for name in declared:
        found += [beside[name]] if name in beside else elements
    return found if len(beside) < len(declared) else [*found, *elements]
