"""One record, several changes of a keyed table: taken apart, and kept together where it matters.

A message may hold several rows, and an update of a row's key is the deletion of the old one and a new row. All changes
of a record have one place: what refuses one of them refuses the record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import quoted
from rivermouth.rows import partition_values
from rivermouth.rows.checks import failed_column
from rivermouth.rows.columns.table_columns import key_columns
from rivermouth.rows.keyed import snapshots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow

FIRST: Final = f"{names.ORDINAL} = 0"
"""SQL: whether a row is the first of its record; each record has one such row."""


def once(flow: Flow) -> str:
    """SQL: whether a row represents its record, where records are counted; never null."""
    return FIRST if flow.splits else "true"


def split(rows: DataFrame, flow: Flow) -> DataFrame:
    """Decoded rows, and of an update that changes its row's key two: the old key's deletion, and the new row.

    ``__ordinal`` says in which order the changes of a record were made. A snapshot becomes its rows.
    """
    if not flow.splits:
        return rows
    if flow.keyed is not None and flow.keyed.snapshots:
        return snapshots.split(rows, flow.keyed.rows or names.ROWS)
    kinds: Any = rows.schema[names.DATA].dataType
    mine = [name for name in key_columns(flow) if name in kinds.names]
    same = [f"{names.OLD}.{quoted(name)} <=> {names.DATA}.{quoted(name)}" for name in mine]
    if flow.metadata_columns.get("primary_key") in key_columns(flow):
        same.append(f"{names.OLD_PRIMARY_KEY} <=> {names.PRIMARY_KEY}")
    moved = f"{names.DECODED} AND {names.OLD} IS NOT NULL AND NOT ({' AND '.join(same) or 'true'})"
    # The new row says which place in the order the deletion has.
    gone = (f"{names.OLD if name in mine else names.DATA}.{quoted(name)} AS {quoted(name)}" for name in kinds.names)
    before = _change(f"'{names.DELETION}'", names.OLD_PRIMARY_KEY, f"struct({', '.join(gone)})")
    after = _change(names.OPERATION, names.PRIMARY_KEY, names.DATA)
    made = f"CASE WHEN {moved} THEN array({before}, {after}) ELSE array({after}) END"
    told = (names.OPERATION, names.PRIMARY_KEY, names.DATA)
    apart = rows.selectExpr(
        f"* EXCEPT ({', '.join((*told, names.OLD, names.OLD_PRIMARY_KEY))})", f"posexplode({made}) AS (__nth, __change)"
    )
    return apart.selectExpr(
        f"* EXCEPT ({names.ORDINAL}, __nth, __change)", f"2 * {names.ORDINAL} + __nth AS {names.ORDINAL}", "__change.*"
    )


def agreed(rows: DataFrame, flow: Flow, beside: Sequence[str] = ()) -> DataFrame:
    """Checked rows, where each change of a record has the problems of all; ``beside`` identifies records too."""
    if not flow.splits:
        return rows
    record = Window.partitionBy(*names.IN_TABLE, *beside)
    if flow.keyed is not None and flow.keyed.snapshots:
        rows = snapshots.compared(rows, key_columns(flow), beside)
    failed = (failed_column(index) for index in range(len(flow.all_expectations)))
    problems = (names.MISFIT, names.PROBLEM, *((names.PARTITION_PROBLEM,) if partition_values.are_judged(flow) else ()))
    problems = (*problems, names.UNMADE) if names.UNMADE in rows.columns else problems
    return rows.withColumns(
        {
            **{name: F.bool_and(name).over(record) for name in (names.DECODED, names.KEY_VALID)},
            **{name: F.max(name).over(record) for name in problems},
            **{name: F.bool_or(name).over(record) for name in failed},
        }
    )


def last_of_keys(rows: DataFrame, flow: Flow) -> DataFrame:
    """Of several changes that a record makes to one key, or to one place of its history, the last."""
    if not flow.splits:
        return rows
    place = [names.SEQUENCE] if flow.keyed is not None and flow.keyed.versions else []
    same = Window.partitionBy(*names.IN_TABLE, *map(quoted, key_columns(flow)), *place)
    last = F.max(names.ORDINAL).over(same)
    return rows.withColumn("__last", last).where(f"{names.ORDINAL} = __last").drop("__last")


def _change(operation: str, key: str, data: str) -> str:
    named: Iterator[str] = (
        f"{sql} AS {name}" for sql, name in ((operation, names.OPERATION), (key, names.PRIMARY_KEY), (data, names.DATA))
    )
    return f"struct({', '.join(named)})"
