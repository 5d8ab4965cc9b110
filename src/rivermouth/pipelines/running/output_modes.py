"""What a streaming query of a flow gives with each batch: new rows, changed rows, or its whole result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import AtomicType

from rivermouth.errors import DefinitionInvalid, WatermarkMissing
from rivermouth.names import did_you_mean
from rivermouth.ports.internals.query_plans import needs_whole_result, refused_stream, state_operators

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.ports.internals.query_plans import OutputMode


def output_mode(flow: FlowNode, frame: DataFrame, *, is_alone: bool) -> OutputMode:
    """Spark's output mode of a flow into a table.

    Args:
        flow: The flow.
        frame: Its query.
        is_alone: Whether no other flow writes the table. Only then its whole result can replace the rows.
    """
    if flow.kind == "update":
        return "update"
    return "complete" if flow.cdc is None and is_alone and needs_whole_result(frame) else "append"


def sink_output_mode(flow: FlowNode, frame: DataFrame) -> OutputMode:
    """Spark's output mode of a flow into a sink."""
    if flow.kind == "update":
        return "update"
    return "complete" if frame.isStreaming and needs_whole_result(frame) else "append"


def check_update_keys(flow: FlowNode, dataset: str, columns: StructType, *, is_alone: bool) -> None:
    """Checks that an update flow can merge its rows into a table.

    Raises:
        DefinitionInvalid: It names no keys, or columns that cannot be keys, or other flows write the table too.
    """
    if flow.kind != "update":
        return
    keyed = {each.name.lower(): each.dataType for each in columns}
    detail, fix = "", ""
    if not flow.keys:
        detail, fix = "it names no keys, and a table needs them", 'keys=["shop", "start"], the columns of groupBy'
    elif not is_alone:
        detail, fix = "another flow writes its table too", "give each flow a table of its own"
    for name in flow.keys:
        if name.lower() not in keyed:
            detail, fix = f"keys names {name}, which is no column of its query", did_you_mean(name, columns.names)
        elif not isinstance(keyed[name.lower()], AtomicType):
            kind = keyed[name.lower()].simpleString()
            detail = f"keys names {name}, which is {kind}, and a key is one value"
            fix = f"select its parts: {name}.start" if kind.startswith("struct") else f"leave {name} out of keys"
    if detail:
        raise DefinitionInvalid(at=str(flow.at), definition=f"flow {flow.name} into {dataset}", detail=detail, fix=fix)


def check_no_keys(flow: FlowNode, sink: str) -> None:
    """Raises if a flow into a sink names keys.

    Raises:
        DefinitionInvalid: It names keys.
    """
    if flow.keys:
        detail = "keys are for tables, and a sink gets each row that changed"
        definition = f"flow {flow.name} into sink {sink}"
        raise DefinitionInvalid(at=str(flow.at), definition=definition, detail=detail, fix="remove keys")


def check_table_mode(flow: FlowNode, frame: DataFrame, *, is_alone: bool) -> None:
    """Checks that Spark runs the query of a flow into a table in its output mode; see ``output_mode``.

    Raises:
        WatermarkMissing, AnalysisException: As ``check_output_mode``.
    """
    if frame.isStreaming and (flow.kind == "update" or refused_stream(frame, "append") is not None):
        check_output_mode(frame, output_mode(flow, frame, is_alone=is_alone), flow)


def check_output_mode(frame: DataFrame, mode: OutputMode, flow: FlowNode) -> None:
    """Checks that Spark runs the query in that mode.

    Raises:
        WatermarkMissing: It aggregates without a watermark, and shall append.
        AnalysisException: Spark does not run it; with Spark's reason.
    """
    if not frame.isStreaming or (error := refused_stream(frame, mode)) is None:
        return
    aggregates = any(each.kind == "aggregation" and each.delay_s is None for each in state_operators(frame))
    if mode == "append" and aggregates:
        raise WatermarkMissing(at=str(flow.at), flow=flow.name) from error
    raise error
