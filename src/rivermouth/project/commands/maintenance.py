"""What a door does with the tables of a project by means of Spark: read them, optimize and vacuum them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rivermouth.domain.project.locations import name_of_topic
from rivermouth.engine.maintenance import optimize
from rivermouth.engine.table.read_table import frame_of, older, rows_of
from rivermouth.errors import ArgumentInvalid, ViewsCollide
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_log import read_snapshot
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.spark.session import for_flow
from rivermouth.project.commands.managed_session import NO_HOOKS, ManagedSession, RunHooks
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.tables import chosen, chosen_one, reader_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.delta.maintenance import MaintenanceReport
    from rivermouth.engine.table.describe_tables import DescribedTable, FlowTable, MaintainedTable


Table = TypeVar("Table", bound="MaintainedTable")


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of a table, as a door shows them.

    Attributes:
        columns: Names.
        rows: Texts, bytes and nulls by column; or one text of JSON a row.
    """

    columns: list[str]
    rows: list[list[Any]]


def read_table(project: ResolvedProject, name: str, spark: SparkSession | None = None, **asked: Any) -> DataFrame:
    """One table as a frame; see ``engine.table.read_table.frame_of`` for what may be asked."""
    table = chosen_one(project, name)
    return frame_of(project.spark() if spark is None else spark, table, **asked)


def create_temp_views(
    project: ResolvedProject, names: Sequence[str] = (), spark: SparkSession | None = None
) -> dict[str, str]:
    """Makes temporary views of these tables, or of all that are there, in one session; the view's name by table.

    Raises:
        ViewsCollide: Two tables would be one view.
        TableMissing: A table that was named is not made yet.
    """
    spark = project.spark() if spark is None else spark
    tables = [table for table in chosen(project, names) if names or _is_there(spark, table)]
    views: dict[str, FlowTable] = {}
    for table in tables:
        view = name_of_topic(table.name)
        if view in views:
            raise ViewsCollide(first=views[view].name, second=table.name, view=view)
        views[view] = table
    frames = {view: frame_of(spark, table) for view, table in views.items()}
    for view, frame in frames.items():
        frame.createOrReplaceTempView(view)
    return {table.name: view for view, table in views.items()}


def rows(
    project: ResolvedProject,
    name: str,
    *,
    limit: int,
    as_json: bool,
    hooks: RunHooks = NO_HOOKS,
    **asked: Any,
) -> TableRows:
    """At most ``limit`` rows of one table; see ``engine.table.read_table.frame_of`` for what may be asked.

    Raises:
        RivermouthError: What is wrong with the project or with what was asked for.
    """
    return rows_of_table(project, chosen_one(project, name), limit=limit, as_json=as_json, hooks=hooks, **asked)


def rows_of_table(
    project: ResolvedProject,
    table: DescribedTable,
    *,
    limit: int,
    as_json: bool,
    hooks: RunHooks = NO_HOOKS,
    **asked: Any,
) -> TableRows:
    """As ``rows``, of a table that was found."""
    with ManagedSession(project, hooks) as spark:
        session = for_flow(spark)
        frame = frame_of(session, table, **asked)
        version, timestamp = asked.get("version"), asked.get("timestamp")
        as_of = f"version {version}" if version is not None else timestamp and timestamp.isoformat(sep=" ")
        with older(table, as_of or None):
            return TableRows(frame.columns, rows_of(frame, limit, as_json=as_json))


def optimized(
    project: ResolvedProject,
    names: Sequence[str] = (),
    *,
    where: str | None = None,
    zorder: Sequence[str] = (),
    hooks: RunHooks = NO_HOOKS,
    hear: Callable[[MaintenanceReport], None] = lambda _report: None,
) -> list[MaintenanceReport]:
    """Puts the small files of these tables, or of all that are there, together: also while their flows run.

    Args:
        project: Its flows.
        names: Tables; all where empty.
        where: A condition over the partition columns of the one table that is named.
        zorder: Columns of the one table that is named.
        hooks: Hears what goes on.
        hear: Gets each report as soon as it is there.

    Raises:
        ArgumentInvalid: A condition or columns without one table.
        OptimizeRefused: A table cannot be optimized so.
        MaintenanceConflict: A writer changed the same files first.
        TableBusy: The lake is a mounted folder, and the table's flow is running.

    Guarantees:
        No row changes. Stopped half-way: the table in hand is as it was.
    """
    check_optimize(names, where, zorder)
    return optimize_tables(project, chosen(project, names), where=where, zorder=zorder, hooks=hooks, hear=hear)


def check_optimize(names: Sequence[str], where: str | None, zorder: Sequence[str]) -> None:
    """Checks that a condition or Z-order columns are given for exactly one table.

    Raises:
        ArgumentInvalid: No table or several tables are named.
    """
    if (where or zorder) and len(names) != 1:
        option = "--where" if where else "--zorder"
        fix = f"rivermouth tables optimize TABLE {option} ..."
        raise ArgumentInvalid(argument=option, detail="it is about one table, and none or several are named", fix=fix)


