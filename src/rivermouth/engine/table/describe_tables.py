"""The tables of flows looked at, without a Spark session: their files, and what would help them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from rivermouth.domain.delta import table_files
from rivermouth.domain.delta.maintenance import MaintenanceReport, last_run
from rivermouth.domain.delta.table_files import SizeClass, Snapshot
from rivermouth.ports.delta.delta_log import read_snapshot, stored_files
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.spec import duration_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.lake.lake_reader import LakeReader
    from rivermouth.spec import Flow

_REPORTS: Final = 5
DEFAULT_RETAIN_S: Final = 7 * 86400.0
"""How long VACUUM keeps the files of older versions, if nothing else is set: Delta's own default."""


class DescribedTable(Protocol):
    """A table that is described."""

    @property
    def name(self) -> str:
        """``schema.table``."""

    @property
    def location(self) -> str:
        """Its folder."""

    @property
    def flow(self) -> str:
        """What writes it."""

    @property
    def kind(self) -> Literal["rows", "dead_letters"]:
        """What it has."""

    @property
    def reports(self) -> str:
        """The folder of what is kept of its maintenance."""

    def newest_entry(self, reader: LakeReader) -> int | None:
        """Number of its newest ledger entry; None where none is found."""


class MaintainedTable(DescribedTable, Protocol):
    """A table that is optimized and vacuumed."""

    def beside(self, files: LakeFiles) -> list[str]:
        """The folders of Delta tables that go with it, whether they are there or not."""

    def guarded(self, spark: SparkSession, *, alone: bool) -> AbstractContextManager[object]:
        """Nobody else commits to it in the block, where that would do harm, or as asked."""


@dataclass(frozen=True, slots=True)
class FlowTable:
    """A table that a flow writes.

    Attributes:
        name: ``schema.table``.
        location: Its folder.
        flow: The flow.
        kind: Whether it has the flow's rows or its dead letters.
        places: Of the flow.
    """

    name: str
    location: str
    flow: str
    kind: Literal["rows", "dead_letters"]
    places: FlowPlaces

    @property
    def reports(self) -> str:
        """The folder of what is kept of its maintenance."""
        return f"{self.places.state}/maintenance/{self.name}"

    def beside(self, files: LakeFiles) -> list[str]:
        """The folders of what is remembered of a keyed table's keys."""
        if self.kind == "dead_letters":
            return []
        return [f"{self.places.tombstones}/{name}" for name in files.names(self.places.tombstones)]

    def guarded(self, spark: SparkSession, *, alone: bool) -> AbstractContextManager[object]:
        """Its lease, where only one writer may be at work.

        Raises:
            LakeNotFenced: The store does not do conditional writes, or Delta would not use them.
            TableBusy: Its flow is running.
        """
        # Tables are described without Spark.
        from rivermouth.ports.lake.lake_files import files_for, is_local, is_local_disk  # noqa: PLC0415
        from rivermouth.ports.lake.lease import TableLease  # noqa: PLC0415
        from rivermouth.ports.lake.storage_checks import check_fenced  # noqa: PLC0415

        check_fenced(spark, self.places)
        # On a mounted folder both of two who commit at the same moment may win.
        if not alone and (not is_local(self.location) or is_local_disk(self.location)):
            return nullcontext()
        files = files_for(self.places.lake, spark)
        return TableLease(files, self.places.lease_file, flow=self.flow, table=self.location)

    def newest_entry(self, reader: LakeReader) -> int | None:
        """Number of its newest ledger entry; None for dead letters, and where none is found."""
        if self.kind == "dead_letters":
            return None
        ledger = TableLedger(reader, self.location, self.places.ledger_file, flow=self.flow)
        newest = next(iter(ledger.newest(1)), None) or ledger.read_side_file()
        return None if newest is None else newest.entry.number


def tables_of(flow: Flow, places: FlowPlaces) -> tuple[FlowTable, FlowTable]:
    """The flow's table and that of its dead letters, whether they are there or not."""
    letters = f"{places.name}__dead_letters"
    return (
        FlowTable(places.name, places.table, flow.name, "rows", places),
        FlowTable(letters, places.dead_letter_table, flow.name, "dead_letters", places),
    )


