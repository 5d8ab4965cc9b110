"""MERGE into a Delta table that reads the table once."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from rivermouth import names
from rivermouth.decoding.jvm.java_objects import java_class, java_column, java_frame, java_session
from rivermouth.domain.delta.merge_report import ReadFiles
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows.keyed.key_ranges import within
from rivermouth.rows.reserved_names import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.delta.table_transaction import TableTransaction
    from rivermouth.rows.keyed.merge_plan import Merge

LARGE_BYTES: Final = 16 << 20
"""So much to read is worth a look at each key of the changes, where least and greatest key leave that much."""
_PACKAGE: Final = "rivermouth.internals.merge"
_ACTION: Final = "__action"
_FILE: Final = "__file"
_ROW: Final = "__row"
_MET: Final = "__met"
_DELETE: Final = "delete"
_UPDATE: Final = "update"


def merge_once(
    changes: DataFrame, number: int, location: str, what: Merge, transaction: TableTransaction
) -> ReadFiles | None:
    """As ``delta_merge.merge``, under whose settings it is run; None, and nothing done, where it is not for that.

    It is for tables with deletion vectors, and without a change data feed or row ids, all of whose columns a change
    brings.

    Guarantees:
        Run twice with one number: the second does nothing. Stopped half-way: no commit, and files that no
        version names.
    """
    spark = changes.sparkSession
    if what.sweep is not None:
        return None
    java, range_of = (java_class(spark, f"{_PACKAGE}.{name}") for name in ("SinglePass", "Range"))
    table = java(java_session(spark), location)
    columns = [*table.columns()]
    # What a change does not bring, a row keeps: for that the whole row would have to be read.
    if not table.allowed() or {*map(names.quoted, columns)} != {*what.values}:
        return None
    # Where a row lies is asked of a hidden column of that name.
    if HIDDEN in map(names.folded, columns):
        return None
    values = [F.expr(what.values[names.quoted(name)]).alias(name) for name in columns]
    if not table.takes(java_frame(changes.alias("s").select(*values))):
        return None
    if table.done(transaction.app_id, transaction.app_version):
        return ReadFiles(0, 0, table.files(), by_each=False)
    bounds = within(what.ranges)
    ranges = [range_of(name, *ends) for name, ends in what.ranges.items()]
    found = table.rows(java_column(bounds), ranges, java_frame(changes), LARGE_BYTES, _FILE, _ROW)
    rows = ClassicDataFrame(found, spark)
    if table.filesRead():
        counts = _replaced(changes, table, rows, what, bounds, values)
    else:
        counts = _row_metrics(inserted=_written(changes.alias("s").where(what.insert), table, values))
    told = {"numSourceRows": number, "operationNumSourceRows": number, **counts}
    table.commit(transaction.app_id, transaction.app_version, told)
    return ReadFiles(table.filesRead(), table.bytesRead(), table.files(), by_each=table.byEach())


def _replaced(
    changes: DataFrame, table: Any, rows: DataFrame, what: Merge, bounds: Column, values: Sequence[Column]
) -> dict[str, int]:
    """Marks the rows that go or become others, and writes what they become and what is new; Delta's metrics of it."""
    with _numbered(changes) as numbered, computed(_met(rows, numbered, what, bounds), *_counts()) as (met, told):
        updated, deleted = told["updated"], told["deleted"]
        if updated + deleted:
            gone = met.where(f"{_ACTION} IS NOT NULL").select(_FILE, _ROW)
            table.gone(java_frame(gone), _FILE, _ROW, updated + deleted)
        written = _written(_wanted(numbered, met, what), table, values)
    return _row_metrics(inserted=written - updated, updated=updated, deleted=deleted)


def _row_metrics(*, inserted: int, updated: int = 0, deleted: int = 0) -> dict[str, int]:
    """Delta's metrics of the rows (https://docs.delta.io/latest/delta-utility.html)."""
    return {
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": updated,
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": deleted,
    }


@contextmanager
def _numbered(changes: DataFrame) -> Iterator[DataFrame]:
    """The changes, each with a number of its own that stays the same as often as they are read."""
    if names.CHANGE in changes.columns:
        yield changes
        return
    with computed(changes.withColumn(names.CHANGE, F.monotonically_increasing_id())) as (numbered, _):
        yield numbered


def _met(rows: DataFrame, changes: DataFrame, what: Merge, bounds: Column) -> DataFrame:
    """Each row that a change is about: the change's number, what becomes of the row, and where it lies."""
    pairs = rows.alias("t").where(bounds).join(F.broadcast(changes.alias("s")), what.on)
    action = F.when(F.expr(what.delete), F.lit(_DELETE)).when(F.expr(what.update), F.lit(_UPDATE))
    return pairs.select(F.col(f"s.{names.CHANGE}").alias(_MET), action.alias(_ACTION), f"t.{_FILE}", f"t.{_ROW}")


def _counts() -> tuple[Column, Column]:
    return (
        F.count_if(F.col(_ACTION) == _UPDATE).alias("updated"),
        F.count_if(F.col(_ACTION) == _DELETE).alias("deleted"),
    )


def _wanted(changes: DataFrame, met: DataFrame, what: Merge) -> DataFrame:
    """The changes ``s`` that become rows."""
    known = F.broadcast(met.select(_MET, _ACTION))
    looked = changes.alias("s").join(known, F.expr(f"s.{names.CHANGE} = {_MET}"), "left")
    return looked.where(f"{_ACTION} = '{_UPDATE}' OR ({_MET} IS NULL AND ({what.insert}))")


def _written(wanted: DataFrame, table: Any, values: Sequence[Column]) -> int:
    """Writes the rows that these changes become; how many they are."""
    rows, partitioned_by = wanted.select(*values), [*table.partitionedBy()]
    rows = rows.repartition(*map(names.quoted, partitioned_by)) if partitioned_by else rows
    written: int = table.written(java_frame(rows))
    return written
