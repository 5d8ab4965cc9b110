"""What a run would do, found out the way a run finds it, and not done: no table, no checkpoint, no lease."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rivermouth.domain.ledger import decisions, ledger, offset_ranges
from rivermouth.engine.data_loss.decide import found_of, now
from rivermouth.engine.flow import table_per_topic
from rivermouth.engine.flow.flow_inputs import FlowInputs, OpenSource
from rivermouth.engine.flow.jobs import FlowJob, located
from rivermouth.engine.flow.lookup_tables import LookupTables
from rivermouth.engine.flow.lost_state import deleted_text
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
from rivermouth.ports.lake.lease import living_holder
from rivermouth.ports.lake.storage_checks import check_same_place
from rivermouth.ports.spark.session import for_flow
from rivermouth.rows.kafka_records import KEYLESS
from rivermouth.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.data_loss import KafkaState
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.engine.events import Event
    from rivermouth.engine.flow.jobs import Job
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.engine.flow.table_shape import TableShape
    from rivermouth.engine.schema.infer import Inference
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
        lookups: The tables in which it would look up columns, with their versions, in words.
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
    lookups: tuple[str, ...] = ()
    entry: int | None = None
    start: str = ""
    ranges: Ranges = field(default_factory=dict)
    offsets: int = 0
    batches: int = 0
    warnings: tuple[str, ...] = ()
    problem: RivermouthError | None = None


def plan_order(spark: SparkSession, job: Job) -> list[FlowPlan]:
    """What a run of this flow would do now, or of all children of a family, with those that it would find.

    Guarantees:
        Those of ``plan_flow``.
    """
    if isinstance(job, FlowJob):
        return [plan_flow(spark, job)]
    table = job.flow.table.name
    try:
        with finding(spark, job) as place:
            found = table_per_topic.foreseen(job, files_for(job.places.lake, spark), place)
    except RivermouthError as error:
        return [FlowPlan(job.flow.name, table, "", "", "", problem=located(error, job))]
    plans = [plan_flow(spark, each) for each in found.orders]
    problems = [*found.refused.items(), *([(job.flow.name, found.problem)] if found.problem else [])]
    return plans + [FlowPlan(name, table, "", "", "", problem=located(error, job)) for name, error in problems]


def plan_flow(spark: SparkSession, job: FlowJob) -> FlowPlan:
    """What a run of this flow would do now; nothing is raised for what would stop it: ``problem`` holds that.

    Guarantees:
        Reads only: afterwards lake and broker are as they were before.
    """
    places = job.places
    named = FlowPlan(
        flow=job.flow.name,
        table=places.full_name,
        location=places.table,
        dead_letter_table=places.dead_letter_table,
        checkpoint=places.checkpoint,
    )
    try:
        check_same_place(spark, places)
        with reading(spark, job) as (kafka, source):
            return _planned(for_flow(spark), job, OpenSource(kafka, source), named)
    except SchemaEmpty as error:
        said = None if job.start.adoption else without_values(job.flow, error)
        if said is None:
            return replace(named, problem=located(error, job))
        return replace(named, start=start_text(job.flow), warnings=(said,))
    except RivermouthError as error:
        return replace(named, problem=located(error, job))


def ahead(spark: SparkSession, job: FlowJob) -> Ranges:
    """The offsets that a run of this flow would read now; reads only.

    Raises:
        RivermouthError: What would end the run before its first batch.
    """
    found = plan_flow(spark, job)
    if found.problem is not None:
        raise found.problem
    return found.ranges


def start_text(flow: Flow) -> str:
    """Where a flow without a ledger starts, in the words of the YAML, and whether anybody wrote it."""
    default = "" if "starting_offsets" in flow.model_fields_set else ", the default"
    return f"starting_offsets: {flow.starting_offsets.text()}{default}"


def _planned(spark: SparkSession, job: FlowJob, source: OpenSource, named: FlowPlan) -> FlowPlan:
    files, kafka = PlacedFiles(spark), source.kafka
    rebuilt, state_lost = restore_state.foreseen(spark, job.flow, files, job.places, kafka)
    flow, inference = (rebuilt, None) if rebuilt else foreseen(spark, job.flow, files, job.places, kafka)
    job, shape = replace(job, flow=flow), table_shape(spark, flow)
    named = replace(named, lookups=looked_up(spark, flow))
    try:
        topics = kafka.topics(flow)
    except SourceNotMade as error:
        # The run makes it first.
        named = replace(_shaped(named, flow, shape), creates_table=not delta_table.exists(files, named.location))
        return replace(named, start=start_text(flow), warnings=(error.message.partition("; ")[0],))
    inputs = FlowInputs(spark, flow, job.places, source, topics, shape)
    taken = _taken(inputs, job)
    run = None if taken else _loaded(inputs)
    begun = _beginning(inputs, run, taken, state_lost=state_lost)
    ranges = offset_ranges.between(_only(begun.start, topics), kafka.resolve_ending(flow, topics))
    offsets = offset_ranges.size(ranges)
    return replace(
        _shaped(named, flow, shape),
        creates_table=run is None and taken is None,
        entry=begun.entry,
        start=begun.why,
        ranges=ranges,
        offsets=offsets,
        batches=-(-offsets // max_offsets(flow)),
        warnings=(*_inferred(inference), *_warnings(spark, job, run, state_lost=state_lost), *begun.warnings),
    )


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Where a run would start, and why, in words; the entry of the ledger there; warnings about it."""

    start: Offsets
    why: str
    entry: int | None = None
    warnings: tuple[str, ...] = ()


