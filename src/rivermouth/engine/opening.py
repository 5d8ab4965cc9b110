"""Opening a flow: its table found or made, its ledger read and held against Kafka, its last batch settled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from rivermouth.engine.events import FlowOpened, StepReached
from rivermouth.engine.microbatch import recover
from rivermouth.engine.running import RunningFlow
from rivermouth.errors import (
    ExpectationInvalid,
    LayoutInvalid,
    OffsetsBeyondEnd,
    OffsetsExpired,
    SchemaInvalid,
    TableMismatch,
    TopicRecreated,
)
from rivermouth.ports import delta
from rivermouth.ports.kafka import Kafka
from rivermouth.ports.kafka_source import KafkaSource
from rivermouth.ports.session import for_flow
from rivermouth.ports.storage import PlacedFiles
from rivermouth.ports.table_ledger import TableLedger
from rivermouth.rows import schema
from rivermouth.rows.kafka_options import source_options, text
from rivermouth.rows.ledger import Entry, Offsets, first_entry
from rivermouth.sinks.dead_letters import DeadLetterTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.engine.events import Listener
    from rivermouth.ports.kafka import Topic
    from rivermouth.rows.places import FlowPlaces
    from rivermouth.spec import Flow

_TABLE_DEFAULTS = {
    # A checkpoint of the table's log costs about a second: not at every tenth commit.
    "delta.checkpointInterval": "100",
}


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns that a flow writes.

    Attributes:
        payload: Names of the payload columns.
        columns: All columns of the table, derived ones last.
        partition_by: Names of the partition columns.
    """

    payload: list[str]
    columns: StructType
    partition_by: list[str]


def open_flow(
    spark: SparkSession, flow: Flow, places: FlowPlaces, *, kafka: Kafka, source: KafkaSource, listener: Listener
) -> RunningFlow:
    """The flow, ready for its next batch. The caller holds the table's lease.

    Raises:
        RivermouthError: What is wrong with the flow, its table, its ledger or its topics.

    Guarantees:
        Run twice: the second time finds the table. Stopped half-way: the table is there with its entry 0 or not
        at all; dead letters that a crash left out are added once.
    """
    session = for_flow(spark)
    files = PlacedFiles(session)
    shape = table_shape(session, flow)
    topics = kafka.topics(flow)
    topic_ids = {name: topic.id for name, topic in topics.items()}
    ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    created = not delta.exists(files, places.table)
    if created:
        start = kafka.resolve_starting(flow, topics)
        first = first_entry(flow.name, start, topic_ids, starting_offsets=flow.starting_offsets.text())
        listener(StepReached(flow.name, 0, "create"))
        create_table(session, flow, places, shape, first)
        listener(StepReached(flow.name, 0, "created"))
    if places.catalog:
        register_table(session, flow, places)
    state = delta.table_state(session, places.table)
    check_table(flow, places.table, state, shape)
    standing = ledger.standing(state.transactions)
    standing = replace(standing, entry=replace(standing.entry, flow=flow.name))
    run = RunningFlow(
        flow=flow,
        places=places,
        spark=session,
        files=files,
        kafka=kafka,
        source=source,
        sink=flow.sink,  # type: ignore[arg-type]
        ledger=ledger,
        dead_letters=DeadLetterTable(session, files, places.dead_letter_table, target=places.full_name),
        payload=shape.payload,
        columns=shape.columns.names,
        table_id=state.table_id,
        standing=standing,
        listener=listener,
        topic_ids=topic_ids,
    )
    check_topics(run, topics)
    recover(run)
    unheeded = without_effect(flow, standing.entry)
    if unheeded is not None:
        run.warn(unheeded)
    why = f"starting_offsets: {flow.starting_offsets.text()}" if created else f"ledger entry {standing.entry.number}"
    run.emit(FlowOpened(flow.name, places.table, created, run.standing.entry.number, why))
    return run


def table_shape(spark: SparkSession, flow: Flow) -> TableShape:
    """The columns of the flow's table, with every expression of the flow analysed over them.

    Raises:
        SchemaInvalid: The declared schema cannot be read.
        ColumnCollision: A payload column bears the name of a metadata column.
        ExpectationInvalid: A condition cannot be analysed.
        LayoutInvalid: A partition or cluster column does not exist.
    """
    try:
        payload = flow.format.columns(spark)
    except (ValueError, PySparkException) as error:
        raise SchemaInvalid(flow=flow.name, detail=first_line(error)) from error
    columns = schema.table_columns(flow, payload)
    empty = spark.createDataFrame([], columns)
    derived = []
    for name, expression in schema.derived_columns(flow).items():
        try:
            derived.append(StructField(name, empty.selectExpr(expression).schema[0].dataType))
        except PySparkException as error:
            raise LayoutInvalid(flow=flow.name, detail=f"{expression}: {first_line(error)}") from error
    columns = StructType([*columns.fields, *derived])
    _check_layout(flow, columns)
    _check_expectations(spark, flow, columns)
    return TableShape(payload.names, _commented(columns, flow), schema.partition_columns(flow))


def create_table(spark: SparkSession, flow: Flow, places: FlowPlaces, shape: TableShape, entry: Entry) -> None:
    """Makes the flow's table with entry 0 in the commit that makes it."""
    properties = {
        **_TABLE_DEFAULTS,
        "delta.dataSkippingStatsColumns": ",".join(_statistics(flow, shape)),
        **{name: text(value) for name, value in flow.table.properties.items()},
    }
    layout = delta.TableLayout(
        columns=shape.columns,
        partition_by=shape.partition_by,
        cluster_by=flow.table.cluster_by,
        properties=properties,
        comment=flow.table.comment,
    )
    delta.create(spark, places.table, layout, metadata=entry.to_json())


