"""OPTIMIZE and VACUUM of Delta tables, with errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rivermouth.errors import MaintenanceConflict, MaintenanceFailed, OptimizeRefused, first_line
from rivermouth.names import did_you_mean, quoted
from rivermouth.ports.delta.delta_table import conflicts
from rivermouth.ports.internals.expressions import forbidden
from rivermouth.schemas.column_types import has_bounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.domain.delta.maintenance import Operation
    from rivermouth.domain.delta.table_files import Snapshot

_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_NAME: Final = re.compile(r"`((?:[^`]|``)+)`|([^`,\s][^`,]*)")
_RETENTION_CHECK: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


def check_optimize(
    spark: SparkSession, table: str, location: str, snapshot: Snapshot, *, where: str | None, zorder: Sequence[str]
) -> None:
    """Checks that the table can be optimized by this condition and these columns.

    Args:
        spark: Any session.
        table: Its name, for errors.
        location: Its folder.
        snapshot: Its newest version.
        where: A condition over partition columns; None for all of them.
        zorder: Columns.

    Raises:
        OptimizeRefused: The condition is not one over partition columns, or the columns cannot order the rows.
    """
    if where is not None:
        _check_where(spark, table, location, snapshot, where)
    if zorder and snapshot.cluster_by:
        detail = f"it is clustered by {', '.join(snapshot.cluster_by)}, and ZORDER is another order"
        raise OptimizeRefused(table=table, detail=detail, fix=f"rivermouth tables optimize {table}, without --zorder")
    known = [name for name in snapshot.columns if name not in snapshot.partition_by]
    _check_zorder(table, snapshot, known, zorder)
    if zorder:
        _check_types(table, spark.read.format("delta").load(location).schema, known, zorder)
    counted = _with_statistics(snapshot)
    missing = [name for name in zorder if counted and name not in counted]
    if missing:
        wanted = ",".join(quoted(name) for name in (*counted, *missing))
        detail = f"ZORDER by {', '.join(missing)} has no effect: the table keeps no statistics of it"
        fix = f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ('{_STATISTICS}' = '{wanted}')"
        raise OptimizeRefused(table=table, detail=detail, fix=fix)


def _with_statistics(snapshot: Snapshot) -> list[str]:
    """The columns with statistics, where the table's properties name them."""
    named = _NAME.findall(snapshot.properties.get(_STATISTICS, ""))
    return [plain or ticked.replace("``", "`") for ticked, plain in named]


def _check_zorder(table: str, snapshot: Snapshot, known: Sequence[str], zorder: Sequence[str]) -> None:
    for name in zorder:
        if name in snapshot.partition_by:
            detail = f"ZORDER orders rows within partitions, and {name} is a partition column"
            raise OptimizeRefused(table=table, detail=detail, fix=f"choose of: {', '.join(known)}")
        if name not in known:
            detail = f"ZORDER names {name!r}, which is no column"
            raise OptimizeRefused(table=table, detail=detail, fix=did_you_mean(name, known))


def _check_types(table: str, columns: StructType, known: Sequence[str], zorder: Sequence[str]) -> None:
    """Delta skips files by the least and the greatest value of a column, and keeps them of few types."""
    for name in zorder:
        if not has_bounds(columns[name].dataType):
            detail = (
                f"ZORDER by {name} has no effect: Delta keeps no bounds of a {columns[name].dataType.simpleString()}"
            )
            usable = [each for each in known if has_bounds(columns[each].dataType)]
            raise OptimizeRefused(table=table, detail=detail, fix=f"choose of: {', '.join(usable)}")


def _check_where(spark: SparkSession, table: str, location: str, snapshot: Snapshot, where: str) -> None:
    columns = snapshot.partition_by
    if not columns:
        how = f"clustered by {', '.join(snapshot.cluster_by)}" if snapshot.cluster_by else "not partitioned"
        fix = f"rivermouth tables optimize {table}, without --where"
        raise OptimizeRefused(table=table, detail=f"--where chooses partitions, and it is {how}", fix=fix)
    fix = f"write a condition over {', '.join(columns)}"
    try:
        # First: to analyse reflection is to load a class.
        if refused := forbidden(spark, where):
            raise OptimizeRefused(table=table, detail=f"--where: {refused}", fix=fix)
        known = spark.read.format("delta").load(location).select(*columns).limit(0)
        kind = known.selectExpr(f"(\n{where}\n)").schema[0].dataType.simpleString()
    except PySparkException as error:
        raise OptimizeRefused(table=table, detail=f"--where: {first_line(error).rstrip(';')}", fix=fix) from error
    if kind != "boolean":
        raise OptimizeRefused(table=table, detail=f"--where is of type {kind}, not boolean", fix=fix)


def optimize(spark: SparkSession, table: str, location: str, *, where: str | None, zorder: Sequence[str]) -> None:
    """Puts small files together, in one commit that changes no row; nothing is committed if there is nothing to do.

    Args:
        spark: A session of its own.
        table: The table's name, for errors.
        location: Its folder.
        where: A condition over partition columns, as ``check_optimize`` lets it pass.
        zorder: Columns by which rows are ordered.

    Raises:
        MaintenanceConflict: Somebody changed the same files first.
        OptimizeRefused: Delta refuses it.
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        Run twice: the second time finds nothing to do, but with ``zorder``. Stopped half-way: no commit, and files
        that no version names.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    with _conflicts_refused(table, "optimize"):
        builder = DeltaTable.forPath(spark, location).optimize()
        builder = builder if where is None else builder.where(f"(\n{where}\n)")
        _ = builder.executeZOrderBy(*zorder) if zorder else builder.executeCompaction()


def vacuum(spark: SparkSession, table: str, location: str, *, hours: int) -> None:
    """Deletes the files that neither the newest version needs nor one of the last ``hours``.

    Args:
        spark: A session of its own: Delta's own check of ``hours`` is turned off in it, ours came before.
        table: The table's name, for errors.
        location: Its folder.
        hours: Whole hours.

    Raises:
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: some of the files are gone, the rest goes the next
        time; no version that stays readable needs one of them.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    spark.conf.set(_RETENTION_CHECK, "false")
    with _conflicts_refused(table, "vacuum"):
        DeltaTable.forPath(spark, location).vacuum(hours)


def purge(spark: SparkSession, table: str, location: str) -> None:
    """Rewrites the files that hold rows which are only marked as deleted, in one commit that changes no row.

    Args:
        spark: A session of its own.
        table: The table's name, for errors.
        location: Its folder.

    Raises:
        MaintenanceConflict: Somebody changed the same files first.
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        Run twice: the second time finds nothing to do. Stopped half-way: no commit, and files that no version names.
    """
    with _conflicts_refused(table, "purge"):
        spark.sql(f"REORG TABLE delta.{quoted(location)} APPLY (PURGE)").collect()


@contextmanager
def _conflicts_refused(table: str, operation: Operation | Literal["purge"]) -> Iterator[None]:
    """Makes an error of ours of what Delta says in the block."""
    try:
        yield
    except conflicts() as error:
        raise MaintenanceConflict(table=table, detail=type(error).__name__) from error
    except PySparkException as error:
        raise MaintenanceFailed(table=table, operation=operation, detail=first_line(error)) from error
    except Py4JJavaError as error:
        raise MaintenanceFailed(table=table, operation=operation, detail=first_line(error)) from error
