"""The tables of a pipeline in the catalog of its project, where they are found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.engine.table.flow_table import register
from rivermouth.pipelines.session.lake_tables import without_names
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.running.load import Loaded


def register_dataset(loaded: Loaded, node: Node) -> None:
    """Makes a table known in the project's catalog, if there is one and the table is not private.

    Raises:
        TableMismatch: The catalog has a table of that name elsewhere, or does not take it.
        MetastoreUnavailable: The metastore cannot be reached, or another process has the embedded one open.

    Guarantees:
        Run twice: as once. The table itself is not changed.
    """
    name = loaded.pipeline.registered(node)
    if name is not None and node.location is not None:
        # The pipeline's session finds its datasets by such names, as if they were registered.
        plain = without_names(sessions.cloned(loaded.workspace.session))
        register(plain, name, node.location, flow=loaded.graph.names.shown(node.name))
