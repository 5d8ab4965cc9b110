"""Whether the archive or the topic of a flow's sink has the rows that its ledger and its table say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from rivermouth.domain.ledger.ledger import Entry
from rivermouth.engine.audit.audit_topics import audit_topic
from rivermouth.engine.batch.deliver import DELIVERS, archive_of
from rivermouth.errors import first_line
from rivermouth.ports.lake.archive_reader import read_archive
from rivermouth.ports.lake.archive_rows import rows_by_batch
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.sinks.files import FilesSink
from rivermouth.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger


@dataclass(frozen=True, slots=True)
class SinkAudit:
    """What an audit found of the topic or the archive of a flow's sink.

    Attributes:
        type: ``kafka`` or ``files``, as the flow's file says.
        place: The topic, empty where a column names it; or the folder of the archive.
        batches: Manifests of the archive; 0 of a topic.
        files: Files that they list; 0 of a topic.
        rows: Rows of the files that were compared with the ledger, or records of the topic that say which rows they
            are; None if none was compared.
        not_compared: What was not compared, and why, a sentence each.
        problems: What is not as the ledger says, a sentence each.
    """

    type: str
    place: str
    batches: int = 0
    files: int = 0
    rows: int | None = None
    not_compared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def audit_sink(run: FlowRun, ranges: Ranges) -> SinkAudit | None:
    """What is found of a flow's sink; None of a flow that only has a table. Reads only.

    Of an archive: each file of a manifest is there, no other file of the flow is, and the files of each ledger entry
    have as many rows as the entry brought into the table. An entry that is not in the archive yet is no problem. Of a
    topic what ``audit_topic`` says.

    Args:
        run: The flow.
        ranges: The audited offsets of what it reads.
    """
    sink = run.sink
    if isinstance(sink, KafkaSink):
        found = audit_topic(run, sink, ranges)
        return SinkAudit(
            "kafka", sink.topic or "", rows=found.records, not_compared=found.not_compared, problems=found.problems
        )
    return _audit_archive(run, sink) if isinstance(sink, FilesSink) else None


def _audit_archive(run: FlowRun, sink: FilesSink) -> SinkAudit:
    archive = archive_of(run.places, sink)
    found = read_archive(files_for(archive.location, run.spark), archive.location, run.flow.name)
    numbers = {each.number: _entry_number(each.entry, archive.location) for each in found.manifests}
    expected = _expected_rows(run.ledger, run.position)
    comparable = {number: entry for number, entry in numbers.items() if number and entry in expected}
    there = [
        path for each in found.manifests if each.number in comparable for path in each.files if path in found.there
    ]
    problems = [*found.problems()]
    rows: int | None = None
    try:
        counted = rows_by_batch(run.spark, archive, there)
    except PySparkException as error:
        problems.append(f"archive: its files cannot be read: {first_line(error)}")
    else:
        rows = sum(counted.values())
        problems += _row_problems(comparable, expected, counted)
    problems += _undelivered_before(numbers, expected)
    return SinkAudit(
        "files",
        archive.location,
        batches=len(found.manifests),
        files=sum(len(each.files) for each in found.manifests),
        rows=rows,
        not_compared=tuple(_not_compared(numbers, comparable, expected)),
        problems=tuple(problems),
    )


def _entry_number(text: str, place: str) -> int:
    entry = Entry.from_json(text, table=place, version=-1)
    return -1 if entry is None else entry.number


def _expected_rows(ledger: TableLedger, position: LedgerPosition) -> dict[int, int]:
    """By number of the entries that the log has: how many rows each brought into the table."""
    newest = position.entry
    entries = [each.entry for each in ledger.newest() if each.entry.number < newest.number] + [newest]
    entries.sort(key=lambda each: each.number)
    after = [each.totals for each in entries[1:]]
    if position.counts is not None:
        after.append(newest.totals + position.counts)
    rows = {}
    for entry, totals in zip(entries, after, strict=False):
        counts = totals - entry.totals
        rows[entry.number] = counts.written + counts.replayed if entry.kind in DELIVERS else 0
    return rows


def _row_problems(
    comparable: Mapping[int, int], expected: Mapping[int, int], counted: Mapping[int, int]
) -> Iterator[str]:
    for number, entry in comparable.items():
        rows = counted.get(number, 0)
        if rows != expected[entry]:
            said = f"have {rows:,} rows, and the ledger says {expected[entry]:,}"
            yield f"archive: the files of ledger entry {entry} {said}"


def _undelivered_before(numbers: Mapping[int, int], expected: Mapping[int, int]) -> Iterator[str]:
    """Entries that were passed over: later ones are in the archive."""
    if not numbers:
        return
    first, last = min(numbers.values()), max(numbers.values())
    for entry, rows in expected.items():
        if first < entry < last and rows and entry not in numbers.values():
            yield f"archive: the {rows:,} rows of ledger entry {entry} are in no manifest"


def _not_compared(
    numbers: Mapping[int, int], comparable: Mapping[int, int], expected: Mapping[int, int]
) -> Iterator[str]:
    last = max(numbers.values(), default=-1)
    waiting = [entry for entry, rows in expected.items() if entry > last and rows]
    if waiting:
        yield f"the rows of ledger entries from {min(waiting)} on: the next run writes them into the archive"
    unknown = [entry for number, entry in numbers.items() if number and number not in comparable]
    before = [entry for entry in unknown if entry < min(expected, default=0)]
    if before:
        yield f"rows of ledger entries up to {max(before)}: the table's log no longer has these entries"
