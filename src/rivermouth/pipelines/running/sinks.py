"""Sinks of a pipeline: places outside of it that its flows write to."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query.streaming import run_sink_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node


def with_kafka_options(node: Node, kafka: Callable[[Mapping[str, str]], Mapping[str, str]]) -> Node:
    """A sink of Kafka with its own classes and what the project says of its cluster; other sinks as they are."""
    sink: Any = node.sink
    if (sink.format or "").lower() != "kafka":
        return node
    return replace(node, sink=replace(sink, options={**sink.options, **kafka(sink.options)}))


def run_sink(
    node: Node,
    flow: FlowNode,
    frame: DataFrame,
    context: QueryContext,
    stopping: threading.Event,
    interval_s: float | None,
) -> tuple[QueryCounts, int]:
    """Runs a flow into a sink; how many rows it has written, and how many a watermark left out.

    Raises:
        RivermouthError: The typed reason why it failed.

    Guarantees:
        Each batch reaches the sink at least once, with one number.
    """
    sink: Any = node.sink
    function: Callable[[DataFrame, int], Any] | None = sink.function
    mode = "update" if flow.kind == "update" else "append"
    return run_sink_query(
        frame,
        context,
        stopping,
        sink_format=sink.format,
        options=sink.options,
        function=function,
        output_mode=mode,
        interval_s=interval_s,
    )
