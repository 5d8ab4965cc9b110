"""Checks that each record is in exactly one place: compares Kafka, the table, its dead letters and its ledger."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import audit_window, offset_ranges
from rivermouth.domain.ledger.audit_window import Tally, Window
from rivermouth.domain.ledger.data_loss import problem
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.ledger.lost_state import ERASED_RECORDS, LostState
from rivermouth.domain.ledger.offset_ranges import Ranges
from rivermouth.engine.audit import audit_exploded, audit_keyed
from rivermouth.engine.audit.audit_sinks import SinkAudit, audit_sink
from rivermouth.engine.batch import pipeline
from rivermouth.engine.batch.pipeline import as_coordinates, rows_within, transformed, with_epoch
from rivermouth.engine.data_loss.decide import found_of
from rivermouth.engine.flow.flow_inputs import FlowInputs, OpenSource
from rivermouth.engine.flow.lost_state import lost_at, lost_before, lost_with
from rivermouth.engine.open.open_flow import load_flow
from rivermouth.engine.open.sources import reading
from rivermouth.engine.schema.kept_schemas import resolved_schema
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import AuditDisturbed, OffsetsExpired
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.ports.lake.storage_checks import check_same_place
from rivermouth.ports.spark.session import for_few_rows, for_flow
from rivermouth.rows import envelope, explode, routing
from rivermouth.rows.columns.epochs import epoch_now
from rivermouth.side_tables.erased_records import ENTRY, whole, without

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.engine.events import Event
    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.ports.delta.table_ledger import TableLedger
    from rivermouth.ports.sources.protocols import OffsetSource, RecordSource
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.spec import Flow

_WAITS_S: Final = (2.0, 10.0, 0.0)
_COMMITTED: Final[Mapping[str, str]] = {"isolation.level": "read_committed"}
_MOVING: Final = ("replay", "decision", "forget")
_UNFINISHED: Final = ("replay", "forget")
_REPLAYING: Final = "dead letters were replayed, records erased, or something was decided,"
_EXPIRING: Final = "Kafka dropped records"
_EXAMPLES: Final = 5
_FEW: Final = 100_000
"""Number of offsets. Processing up to this number of records takes less time than generating code for them."""
_PLACES: Final = ("kafka", "table", "letters", "erased")
_KEYS: Final = (names.TOPIC, names.PARTITION, names.OFFSET)

_IN_NEITHER: Final = "kafka > 0 AND table = 0 AND letters = 0 AND erased = 0"
_DOUBLED: Final = "table + letters > 1"
_BACK: Final = "table + letters > 0 AND erased > 0"


@dataclass(frozen=True, slots=True)
class FlowAudit:
    """What an audit of one flow found.

    Attributes:
        flow: Its name.
        table: Location of its table.
        place: What the records were compared with: Kafka, or the table that the flow reads.
        entry: Number of the newest ledger entry; None for a flow that never ran.
        since: Number of the entry after which the audited batches begin.
        until: Number of the last audited entry: the newest, or the one before while that is not complete.
        ranges: The audited offsets.
        not_audited: Offsets that the flow read before, as far as that is known: Kafka holds them no more, or
            something was decided since. Where the table's log was cleaned it does not have them all.
        counted: What the ledger says of the audited batches.
        found: What is there.
        compacted: Topics whose records Kafka may have taken away since by compaction; their rows are no finding.
        problems: What is wrong, in words; empty if every record is in exactly one place.
        state_lost: What is not known any more of these batches, where something is in a wrong place and the state of
            the flow in the lake was deleted.
        examples: ``topic-partition:offset`` of some records in the wrong place; of elements with ``:position``.
        sink: What was found of the topic or the archive of the flow's sink; None if it only has a table.
    """

    flow: str
    table: str
    place: str = "Kafka"
    entry: int | None = None
    since: int = 0
    until: int = 0
    ranges: Ranges = field(default_factory=dict)
    not_audited: Ranges = field(default_factory=dict)
    counted: Counts = field(default_factory=Counts)
    found: Tally = field(default_factory=Tally)
    compacted: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    state_lost: LostState | None = None
    examples: tuple[str, ...] = ()
    sink: SinkAudit | None = None


def audit_flow(spark: SparkSession, job: FlowJob) -> FlowAudit:
    """Holds the flow's table and dead letters against what Kafka shows, record by record, and the ledger's counts.

    A flow may run meanwhile: only batches that were complete at the beginning are looked at.

    Raises:
        AuditDisturbed: Records changed their places meanwhile, again and again, or a replay was cut off.
        RivermouthError: What else keeps a run from its table or its topics.

    Guarantees:
        Reads only.
    """
    session = for_flow(spark)
    check_same_place(session, job.places)
    if not delta_table.exists(PlacedFiles(session), job.places.table):
        return FlowAudit(job.flow.name, job.places.table)
    # Whatever the flow reads, a record that was not committed is none.
    with reading(session, job, {**job.options, **_COMMITTED}) as (kafka, source):
        for wait_s in _WAITS_S:
            run = _loaded(session, job, kafka, source.with_headers(headers=job.flow.reads_headers))
            cause = _REPLAYING
            if not (run.entry.kind in _UNFINISHED and run.position.counts is None):
                found, cause = _audited(run), _EXPIRING
                if found is not None and not _moved_since(run.ledger, run.entry):
                    return _with_sink(run, found)
                cause = _EXPIRING if found is None else _REPLAYING
            time.sleep(wait_s)
    raise AuditDisturbed(flow=job.flow.name, cause=cause, entry=run.entry.number)


def _with_sink(run: FlowRun, told: FlowAudit) -> FlowAudit:
    sink = audit_sink(run, told.ranges)
    problems = () if sink is None else sink.problems
    return dataclasses.replace(told, sink=sink, problems=(*told.problems, *problems))


def _moved_since(ledger: TableLedger, entry: Entry) -> bool:
    """Whether an entry that moves records from one of their places to another came after the audit began."""
    then, now = entry.number, ledger.newest(1)
    later = ledger.newest(now[0].entry.number - then) if now else []
    return any(each.entry.kind in _MOVING and each.entry.number > then for each in later)


def _loaded(session: SparkSession, job: FlowJob, kafka: OffsetSource, source: RecordSource) -> FlowRun:
    flow = resolved_schema(session, job.flow, PlacedFiles(session), job.places)
    topics, opened = kafka.topics(flow), OpenSource(kafka, source)
    inputs = FlowInputs(session, flow, job.places, opened, topics, table_shape(session, flow))
    run = load_flow(inputs, _nobody)
    stopped = problem(flow.name, run.entry, run.position.needed, found_of(kafka, flow, topics))
    # What Kafka dropped before it was read is no part of what was.
    if stopped is not None and not isinstance(stopped, OffsetsExpired):
        raise stopped
    return run


def _audited(run: FlowRun) -> FlowAudit | None:
    """What is found; None if Kafka dropped records meanwhile."""
    newest = run.entry
    # Topics that left the flow are in its ledger still. One that is gone from Kafka, or another by now, holds nothing.
    described = run.kafka.describe(newest.next_offsets.keys())
    topics = {name: topic for name, topic in described.items() if topic.id == newest.topic_ids.get(name, topic.id)}
    first = run.kafka.beginning_offsets(topics)
    earlier = [each.entry for each in reversed(run.ledger.newest()) if each.entry.number < newest.number]
    window = audit_window.window(
        [*earlier, newest], run.position.counts, offset_ranges.filled(first, newest.next_offsets)
    )
    told = FlowAudit(
        flow=run.flow.name,
        table=run.places.table,
        place="Kafka" if run.flow.source is None else run.flow.source.shown,
        entry=newest.number,
        since=window.since,
        until=window.until,
        ranges=window.ranges,
        not_audited=window.before,
        counted=window.counts,
    )
    if not window.ranges:
        return told
    if offset_ranges.size(window.ranges) <= _FEW:
        for_few_rows(run.spark)
    try:
        return _compared(run, window, told)
    except Exception:
        if run.kafka.beginning_offsets(topics) == first:
            raise
        return None


def _compared(run: FlowRun, window: Window, told: FlowAudit) -> FlowAudit:
    if run.flow.keyed is not None:
        return _compared_by_key(run, window, told)
    places = _places(run, window).persist()
    try:
        told = _with_findings(run.context, run.flow, window, told, lambda compacted: _tally(places, compacted))
        examples = _examples(run, window, places, told.found, told.compacted) if told.problems else ()
    finally:
        places.unpersist()
    return dataclasses.replace(told, examples=examples)


def _compared_by_key(run: FlowRun, window: Window, told: FlowAudit) -> FlowAudit:
    """Of a keyed table: which of its rows Kafka's records come to; there are no examples."""
    letters = _letters(run.dead_letters, run.entry, window) if run.dead_letters.exists() else None

    @cache
    def look(compacted: tuple[str, ...]) -> Tally:
        return audit_keyed.tally(
            pipeline.without_fail_policies(run), _held(run, window), letters, window, compacted=bool(compacted)
        )

    return _with_findings(run.context, run.flow, window, told, look)


