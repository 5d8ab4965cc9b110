"""A snapshot: one record that holds all rows of its source, so that what it does not hold is deleted.

For a keyed table that is what it knows already: a truncation of all that is older, and rows of the same place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import ArrayType, StructField, StructType

from rivermouth import names
from rivermouth.names import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

WHOLE: Final = f"{names.ORDINAL} = 0"
"""SQL: whether a row is the snapshot itself, and none of its rows; never null."""

ROWS_MISSING: Final = "ROWS_MISSING"
KEY_TWICE: Final = "KEY_TWICE"
MESSAGES: Final = {
    ROWS_MISSING: "the snapshot has no array of rows, or one of its rows is null",
    KEY_TWICE: "two rows of the snapshot have one key",
}

_BESIDE: Final = "rivermouth.beside_rows"


def columns(declared: StructType, rows: str) -> StructType:
    """The payload columns: those of the rows, then what a snapshot says of all of them.

    Args:
        declared: The columns of a value.
        rows: That of them which has the rows.

    Raises:
        ValueError: There is no such column, or a name is in the rows and outside of them; the text says which, and
            after a line feed what can be done.
    """
    if rows not in declared.names:
        msg = f"rows names {rows!r}, which is no column\n{did_you_mean(rows, declared.names)}"
        raise ValueError(msg)
    kind = declared[rows].dataType
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        msg = f"rows names {rows!r} of type {kind.simpleString()}, not an array of structs"
        msg = f"{msg}\ndeclare it with the columns of a row: {quoted(rows)} array<struct<id bigint>>"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    mine = kind.elementType.fields
    beside = [field for field in declared if field.name != rows]
    known = {field.name.casefold() for field in mine}
    if twice := [field.name for field in beside if field.name.casefold() in known]:
        msg = f"column {twice[0]!r} is in the rows and outside of them"
        raise ValueError(f"{msg}\nleave one of the two out of the schema")
    marked = (StructField(field.name, field.dataType, metadata={_BESIDE: True}) for field in beside)
    return StructType([*mine, *marked])


def is_beside(field: StructField) -> bool:
    """Whether a payload column says something of a snapshot as a whole: the table does not have it."""
    return _BESIDE in field.metadata


def split(rows: DataFrame, column: str) -> DataFrame:
    """Decoded snapshots, and each of their rows behind them.

    Args:
        rows: As ``envelope.decode`` returns them.
        column: The payload column that has a snapshot's rows.

    Returns:
        ``rows`` with ``__data`` as ``columns`` says, ``__ordinal``, 0 for the snapshot and from 1 on for its rows, and
        ``__misfit``, ``ROWS_MISSING`` or null. Only the snapshot itself has the value.
    """
    kinds: Any = rows.schema[names.DATA].dataType
    held, element = F.col(names.DATA)[column], kinds[column].dataType.elementType
    beside = [name for name in kinds.names if name != column]
    values = [name for name in (names.VALUE, names.SENT) if name in rows.columns]
    kept = [F.col(name) for name in rows.columns if name not in (names.DATA, *values)]
    itself, none = F.array(F.lit(None).cast(element)), F.array().cast(ArrayType(element))
    apart = rows.select(
        *kept,
        *values,
        *(F.col(names.DATA)[name].alias(f"__said_{number}") for number, name in enumerate(beside)),
        (F.col(names.DECODED) & F.col(names.VALUE).isNotNull() & held.isNull()).alias("__without"),
        F.posexplode(F.concat(itself, F.when(F.col(names.DECODED), F.coalesce(held, none)).otherwise(none))).alias(
            "__nth", "__row"
        ),
    )
    data = [F.col("__row")[name].alias(name) for name in element.names]
    data += [F.col(f"__said_{number}").alias(name) for number, name in enumerate(beside)]
    return apart.select(
        *kept,
        # Else it would be copied to each of its rows.
        *(F.expr(f"IF(__nth = 0, {name}, X'')").alias(name) for name in values),
        F.struct(*data).alias(names.DATA),
        F.expr(f"IF(IF(__nth = 0, __without, __row IS NULL), '{ROWS_MISSING}', NULL)").alias(names.MISFIT),
        F.col("__nth").alias(names.ORDINAL),
    )


def compared(rows: DataFrame, keys: Sequence[str], beside: Sequence[str] = ()) -> DataFrame:
    """Rows of snapshots, where ``__problem`` says of two that have one key that they do; others as they are."""
    # As they will lie for the record anyway.
    same = Window.partitionBy(*names.IN_TABLE, *beside, *map(quoted, keys))
    record = [F.col(name) for name in (*names.IN_TABLE, *beside)]
    several = (F.count(F.lit(1)).over(same) > 1) & F.expr(f"NOT ({WHOLE})")
    problem = F.when(F.col(names.PROBLEM).isNull() & several, KEY_TWICE).otherwise(F.col(names.PROBLEM))
    return rows.repartition(*record).withColumn(names.PROBLEM, problem)