def register_table(spark: SparkSession, flow: Flow, places: FlowPlaces) -> None:
    """Makes the table known in its catalog.

    Raises:
        TableMismatch: The catalog has a table of that name elsewhere, or does not take it.
    """
    try:
        found = delta.register(spark, places.full_name, places.table)
    except PySparkException as error:
        raise TableMismatch(flow=flow.name, table=places.full_name, detail=first_line(error)) from error
    if found.removeprefix("file:").rstrip("/") != places.table:
        detail = f"the catalog has it at {found}, the flow writes to {places.table}"
        raise TableMismatch(flow=flow.name, table=places.full_name, detail=detail)


def check_table(flow: Flow, location: str, state: delta.TableState, shape: TableShape) -> None:
    """Nothing, if the table has the columns that the flow writes.

    Raises:
        TableMismatch: Names, types or partitions differ.
    """
    found = {field.name: field.dataType.simpleString() for field in state.columns}
    wanted = {field.name: field.dataType.simpleString() for field in shape.columns}
    for name, kind in wanted.items():
        if name not in found:
            raise TableMismatch(flow=flow.name, table=location, detail=f"it has no column {name} {kind}")
        if found[name] != kind:
            detail = f"its column {name} is {found[name]}, the flow writes {kind}"
            raise TableMismatch(flow=flow.name, table=location, detail=detail)
    if list(state.partition_by) != shape.partition_by:
        detail = f"it is partitioned by {list(state.partition_by)}, the flow by {shape.partition_by}"
        raise TableMismatch(flow=flow.name, table=location, detail=detail)


def check_topics(run: RunningFlow, topics: Mapping[str, Topic]) -> None:
    """Nothing, if Kafka still holds what the ledger expects next.

    Raises:
        TopicRecreated: A topic has another id than the ledger knows.
        OffsetsExpired: Offsets that were not read yet are gone.
        OffsetsBeyondEnd: A topic ends before the offset that the ledger expects.
    """
    entry = run.standing.entry
    for name, topic in topics.items():
        expected = entry.topic_ids.get(name)
        if expected and topic.id and expected != topic.id:
            raise TopicRecreated(flow=run.flow.name, topic=name, found=topic.id, expected=expected)
    first = run.kafka.beginning_offsets(topics)
    last = run.kafka.end_offsets(topics)
    needed = entry.next_offsets if run.standing.counts is not None else entry.settled
    for name, partition, offset in _flat(needed):
        start, end = first.get(name, {}).get(partition), last.get(name, {}).get(partition)
        if start is not None and offset < start:
            raise OffsetsExpired(flow=run.flow.name, topic=name, partition=partition, start=offset, end=start)
        if end is not None and offset > end:
            raise OffsetsBeyondEnd(flow=run.flow.name, topic=name, partition=partition, next_offset=offset, end=end)


def without_effect(flow: Flow, entry: Entry) -> str | None:
    """What to tell a user whose ``starting_offsets`` differ from those that the table was begun with; else None."""
    written = flow.starting_offsets.text()
    if entry.starting_offsets == written:
        return None
    begun = entry.starting_offsets
    return f"starting_offsets: {written} has no effect: the table was begun with {begun} and goes on at its ledger"


def source_of(flow: Flow, bootstrap_servers: str, options: Mapping[str, str]) -> KafkaSource:
    """The flow's cluster as Spark reads it; options are resolved and judged."""
    return KafkaSource(
        bootstrap_servers=bootstrap_servers,
        options=source_options(options),
        # A source without headers is faster: Spark cannot leave a column of Kafka unread.
        headers="kafka_headers" in flow.metadata_columns,
        min_partitions=flow.trigger.min_partitions,
    )


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that Spark puts behind it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _check_layout(flow: Flow, columns: StructType) -> None:
    for name in (*schema.partition_columns(flow), *flow.table.cluster_by, *flow.table.column_comments):
        if name not in columns.names:
            raise LayoutInvalid(flow=flow.name, detail=f"there is no column {name!r}")


def _check_expectations(spark: SparkSession, flow: Flow, columns: StructType) -> None:
    empty: Any = spark.createDataFrame([], columns)
    for expectation in flow.expectations:
        try:
            found = empty.selectExpr(expectation.condition).schema
        except PySparkException as error:
            raise ExpectationInvalid(flow=flow.name, name=expectation.name, detail=first_line(error)) from error
        if len(found) != 1 or found[0].dataType.simpleString() != "boolean":
            detail = f"its condition is {found[0].dataType.simpleString()}, not boolean"
            raise ExpectationInvalid(flow=flow.name, name=expectation.name, detail=detail)


def _commented(columns: StructType, flow: Flow) -> StructType:
    comments = flow.table.column_comments
    return StructType(
        [
            StructField(field.name, field.dataType, metadata={**field.metadata, "comment": comments[field.name]})
            if field.name in comments
            else StructField(field.name, field.dataType, metadata=field.metadata)
            for field in columns
        ]
    )


def _statistics(flow: Flow, shape: TableShape) -> list[str]:
    """Columns that readers skip by: offset, Kafka's time, and the payload's own times."""
    wanted = {flow.metadata_columns.get(name) for name in ("kafka_offset", "kafka_timestamp")}
    times = {"timestamp", "date", "timestamp_ntz"}
    return [
        f"`{field.name}`"
        for field in shape.columns
        if (
            field.name in wanted
            or (field.name in shape.payload and field.dataType.simpleString() in times)
            or field.name in flow.table.cluster_by
        )
        and field.name not in shape.partition_by
    ]


def _flat(offsets: Offsets) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for topic, parts in offsets.items() for partition, offset in parts.items()]
