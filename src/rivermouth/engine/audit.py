"""Every record in exactly one place, found out anew: Kafka, the table, its dead letters and its ledger compared."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.decide import found_of
from rivermouth.engine.opening import source_of, standing_flow
from rivermouth.engine.steps import as_coordinates, judged, rows_within, with_epoch
from rivermouth.engine.table import fixed, table_shape
from rivermouth.errors import AuditDisturbed, OffsetsExpired
from rivermouth.ports import delta
from rivermouth.ports.kafka import Kafka
from rivermouth.ports.session import for_flow
from rivermouth.ports.storage import PlacedFiles
from rivermouth.rows import auditing, envelope, ledger, routing
from rivermouth.rows.auditing import Tally, Window
from rivermouth.rows.epochs import epoch_now
from rivermouth.rows.gone import problem
from rivermouth.rows.ledger import Counts, Ranges

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.events import Event
    from rivermouth.engine.running import RunningFlow
    from rivermouth.engine.supervisor import FlowOrder

_WAITS_S: Final = (2.0, 10.0, 0.0)
_EXAMPLES: Final = 5
_KEYS: Final = (names.TOPIC, names.PARTITION, names.OFFSET)

_IN_NEITHER: Final = "kafka > 0 AND table = 0 AND letters = 0"
_DOUBLED: Final = "table + letters > 1"
_NOT_IN_KAFKA: Final = "kafka = 0"


@dataclass(frozen=True, slots=True)
class FlowAudit:
    """What an audit of one flow found.

    Attributes:
        flow: Its name.
        table: Location of its table.
        entry: Number of the newest ledger entry; None for a flow that never ran.
        since: Number of the entry after which the audited batches begin.
        ranges: The audited offsets.
        not_audited: Offsets that the flow read before: Kafka or the table's log holds them no more, or something was
            decided about them since.
        counted: What the ledger says of the audited batches.
        found: What is there.
        compacted: Topics of which Kafka may have taken records away since; rows of these are no finding.
        problems: What is wrong, in words; empty if every record is in exactly one place.
        examples: ``topic-partition:offset`` of some records that are in the wrong place.
    """

    flow: str
    table: str
    entry: int | None = None
    since: int = 0
    ranges: Ranges = field(default_factory=dict)
    not_audited: Ranges = field(default_factory=dict)
    counted: Counts = field(default_factory=Counts)
    found: Tally = field(default_factory=Tally)
    compacted: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


def audit_flow(spark: SparkSession, order: FlowOrder) -> FlowAudit:
    """Holds the flow's table and dead letters against what Kafka shows, record by record, and the ledger's counts.

    A flow may run meanwhile: only batches that were complete at the beginning are looked at.

    Raises:
        AuditDisturbed: Dead letters were being replayed, again and again, or a replay was cut off.
        RivermouthError: What else keeps a run from its table or its topics.

    Guarantees:
        Reads only.
    """
    session = for_flow(spark)
    if not delta.exists(PlacedFiles(session), order.places.table):
        return FlowAudit(order.flow.name, order.places.table)
    with Kafka(order.bootstrap_servers, order.options) as kafka:
        for wait_s in _WAITS_S:
            run = _standing(session, order, kafka)
            found = None if _replays(run) else _audited(run)
            if found is not None and not _replayed_since(run):
                return found
            time.sleep(wait_s)
    raise AuditDisturbed(flow=order.flow.name, entry=run.standing.entry.number)


def _replays(run: RunningFlow) -> bool:
    """Whether a replay has brought its rows into the table and has not yet marked its dead letters."""
    return run.standing.entry.kind == "replay" and run.standing.counts is None


def _replayed_since(run: RunningFlow) -> bool:
    """Whether a replay began after the audit did: it moves records from one of its places to another."""
    then, now = run.standing.entry.number, run.ledger.newest(1)
    later = run.ledger.newest(now[0].entry.number - then) if now else []
    return any(each.entry.kind == "replay" and each.entry.number > then for each in later)


def _standing(session: SparkSession, order: FlowOrder, kafka: Kafka) -> RunningFlow:
    flow, places = fixed(order.flow), order.places
    topics = kafka.topics(flow)
    source = dataclasses.replace(source_of(flow, order.bootstrap_servers, order.options), headers=False)
    shape = table_shape(session, flow)
    run = standing_flow(session, flow, places, kafka=kafka, source=source, topics=topics, shape=shape, listener=_nobody)
    stopped = problem(flow.name, run.standing.entry, run.standing.needed, found_of(kafka, flow, topics))
    # What Kafka dropped before it was read is no part of what was.
    if stopped is not None and not isinstance(stopped, OffsetsExpired):
        raise stopped
    return run


def _audited(run: RunningFlow) -> FlowAudit:
    newest = run.standing.entry
    # Topics that left the flow are in its ledger still; one that is not in Kafka any more holds nothing.
    topics = run.kafka.describe(newest.next_offsets.keys())
    first = ledger.filled(run.kafka.beginning_offsets(topics), newest.next_offsets)
    earlier = [
        each.entry for each in reversed(run.ledger.newest(newest.number + 1)) if each.entry.number < newest.number
    ]
    window = auditing.window([*earlier, newest], run.standing.counts, first)
    told = FlowAudit(
        flow=run.flow.name,
        table=run.places.table,
        entry=newest.number,
        since=window.since,
        ranges=window.ranges,
        not_audited=window.before,
        counted=window.counts,
    )
    if not window.ranges:
        return told
    compacted = tuple(sorted(run.kafka.compacted(topics)))
    places = _places(run, window).persist()
    try:
        found = _tally(places)
        problems = auditing.findings(found, window.counts, compacted=bool(compacted))
        examples = _examples(run, window, places, found) if problems else ()
    finally:
        places.unpersist()
    return dataclasses.replace(told, found=found, compacted=compacted, problems=problems, examples=examples)


def _places(run: RunningFlow, window: Window) -> DataFrame:
    """A row a record: its coordinates, and how often it is in Kafka, the table and the dead letters."""
    held = envelope.read(run.source.batch(run.spark, window.ranges), window.ranges)
    frames = {"kafka": held, "table": rows_within(run, window.ranges)}
    if run.dead_letters.exists():
        frames["letters"] = _letters(run, window)
    marked = [
        frame.select(*_KEYS, *(F.lit(int(other == name)).alias(other) for other in ("kafka", "table", "letters")))
        for name, frame in frames.items()
    ]
    sums = (F.sum(name).alias(name) for name in ("kafka", "table", "letters"))
    return reduce(lambda one, two: one.unionByName(two), marked).groupBy(*_KEYS).agg(*sums)


def _letters(run: RunningFlow, window: Window) -> DataFrame:
    """Coordinates of the window's dead letters; one that was replayed is in the table."""
    letters = with_epoch(run, run.dead_letters.frame()).where(F.col("batch") > window.since)
    now = epoch_now(run.standing.entry, F.col("kafka_topic"), F.col("kafka_partition"))
    mine = letters.where((F.col("status") != "replayed") & (F.col(names.EPOCH) == now))
    return as_coordinates(mine).where(envelope.inside(window.ranges))


