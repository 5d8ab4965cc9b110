"""What the event log says of the definitions of a pipeline: its datasets, its sinks, and which dataset a flow reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rivermouth.pipelines.graph import FlowNode, Graph, Node

_FLOW_TYPES: Final = {
    "append": "APPEND",
    "update": "UPDATE",
    "auto_cdc": "CHANGE",
    "auto_cdc_from_snapshot": "SNAPSHOT_CHANGE",
    "refresh": "MATERIALIZED_VIEW",
    "view": "VIEW",
}
"""Databricks' words for what a flow does with the rows of its query; it has none for a flow with keys."""


@dataclass(frozen=True, slots=True)
class DefinitionEvent:
    """An event about a definition.

    Attributes:
        kind: The type of the event, and the name of its details.
        message: A sentence.
        details: What it says.
        dataset: Of the dataset or sink.
        flow: Of the flow; None for a dataset or sink.
    """

    kind: str
    message: str
    details: dict[str, Any]
    dataset: str
    flow: str | None = None


def definition_events(graph: Graph) -> Iterator[DefinitionEvent]:
    """An event for each dataset and sink, in the order of the graph, and one for each of its flows."""
    for node in graph.nodes:
        name = graph.shown(node)
        yield _of_node(node, name)
        for flow in node.flows:
            message = f"Flow '{flow.name}' is defined."
            yield DefinitionEvent("flow_definition", message, _of_flow(node, flow, name), name, flow.name)


def _of_node(node: Node, name: str) -> DefinitionEvent:
    if node.sink is not None:
        said = {"sink_name": name, "format": node.sink.format or "function", "num_flows": len(node.flows)}
        return DefinitionEvent("sink_definition", f"Sink '{name}' is defined.", said, name)
    kind = node.kind.upper()
    details = {"dataset_name": name, "dataset_type": kind, "num_flows": len(node.flows), "schema": _schema(node)}
    return DefinitionEvent("dataset_definition", f"Dataset '{name}' is defined as {kind}.", details, name)


def _of_flow(node: Node, flow: FlowNode, output: str) -> dict[str, Any]:
    """Without its settings: they may be secrets."""
    read = [each.name for each in flow.inputs if each.inside or each.location is not None]
    return {
        "output_dataset": output,
        "input_datasets": list(dict.fromkeys(read)),
        "flow_type": _FLOW_TYPES[flow.kind],
        "schema": _schema(node),
        "once": flow.once,
    }


def _schema(node: Node) -> list[dict[str, Any]]:
    columns: StructType | None = node.columns
    return [{"name": each.name, "data_type": each.dataType.simpleString()} for each in columns or ()]
