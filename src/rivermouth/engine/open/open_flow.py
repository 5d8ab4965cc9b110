"""Opens a flow: finds or makes its table, compares its ledger with Kafka, and completes its last batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.ledger import Entry, first_entry
from rivermouth.engine.batch.deliver import open_delivery
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.data_loss.decide import add_epoch_column, check_epoch_column, check_topics, decide
from rivermouth.engine.events import FlowOpened, SchemaKept, StepReached, Warned
from rivermouth.engine.flow.column_starts import keep_column_starts
from rivermouth.engine.flow.flow_inputs import FlowInputs
from rivermouth.engine.flow.jobs import StartActions
from rivermouth.engine.flow.running import FlowContext, FlowRun, TableView
from rivermouth.engine.open.adopt import adopt
from rivermouth.engine.open.rebuild import empty
from rivermouth.engine.open.restore_state import complete_restored, restore_state
from rivermouth.engine.schema.kept_schemas import SchemaHooks, SchemaUpdate, ensured
from rivermouth.engine.table.flow_table import change_table, create_table, register_table, table_changes, table_shape
from rivermouth.engine.table.keyed_table import column_starts, columns_left
from rivermouth.errors import LedgerVoid
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger, narrowed
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.ports.spark.session import for_flow
from rivermouth.rows import dead_letter
from rivermouth.side_tables.dead_letters import DeadLetterTable
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.side_tables.erased_records import Erased
from rivermouth.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.kafka.latest_start import LatestStart
    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.batch.shared_batch import SharedBatch
    from rivermouth.engine.events import Listener
    from rivermouth.engine.flow.flow_inputs import OpenSource
    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.ports.delta.table_ledger import LedgerPosition
    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow


NO_ACTIONS: Final = StartActions()


def open_flow(
    spark: SparkSession,
    job: FlowJob,
    source: OpenSource,
    listener: Listener,
    *,
    start: StartActions = NO_ACTIONS,
    shared: SharedBatch | None = None,
) -> FlowRun:
    """The flow, ready for its next batch. The caller holds the table's lease.

    1. schema: lost state is restored, and the schema is the one that counts from now on.
    2. table: it is adopted, or created with its first ledger entry.
    3. load: the flow as its table and its ledger say.
    4. data loss: what is gone from Kafka is decided; a table that is to be rebuilt is emptied.
    5. align: the table gets the columns that the schema has and it has not.
    6. recover: what a crash left undone is done; rows that its topic lacks are delivered.
    7. announce: the listener hears where the flow goes on.

    Args:
        spark: The session that all flows share.
        job: The flow and its places.
        source: What it reads.
        listener: Gets the events.
        start: What is done before the first batch.
        shared: The flows with which it shares its batches; their tables have the same columns.

    Raises:
        RivermouthError: What is wrong with the flow, its table, its ledger or its topics.

    Guarantees:
        Run twice: the second time finds the table. Stopped half-way: the table is there with its entry 0 or not
        at all; dead letters that a crash left out are added once.
    """
    session, places = for_flow(spark), job.places
    # 1 schema
    inputs, state_lost = _inputs(session, job, source, listener, start=start, shared=shared)
    # 2 table
    created = _adopt_or_create(inputs, start, listener)
    # 3 load
    run = load_flow(inputs, listener, even_void=bool(start.decision or start.rebuild))
    run.state_lost = state_lost
    # 4 data loss
    _resolve_data_loss(run, inputs.topics, start, created=created)
    # 5 align
    _align_table(run)
    # 6 recover
    entry = run.entry
    recover(run)
    run.state_lost = False
    open_delivery(run)
    # 7 announce
    for words in (without_effect(run.flow, entry), _left_out(run)):
        if words is not None:
            run.warn(words)
    why = f"starting_offsets: {run.flow.starting_offsets.text()}" if created else f"ledger entry {entry.number}"
    run.emit(FlowOpened(run.flow.name, places.table, created, run.entry.number, why))
    return run


def _inputs(
    spark: SparkSession,
    job: FlowJob,
    source: OpenSource,
    listener: Listener,
    *,
    start: StartActions,
    shared: SharedBatch | None,
) -> tuple[FlowInputs, bool]:
    """What the flow is opened with, by the schema that counts from now on; whether its state was lost."""
    state_lost = restore_state(spark, job.flow, PlacedFiles(spark), job.places, source.kafka, listener)
    flow = _with_schema(spark, job, source.kafka, listener, start)
    shape = table_shape(spark, flow) if shared is None else shared.shape(spark, flow)
    return FlowInputs(spark, flow, job.places, source, source.kafka.topics(flow), shape), state_lost


def _adopt_or_create(inputs: FlowInputs, start: StartActions, listener: Listener) -> bool:
    """Has the table there, registered; returns whether it was created."""
    if start.adoption:
        adopt(inputs, start.adoption, listener)
    created = not delta_table.exists(PlacedFiles(inputs.spark), inputs.places.table)
    if created:
        _create(inputs, start.latest, listener)
    register_table(inputs.spark, inputs.flow, inputs.places)
    return created


def _resolve_data_loss(run: FlowRun, topics: Mapping[str, Topic], start: StartActions, *, created: bool) -> None:
    if run.entry.epochs:
        # The column is gone after a restore to before the first epoch, or if it was dropped.
        add_epoch_column(run.context, run.view)
    if run.state_lost and run.void is None:
        complete_restored(run)
    if run.void is None or not start.rebuild:
        decide(run, topics, start.decision)
    check_topics(run, topics)
    if start.rebuild and not created:
        empty(run, topics, start.rebuild)


def _align_table(run: FlowRun) -> None:
    keep_column_starts(run.context, run.view)  # before columns are added: what begins with them is known then
    if run.changes:
        change_table(run.spark, run.flow, run.places.table, run.changes)
        run.warn(f"the declared schema {run.changes}")


def _with_schema(
    spark: SparkSession, job: FlowJob, kafka: OffsetSource, listener: Listener, start: StartActions
) -> Flow:
    """The flow with the schema that counts from now on; one that its table cannot be changed to is not kept."""
    files, table, name = PlacedFiles(spark), job.places.table, job.flow.name

    def check(wanted: Flow) -> None:
        shape = table_shape(spark, wanted)
        if delta_table.exists(files, table):
            state = delta_snapshot.table_state(spark, table)
            table_changes(wanted, table, state, shape, adopting=start.adoption is not None)

    hooks = SchemaHooks(
        check=check,
        kept=lambda done: listener(kept_schema(name, done)),
        warn=lambda words: listener(Warned(name, words)),
        update=start.update_schema,
    )
    return ensured(spark, job.flow, files, job.places, kafka, hooks)


def kept_schema(flow: str, update: SchemaUpdate) -> SchemaKept:
    """What became of a flow's kept schema, as an event."""
    kept, shape = update.kept, update.inference.seen.shape
    return SchemaKept(
        flow=flow,
        version=kept.version,
        is_new=update.is_new,
        columns=len(kept.schema.fields),
        changes=kept.changes if update.is_new else (),
        records=shape.records,
        corrupt=shape.corrupt_records,
        conflicts=len(update.inference.inferred.conflicts),
        seconds=update.inference.seen.seconds,
    )


