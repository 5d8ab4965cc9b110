"""Which sources of files belong to flows that have read files before, as the tables of their source files say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rivermouth.side_tables.source_files import SourceFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rivermouth.pipelines.files.first_starts import FirstStart
    from rivermouth.pipelines.graph import FlowNode, Graph, Node
    from rivermouth.pipelines.running.workspace import Workspace


def settled(workspace: Workspace, graph: Graph) -> bool:
    """Whether flows of sources that seemed to start have begun before; the queries must be evaluated again."""
    return workspace.file_site.starts.settle(lambda start: _has_begun(workspace, graph, start))


def _has_begun(workspace: Workspace, graph: Graph, start: FirstStart) -> bool:
    readers = list(_readers(graph, start.dataset))
    # Of several flows, one may have read from another source.
    below = "" if len(readers) == 1 else _folder(start.path)
    mine = ((node, flow) for node, flow in readers if start.flow in ("", flow.name))
    return any(_has_read(workspace, node, flow, below) for node, flow in mine)


def _folder(path: str) -> str:
    """What the addresses of all files of a source have in common, without the beginning that says where it is."""
    before, *behind = re.split(r"[*?\[{]", re.sub(r"^[\w+.-]+:/*", "/", path), maxsplit=1)
    return f"{(before.rpartition('/')[0] if behind else before).rstrip('/')}/"


def _has_read(workspace: Workspace, node: Node, flow: FlowNode, below: str) -> bool:
    places = workspace.pipeline.flow_places(node.name, flow.name, node.dataset)
    return SourceFiles(workspace.files_of_lake, places.table).has_any(workspace.session, flow.name, below)


def _readers(graph: Graph, dataset: str) -> Iterator[tuple[Node, FlowNode]]:
    """The flows that read the sources of a dataset: its own, or those that read the view."""
    views, count = {dataset}, 0
    while count != len(views):
        count = len(views)
        views |= {
            graph.shown(node)
            for node in graph.nodes
            if node.kind == "view" and any(_reads(graph, flow, views) for flow in node.flows)
        }
    for node in graph.nodes:
        for flow in node.flows:
            if node.kind != "view" and (graph.shown(node) == dataset or _reads(graph, flow, views)):
                yield node, flow


def _reads(graph: Graph, flow: FlowNode, datasets: set[str]) -> bool:
    nodes = [graph.read_node(each) for each in flow.inputs]
    return any(graph.shown(each) in datasets for each in nodes if each is not None and each.kind == "view")
