"""Sinks of a pipeline: places outside of it that its flows write to."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query.delivered_query import DeliveredBatch, naming_the_sink, opened, reset
from rivermouth.engine.query.sink_query import SinkWriter, check_streams, run_sink_query
from rivermouth.engine.query.streaming import run_batch, run_query
from rivermouth.pipelines.real_time import LEAST_S, is_real_time
from rivermouth.pipelines.running.flows.deliveries import delivery_of, is_kafka, names_of, shaped
from rivermouth.pipelines.running.flows.flow_runs import context_of, fingerprint_of
from rivermouth.pipelines.running.flows.notifying import is_notifying, notifying
from rivermouth.pipelines.running.flows.static_tables import static_tables
from rivermouth.pipelines.running.output_modes import sink_output_mode
from rivermouth.pipelines.sink_columns import table_of
from rivermouth.pipelines.spec import TABLE_NAME
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.delta_snapshot import newest_rows
from rivermouth.ports.internals.query_plans import keeps_state, streams_of
from rivermouth.ports.kafka.kafka_transactions import SinkCluster, SinkNames
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint
from rivermouth.rows import kafka_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame

    from rivermouth.domain.kafka.sink_options import KafkaSinkOptions
    from rivermouth.engine.flow.delivery import Delivery
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated
    from rivermouth.pipelines.running.workspace import Workspace
    from rivermouth.pipelines.spec import Sink


def with_resolved_options(node: Node, workspace: Workspace) -> Node:
    """A sink with the options that its writer gets.

    A ``path`` is resolved as each path of the pipeline is; the ``tableName`` of a Delta sink is a table of the lake. A
    sink of Kafka has Kafka's own classes, and what the project says of its cluster.
    """
    sink: Any = node.sink
    if (table := table_of(sink)) is not None:
        name = workspace.names.resolve(table)
        others = {key: value for key, value in sink.options.items() if key.lower() != TABLE_NAME}
        place = {} if name is None else {"path": workspace.pipeline.table(name)}
        return replace(node, sink=replace(sink, options=others | place))
    options = {
        key: workspace.pipeline.written(value, str(sink.at)) if key.lower() == "path" else value
        for key, value in sink.options.items()
    }
    if is_kafka(node):
        options |= workspace.clusters.options_for(options)
    return replace(node, sink=replace(sink, options=options))


@dataclass(frozen=True, slots=True)
class SinkWork:
    """A flow into a sink that is to be run.

    Attributes:
        loaded: The pipeline.
        node: The sink.
        flow: The flow.
        evaluated: Its query.
        context: Its surroundings.
        stopping: Set when it shall end after the batch in hand.
        interval_s: Of the batches of a query that goes on; None reads what there is.
    """

    loaded: Loaded
    node: Node
    flow: FlowNode
    evaluated: Evaluated
    context: QueryContext
    stopping: threading.Event
    interval_s: float | None


def run_sink(work: SinkWork) -> tuple[QueryCounts, int]:
    """Runs a flow into a sink; how many rows it has written, and how many a watermark left out.

    An update flow gives the rows that changed with each batch (Spark's update mode). A query that aggregates without a
    watermark gives its whole result with each batch (complete mode), others their new rows (append mode).

    Raises:
        RivermouthError: The typed reason why it failed.

    Guarantees:
        Each batch reaches a sink of Kafka or of files exactly once, unless that asks for less; other sinks at least
        once, with one number.
    """
    frame = work.evaluated.frame
    mode = sink_output_mode(work.flow, frame)
    if work.node.sink is not None and work.node.sink.given:
        return _given(work, work.node.sink.given, mode)
    sink = _sink(work)
    with naming_the_sink(work.context):
        delivery = delivery_of(work.loaded, work.node, work.flow, sink)
        if delivery is not None:
            with closing(delivery):
                return _delivered(work, sink, delivery, mode)
    if is_kafka(work.node):
        options = read_options(sink.options)
        names = names_of(work.loaded.pipeline, work.node, work.flow)
        SinkCluster(work.loaded.workspace.session, options, names).ensure_topics(ledger=False)
        if work.interval_s is not None and is_real_time(work.loaded.pipeline.configuration, work.flow):
            return _in_real_time(work, options, sink)
        sink = replace(sink, function=_writer(work, options, sink, names))
    if is_notifying(sink):
        sink = replace(sink, function=notifying(sink))
    writer = SinkWriter(sink.format, sink.options, sink.function, mode)
    return _queried(work, writer, work.interval_s)


def _queried(
    work: SinkWork, writer: SinkWriter, interval_s: float | None, rows: DataFrame | None = None
) -> tuple[QueryCounts, int]:
    frame, views = work.evaluated.frame if rows is None else rows, work.evaluated.views
    return run_sink_query(frame, work.context, writer, work.stopping, interval_s=interval_s, views=views)


def _given(work: SinkWork, folder: str, mode: str) -> tuple[QueryCounts, int]:
    """Writes the rows into the table that a test looks at; those of a flow that runs once are written once."""
    frame, context = work.evaluated.frame, work.context
    how = "overwrite" if mode == "complete" else "append"
    once = {"txnAppId": context.owner, "txnVersion": "0"} if not frame.isStreaming else {}

    def write(rows: DataFrame, _number: int) -> None:
        rows.write.format("delta").mode(how).options(mergeSchema="true", **once).save(folder)

    if frame.isStreaming:
        writer = SinkWriter(function=write, output_mode=mode)
        return _queried(work, writer, work.interval_s)
    # A second write of a flow that runs once adds nothing.
    before = _rows_in(work, folder)
    write(frame, 0)
    added = _rows_in(work, folder) - before
    return QueryCounts(read=added, written=added), 0


def _rows_in(work: SinkWork, folder: str) -> int:
    there = delta_table.exists(work.context.files, folder)
    return newest_rows(work.loaded.workspace.session, folder).count() if there else 0


def _sink(work: SinkWork) -> Sink:
    sink = with_resolved_options(work.node, work.loaded.workspace).sink
    if sink is None:
        msg = f"{work.node.name} is no sink"
        raise TypeError(msg)
    return sink


def _delivered(work: SinkWork, sink: Sink, delivery: Delivery, mode: str) -> tuple[QueryCounts, int]:
    frame = work.evaluated.frame
    run = opened(work.context, delivery)
    run.stopping, run.views = work.stopping, work.evaluated.views
    run.fingerprint, run.stateful, run.streams = fingerprint_of(frame), keeps_state(frame), streams_of(frame)
    run.static_tables = [place for _, place in static_tables(work.loaded, work.evaluated.inputs)]
    batch = DeliveredBatch(delivery, lambda rows: shaped(work.node, sink, rows))
    check_streams(run.context, run.entry.streams if run.entry.offsets else (), run.streams)
    if work.flow.once and run.entry.has_run(streaming=frame.isStreaming):
        return run.counts, 0
    if not frame.isStreaming:
        run_batch(frame, 0, ("{}",), run, batch)
        return run.counts, 0
    late = run_query(frame, run, batch, interval_s=work.interval_s, output_mode=mode)
    if work.flow.once and not run.stopping.is_set():
        delivery.begin()
        delivery.commit(run.entry.after_end().to_json())
    return run.counts, late


def _in_real_time(work: SinkWork, options: KafkaSinkOptions, sink: Sink) -> tuple[QueryCounts, int]:
    """By Spark's own writer, as records come. Spark takes update mode alone, which is append mode without state."""
    rows = kafka_records.records(work.evaluated.frame, options.topic)
    writer = SinkWriter(sink.format, _client_options(sink), output_mode="update", real_time=True)
    interval_s = max(LEAST_S, work.interval_s or LEAST_S)
    return _queried(work, writer, interval_s, rows)


def _client_options(sink: Sink) -> dict[str, str]:
    return {key: value for key, value in sink.options.items() if key.lower().startswith("kafka.")}


def _writer(
    work: SinkWork, options: KafkaSinkOptions, sink: Sink, names: SinkNames
) -> Callable[[DataFrame, int], None]:
    """Writes batches by Spark's tasks, each record with an id that stays the same when its batch comes again."""
    ordered = not keeps_state(work.evaluated.frame)
    kafka, checkpoint = _client_options(sink), work.context.checkpoint

    def write(frame: DataFrame, batch_id: int) -> None:
        query_id = checkpoint.inspect().query_id if isinstance(checkpoint, QueryCheckpoint) else ""
        rows = kafka_records.records(frame, options.topic)
        rows = kafka_records.with_ids(rows, f"{names.transactional_id}/{query_id}/{batch_id}", ordered=ordered)
        rows.write.format("kafka").options(**kafka).mode("append").save()

    return write


def check_streams_of_mark(loaded: Loaded, node: Node, flow: FlowNode, frame: DataFrame) -> None:
    """Checks that a flow into a sink can go on with its streams, by the mark on its checkpoint; the sink is not asked.

    Raises:
        SinkStreamsMoved: One has another number than before, or there are more or fewer of them.
    """
    context = context_of(loaded, node, flow, lambda _: None)
    if frame.isStreaming and isinstance(context.checkpoint, QueryCheckpoint):
        found = context.checkpoint.inspect()
        check_streams(context, found.streams if found.committed >= 0 else (), streams_of(frame))


def reset_sink(loaded: Loaded, node: Node, flows: Iterable[FlowNode]) -> None:
    """Lets flows into a sink read their sources from the beginning; what was written stays.

    Guarantees:
        Run twice: as once. Stopped half-way: some flows begin at the beginning already.
    """
    resolved, session = with_resolved_options(node, loaded.workspace).sink, loaded.workspace.session
    for flow in flows:
        context = context_of(loaded, node, flow, lambda _: None)
        delivery = None
        if resolved is not None and not resolved.given:
            delivery = delivery_of(loaded, node, flow, resolved)
        if delivery is not None:
            with closing(delivery):
                reset(context, delivery)
        context.source_files.forget(session, flow.name)
        context.files.delete(context.places.checkpoint)