def optimize_tables(
    project: ResolvedProject,
    tables: Sequence[Table],
    *,
    where: str | None = None,
    zorder: Sequence[str] = (),
    hooks: RunHooks = NO_HOOKS,
    hear: Callable[[MaintenanceReport], None] = lambda _report: None,
) -> list[MaintenanceReport]:
    """As ``optimized``, of tables that were found."""
    reader = reader_of(project)

    def work(spark: SparkSession, table: Table, before: optimize.TableSnapshot) -> MaintenanceReport:
        return optimize.optimize(spark, reader, table, before, where=where, zorder=zorder)

    return _each(project, tables, work, hooks, hear)


@dataclass(frozen=True, slots=True)
class Vacuum:
    """Which files VACUUM deletes.

    Attributes:
        retain_s: How long files are kept, in seconds; rounded up to whole hours.
        even_below_168_hours: Let it be less than that, or than the table's own properties promise. No flow may write
            the table meanwhile: it could lose what it is about to commit.
        dry_run: Only say what would go; starts no Spark.
    """

    retain_s: float
    even_below_168_hours: bool = False
    dry_run: bool = False


def vacuumed(
    project: ResolvedProject,
    names: Sequence[str],
    wanted: Vacuum,
    *,
    hooks: RunHooks = NO_HOOKS,
    announce: Callable[[MaintenanceReport], None] = lambda _foreseen: None,
    hear: Callable[[MaintenanceReport], None] = lambda _report: None,
) -> list[MaintenanceReport]:
    """Deletes the files of these tables, or of all that are there, that no version which is kept needs.

    And those of what the lake's state remembers of a keyed table's deleted keys.

    Args:
        project: Its flows.
        names: Tables; all where empty.
        wanted: How long files are kept, and whether only to say what would go.
        hooks: Hears what goes on.
        announce: Gets what will be done before it is: the versions that nobody can read any more afterwards.
        hear: Gets each report as soon as it is there.

    Raises:
        RetentionTooShort: So short a time without the explicit word; nothing was deleted in any table.
        TableBusy: With that word, or where the lake is a mounted folder, and the table's flow is running.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: the rest goes the next time.
    """
    tables = chosen(project, names)
    return vacuum_tables(project, tables, wanted, hooks=hooks, announce=announce, hear=hear)


def vacuum_tables(
    project: ResolvedProject,
    tables: Sequence[Table],
    wanted: Vacuum,
    *,
    hooks: RunHooks = NO_HOOKS,
    announce: Callable[[MaintenanceReport], None] = lambda _foreseen: None,
    hear: Callable[[MaintenanceReport], None] = lambda _report: None,
) -> list[MaintenanceReport]:
    """As ``vacuumed``, of tables that were found."""
    reader, retain_s = reader_of(project), wanted.retain_s
    word = "--even-below-168-hours"
    for table in tables:
        if snapshot := read_snapshot(reader, table.location):
            optimize.check_retention(table, snapshot, retain_s, even_below=wanted.even_below_168_hours, word=word)
    if wanted.dry_run:
        looks = [(table, found) for table in tables if (found := optimize.look(reader, table)) is not None]
        foreseen = [optimize.foresee(reader, table, found, retain_s=retain_s) for table, found in looks]
        for each in foreseen:
            hear(each)
        return foreseen

    def work(spark: SparkSession, table: Table, before: optimize.TableSnapshot) -> MaintenanceReport:
        announce(optimize.foresee(reader, table, before, retain_s=retain_s))
        optimize.vacuum_beside(spark, files_for(table.reports, spark), table, retain_s=retain_s)
        return optimize.vacuum(spark, reader, table, before, retain_s=retain_s)

    return _each(project, tables, work, hooks, hear, alone=wanted.even_below_168_hours)


def _each(
    project: ResolvedProject,
    tables: Sequence[Table],
    work: Callable[[SparkSession, Table, optimize.TableSnapshot], MaintenanceReport],
    hooks: RunHooks,
    hear: Callable[[MaintenanceReport], None],
    *,
    alone: bool = False,
) -> list[MaintenanceReport]:
    """The reports of all these tables that are there; the first error ends it."""
    reader = reader_of(project)
    reports: list[MaintenanceReport] = []
    with ManagedSession(project, hooks) as spark:
        for table in tables:
            if not _is_there(spark, table):
                continue
            with table.guarded(spark, alone=alone):
                before = optimize.look(reader, table)
                if before is None:
                    continue
                report = work(spark, table, before)
            optimize.keep(files_for(table.reports, spark), table, report)
            hear(report)
            reports.append(report)
    return reports


def _is_there(spark: SparkSession, table: DescribedTable) -> bool:
    return delta_table.exists(files_for(table.location, spark), table.location)
