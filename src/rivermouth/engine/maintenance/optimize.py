"""Tables looked after: OPTIMIZE and VACUUM, each with a report of before and after that the lake's state keeps."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.delta import maintenance, table_files
from rivermouth.domain.delta.maintenance import Figures, MaintenanceReport
from rivermouth.errors import RetentionTooShort
from rivermouth.ports.delta import delta_maintenance, delta_table
from rivermouth.ports.delta.delta_log import read_removals, read_snapshot, stored_files
from rivermouth.ports.spark.session import for_flow
from rivermouth.spec import duration_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.delta.maintenance import Operation
    from rivermouth.domain.delta.table_files import Snapshot, StoredFile
    from rivermouth.engine.table.describe_tables import DescribedTable, MaintainedTable
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.lake.lake_reader import LakeReader

_RETENTION: Final = "delta.deletedFileRetentionDuration"


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A table as it is at one moment.

    Attributes:
        snapshot: Its newest version.
        stored: What lies in its folder, without the log.
        at: When.
    """

    snapshot: Snapshot
    stored: list[StoredFile]
    at: float

    @property
    def figures(self) -> Figures:
        """The same in numbers."""
        stored_bytes = sum(each.bytes for each in self.stored)
        return Figures(self.snapshot.version, len(self.snapshot.files), self.snapshot.live_bytes, stored_bytes)


def look(reader: LakeReader, table: DescribedTable) -> TableSnapshot | None:
    """The table as it is now; None if it is not made yet.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    snapshot = read_snapshot(reader, table.location)
    if snapshot is None:
        return None
    return TableSnapshot(snapshot, stored_files(reader, table.location)[0], time.time())


def optimize(
    spark: SparkSession,
    reader: LakeReader,
    table: DescribedTable,
    before: TableSnapshot,
    *,
    where: str | None = None,
    zorder: Sequence[str] = (),
) -> MaintenanceReport:
    """Puts the table's small files together.

    Raises:
        OptimizeRefused: It cannot be done so.
        MaintenanceConflict: Somebody changed the same files first.
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        Run twice: the second time finds nothing to do, but with ``zorder``. Stopped half-way: the table is as it was.
        No row changes.
    """
    began = time.monotonic()
    session = for_flow(spark)
    delta_maintenance.check_optimize(session, table.name, table.location, before.snapshot, where=where, zorder=zorder)
    delta_maintenance.optimize(session, table.name, table.location, where=where, zorder=zorder)
    return _report(reader, table, "optimize", before, began)


def vacuum(
    spark: SparkSession, reader: LakeReader, table: DescribedTable, before: TableSnapshot, *, retain_s: float
) -> MaintenanceReport:
    """Deletes the files of the table that no version of the last ``retain_s`` seconds needs.

    Raises:
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: some files are gone, the rest goes the next time.
    """
    began = time.monotonic()
    foreseen = foresee(reader, table, before, retain_s=retain_s)
    delta_maintenance.vacuum(for_flow(spark), table.name, table.location, hours=maintenance.whole_hours(retain_s))
    report = _report(reader, table, "vacuum", before, began)
    return replace(report, unreadable=foreseen.unreadable, retain_s=retain_s)


def vacuum_beside(spark: SparkSession, files: LakeFiles, table: MaintainedTable, *, retain_s: float) -> None:
    """Deletes the files of the tables that go with it that no version of the last ``retain_s`` seconds needs.

    Raises:
        MaintenanceFailed: Spark or the storage failed.

    Guarantees:
        As ``vacuum``.
    """
    for location in table.beside(files):
        if delta_table.exists(files, location):
            delta_maintenance.vacuum(for_flow(spark), table.name, location, hours=maintenance.whole_hours(retain_s))


def foresee(reader: LakeReader, table: DescribedTable, before: TableSnapshot, *, retain_s: float) -> MaintenanceReport:
    """What ``vacuum`` would do: how many bytes it would free, and which versions nobody can read any more then."""
    began = time.monotonic()
    limit = before.at - maintenance.whole_hours(retain_s) * 3600
    going = table_files.unneeded(before.snapshot, before.stored, before=limit)
    lost: tuple[tuple[int, int], ...] = ()
    if going:
        removals, oldest = read_removals(reader, table.location, until=before.snapshot.version)
        paths = {each.path for each in going}
        lost = table_files.unreadable(removals, paths, {each.path for each in before.stored}, oldest)
    figures = before.figures
    left = figures.stored_bytes - sum(each.bytes for each in going)
    return MaintenanceReport(
        table=table.name,
        operation="vacuum",
        at=_iso(before.at),
        before=figures,
        after=Figures(figures.version, figures.files, figures.live_bytes, left),
        duration_s=round(time.monotonic() - began, 3),
        unreadable=lost,
        retain_s=retain_s,
        dry_run=True,
    )


def check_retention(table: DescribedTable, snapshot: Snapshot, retain_s: float, *, even_below: bool, word: str) -> None:
    """Checks that VACUUM may keep files for only this time.

    Args:
        table: The table.
        snapshot: Its newest version.
        retain_s: How long files are to be kept, in seconds.
        even_below: Whether the user set the option that allows a shorter time.
        word: That option, for the hint.

    Raises:
        RetentionTooShort: The time is under 168 hours, or under what the table's own properties promise.
    """
    if even_below:
        return
    retain = f"{retain_s / 3600:g} hours"
    if retain_s < maintenance.LEAST_RETAIN_S:
        detail = "under 168 hours, in which a reader may still need them, or a writer may not have committed them yet"
        fix = f"--retain 7d; or {word}, when no program reads older versions"
        raise RetentionTooShort(table=table.name, retain=retain, detail=detail, fix=fix)
    promised = table_files.interval_s(snapshot.properties.get(_RETENTION, ""))
    if promised is not None and retain_s < promised:
        detail = f"its property {_RETENTION} promises {duration_text(promised)}"
        raise RetentionTooShort(
            table=table.name, retain=retain, detail=detail, fix=f"--retain {duration_text(promised)!r}, or {word}"
        )


def keep(files: LakeFiles, table: DescribedTable, report: MaintenanceReport) -> None:
    """Keeps a report in the lake's state, and takes the oldest away where there are many.

    Raises:
        LakeNotWritable: The lake does not take it.
    """
    folder = table.reports
    at = dt.datetime.fromisoformat(report.at).timestamp()
    files.write(f"{folder}/{maintenance.report_name(report.operation, at)}", report.to_json())
    for name in maintenance.outdated(files.names(folder)):
        files.delete(f"{folder}/{name}")


def failure(
    table: DescribedTable, operation: Operation, at: float, before: TableSnapshot | None, error: str
) -> MaintenanceReport:
    """The report of a run that failed."""
    figures = before.figures if before is not None else Figures(0, 0, 0, 0)
    return MaintenanceReport(table.name, operation, _iso(at), figures, figures, 0.0, error=error)


def nothing_done(table: DescribedTable, operation: Operation, before: TableSnapshot) -> MaintenanceReport:
    """The report of a run that found nothing to do."""
    return MaintenanceReport(table.name, operation, _iso(before.at), before.figures, before.figures, 0.0)


def _report(
    reader: LakeReader, table: DescribedTable, operation: Operation, before: TableSnapshot, began: float
) -> MaintenanceReport:
    duration_s = round(time.monotonic() - began, 3)
    after = look(reader, table) or before
    return MaintenanceReport(
        table=table.name,
        operation=operation,
        at=_iso(before.at),
        before=before.figures,
        after=after.figures,
        duration_s=duration_s,
    )


def _iso(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).isoformat(timespec="milliseconds")