def _with_findings(
    context: FlowContext, flow: Flow, window: Window, told: FlowAudit, look: Callable[[tuple[str, ...]], Tally]
) -> FlowAudit:
    """What ``look`` finds, given the compacted topics, and what is wrong with it."""
    compacted: tuple[str, ...] = ()
    found = look(compacted)
    problems = audit_window.findings(found, window.counts, compacted=False, place=told.place)
    if problems:
        # Only now: not everybody may ask for it.
        compacted = tuple(sorted(context.kafka.compacted(window.ranges.keys())))
        found = look(compacted)
        lost = _state_lost(context, flow, window)
        if lost and ERASED_RECORDS in lost.lost:
            found = _with_unlisted(found, window.counts)
        problems = audit_window.findings(found, window.counts, compacted=bool(compacted), place=told.place)
        told = dataclasses.replace(told, state_lost=lost)
    return dataclasses.replace(told, found=found, compacted=compacted, problems=problems)


def _with_unlisted(found: Tally, counts: Counts) -> Tally:
    """What was found where the list of erased records was deleted: as many count as erased as the ledger counted."""
    unlisted = max(0, min(found.in_neither - counts.dropped, counts.erased - found.erased))
    return dataclasses.replace(found, in_neither=found.in_neither - unlisted, erased=found.erased + unlisted)


