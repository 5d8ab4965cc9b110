"""Whether a pipeline's tables have what their ledgers say, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.ledger_rules import broken_rules
from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts, QueryEntry, is_replay
from rivermouth.pipelines.running.known import KnownDataset, read_known
from rivermouth.pipelines.running.pipeline import file_name
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_log import read_snapshot
from rivermouth.ports.lake.archive_reader import SPARK_LOG, ArchiveFiles, Manifest, read_archive
from rivermouth.ports.lake.lake_reader import LakeReader

if TYPE_CHECKING:
    from rivermouth.domain.delta.table_files import Snapshot
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.ports.delta.delta_table import Commit

_TIMEOUT_S: Final = 20.0
_NOTHING: Final = "the rows that this sink was given are stored nowhere else"
_NO_PARQUET: Final = "rows of files that are no Parquet are not counted, as that needs Spark"
_OF_SPARK: Final = "Spark's own log says which files are committed, and it has no counts"


@dataclass(frozen=True, slots=True)
class DatasetAudit:
    """What an audit found of one table or sink of a pipeline.

    Attributes:
        dataset: Its name, as the pipeline writes it.
        kind: ``streaming_table``, ``materialized_view`` or ``sink``.
        location: The folder of its table, or of the archive of a sink of files; empty for sinks that are not audited.
        entries: Ledger entries that were read, of all flows.
        counts: Where rows went since the table was made or cleared; of a materialized view those of the last refresh.
        rows: Rows of the table or of the archive now; None where they are not known.
        dead_letters: Rows in its dead letters, whatever became of them; None where that cannot be counted.
        not_compared: Why rows and ledger could not be compared, a sentence each.
        problems: What is not as the ledger says, a sentence each.
    """

    dataset: str
    kind: str
    location: str
    entries: int = 0
    counts: QueryCounts = NO_COUNTS
    rows: int | None = None
    dead_letters: int | None = None
    not_compared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Log:
    """What the commits of a table come to.

    Attributes:
        entries: By flow its ledger entries, the oldest first.
        rows: How many rows the table must have; None where the commits do not show it.
        why: Why they do not show it.
        foreign: Which commit of somebody else changed rows that are still there.
        problems: Commits that have other rows than their entry says.
        replaced: By flow its newest entry that replaced all rows.
    """

    entries: dict[str, list[QueryEntry]] = field(default_factory=dict)
    rows: int | None = None
    why: str = "the log no longer has all commits of the table"
    foreign: str = ""
    problems: list[str] = field(default_factory=list)
    replaced: dict[str, int] = field(default_factory=dict)


def audited(pipeline: Pipeline) -> list[DatasetAudit]:
    """Compares tables, dead letters and ledgers of a pipeline. Reads only; may run while an update runs.

    Of each entry that the table's log still has: ``read = written + dropped + dead_lettered``; the entries follow each
    other; the totals add up; offsets of Kafka do not go back; its commit has as many rows as it says. The table and its
    dead letters have as many rows as the entries say, where nobody else changed rows. Of a view that is a problem.
    Of a sink of files: each file of a manifest is there, no other one is, and Parquet has as many rows as its entry
    says. Of other sinks there is nothing to compare.

    Args:
        pipeline: The pipeline.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
        LedgerTooNew, LedgerUnreadable: An entry cannot be read.
    """
    reader = LakeReader(pipeline.project.spark_conf, timeout_s=_TIMEOUT_S)
    return [
        _audited(reader, known) if known.location else _sink(reader, known, pipeline.name)
        for known in read_known(reader, pipeline).datasets
    ]


def _sink(reader: LakeReader, known: KnownDataset, pipeline: str) -> DatasetAudit:
    why = _not_audited(reader, known)
    if why is not None:
        return DatasetAudit(known.dataset, known.kind, "", not_compared=(why,))
    found = _archived(reader, known, pipeline)
    return DatasetAudit(
        known.dataset,
        known.kind,
        known.archive,
        entries=len(found.entries),
        counts=sum((each.counts for each in found.entries), NO_COUNTS),
        rows=found.rows,
        not_compared=found.not_compared,
        problems=found.problems,
    )


def _audited(reader: LakeReader, known: KnownDataset) -> DatasetAudit:
    snapshot = read_snapshot(reader, known.location)
    if snapshot is None:
        return DatasetAudit(known.dataset, known.kind, known.location)
    log = _read_log(reader, known.location, until=snapshot.version)
    problems = [each for entries in log.entries.values() for each in broken_rules(entries)] + log.problems
    if log.foreign and known.kind == "materialized_view":
        problems.append(f"{log.foreign}, and changed its rows; its next refresh is full")
    not_compared = [] if log.rows is not None and snapshot.rows is not None else [log.why]
    if log.rows is not None and snapshot.rows is not None and log.rows != snapshot.rows:
        problems.append(f"the table has {snapshot.rows:,} rows, and its ledgers say {log.rows:,}")
    letters = _letters(reader, known.dead_letters)
    if letters is None:
        not_compared.append("rows of the dead letters cannot be counted without their deletion vectors")
    else:
        problems += _letter_problems(log, letters)
        not_compared += _waiting(log, letters)
    return DatasetAudit(
        known.dataset,
        known.kind,
        known.location,
        entries=sum(map(len, log.entries.values())),
        counts=sum((entries[-1].totals for entries in log.entries.values()), NO_COUNTS),
        rows=snapshot.rows,
        dead_letters=None if letters is None else sum(letters.values()),
        not_compared=tuple(not_compared),
        problems=tuple(problems),
    )


def _read_log(reader: LakeReader, location: str, *, until: int) -> _Log:
    log = _Log()
    for version in delta_table.commit_versions(reader, location):
        commit = delta_table.read_commit(reader, location, version) if version <= until else None
        if commit is not None:
            _follow(log, commit, location)
    return log


def _follow(log: _Log, commit: Commit, location: str) -> None:
    """Takes one more commit into account."""
    text = commit.user_metadata or ""
    entry = QueryEntry.from_json(text, table=location, version=commit.version) if text else None
    rows = commit.rows_written
    if entry is not None:
        log.entries.setdefault(entry.flow, []).append(entry)
        _count(log, entry, commit)
    elif commit.version == 0 and not commit.changes_data:
        log.rows = 0
    elif is_replay(text) and rows is not None:
        log.rows = None if log.rows is None else log.rows + rows
    elif commit.changes_data:
        log.foreign = f"version {commit.version} ({commit.operation}) is of no flow of the pipeline"
        log.rows, log.why = None, log.foreign


def _count(log: _Log, entry: QueryEntry, commit: Commit) -> None:
    rows = commit.rows_written
    if entry.kind == "cleared":
        log.rows = 0
    elif commit.operation == "MERGE" and entry.kind == "refresh":
        _add(log, entry, commit.metrics.get("numTargetRowsInserted"), commit.metrics.get("numTargetRowsDeleted"))
    elif commit.operation != "WRITE" and commit.changes_data:
        log.rows, log.why = None, "changes are merged by key, so entries do not say how many rows there are"
    elif commit.operation == "WRITE" and rows is not None and entry.kind in ("batch", "refresh"):
        if commit.replaces_all:
            log.rows, log.foreign = 0, ""
            log.replaced[entry.flow] = entry.number
        _add(log, entry, rows, 0)


def _add(log: _Log, entry: QueryEntry, written: int | None, deleted: int | None) -> None:
    """Adds the rows of a commit, which must be those of its entry."""
    if written is None or deleted is None:
        log.rows, log.why = None, "a commit does not say how many rows it changed"
        return
    if written != entry.counts.written:
        said = f"says {entry.counts.written:,} rows written, and its commit has {written:,}"
        log.problems.append(f"entry {entry.number} of {entry.flow} {said}")
    if log.rows is not None:
        log.rows += written - deleted


def _letters(reader: LakeReader, location: str) -> Counter[tuple[str, int]] | None:
    """By flow and entry the rows of the dead letters; None where some are only marked as deleted."""
    snapshot = read_snapshot(reader, location)
    if snapshot is None:
        return Counter()
    if any(each.deleted_rows for each in snapshot.files):
        return None
    return Counter(_letter_rows(reader, location, snapshot))


def _letter_rows(reader: LakeReader, location: str, snapshot: Snapshot) -> Iterator[tuple[str, int]]:
    for file in snapshot.files:
        for row in reader.parquet(f"{location}/{file.path}", ("flow", "entry")):
            yield row["flow"], row["entry"]


def _letter_problems(log: _Log, letters: Mapping[tuple[str, int], int]) -> Iterator[str]:
    """Entries whose dead letters are more or fewer than they say.

    Dead letters are written after the entry of their batch. Those of the newest one may come with the next update.
    Those of entries whose rows a later one has replaced are deleted, but for records that were not decoded.
    """
    for flow, entries in log.entries.items():
        replaced = log.replaced.get(flow, -1)
        for entry in entries:
            there, said = letters.get((flow, entry.number), 0), entry.counts.dead_lettered
            if there <= said and entry.number < replaced:
                continue
            if there != said and (there or entry is not entries[-1]):
                yield f"entry {entry.number} of {flow} says {said:,} rows dead-lettered, and there are {there:,}"


def _waiting(log: _Log, letters: Mapping[tuple[str, int], int]) -> Iterator[str]:
    for flow, entries in log.entries.items():
        if entries[-1].counts.dead_lettered and (flow, entries[-1].number) not in letters:
            yield f"the dead letters of entry {entries[-1].number} of {flow} come with the next update"


@dataclass(frozen=True, slots=True)
class _ArchiveAudit:
    """What an audit found of a sink of files.

    Attributes:
        entries: The ledger entries in its manifests.
        rows: Of its files; None where they are no Parquet.
        not_compared: Why rows and ledger could not be compared.
        problems: What is not as the ledger says, a sentence each.
    """

    entries: tuple[QueryEntry, ...] = ()
    rows: int | None = None
    not_compared: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def _not_audited(reader: LakeReader, known: KnownDataset) -> str | None:
    """Why a sink cannot be compared with anything; None for an archive of files with manifests."""
    if not known.archive:
        return _NOTHING
    return _OF_SPARK if reader.names(f"{known.archive}/{SPARK_LOG}") else None


def _archived(reader: LakeReader, known: KnownDataset, pipeline: str) -> _ArchiveAudit:
    """What is found of a sink of files with manifests.

    Args:
        reader: Of the place of the archive.
        known: The sink.
        pipeline: The name of the pipeline.

    Raises:
        LakeNotReadable: The store does not answer, or refuses.
    """
    all_entries: list[QueryEntry] = []
    problems: list[str] = []
    rows: int | None = 0
    for flow in known.flows:
        found = read_archive(reader, known.archive, file_name(f"{pipeline}.{flow}"))
        entries = [entry for _, entry in _manifest_entries(found, known.archive)]
        counted = _rows_by_manifest(reader, known.archive, found)
        problems += [*found.problems(), *broken_rules(entries)]
        if counted is not None:
            problems += _row_problems(found, known.archive, counted)
        rows = None if counted is None or rows is None else rows + sum(counted.values())
        all_entries += entries
    return _ArchiveAudit(tuple(all_entries), rows, () if rows is not None else (_NO_PARQUET,), tuple(problems))


def _manifest_entries(found: ArchiveFiles, place: str) -> Iterator[tuple[Manifest, QueryEntry]]:
    for manifest in found.manifests:
        entry = QueryEntry.from_json(manifest.entry, table=place, version=-1)
        if entry is not None:
            yield manifest, entry


def _rows_by_manifest(reader: LakeReader, place: str, found: ArchiveFiles) -> dict[int, int] | None:
    """How many rows the files of each manifest have; None where a file is no Parquet."""
    if any(each.files and each.format != "parquet" for each in found.manifests):
        return None
    return {
        each.number: sum(reader.parquet_rows(f"{place}/{path}") for path in each.files if path in found.there)
        for each in found.manifests
    }


def _row_problems(found: ArchiveFiles, place: str, counted: dict[int, int]) -> Iterator[str]:
    for manifest, entry in _manifest_entries(found, place):
        said, rows = entry.counts.written if entry.kind == "batch" else 0, counted[manifest.number]
        if rows != said:
            yield f"archive: the files of entry {entry.number} of {entry.flow} have {rows:,} rows, and it says {said:,}"
