"""Streams over tables of the pipeline that a full refresh empties: they cannot go on, and have to begin again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.query_entry import QueryEntry
from rivermouth.errors import SourceChangedRows, SourceCleared
from rivermouth.pipelines.settings.known_settings import allows_reset
from rivermouth.ports.delta import delta_table

if TYPE_CHECKING:
    from collections.abc import Collection

    from rivermouth.pipelines.graph import FlowNode, Graph, Input, Node
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.load import Loaded

_VERSION: Final = re.compile(r"\bversion (\d+)")


@contextmanager
def told_if_cleared(loaded: Loaded, node: Node, flow: FlowNode, inputs: Iterable[Input]) -> Iterator[None]:
    """Says how a flow goes on whose source a full refresh of this pipeline has emptied.

    Raises:
        SourceCleared: In the place of ``SourceChangedRows``.
    """
    try:
        yield
    except SourceChangedRows as error:
        found = _VERSION.search(str(error.facts["detail"]))
        for source in streamed_nodes(loaded.graph, inputs) if found is not None else ():
            if found is not None and _is_cleared(loaded, source, int(found[1])):
                shown = loaded.graph.shown(source)
                fix = fix_of(loaded.graph, node, source)
                raise SourceCleared(flow=flow.name, table=shown, version=found[1], fix=fix) from error
        raise


def _is_cleared(loaded: Loaded, source: Node, version: int) -> bool:
    """Whether a version of a table is the one in which a full refresh emptied it."""
    location = source.location or ""
    commit = delta_table.read_commit(loaded.workspace.files_of_lake, location, version)
    text = None if commit is None else commit.user_metadata
    entry = QueryEntry.from_json(text, table=location, version=version) if text else None
    return entry is not None and entry.kind == "cleared"


def streamed_nodes(graph: Graph, inputs: Iterable[Input]) -> Iterator[Node]:
    """The tables of a pipeline that a query reads as streams, also by views."""
    for each in graph.through_views(inputs):
        node = graph.read_node(each)
        if node is not None and each.stream:
            yield node


def left_behind(graph: Graph, cleared: Collection[TableName], reset: Collection[TableName]) -> dict[TableName, str]:
    """By table and sink a sentence, if it streams from a table that is emptied and does not itself begin again.

    Args:
        graph: Of the pipeline.
        cleared: The tables that are emptied.
        reset: Tables and sinks whose sources are read again.
    """
    found: dict[TableName, str] = {}
    for node in graph.nodes:
        if node.kind not in ("streaming_table", "sink") or node.name in cleared or node.name in reset:
            continue
        for source in streamed_nodes(graph, node.inputs):
            if source.name in cleared:
                what = f"it streams from {graph.shown(source)}, whose rows are removed"
                text = f"{what}; without skipChangeCommits it stops then: {fix_of(graph, node, source)}"
                found.setdefault(node.name, text)
    return found


def fix_of(graph: Graph, node: Node, source: Node) -> str:
    """How a table or a sink is filled from a source that was emptied."""
    shown, table = shlex.quote(graph.shown(node)), graph.shown(source)
    if node.kind == "sink":
        return f"rivermouth run --reset-checkpoint {shown}: all rows of {table} are written to it once more"
    if node.dataset is not None and not allows_reset(node.dataset.properties):
        again = f"its rows stay, and those of {table} are written once more"
        return f"rivermouth run --reset-checkpoint {shown}: {again}"
    return f"rivermouth run --full-refresh {shown}"
