"""Sinks of a pipeline: places outside of it that its flows write to."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query.streaming import run_sink_query

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node


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
