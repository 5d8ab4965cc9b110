"""Which datasets of a pipeline an update is about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermouth.errors import DatasetNotInPipeline
from rivermouth.names import did_you_mean
from rivermouth.pipelines.graph import sink_name

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import FlowNode, Graph, Node
    from rivermouth.pipelines.names import TableName


@dataclass(frozen=True, slots=True)
class Selection:
    """Which datasets an update is about; all of them where nothing is named.

    Attributes:
        refresh: Brought up to date, and no others.
        full_refresh: Cleared, and filled from the beginning.
        full_refresh_all: Whether all datasets are that may be.
        reset_checkpoint: Tables, sinks or flows. Their sources are read from the beginning; the rows that are there
            stay.
        accepts_loss: Whether rows may be cleared that the sources no longer have.
    """

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False
    reset_checkpoint: tuple[str, ...] = ()
    accepts_loss: bool = False


def chosen_names(graph: Graph, pipeline: str, wanted: Collection[str], *, sinks: bool = False) -> set[TableName]:
    """The names of datasets as the graph has them; with ``sinks`` those of sinks too.

    Raises:
        DatasetNotInPipeline: The pipeline defines none of one of these names.
    """
    found = set["TableName"]()
    for text in wanted:
        node = _chosen(graph, text, sinks=sinks)
        if node is None:
            known = _known(graph, sinks=sinks)
            raise DatasetNotInPipeline(name=text, pipeline=pipeline, fix=did_you_mean(text, known))
        found.add(node.name)
    return found


def chosen_flows(graph: Graph, pipeline: str, wanted: Collection[str]) -> dict[TableName, tuple[FlowNode, ...]]:
    """The flows that are named, by their tables and sinks. The name of a table or sink means all of its flows.

    Raises:
        DatasetNotInPipeline: The pipeline defines no table, sink or flow of one of these names.
    """
    found = dict["TableName", tuple["FlowNode", ...]]()
    flows = {flow.name.lower(): (node, flow) for node in graph.nodes if node.kind != "view" for flow in node.flows}
    for text in wanted:
        if (whole := _chosen(graph, text, sinks=True)) is not None:
            found[whole.name] = whole.flows
        elif text.lower() in flows:
            node, flow = flows[text.lower()]
            before = found.get(node.name, ())
            found[node.name] = before if flow in before else (*before, flow)
        else:
            known = [*_known(graph, sinks=True), *(flow.name for _, flow in flows.values())]
            raise DatasetNotInPipeline(name=text, pipeline=pipeline, fix=did_you_mean(text, known))
    return found


def _chosen(graph: Graph, text: str, *, sinks: bool) -> Node | None:
    name = graph.names.resolve(text)
    node = graph.node(name) if name is not None else None
    if sinks and node is None:
        node = graph.node(sink_name(text))
    return node if node is not None and (node.is_table or node.kind == "sink") else None


def _known(graph: Graph, *, sinks: bool) -> list[str]:
    tables = [graph.shown(each) for each in graph.nodes if each.is_table]
    return [*tables, *(graph.shown(each) for each in graph.nodes if sinks and each.kind == "sink")]
