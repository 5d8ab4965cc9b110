"""How the datasets of a pipeline are doing, read from the lake without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts
from rivermouth.domain.query.view_tree import table_name
from rivermouth.engine.flow.failures import read_failure
from rivermouth.engine.report.asked_cluster import furthest, whole_lag
from rivermouth.engine.report.status import failed_then
from rivermouth.engine.report.topic_ends import TopicEnds
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.running.known import UNSTARTED, KnownDataset, read_known
from rivermouth.pipelines.running.pipeline import file_name
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.query_ledger import QueryLedger, entry_in_side_file
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.lease import living_holder
from rivermouth.project.commands.checks.health import BrokenRule, age_broken, lag_broken, letters_broken

if TYPE_CHECKING:
    from rivermouth.domain.ledger.failures import Failure
    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.report.flow_status import PartitionStatus
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.project.commands.checks.health import HealthRules

    Logged = tuple[QueryEntry, Commit]
    """An entry, and the commit that has it."""

_BATCHES: Final = ("batch", "refresh")
_SERIES: Final = 10
"""The most batches of a flow, and the most commits that are read for them, where a dataset has expectations."""


@dataclass(frozen=True, slots=True)
class ExpectationBatch:
    """How the rows of one batch do with an expectation.

    Attributes:
        flow: The flow of the batch.
        entry: Number of its ledger entry.
        finished_at: When that was committed, in seconds since the epoch; None where the log does not show it.
        failed: Rows for which the condition was not TRUE.
        read: Rows that it was asked of.
    """

    flow: str
    entry: int
    finished_at: float | None
    failed: int
    read: int


@dataclass(frozen=True, slots=True)
class ExpectationStatus:
    """How rows do with one expectation.

    Attributes:
        name: Its name.
        condition: SQL of a boolean.
        action: ``warn``, ``drop``, ``fail`` or ``dead_letter``.
        failed_last: Rows of the last batch for which it was not TRUE.
        failed: The same of all batches since the table was made or cleared.
        read_last: Rows of the last batch that it was asked of.
        read: The same of all batches.
        view: The view whose rows they are; empty where they are rows for the table.
        batches: The last batches of all flows since the table was made or cleared, the newest first; at most ten that
            are in the log. Those of a view also from before it was last computed in full.
    """

    name: str
    condition: str
    action: str
    failed_last: int
    failed: int
    read_last: int = 0
    read: int = 0
    view: str = ""
    batches: tuple[ExpectationBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class DatasetFlowStatus:
    """How one flow into a dataset is doing.

    Attributes:
        flow: Its name.
        entry: Number of its newest ledger entry; None before the first batch.
        finished_at: When that was committed, in seconds since the epoch; None where the log does not show it.
        last_batch: Where the rows of its last batch went; None if there was none since the table was made or cleared.
        totals: The same of all batches since then.
        failure: Why it failed last; None if it did not, or has worked since.
        refresh: Of a view how it was refreshed last: ``append``, ``groups`` or ``full``.
        reason: Why it was.
        joined: By folder the versions of the Delta tables that the last batch of a stream was joined with, or newer
            ones.
        partitions: Of a query that reads Kafka where it is, by topic and partition.
        lag: Sum over the partitions; None if one is not known, or the query does not read Kafka.
        furthest_behind: The partition with the greatest lag; None if nothing lags or lags are not known.
    """

    flow: str
    entry: int | None = None
    finished_at: float | None = None
    last_batch: QueryCounts | None = None
    totals: QueryCounts = NO_COUNTS
    failure: Failure | None = None
    refresh: str = ""
    reason: str = ""
    joined: Mapping[str, int] = field(default_factory=dict)
    partitions: tuple[PartitionStatus, ...] = ()
    lag: int | None = None
    furthest_behind: PartitionStatus | None = None


@dataclass(frozen=True, slots=True)
class DatasetStatus:
    """How one table or sink of a pipeline is doing.

    Attributes:
        dataset: Its name, as the pipeline writes it.
        kind: ``streaming_table``, ``materialized_view`` or ``sink``.
        location: The folder of its table; empty for a sink.
        message: The most important thing about it, in one sentence.
        code: Stable code of what is wrong now; None if nothing is.
        hint: What to do about that; empty if there is nothing.
        flows: Those that write it.
        finished_at: When the last batch of any flow was committed, in seconds since the epoch.
        last_batch: Where its rows went; None if there was none.
        totals: The same of all batches of all flows, since the table was made or cleared.
        expectations: How rows do with each of them.
        lag: Offsets of Kafka that its flows have not read, an upper bound of the records; None if that is not known, or
            no flow reads Kafka.
        furthest_behind: The partition with the greatest lag; None if nothing lags or lags are not known.
    """

    dataset: str
    kind: str
    location: str
    message: str = ""
    code: str | None = None
    hint: str = ""
    flows: tuple[DatasetFlowStatus, ...] = ()
    finished_at: float | None = None
    last_batch: QueryCounts | None = None
    totals: QueryCounts = NO_COUNTS
    expectations: tuple[ExpectationStatus, ...] = ()
    lag: int | None = None
    furthest_behind: PartitionStatus | None = None

    @property
    def partitions(self) -> tuple[PartitionStatus, ...]:
        """Of its flows that read Kafka."""
        return tuple(part for each in self.flows for part in each.partitions)

    @property
    def failures(self) -> list[Failure]:
        """Of its flows."""
        return [each.failure for each in self.flows if each.failure is not None]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """How a pipeline is doing.

    Attributes:
        pipeline: Its name.
        message: One sentence about the pipeline itself.
        code: Stable code of what is wrong with the lake now; None if nothing is.
        hint: What to do about that; empty if there is nothing.
        failure: Why the last update ended before it refreshed a dataset; None if it did not.
        writer: The process that runs an update of it and lives; None if nobody does.
        datasets: Its tables and sinks, in the order in which they are refreshed.
    """

    pipeline: str
    message: str
    code: str | None = None
    hint: str = ""
    failure: Failure | None = None
    writer: str | None = None
    datasets: tuple[DatasetStatus, ...] = field(default=())

    @property
    def is_wrong(self) -> bool:
        """Whether something is not as it must be now."""
        return self.code is not None or any(each.code is not None for each in self.datasets)


def status(pipeline: Pipeline, *, timeout_s: float = 5.0, kafka_timeout_s: float = 1.0) -> PipelineStatus:
    """How the datasets of a pipeline are doing, by the ledgers of their tables. Reads only; Spark is not started.

    Args:
        pipeline: The pipeline.
        timeout_s: Bound on each answer of the lake, in seconds.
        kafka_timeout_s: Bound on each answer of Kafka. A cluster that missed it once is not asked again.

    Returns:
        The datasets that its newest update knew. Nothing is raised for the lake, a cluster or one table: its ``code``
        and ``message`` say it.
    """
    files = LakeReader(pipeline.project.spark_conf, timeout_s=timeout_s)
    found = PipelineStatus(pipeline.name, "")
    try:
        known = read_known(files, pipeline)
        failure = read_failure(files, pipeline.failures, UNSTARTED)
        writer = living_holder(files, pipeline.lease_file)
    except RivermouthError as error:
        return replace(found, message=error.message, code=error.code, hint=error.next_step)
    project = pipeline.project
    with TopicEnds(known.topics, project.bootstrap_servers, project.kafka_options(), kafka_timeout_s) as ends:
        datasets = tuple(_dataset(files, pipeline, each, ends) for each in known.datasets)
    if failure is not None:
        message = failed_then(failure)
    elif not datasets:
        message = "no update has run yet"
    else:
        wrong = sum(1 for each in datasets if each.code is not None or each.failures)
        message = f"{wrong} of {len(datasets)} datasets failed" if wrong else f"{len(datasets)} datasets, no failure"
    busy = None if writer is None else str(writer)
    return replace(found, message=message, failure=failure, writer=busy, datasets=datasets)


def _dataset(files: LakeFiles, pipeline: Pipeline, known: KnownDataset, ends: TopicEnds) -> DatasetStatus:
    found = DatasetStatus(known.dataset, known.kind, known.location)
    try:
        logged = {flow: _logged(files, known, flow) for flow in known.flows}
        read = [_flow(files, pipeline, known, flow, entries) for flow, entries in logged.items()]
    except RivermouthError as error:
        return replace(found, message=error.message, code=error.code, hint=error.next_step)
    flows, unknown = _with_lags(read, ends)
    batches = [each for each in flows if each.last_batch is not None]
    newest = max(batches, key=lambda each: each.finished_at or 0.0, default=None)
    last, totals = None if newest is None else newest.last_batch, sum((each.totals for each in flows), NO_COUNTS)
    found = replace(
        found,
        flows=flows,
        finished_at=None if newest is None else newest.finished_at,
        last_batch=last,
        totals=totals,
        expectations=tuple(
            expectation
            for view, said in {"": known.expectations, **known.views}.items()
            for expectation in _expectations(view, said, (last or NO_COUNTS, totals), _recent(logged.values()))
        ),
    )
    found = replace(
        found,
        lag=whole_lag(found.partitions) if found.partitions else None,
        furthest_behind=furthest(found.partitions),
    )
    if unknown is not None:
        return replace(found, message=unknown.message, code=unknown.code, hint=unknown.next_step)
    return replace(found, message=_message(found, newest))


def _with_lags(
    read: Sequence[tuple[DatasetFlowStatus, QueryEntry | None]], ends: TopicEnds
) -> tuple[tuple[DatasetFlowStatus, ...], RivermouthError | None]:
    """The flows with what they have not read of Kafka, and why that is not known."""
    flows, unknown = [], None
    for flow, entry in read:
        if entry is None:
            flows.append(flow)
            continue
        try:
            partitions = ends.partitions(entry)
        except RivermouthError as error:
            partitions, unknown = ends.unasked(entry), error
        lag = whole_lag(partitions) if partitions else None
        flows.append(replace(flow, partitions=partitions, lag=lag, furthest_behind=furthest(partitions)))
    return tuple(flows), unknown


def _logged(files: LakeFiles, known: KnownDataset, flow: str) -> list[Logged] | None:
    """The newest ledger entries of a flow that its table's log has: several where the dataset has expectations.

    None where there is no table; a sink has no log.
    """
    if known.kind == "sink":
        return []
    if not known.location or not delta_table.exists(files, known.location):
        return None
    count = _SERIES if known.expectations or known.views else 1
    ledger = _ledger(files, known, flow)
    found = ledger.entries(count, most_commits=_SERIES)
    # The last batch of a flow that runs once is before its end.
    return ledger.entries(count + 1, most_commits=_SERIES) if found and found[0][0].kind == "ended" else found


def _ledger(files: LakeFiles, known: KnownDataset, flow: str) -> QueryLedger:
    return QueryLedger(files, known.location, known.side_files[flow], flow=flow)


def _recent(logged: Iterable[list[Logged] | None]) -> list[Logged]:
    """The last batches of all flows since the table was made or cleared, the newest first."""
    found: list[Logged] = []
    for entries in logged:
        since = takewhile(lambda each: each[0].kind not in ("created", "cleared"), entries or ())
        found += [each for each in since if each[0].kind in _BATCHES]
    return sorted(found, key=lambda each: -(each[1].committed_at or 0.0))[:_SERIES]


def _expectations(
    view: str,
    said: Mapping[str, tuple[str, str]],
    last_and_totals: tuple[QueryCounts, QueryCounts],
    recent: Sequence[Logged],
) -> Iterator[ExpectationStatus]:
    def rows(counts: QueryCounts) -> QueryCounts:
        return counts.views.get(view, NO_COUNTS) if view else counts

    last, totals = map(rows, last_and_totals)
    for name, (condition, action) in said.items():
        batches = tuple(
            ExpectationBatch(entry.flow, entry.number, commit.committed_at, own.expectations.get(name, 0), own.read)
            for entry, commit, own in ((entry, commit, rows(entry.counts)) for entry, commit in recent)
        )
        failed_last, failed = last.expectations.get(name, 0), totals.expectations.get(name, 0)
        yield ExpectationStatus(name, condition, action, failed_last, failed, last.read, totals.read, view, batches)


def _message(found: DatasetStatus, newest: DatasetFlowStatus | None) -> str:
    if found.failures:
        return failed_then(found.failures[0])
    if found.kind == "sink" and newest is None:
        return "what a sink has been given only its checkpoint knows"
    if newest is None:
        return "no batch yet"
    if newest.refresh:
        return f"its last refresh is ledger entry {newest.entry}, {newest.refresh}: {newest.reason}"
    joined = (f", with table {table_name(place)} at version {version}" for place, version in newest.joined.items())
    return f"its last batch is ledger entry {newest.entry}{''.join(joined)}"


def _flow(
    files: LakeFiles, pipeline: Pipeline, known: KnownDataset, flow: str, logged: list[Logged] | None
) -> tuple[DatasetFlowStatus, QueryEntry | None]:
    """A flow with its newest ledger entry."""
    found = DatasetFlowStatus(flow, failure=read_failure(files, pipeline.failures, file_name(flow)))
    if logged is None:
        return found, None
    newest = next((each for each in logged if each[0].kind != "ended"), logged[0]) if logged else None
    entry = entry_in_side_file(files, _ledger(files, known, flow)) if newest is None else newest[0]
    if entry is None:
        return found, None
    found = replace(
        found,
        entry=entry.number,
        finished_at=None if newest is None else newest[1].committed_at,
        last_batch=entry.counts if entry.kind in _BATCHES or (entry.kind == "ended" and entry.totals.read) else None,
        totals=entry.totals,
        refresh=entry.refreshed,
        reason=entry.reason,
        joined=entry.sources if entry.kind == "batch" else {},
    )
    return found, entry


def broken_rules(
    statuses: Sequence[PipelineStatus], rules: HealthRules, *, now_s: float | None = None
) -> list[BrokenRule]:
    """The rules that pipelines do not keep; those about lag and age are asked of tables that have read from Kafka."""
    now_s = time.time() if now_s is None else now_s
    return [rule for each in statuses for rule in _broken(each, rules, now_s)]


def _broken(found: PipelineStatus, rules: HealthRules, now_s: float) -> Iterator[BrokenRule]:
    if found.code is not None:
        yield BrokenRule(found.pipeline, "error", f"[{found.code}] {found.message}")
    if found.failure is not None:
        yield BrokenRule(found.pipeline, "last_run", failed_then(found.failure))
    for each in found.datasets:
        if each.code is not None:
            yield BrokenRule(each.dataset, "error", f"[{each.code}] {each.message}")
        for failure in each.failures:
            yield BrokenRule(each.dataset, "last_run", failed_then(failure))
        if each.partitions:
            of_kafka = (*lag_broken(each.lag, rules), *age_broken(each.lag, each.finished_at, rules, now_s))
            yield from (BrokenRule(each.dataset, rule, detail) for rule, detail in of_kafka)
        for rule, detail in letters_broken(each.totals.dead_lettered, each.totals.read, "rows", rules):
            yield BrokenRule(each.dataset, rule, detail)
