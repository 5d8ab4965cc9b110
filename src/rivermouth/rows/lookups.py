"""Lookups: columns of other tables, which a broadcast left join adds to those that the format reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from rivermouth import names
from rivermouth.rows.conform import metadata_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

    from rivermouth.spec import Flow, Lookup

REASON: Final = "LOOKUP_MISSING"
"""The reason of a dead letter for which a lookup found no row."""


def table_columns(index: int, lookup: Lookup) -> dict[str, str]:
    """The columns of a lookup's table as ``join`` wants them: name there to name in the table."""
    keys = {_key(index, number): column for number, column in enumerate(lookup.on.values())}
    return keys | {_value(index, number): column for number, column in enumerate(lookup.columns)}


def key_names(index: int, lookup: Lookup) -> list[str]:
    """The names of the keys among ``table_columns``."""
    return [_key(index, number) for number in range(len(lookup.on))]


def join(rows: DataFrame, flow: Flow, tables: Sequence[DataFrame]) -> DataFrame:
    """Decoded rows with the columns that the flow looks up in ``__data``, and ``__lookup_<i>``: whether there is a row.

    Each row stays one row.

    Args:
        rows: As ``envelope.decode`` returns them.
        flow: Its ``lookup``.
        tables: The table of each lookup with the columns ``table_columns``; no two rows have the same keys, and no key
            is null.
    """
    for index, (lookup, table) in enumerate(zip(flow.lookup, tables, strict=True)):
        data: Any = rows.schema[names.DATA].dataType
        keys = (record_key(flow, column, data.names) for column in lookup.on)
        same = (f"{key} = {_key(index, number)}" for number, key in enumerate(keys))
        found = rows.join(F.broadcast(table), F.expr(" AND ".join(same)), "left")
        beside = [names.quoted(name) for name in rows.columns if name != names.DATA]
        fields = [f"{names.DATA}.{names.quoted(name)} AS {names.quoted(name)}" for name in data.names]
        fields += [f"{_value(index, n)} AS {names.quoted(name)}" for n, name in enumerate(lookup.columns.values())]
        rows = found.selectExpr(
            *beside,
            f"struct({', '.join(fields)}) AS {names.DATA}",
            f"{_key(index, 0)} IS NOT NULL AS {names.lookup_column(index)}",
        )
    return rows


def record_key(flow: Flow, column: str, payload: Sequence[str]) -> str:
    """SQL over decoded rows: the column of the record by which a lookup finds its row."""
    called = {name: column for column, name in flow.metadata_columns.items()}
    if column in payload or column not in called:
        parts = [column] if column in payload else column.split(".")
        return ".".join([names.DATA, *map(names.quoted, parts)])
    return metadata_sql(called[column], flow)


def not_found(lookup: Lookup) -> str:
    """What is said of a record for which a lookup found no row."""
    return f"no row of {lookup.table} has the record's {', '.join(lookup.on)}"


def payload_type(payload: StructType, column: str) -> DataType | None:
    """The type of a payload column, or of a field in one: ``customer.id``; None if there is none."""
    if column in payload.names:
        return payload[column].dataType
    kind: DataType = payload
    for part in column.split("."):
        if not isinstance(kind, StructType) or part not in kind.names:
            return None
        kind = kind[part].dataType
    return kind


def _key(index: int, number: int) -> str:
    return f"{names.lookup_column(index)}_key_{number}"


def _value(index: int, number: int) -> str:
    return f"{names.lookup_column(index)}_value_{number}"
