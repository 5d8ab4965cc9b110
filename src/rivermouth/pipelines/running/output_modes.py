"""What a streaming query of a flow gives with each batch: new rows, changed rows, or its whole result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.errors import WatermarkMissing
from rivermouth.ports.internals.query_plans import needs_whole_result, refused_stream, state_operators

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.ports.internals.query_plans import OutputMode


def output_mode(flow: FlowNode, frame: DataFrame, *, is_alone: bool) -> OutputMode:
    """Spark's output mode of a flow into a table.

    Args:
        flow: The flow.
        frame: Its query.
        is_alone: Whether no other flow writes the table. Only then its whole result can replace the rows.
    """
    return "complete" if flow.cdc is None and is_alone and needs_whole_result(frame) else "append"


def sink_output_mode(flow: FlowNode, frame: DataFrame) -> OutputMode:
    """Spark's output mode of a flow into a sink."""
    if flow.kind == "update":
        return "update"
    return "complete" if needs_whole_result(frame) else "append"


def check_table_mode(flow: FlowNode, frame: DataFrame, *, is_alone: bool) -> None:
    """Nothing, if Spark runs the query of a flow into a table in its output mode; see ``output_mode``.

    Raises:
        WatermarkMissing, AnalysisException: As ``check_output_mode``.
    """
    if frame.isStreaming and refused_stream(frame, "append") is not None:
        check_output_mode(frame, output_mode(flow, frame, is_alone=is_alone), flow)


def check_output_mode(frame: DataFrame, mode: OutputMode, flow: FlowNode) -> None:
    """Nothing, if Spark runs the query in that mode.

    Raises:
        WatermarkMissing: It aggregates without a watermark, and shall append.
        AnalysisException: It does not; with Spark's reason.
    """
    if not frame.isStreaming or (error := refused_stream(frame, mode)) is None:
        return
    aggregates = any(each.kind == "aggregation" and each.delay_s is None for each in state_operators(frame))
    if mode == "append" and aggregates:
        raise WatermarkMissing(at=str(flow.at), flow=flow.name) from error
    raise error