@dataclass(frozen=True, slots=True)
class TableDescription:
    """What a table consists of. Sizes are bytes.

    Attributes:
        table: ``schema.table``.
        location: Its folder.
        flow: The flow that writes it.
        kind: Whether it has the flow's rows or its dead letters.
        exists: Whether it was made yet; if not, nothing else is known.
        version: Its newest version.
        operation: Delta's name for what made that version.
        committed_at: When, in seconds since the epoch.
        rows: Rows; None where a file's writer did not count them.
        deleted_rows: Rows that are only marked as deleted in their files.
        partition_by: Partition columns.
        cluster_by: Clustering columns.
        files: Data files.
        live_bytes: Of the data files and their deletion vectors.
        average_file_bytes: Of a data file.
        stored_bytes: Of all that lies in the folder, without the log.
        log_bytes: Of the log.
        unneeded_bytes: What VACUUM would delete now, with the retention that it has by default.
        histogram: The data files by size.
        entry: Number of the newest ledger entry; None for dead letters, and where the log has none.
        optimized_at: When rivermouth ran OPTIMIZE for it the last time, in seconds since the epoch; None if never.
        vacuumed_at: The same of VACUUM.
        reports: What the last runs came to, the newest first.
        advice: What would help, a sentence each.
    """

    table: str
    location: str
    flow: str
    kind: Literal["rows", "dead_letters"]
    exists: bool = False
    version: int | None = None
    operation: str | None = None
    committed_at: float | None = None
    rows: int | None = None
    deleted_rows: int = 0
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    files: int = 0
    live_bytes: int = 0
    average_file_bytes: int = 0
    stored_bytes: int = 0
    log_bytes: int = 0
    unneeded_bytes: int = 0
    histogram: tuple[SizeClass, ...] = ()
    entry: int | None = None
    optimized_at: float | None = None
    vacuumed_at: float | None = None
    reports: tuple[MaintenanceReport, ...] = ()
    advice: tuple[str, ...] = ()


def describe(reader: LakeReader, table: DescribedTable) -> TableDescription:
    """The table as its log and its folder show it. Reads only.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    named: dict[str, Any] = {
        "table": table.name,
        "location": table.location,
        "flow": table.flow,
        "kind": table.kind,
    }
    snapshot = read_snapshot(reader, table.location)
    if snapshot is None:
        return TableDescription(**named)
    return _described(reader, table, snapshot, named)


def _described(reader: LakeReader, table: DescribedTable, found: Snapshot, named: dict[str, Any]) -> TableDescription:
    stored, log_bytes = stored_files(reader, table.location)
    stored_bytes = sum(each.bytes for each in stored)
    now = time.time()
    free_now = sum(each.bytes for each in table_files.unneeded(found, stored, before=now - DEFAULT_RETAIN_S))
    # What is not needed by then, if nothing else is written.
    free_at_last = stored_bytes - found.live_bytes
    files = len(found.files)
    kept = reader.names(table.reports)
    return TableDescription(
        **named,
        exists=True,
        version=found.version,
        operation=found.operation,
        committed_at=found.committed_at,
        rows=found.rows,
        deleted_rows=sum(each.deleted_rows for each in found.files),
        partition_by=found.partition_by,
        cluster_by=found.cluster_by,
        files=files,
        live_bytes=found.live_bytes,
        average_file_bytes=round(sum(each.bytes for each in found.files) / files) if files else 0,
        stored_bytes=stored_bytes,
        log_bytes=log_bytes,
        unneeded_bytes=free_now,
        histogram=table_files.histogram(found.files),
        entry=table.newest_entry(reader),
        optimized_at=last_run(kept, "optimize", now),
        vacuumed_at=last_run(kept, "vacuum", now),
        reports=tuple(_reports(reader, table, kept)),
        advice=table_files.advice(
            table.name,
            found,
            stored_bytes,
            free_now=free_now,
            free_later=max(0, free_at_last - free_now),
            retain=duration_text(DEFAULT_RETAIN_S),
        ),
    )


def _reports(reader: LakeReader, table: DescribedTable, names: Sequence[str]) -> Iterator[MaintenanceReport]:
    for name in sorted(names)[: -_REPORTS - 1 : -1]:
        # One that is damaged says nothing, and stops nobody.
        with suppress(ValueError, KeyError, TypeError):
            yield MaintenanceReport.from_json(reader.read(f"{table.reports}/{name}") or "")
