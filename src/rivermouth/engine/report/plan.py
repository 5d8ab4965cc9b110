"""What a run would do, found out the way a run finds it, and not done: no table, no checkpoint, no lease."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rivermouth.domain.ledger import decisions, ledger, offset_ranges
from rivermouth.engine.data_loss.decide import found_of, now
from rivermouth.engine.flow import table_per_topic
from rivermouth.engine.flow.lost_state import deleted_text
from rivermouth.engine.flow.orders import FlowJob, located
from rivermouth.engine.open import restore_state
from rivermouth.engine.open.adopt import WITHOUT_EFFECT, Takeover, takeover
from rivermouth.engine.open.open_flow import load_flow, without_effect
from rivermouth.engine.open.sources import finding, reading
from rivermouth.engine.run.drain import max_offsets
from rivermouth.engine.schema.infer import without_values
from rivermouth.engine.schema.kept_schemas import foreseen
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import RivermouthError, SchemaEmpty, SourceNotMade
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import PlacedFiles, files_for
from rivermouth.ports.lake.lease import read_holder
from rivermouth.ports.lake.storage_checks import check_same_place
from rivermouth.ports.spark.session import for_flow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.data_loss import KafkaState
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.engine.events import Event
    from rivermouth.engine.flow.orders import Job
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.engine.flow.table_shape import TableShape
    from rivermouth.engine.schema.infer import Inference
    from rivermouth.ports.sources.protocols import OffsetSource, RecordSource
    from rivermouth.spec import Flow


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What a run of one flow would do now.

    Attributes:
        flow: Its name.
        table: Name of its table.
        location: Where the table lies, or would.
        dead_letter_table: Where its dead letters lie, or would once there is one.
        checkpoint: Where the query's checkpoint lies; only a run that follows makes one.
        creates_table: Whether the run would make the table.
        columns: (name, type) of the table's columns, in order.
        partition_by: Names of its partition columns.
        cluster_by: Names of its clustering columns.
        entry: Number of the newest ledger entry; None without a table.
        start: Where the run starts and why, in words.
        ranges: What it would read; partitions with nothing to read are left out.
        offsets: How many offsets these are: an upper bound of the records.
        batches: How many batches they make.
        warnings: What the user should know and what stops nothing.
        problem: What would end the run before its first batch; the fields that it kept from being known are empty.
    """

    flow: str
    table: str
    location: str
    dead_letter_table: str
    checkpoint: str
    creates_table: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    entry: int | None = None
    start: str = ""
    ranges: Ranges = field(default_factory=dict)
    offsets: int = 0
    batches: int = 0
    warnings: tuple[str, ...] = ()
    problem: RivermouthError | None = None


def plan_order(spark: SparkSession, order: Job) -> list[FlowPlan]:
    """What a run of this flow would do now, or of all children of a family, with those that it would find.

    Guarantees:
        Those of ``plan_flow``.
    """
    if isinstance(order, FlowJob):
        return [plan_flow(spark, order)]
    table = order.flow.table.name
    try:
        with finding(spark, order) as place:
            found = table_per_topic.foreseen(order, files_for(order.places.lake, spark), place)
    except RivermouthError as error:
        return [FlowPlan(order.flow.name, table, "", "", "", problem=located(error, order))]
    plans = [plan_flow(spark, each) for each in found.orders]
    problems = [*found.refused.items(), *([(order.flow.name, found.problem)] if found.problem else [])]
    return plans + [FlowPlan(name, table, "", "", "", problem=located(error, order)) for name, error in problems]


def plan_flow(spark: SparkSession, order: FlowJob) -> FlowPlan:
    """What a run of this flow would do now; nothing is raised for what would stop it: ``problem`` holds that.

    Guarantees:
        Reads only: afterwards lake and broker are as they were before.
    """
    places = order.places
    named = FlowPlan(
        flow=order.flow.name,
        table=places.full_name,
        location=places.table,
        dead_letter_table=places.dead_letter_table,
        checkpoint=places.checkpoint,
    )
    try:
        check_same_place(spark, places)
        with reading(spark, order) as (kafka, source):
            return _planned(for_flow(spark), order, kafka, source, named)
    except SchemaEmpty as error:
        said = None if order.start.adoption else without_values(order.flow, error)
        if said is None:
            return replace(named, problem=located(error, order))
        return replace(named, start=start_text(order.flow), warnings=(said,))
    except RivermouthError as error:
        return replace(named, problem=located(error, order))


def ahead(spark: SparkSession, order: FlowJob) -> Ranges:
    """The offsets that a run of this flow would read now; reads only.

    Raises:
        RivermouthError: What would end the run before its first batch.
    """
    found = plan_flow(spark, order)
    if found.problem is not None:
        raise found.problem
    return found.ranges


def start_text(flow: Flow) -> str:
    """Where a flow without a ledger starts, in the words of the YAML, and whether anybody wrote it."""
    default = "" if "starting_offsets" in flow.model_fields_set else ", the default"
    return f"starting_offsets: {flow.starting_offsets.text()}{default}"