def _beginning(inputs: FlowInputs, run: FlowRun | None, taken: Takeover | None, *, state_lost: bool) -> _Beginning:
    flow, topics, kafka = inputs.flow, dict(inputs.topics), inputs.source.kafka
    if taken:
        found = found_of(kafka, flow, topics)
        next_offsets, said = _after_takeover(flow, taken, topics, found)
        why = f"what the table has, by {taken.basis}: it would be taken over"
        start = offset_ranges.filled(next_offsets, found.first)
        return _Beginning(start, why, warnings=(*taken.warnings, *said))
    if run is None:
        return _Beginning(kafka.resolve_starting(flow, topics), start_text(flow))
    position, found = run.position, found_of(kafka, flow, topics)
    needed = position.entry.next_offsets if state_lost else position.needed
    next_offsets, said = _decided(flow, position.entry, needed, found)
    start, entry = offset_ranges.filled(next_offsets, found.first), position.entry.number
    return _Beginning(start, f"ledger entry {entry} of the table", entry, said)


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


def looked_up(spark: SparkSession, flow: Flow) -> tuple[str, ...]:
    """The tables of the flow's lookups as a run would find them.

    Raises:
        RivermouthError: One cannot be used.
    """
    files = PlacedFiles(spark)
    later = [each.owner for each in flow.lookup if not delta_table.exists(files, each.location)]
    versions: tuple[int | None, ...] = (None,) * len(flow.lookup)
    if not later:
        tables = LookupTables()
        tables.refresh(spark, flow)
        versions = tables.versions
        tables.close()
    return tuple(
        f"{each.table} on {', '.join(each.on)}, "
        + (f"version {version}" if version is not None else f"once flow {later[0]} has made its table")
        + f"; a record without a row: {each.missing}"
        for each, version in zip(flow.lookup, versions, strict=True)
    )


def _decided(flow: Flow, entry: Entry, needed: Offsets, found: KafkaState) -> tuple[Offsets, tuple[str, ...]]:
    """Where a run would go on behind ``entry``, and what ``on_data_loss: record`` would decide before.

    Raises:
        RivermouthError: What would stop the run.
    """
    records = flow.on_data_loss == "record"
    result = decisions.foreseen(flow.name, entry, needed, found, records=records, at=now())
    if result is None:
        return entry.next_offsets, ()
    return result.next_offsets, tuple(f"{decisions.FORESEEN}: {decisions.text(each)}" for each in result.decisions)


def _taken(inputs: FlowInputs, job: FlowJob) -> Takeover | None:
    """What the adoption that the order asks for would do; None without one, and where it would do nothing."""
    return None if job.start.adoption is None else takeover(inputs, job.start.adoption)


def _loaded(inputs: FlowInputs) -> FlowRun | None:
    """The flow as a run would open it; None where there is no table yet."""
    there = delta_table.exists(PlacedFiles(inputs.spark), inputs.places.table)
    return load_flow(inputs, _nobody) if there else None


def _warnings(spark: SparkSession, job: FlowJob, run: FlowRun | None, *, state_lost: bool) -> tuple[str, ...]:
    found = [deleted_text(job.places)] if state_lost else []
    if isinstance(job.flow.sink, KafkaSink) and job.flow.sink.key is None:
        topic = job.flow.sink.topic
        found.append(f"{f'topic {topic}' if topic else 'topics of the column topic'}: {KEYLESS}")
    if run is not None:
        found += [f"the declared schema {run.changes}"] if run.changes else []
        said = without_effect(job.flow, run.entry)
        found += [said] if said else []
        found += [WITHOUT_EFFECT] if job.start.adoption else []
        if not state_lost and run.position.counts is None and run.entry.unsettled:
            found.append(
                "the last batch is not complete: its records are read again first, for counts and dead letters"
            )
    writer = living_holder(files_for(job.places.lake, spark), job.places.lease_file)
    if writer is not None:
        found.append(f"the table is being written by {writer}: a run now would be refused")
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
