"""Which datasets of a pipeline an update is about."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermouth.errors import DatasetNotInPipeline
from rivermouth.names import did_you_mean
from rivermouth.pipelines.graph import sink_name

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import Graph
    from rivermouth.pipelines.names import TableName


@dataclass(frozen=True, slots=True)
class Selection:
    """Which datasets an update is about; all of them where nothing is named.

    Attributes:
        refresh: Brought up to date, and no others.
        full_refresh: Cleared, and filled from the beginning.
        full_refresh_all: Whether all datasets are that may be.
        reset_checkpoint: Their sources are read from the beginning; the rows that are there stay.
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
    names, found = graph.names, set["TableName"]()
    for text in wanted:
        name = names.resolve(text)
        node = graph.node(name) if name is not None else None
        if sinks and node is None:
            node = graph.node(sink_name(text))
        if node is None or not (node.is_table or node.kind == "sink"):
            known = [names.shown(each.name) for each in graph.nodes if each.is_table]
            known += [each.name.table for each in graph.nodes if sinks and each.kind == "sink"]
            raise DatasetNotInPipeline(name=text, pipeline=pipeline, fix=did_you_mean(text, known))
        found.add(node.name)
    return found