def _state_lost(context: FlowContext, flow: Flow, window: Window) -> LostState | None:
    """What is not known any more of the window's records, since the flow's state was deleted; None if nothing is."""
    lost, entry = lost_before(context.files, context.places), lost_at(flow, context.files, context.places)
    if entry is not None:
        lost = LostState(entry.number, "", lost_with(flow, entry))
    return lost if lost is not None and lost.lost and lost.entry > window.since else None


def _places(run: FlowRun, window: Window) -> DataFrame:
    """A row a record: its coordinates, and how often it is in Kafka, the table, the dead letters, and was erased.

    Of a flow that explodes its records a row each element, with its position.
    """
    held = _held(run, window)
    exploded = run.flow.explosion is not None
    frames = {
        "kafka": audit_exploded.elements(held, run.flow) if exploded else held,
        "table": rows_within(run, window.ranges),
    }
    if run.dead_letters.exists():
        frames["letters"] = _letters(run.dead_letters, run.entry, window)
    erased = audit_keyed.erased_since(run, window)
    if erased is not None:
        frames["erased"] = erased
    marked = [
        frame.select(*run.flow.identity, *(F.lit(int(other == name)).alias(other) for other in _PLACES))
        for name, frame in frames.items()
    ]
    sums = (F.sum(name).alias(name) for name in _PLACES)
    found = reduce(lambda one, two: one.unionByName(two), marked).groupBy(*run.flow.identity).agg(*sums)
    return audit_exploded.as_they_were(found) if exploded else found


