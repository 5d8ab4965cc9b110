"""Tables that a stream is joined with: a query that failed because one of them is gone says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rivermouth.errors import QueryFailed, StaticTableMissing
from rivermouth.ports.delta import delta_table

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import FlowNode, Input
    from rivermouth.pipelines.running.load import Loaded


@contextmanager
def named_if_missing(loaded: Loaded, flow: FlowNode, inputs: tuple[Input, ...]) -> Iterator[None]:
    """A query runs in the block.

    Raises:
        StaticTableMissing: It failed, and a Delta table that it reads in each batch is not there any more.
    """
    try:
        yield
    except QueryFailed as error:
        for name, place in static_tables(loaded, inputs):
            if not delta_table.exists(loaded.workspace.files_of_lake, place):
                raise StaticTableMissing(flow=flow.name, table=name, location=place) from error
        raise


def static_tables(loaded: Loaded, inputs: tuple[Input, ...]) -> Iterator[tuple[str, str]]:
    """Name and folder of each Delta table that a query reads as a table, also by views."""
    for each in loaded.graph.through_views(inputs):
        if not each.stream and each.location is not None:
            yield each.name, each.location