def _planned(
    spark: SparkSession, order: FlowJob, kafka: OffsetSource, source: RecordSource, named: FlowPlan
) -> FlowPlan:
    files = PlacedFiles(spark)
    rebuilt, state_lost = restore_state.foreseen(spark, order.flow, files, order.places, kafka)
    flow, inference = (rebuilt, None) if rebuilt else foreseen(spark, order.flow, files, order.places, kafka)
    order, shape = replace(order, flow=flow), table_shape(spark, flow)
    try:
        topics = kafka.topics(flow)
    except SourceNotMade as error:
        # The run makes it first.
        named = replace(
            _shaped(named, flow, shape), creates_table=not delta_table.exists(PlacedFiles(spark), named.location)
        )
        return replace(named, start=start_text(flow), warnings=(error.message.partition("; ")[0],))
    taken = _taken(spark, order, kafka, shape, topics)
    standing_still = None if taken else _standing_still(spark, order, kafka, source, shape, topics)
    warnings = (*_inferred(inference), *_warnings(spark, order, standing_still, state_lost=state_lost))
    if taken:
        found = found_of(kafka, flow, topics)
        next_offsets, said = _after_takeover(flow, taken, topics, found)
        warnings += (*taken.warnings, *said)
        start = offset_ranges.filled(next_offsets, found.first)
        why, entry = f"what the table has, by {taken.basis}: it would be taken over", None
    elif standing_still is None:
        start = kafka.resolve_starting(flow, topics)
        why, entry = start_text(flow), None
    else:
        entry = standing_still.position.entry.number
        found = found_of(kafka, flow, topics)
        standing = standing_still.position
        needed = standing.entry.next_offsets if state_lost else standing.needed
        next_offsets, said = _decided(flow, standing.entry, needed, found)
        warnings += said
        start = offset_ranges.filled(next_offsets, found.first)
        why = f"ledger entry {entry} of the table"
    ranges = offset_ranges.between(_only(start, topics), kafka.resolve_ending(flow, topics))
    offsets = offset_ranges.size(ranges)
    return replace(
        _shaped(named, flow, shape),
        creates_table=standing_still is None and taken is None,
        entry=entry,
        start=why,
        ranges=ranges,
        offsets=offsets,
        batches=-(-offsets // max_offsets(flow)),
        warnings=warnings,
    )


def _after_takeover(
    flow: Flow, taken: Takeover, topics: Mapping[str, Topic], found: KafkaState
) -> tuple[Offsets, tuple[str, ...]]:
    """Where a run would go on once it had taken the table over, and what would be decided, or stop it, then."""
    ids = {name: topic.id for name, topic in topics.items() if name in taken.offsets}
    try:
        return _decided(flow, ledger.first_entry(flow.name, taken.offsets, ids), taken.offsets, found)
    except RivermouthError as error:
        return taken.offsets, (f"the run would take the table over, and then stop: {error.message.partition('; ')[0]}",)


def _inferred(inference: Inference | None) -> tuple[str, ...]:
    if inference is None:
        return ()
    return (f"the schema is inferred from {inference.seen.shape.records:,} records, and kept by the first run",)


def _shaped(plan: FlowPlan, flow: Flow, shape: TableShape) -> FlowPlan:
    return replace(
        plan,
        columns=tuple((column.name, column.dataType.simpleString()) for column in shape.columns),
        partition_by=tuple(shape.partition_by),
        cluster_by=flow.table.cluster_by,
    )


def _decided(flow: Flow, entry: Entry, needed: Offsets, found: KafkaState) -> tuple[Offsets, tuple[str, ...]]:
    """Where a run would go on behind ``entry``, and what ``on_data_loss: record`` would decide before.

    Raises:
        RivermouthError: What would stop the run.
    """
    records = flow.on_data_loss == "record"
    ruling = decisions.foreseen(flow.name, entry, needed, found, records=records, at=now())
    if ruling is None:
        return entry.next_offsets, ()
    return ruling.next_offsets, tuple(f"{decisions.FORESEEN}: {decisions.text(each)}" for each in ruling.decisions)


def _taken(
    spark: SparkSession, order: FlowJob, kafka: OffsetSource, shape: TableShape, topics: dict[str, Topic]
) -> Takeover | None:
    """What the adoption that the order asks for would do; None without one, and where it would do nothing."""
    if order.start.adoption is None:
        return None
    return takeover(spark, order.flow, order.places, order.start.adoption, kafka=kafka, topics=topics, shape=shape)


def _standing_still(
    spark: SparkSession,
    order: FlowJob,
    kafka: OffsetSource,
    source: RecordSource,
    shape: TableShape,
    topics: dict[str, Topic],
) -> FlowRun | None:
    """The flow as a run would open it; None where there is no table yet."""
    flow, places = order.flow, order.places
    if not delta_table.exists(PlacedFiles(spark), places.table):
        return None
    return load_flow(spark, flow, places, kafka=kafka, source=source, topics=topics, shape=shape, listener=_nobody)


def _warnings(spark: SparkSession, order: FlowJob, run: FlowRun | None, *, state_lost: bool) -> tuple[str, ...]:
    found = [deleted_text(order.places)] if state_lost else []
    if run is not None:
        found += [f"the declared schema {run.changes}"] if run.changes else []
        said = without_effect(order.flow, run.position.entry)
        found += [said] if said else []
        found += [WITHOUT_EFFECT] if order.start.adoption else []
        if not state_lost and run.position.counts is None and run.position.entry.unsettled:
            found.append(
                "the last batch was not settled: its records are read again first, for counts and dead letters"
            )
    holder = read_holder(files_for(order.places.lake, spark), order.places.lease_file)
    if holder is not None and holder.is_alive:
        found.append(f"the table is being written by {holder}: a run now would be refused")
    return tuple(found)


def _only(offsets: Offsets, topics: dict[str, Topic]) -> Offsets:
    """``offsets`` of the topics and partitions that the flow reads now."""
    return {
        name: {partition: offsets[name][partition] for partition in topic.partitions if partition in offsets[name]}
        for name, topic in topics.items()
        if name in offsets
    }


def _nobody(_event: Event) -> None:
    """Hears what a plan's flow says: nothing happens to it."""