def _tally(places: DataFrame) -> Tally:
    conditions = {
        "visible": "kafka > 0",
        "in_table": "kafka > 0 AND table > 0",
        "in_dead_letters": "kafka > 0 AND letters > 0",
        "in_neither": _IN_NEITHER,
        "doubled": _DOUBLED,
        "not_in_kafka": _NOT_IN_KAFKA,
    }
    row = places.selectExpr(*(f"count_if({sql}) AS {name}" for name, sql in conditions.items())).collect()[0]
    return Tally(**row.asDict())


def _examples(run: RunningFlow, window: Window, places: DataFrame, found: Tally) -> tuple[str, ...]:
    wrong = places.where(f"{_DOUBLED} OR {_NOT_IN_KAFKA}").select(*_KEYS)
    if found.in_neither > window.counts.dropped:
        # Of what is in neither table, that which today's rules would not drop.
        records = envelope.read(run.source.batch(run.spark, window.ranges), window.ranges)
        kept = judged(records, run).where(F.col(names.ROUTE) != routing.DROPPED)
        wrong = wrong.unionByName(kept.select(*_KEYS).join(places.where(_IN_NEITHER).select(*_KEYS), [*_KEYS]))
    some = wrong.orderBy(*_KEYS).limit(_EXAMPLES).collect()
    return tuple(f"{row[names.TOPIC]}-{row[names.PARTITION]}:{row[names.OFFSET]}" for row in some)


def _nobody(_event: Event) -> None:
    """Hears what an audit's flow says: nothing happens to it."""
