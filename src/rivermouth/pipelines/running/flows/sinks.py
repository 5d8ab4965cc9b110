"""Sinks of a pipeline: places outside of it that its flows write to."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query.counted_view import with_views
from rivermouth.engine.query.sink_query import SinkWriter, run_sink_query
from rivermouth.pipelines.running.output_modes import sink_output_mode

if TYPE_CHECKING:
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.reads import Evaluated
    from rivermouth.pipelines.running.workspace import Workspace


def with_resolved_options(node: Node, workspace: Workspace) -> Node:
    """A sink with the options that its writer gets.

    A ``path`` is resolved as each path of the pipeline is. A sink of Kafka has Kafka's own classes, and what the
    project says of its cluster.
    """
    sink: Any = node.sink
    options = {
        key: workspace.pipeline.located(value) if key.lower() == "path" else value
        for key, value in sink.options.items()
    }
    if (sink.format or "").lower() == "kafka":
        options |= workspace.kafka(options)
    return replace(node, sink=replace(sink, options=options))


def run_sink(
    node: Node,
    flow: FlowNode,
    evaluated: Evaluated,
    context: QueryContext,
    stopping: threading.Event,
    interval_s: float | None,
) -> tuple[QueryCounts, int]:
    """Runs a flow into a sink; how many rows it has written, and how many a watermark left out.

    An update flow gives the rows that changed with each batch (Spark's update mode). A query that aggregates without a
    watermark gives its whole result with each batch (complete mode), others their new rows (append mode).

    Raises:
        RivermouthError: The typed reason why it failed.

    Guarantees:
        Each batch reaches the sink at least once, with one number.
    """
    sink: Any = node.sink
    writer = SinkWriter(sink.format, sink.options, sink.function, sink_output_mode(flow, evaluated.frame))
    counts, late = run_sink_query(evaluated.frame, context, writer, stopping, interval_s=interval_s)
    return with_views(counts, evaluated.views), late
