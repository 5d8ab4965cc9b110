"""How flows are doing, without a Spark session: compares their ledgers with the end offsets in Kafka.

A ledger is read from the table's own log, so the status shows what the table holds. If a cluster does not answer, only
what is asked of it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.delta.merge_report import MergeReport
from rivermouth.domain.ledger import decisions
from rivermouth.domain.ledger.data_loss import KafkaState
from rivermouth.domain.ledger.dropping import dropped_by
from rivermouth.domain.ledger.failures import Failure
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.project.snapshot_location import SnapshotPlace
from rivermouth.domain.project.table_per_topic import deleted_topic, is_child
from rivermouth.engine.flow.failures import read_failure
from rivermouth.engine.flow.lost_state import deleted_text, lost_at, lost_before
from rivermouth.engine.report.asked_cluster import AskedCluster, furthest, partition_statuses, whole_lag
from rivermouth.engine.report.flow_status import FlowStatus, PartitionStatus
from rivermouth.errors import RivermouthError, SourceNotMade, TableForeign, TopicMissing
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.lease import living_holder
from rivermouth.ports.sources.snapshot_source import SnapshotSource
from rivermouth.ports.sources.table_source import TableSource

if TYPE_CHECKING:
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.domain.project.source_table import SourceTable
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow

_Ask = Callable[[Callable[["OffsetSource"], "FlowStatus"]], "FlowStatus"]

RATE_WINDOW_S: Final = 60.0
NEAR_START: Final = 0.1
"""A flow is near the start of a log if less than this part of what Kafka holds lies before it."""
_THREADS: Final = 8
_NO_BATCH: Final = ("maintenance", "forget")


def project_status(
    flows: Sequence[tuple[Flow, FlowPlaces]],
    *,
    bootstrap_servers: str,
    options: Mapping[str, str],
    spark_conf: Mapping[str, str] | None = None,
    sources: Mapping[str, SourceTable | SnapshotPlace] | None = None,
    timeout_s: float = 1.0,
) -> list[FlowStatus]:
    """How the flows of one project are doing, in the order given; changes nothing.

    Args:
        flows: With their places; references to the environment are resolved.
        bootstrap_servers: The cluster.
        options: Its client options, resolved.
        spark_conf: The project's Spark options, resolved; for the credentials of a lake in an object store.
        sources: The tables that flows read instead of the cluster, by the flow's name.
        timeout_s: Bound on the cluster's first answer and on each answer of the lake. A cluster that missed
            it once is not asked again.

    Returns:
        A status a flow. Nothing is raised for one flow, its lake or its cluster: its ``message`` says it.
    """
    files = LakeReader(spark_conf or {}, timeout_s=timeout_s)
    with AskedCluster(bootstrap_servers, options, timeout_s) as cluster, ThreadPoolExecutor(_THREADS) as pool:

        def one(pair: tuple[Flow, FlowPlaces]) -> FlowStatus:
            flow, places = pair
            source = (sources or {}).get(flow.name)
            if source is None:
                return _flow_status(flow, places, files, cluster.ask)
            table: OffsetSource
            if isinstance(source, SnapshotPlace):
                table = SnapshotSource(source, files, reader=flow.name)
            else:
                table = TableSource(source, files, reader=flow.name)
            return _flow_status(flow, places, files, lambda question: question(table))

        return list(pool.map(one, flows))


def _flow_status(flow: Flow, places: FlowPlaces, files: LakeFiles, ask: _Ask) -> FlowStatus:
    status = FlowStatus(flow.name, places.table, trigger_s=flow.trigger.every)
    try:
        writer = living_holder(files, places.lease_file)
        position, problem = _position(flow, places, files)
        status = replace(
            status,
            failure=read_failure(files, places.failures, flow.name),
            state_lost=None if position is None else lost_before(files, places),
        )
        deleted = position is not None and lost_at(flow, files, places) is not None
    except RivermouthError as error:
        return _failed(status, error)
    status = replace(status, writer=None if writer is None else str(writer))
    if position is not None:
        status = _with_ledger(status, position)
        status = replace(status, dropped_by=dropped_by(flow, status.totals))
    if problem is not None:
        status = _failed(status, problem)
        if position is None:
            return status
    # The next run counts the last batch again also without what Kafka does not hold any more.
    expected = replace(position, counts=position.counts or Counts()) if position and deleted else position
    try:
        status = ask(lambda kafka: _with_kafka(status, flow, expected, kafka))
    except SourceNotMade as error:
        return replace(_failed(status, error), code=None, hint="") if position is None else _failed(status, error)
    except TopicMissing as error:
        known = position.entry.next_offsets if position is not None else {}
        status = replace(status, partitions=partition_statuses(known, {}, _reads(flow)))
        if position is None or not is_child(flow.name):
            return _failed(status, error)
        return replace(status, message=status.message or f"{deleted_topic(flow)}; its table stays as it is")
    except RivermouthError as error:
        known = position.entry.next_offsets if position is not None else {}
        status = replace(_failed(status, error), partitions=partition_statuses(known, {}, _reads(flow)))
    if deleted:
        status = replace(status, warnings=(deleted_text(places), *status.warnings))
    return status if status.code is not None else replace(status, message=_message(status, flow))


def _position(flow: Flow, places: FlowPlaces, files: LakeFiles) -> tuple[LedgerPosition | None, RivermouthError | None]:
    """The position of the ledger, and what is wrong with it; neither where there is no table yet.

    Where the table's log has no entry, the side file is read: it is behind by one batch at most.
    """
    if not delta_table.exists(files, places.table):
        return None, None
    ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    try:
        return ledger.position(), None
    except RivermouthError as error:
        side = ledger.read_side_file()
        if side is None or side.entry.flow not in {flow.name, flow.previously}:
            return None, error
        # A log that holds no entry may just have been cleaned; a run looks into the snapshot.
        return side, None if isinstance(error, TableForeign) else error


def _with_ledger(status: FlowStatus, position: LedgerPosition) -> FlowStatus:
    entry, report = position.entry, position.report or {}
    counts = position.counts or Counts()
    totals = entry.totals + counts
    return replace(
        status,
        entry=entry.number,
        processing_rate=report.get("rows_per_s"),
        batch_duration_s=report.get("duration_s"),
        finished_at=report.get("finished_at"),
        merge=MergeReport.from_json(report.get("merge")),
        undeclared_names=report.get("undeclared_names", {}),
        last_batch=position.counts if entry.number > 0 and entry.kind not in _NO_BATCH else None,
        pending=position.counts is None and bool(entry.unsettled),
        totals=totals,
        dead_letters=totals.dead_lettered,
        lost=totals.lost,
        decisions=entry.decisions,
        lookups=entry.lookups,
    )


def _with_kafka(status: FlowStatus, flow: Flow, position: LedgerPosition | None, kafka: OffsetSource) -> FlowStatus:
    topics = kafka.topics(flow)
    ends = kafka.end_offsets(topics)
    first = kafka.beginning_offsets(topics)
    if position is None:
        known = kafka.resolve_starting(flow, topics)
    else:
        entry = position.entry.next_offsets
        # A partition that the ledger does not know begins at its earliest.
        known = {name: {**first[name], **entry.get(name, {})} for name in topics}
    earlier = kafka.offsets_at(topics, int((time.time() - RATE_WINDOW_S) * 1000))
    partitions = partition_statuses(known, ends, {name: topic.partitions for name, topic in topics.items()})
    status = replace(
        status,
        partitions=partitions,
        lag=whole_lag(partitions),
        furthest_behind=furthest(partitions),
        input_rate=None if earlier is None else round(max(0, _sum(ends) - _sum(earlier)) / RATE_WINDOW_S, 3),
        warnings=_warnings(partitions, first, ends),
    )
    if position is None or status.code is not None:
        return status
    # An open transaction ends what can be read; the log itself goes on.
    whole, last = not flow.assign, kafka.end_offsets(topics, "read_uncommitted")
    place = "Kafka" if flow.source is None else flow.source.shown
    found = KafkaState({name: topic.id for name, topic in topics.items()}, first, last, whole=whole, place=place)
    records = flow.on_data_loss == "record"
    try:
        result = decisions.foreseen(flow.name, position.entry, position.needed, found, records=records, at="")
    except RivermouthError as error:
        return _failed(_without_lags(status), error)
    if result is None:
        return status
    said = (f"{decisions.FORESEEN}: {decisions.text(each)}" for each in result.decisions)
    return replace(_without_lags(status), warnings=(*status.warnings, *said))


def _sum(offsets: Offsets) -> int:
    return sum(offset for parts in offsets.values() for offset in parts.values())


def _without_lags(status: FlowStatus) -> FlowStatus:
    """Where data is gone, nobody knows how much is left to read: an offset of another log says nothing."""
    partitions = tuple(replace(part, lag=None) for part in status.partitions)
    return replace(status, partitions=partitions, lag=None, furthest_behind=None)


def _reads(flow: Flow) -> Mapping[str, tuple[int, ...]] | None:
    """The partitions of a flow as far as it says so itself; None if only Kafka knows its topics."""
    if flow.assign:
        return flow.assign
    return dict.fromkeys(flow.topics, ()) if flow.topics else None


def _warnings(partitions: Sequence[PartitionStatus], first: Offsets, ends: Offsets) -> tuple[str, ...]:
    """Partitions whose unread records Kafka is about to drop, as far as that can be seen from offsets."""
    found = []
    for part in partitions:
        start = first.get(part.topic, {}).get(part.partition)
        if start is None or part.next_offset is None or not part.lag:
            continue
        ahead, retained = part.next_offset - start, ends[part.topic][part.partition] - start
        # A log that begins at 0 was never cut.
        if start > 0 and 0 <= ahead < NEAR_START * retained:
            found.append(
                f"{part.topic} partition {part.partition} is about to lose unread records: the flow is {ahead} "
                f"offsets behind the first of {retained} that Kafka holds"
            )
    return tuple(found)


def _failed(status: FlowStatus, error: RivermouthError) -> FlowStatus:
    if status.code is not None:
        return status
    return replace(status, message=error.message, code=error.code, hint=error.next_step)


def failed_then(failure: Failure) -> str:
    """Why a flow's last run failed, with the time."""
    at = failure.at.replace("T", " ").removesuffix("+00:00")
    return f"its last run failed at {at} UTC: [{failure.code}] {failure.message}"


def _message(status: FlowStatus, flow: Flow) -> str:
    if status.failure is not None:
        return failed_then(status.failure)
    if status.entry is None and flow.infers:
        # A run that found no value has made no table.
        return (
            f"no table yet: the schema is inferred from the first values; would start at {flow.starting_offsets.text()}"
        )
    if status.entry is None:
        return f"never ran; would start at {flow.starting_offsets.text()}"
    if status.pending:
        who = "the next start completes them" if status.writer is None else "its writer is completing it"
        return f"the counts of the last batch are pending: {who}"
    if status.lag is None:
        return "how much is left to read is not known"
    if not status.lag:
        return "up to date"
    if status.writer is None:
        return f"{status.lag} offsets behind, and no process writes the table"
    slow = status.batch_duration_s is not None and status.batch_duration_s > status.trigger_s
    if slow and status.input_rate and status.processing_rate and status.input_rate > status.processing_rate:
        return f"{status.lag} offsets behind and falling back: records come faster than they are written"
    return f"{status.lag} offsets behind"