def _create(inputs: FlowInputs, latest: LatestStart | None, listener: Listener) -> None:
    entry = _entry_zero(inputs.flow, inputs.source.kafka, inputs.topics, latest)
    listener(StepReached(inputs.flow.name, 0, "create"))
    create_table(inputs.spark, inputs.flow, inputs.places, inputs.shape, entry)
    listener(StepReached(inputs.flow.name, 0, "created"))


def _entry_zero(flow: Flow, kafka: OffsetSource, topics: Mapping[str, Topic], latest: LatestStart | None) -> Entry:
    """Where the flow begins: ``latest`` or a time is resolved here, and never again."""
    if latest is None:
        start = kafka.resolve_starting(flow, topics)
    else:
        start = latest.offsets(topics, kafka.beginning_offsets(topics))
    topic_ids = {name: topic.id for name, topic in topics.items()}
    return first_entry(flow.name, start, topic_ids, starting_offsets=flow.starting_offsets.text())


def load_flow(inputs: FlowInputs, listener: Listener, *, even_void: bool = False) -> FlowRun:
    """The flow as its table and its ledger say, before it is held against Kafka; the table is there. Reads only.

    With ``even_void`` also where others changed the table after the newest entry: then ``void`` says so.

    Raises:
        RivermouthError: What is wrong with the table or its ledger.
    """
    flow, places, topics = inputs.flow, inputs.places, inputs.topics
    files, state = PlacedFiles(inputs.spark), delta_snapshot.table_state(inputs.spark, places.table)
    table_ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    found, void = _position(table_ledger, state, topics, even_void=even_void)
    position = found.of_flow(flow.name)
    return FlowRun(
        _context(inputs, table_ledger, state.table_id, listener),
        _view(inputs, state, position.entry),
        position,
        inputs.source.records,
        topic_ids={name: topic.id for name, topic in topics.items()},
        void=void,
    )