def _held(run: FlowRun, window: Window) -> DataFrame:
    """The window's records that a reader of committed records sees; none lies behind the first open transaction."""
    topics = run.kafka.describe(window.ranges.keys())
    ends = run.kafka.end_offsets(topics, "read_committed")
    read = {
        topic: {p: (start, min(end, ends[topic][p])) for p, (start, end) in parts.items() if start < ends[topic][p]}
        for topic, parts in window.ranges.items()
    }
    read = {topic: parts for topic, parts in read.items() if parts}
    # Spark asks for a partition to read, even where nothing is left of any.
    held = envelope.read(run.source.batch(run.spark, read or window.ranges), read)
    erased = run.erased.within(run.spark, run.entry, window.ranges)
    if erased is None:
        return held
    # A later read of these offsets has left the erased records out.
    return without(held, whole(erased, run.flow).where(F.col(ENTRY) <= window.since))


def _letters(dead_letters: DeadLetterTable, entry: Entry, window: Window) -> DataFrame:
    """Coordinates of the window's dead letters; one that was replayed is in the table."""
    letters = with_epoch(entry, dead_letters.frame()).where(F.col("batch") > window.since)
    now = epoch_now(entry, F.col("kafka_topic"), F.col("kafka_partition"))
    mine = letters.where((F.col("status") != "replayed") & (F.col(names.EPOCH) == now))
    return as_coordinates(mine).where(envelope.inside(window.ranges))


def _tally(places: DataFrame, compacted: Sequence[str]) -> Tally:
    """The counts; what is not in Kafka is none for topics from which Kafka may have taken it."""
    conditions = {
        "in_table": "kafka > 0 AND table > 0",
        "in_dead_letters": "kafka > 0 AND letters > 0",
        "in_neither": _IN_NEITHER,
        "doubled": _DOUBLED,
        "not_in_kafka": _made_up(compacted),
        "erased": "kafka > 0 AND table = 0 AND letters = 0 AND erased > 0",
        "back": _BACK,
    }
    counted = (f"count_if({sql}) AS {name}" for name, sql in conditions.items())
    # In records: of one that is exploded each element has a row here.
    one_each = f"count(DISTINCT CASE WHEN kafka > 0 THEN struct({', '.join(_KEYS)}) END)"
    visible = one_each if names.POSITION in places.columns else "count_if(kafka > 0)"
    row = places.selectExpr(*counted, f"{visible} AS visible").collect()[0]
    return Tally(**row.asDict())


def _made_up(compacted: Sequence[str]) -> str:
    others = ", ".join(names.literal(topic) for topic in compacted)
    there = "kafka = 0 AND table + letters > 0"
    return f"{there} AND {names.TOPIC} NOT IN ({others})" if compacted else there


def _examples(
    run: FlowRun, window: Window, places: DataFrame, found: Tally, compacted: Sequence[str]
) -> tuple[str, ...]:
    keys = list(run.flow.identity)
    wrong = places.where(f"{_DOUBLED} OR {_BACK} OR {_made_up(compacted)}").select(*keys)
    if found.in_neither > window.counts.dropped:
        # Of what is in neither table, that which today's rules would not drop; nor shall they stop the audit.
        kept = transformed(_held(run, window), pipeline.without_fail_policies(run)).where(
            F.col(names.ROUTE) != routing.DROPPED
        )
        wrong = wrong.unionByName(kept.select(*keys).join(places.where(_IN_NEITHER).select(*keys), keys))
    some = wrong.orderBy(*keys).limit(_EXAMPLES).collect()
    return tuple(_shown(row) for row in some)


def _shown(row: Row) -> str:
    topic, partition, *place = row
    return f"{topic}-{partition}:{':'.join(str(each) for each in place if each != explode.WHOLE)}"


def _nobody(_event: Event) -> None:
    """Hears what an audit's flow says: nothing happens to it."""