def _position(
    table_ledger: TableLedger, state: TableState, topics: Mapping[str, Topic], *, even_void: bool
) -> tuple[LedgerPosition, LedgerVoid | None]:
    """The newest entry; with ``even_void`` also one that others have made void, and the error that says so."""
    try:
        return table_ledger.position(state.transactions), None
    except LedgerVoid as error:
        void = narrowed(error, {name: topic.partitions for name, topic in topics.items()})
        if not even_void:
            raise void from None
        return table_ledger.position(state.transactions, even_void=True), void


def _view(inputs: FlowInputs, state: TableState, entry: Entry) -> TableView:
    """What the table looks like, and how it must be changed for the flow."""
    changes = table_changes(inputs.flow, inputs.places.table, state, inputs.shape)
    columns = inputs.shape.columns.names
    if entry.epochs:
        check_epoch_column(inputs.flow, columns)
    left = columns_left(columns, state.columns.names)
    starts = column_starts(inputs.flow, columns, state, left, entry)
    return TableView(inputs.flow, columns, left, starts, changes)


def _context(inputs: FlowInputs, table_ledger: TableLedger, table_id: str, listener: Listener) -> FlowContext:
    """What stays as it is while the flow runs."""
    spark, flow, places, files = inputs.spark, inputs.flow, inputs.places, PlacedFiles(inputs.spark)
    return FlowContext(
        places=places,
        spark=spark,
        files=files,
        kafka=inputs.source.kafka,
        sink=flow.sink,  # type: ignore[arg-type]
        ledger=table_ledger,
        dead_letters=DeadLetterTable(
            spark, files, places.dead_letter_table, target=places.full_name, columns=dead_letter.columns(flow)
        ),
        erased=Erased(files, f"{places.erased}/records", table_id),
        tombstones=_tombstones(files, flow, places, table_id),
        table_id=table_id,
        listener=listener,
    )


def _tombstones(files: LakeFiles, flow: Flow, places: FlowPlaces, table_id: str) -> Tombstones | None:
    """The deleted keys of this very table; another one in its place has its own."""
    if flow.keyed is None:
        return None
    return Tombstones(files, f"{places.tombstones}/{table_id}", flow.keyed.remember_deletes)


def _left_out(run: FlowRun) -> str | None:
    """What a trial does not do that the flow does; None where it does all."""
    if not (run.places.is_trial and isinstance(run.sink, KafkaSink)):
        return None
    topic = f"topic {run.sink.topic}" if run.sink.topic else "the topics of its sink"
    return f"a trial writes nothing into {topic}: its rows are in table {run.places.full_name} alone"


def without_effect(flow: Flow, entry: Entry) -> str | None:
    """A warning where ``starting_offsets`` differ from those that the table was begun with; else None."""
    written = flow.starting_offsets.text()
    if entry.starting_offsets == written:
        return None
    begun = entry.starting_offsets
    return f"starting_offsets: {written} has no effect: the table was begun with {begun} and goes on at its ledger"
