"""The tables of a pipeline's datasets: made and changed as they are defined, or with an empty one in their place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.domain.query.view_tree import plain_path
from rivermouth.engine.query.query_table import (
    QueryTable,
    adapt,
    changes,
    has_never_had_rows,
    has_other_columns,
    prepare,
    prepare_layout,
)
from rivermouth.errors import CdcTargetChanged, DefinitionInvalid, TablePartitionsChanged, TableSchemaChanged
from rivermouth.pipelines.session.table_properties import stored
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.ports.delta.stand_in import create_stand_in
from rivermouth.ports.internals.delta_snapshot import TableState, newest_rows, table_state
from rivermouth.schemas.column_types import field_type, has_bounds, nullable_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rivermouth.domain.delta.table_transaction import NewLayout
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.workspace import Workspace
    from rivermouth.pipelines.spec import Dataset


_MOST_RESETS: Final = 50
"""How many of the newest entries of a view's ledger are searched for one that is no reset."""


def never(_name: TableName, _dataset: Dataset) -> bool:
    """Whether an update does something with a dataset: it does not."""
    return False


@dataclass(frozen=True, slots=True)
class Rewrites:
    """Which tables an update writes from the beginning, so that they can have other columns and partition columns.

    Attributes:
        clears: Whether all rows of a table are removed before it gets some.
        computes: Whether a view is computed, and its table may get another definition.
    """

    clears: Callable[[TableName, Dataset], bool] = never
    computes: Callable[[TableName, Dataset], bool] = never


class DatasetTables:
    """The tables of a pipeline's datasets.

    Args:
        workspace: Knows the session and where tables are.
        stand_ins: A folder for empty tables in the place of those that cannot be read.
        writes: Whether tables are made and changed.
        rewrites: Which of them the update writes from the beginning.

    Attributes:
        misfits: Tables that do not fit their definitions, and get them before the update: they have no row, or will
            have none. In the graph empty ones are in their place.
        to_redefine: Tables of views that do not fit their definitions, and get them with the rows that the update
            computes. Until then empty ones are in their place.
    """

    def __init__(self, workspace: Workspace, stand_ins: str, rewrites: Rewrites, *, writes: bool) -> None:
        self.misfits: dict[TableName, QueryTable] = {}
        self.to_redefine: dict[TableName, QueryTable] = {}
        self._workspace, self._session = workspace, workspace.session
        self._stand_ins, self._rewrites, self.writes = stand_ins, rewrites, writes
        self._states: dict[str, TableState] = {}
        self._in_place_of: dict[str, str] = {}

    def placed(self, node: Node, dataset: Dataset) -> Node:
        """The node with a table that can be read: its own, or an empty one in its place.

        Raises:
            DefinitionInvalid: Delta cannot cluster the table by a column of its definition.
            TableSchemaChanged, TablePartitionsChanged, CdcTargetChanged: The table does not fit its definition, and
                keeps its rows.
        """
        _check_clusters(node, dataset)
        session, files, table = self._session, self._workspace.files_of_lake, self.table_of(node)
        with self._workspace.errors(dataset.at, table.dataset):
            state = table_state(session, table.location) if delta_table.exists(files, table.location) else None
        clears, computes = self._rewrites.clears(node.name, dataset), self._is_computed(node, dataset)
        has_others = state is not None and has_other_columns(state, table)
        try:
            if has_others and clears:
                self.misfits[node.name] = table
            elif has_others and computes and self._was_computed(node):
                self.to_redefine[node.name] = table
            elif self.writes:
                with self._workspace.errors(dataset.at, table.dataset):
                    found = prepare(session, files, table) if state is None else adapt(session, state, table)
                self._states[table.location] = found
                return node
            elif state is not None:
                changes(state, table)
                return node
        except (TableSchemaChanged, TablePartitionsChanged, CdcTargetChanged):
            if clears or has_never_had_rows(files, table.location) or self._is_emptied(node, table):
                self.misfits[node.name] = table
            elif computes and self._was_computed(node):
                self.to_redefine[node.name] = table
            else:
                raise
        return self._with_stand_in(node, table)

    def _is_emptied(self, node: Node, table: QueryTable) -> bool:
        """Whether the table of an AUTO CDC target has no rows, nor is an order of changes kept for it."""
        if table.cdc is None or self._ledger(node).newest_batch() is not None:
            return False
        return newest_rows(self._session, table.location).isEmpty()

    def _is_computed(self, node: Node, dataset: Dataset) -> bool:
        return node.kind == "materialized_view" and self._rewrites.computes(node.name, dataset)

    def _was_computed(self, node: Node) -> bool:
        """Whether the rows of a table are those of its view, and not those of another flow or of somebody else."""
        ledger = self._ledger(node)
        # To have it computed again is no change of what its rows are.
        kinds = [entry.kind for entry, _ in ledger.entries(_MOST_RESETS) if entry.kind != "reset"]
        return (kinds[0] if kinds else ledger.position(self._session).entry.kind) in ("refresh", "cleared")

    def _ledger(self, node: Node) -> QueryLedger:
        flow = node.flows[0].name
        places = self._workspace.pipeline.flow_places(node.name, flow, node.dataset)
        return QueryLedger(self._workspace.files_of_lake, places.table, places.side_file, flow=flow)

    def _with_stand_in(self, node: Node, table: QueryTable) -> Node:
        # A number, because a name may have characters that no folder can have.
        folder = Path(self._stand_ins) / f"{len(self._in_place_of)}"
        found = create_stand_in(self._session, folder, nullable_columns(table.columns), table.properties)
        self._in_place_of[plain_path(found)] = plain_path(table.location)
        return replace(node, stand_in=found)

    def own_place(self, path: str) -> str:
        """The folder of the table in whose place an empty one is at ``path``; else ``path``. Both as ``plain_path``."""
        return self._in_place_of.get(path, path)

    def has_stand_in(self, path: str) -> bool:
        """Whether queries read an empty table in the place of the one in this folder, a ``plain_path``."""
        return path in self._in_place_of.values()

    def prepare_layout(self, node: Node) -> NewLayout | None:
        """What the table of a view gets with its rows; None where its own columns and layout stay."""
        table = self.to_redefine.get(node.name)
        if table is None:
            return None
        with self._workspace.errors(node.at, table.dataset):
            return prepare_layout(self._session, table)

    def complete_redefinition(self, node: Node) -> None:
        """Sets what the table of a view did not get with its rows; it has its definition then."""
        table = self.to_redefine.pop(node.name)
        mine = plain_path(table.location)
        self._in_place_of = {folder: own for folder, own in self._in_place_of.items() if own != mine}
        with self._workspace.errors(node.at, table.dataset):
            self._states[table.location] = prepare(self._session, self._workspace.files_of_lake, table)

    def grow(self, node: Node, columns: StructType) -> None:
        """Gives a table these columns; that of a view which gets its definition with its rows gets them then."""
        table = replace(self.table_of(node), columns=columns)
        if node.name in self.to_redefine:
            self.to_redefine[node.name] = table
        else:
            self._states[table.location] = prepare(self._session, self._workspace.files_of_lake, table)

    def newest(self, location: str) -> tuple[str, int]:
        """Delta's UUID of a table, and its newest version."""
        state = self.state(location, (delta_table.commit_versions(self._workspace.files_of_lake, location) or [-1])[-1])
        return state.table_id, state.version

    def state(self, location: str, version: int) -> TableState:
        """What the newest snapshot of a table says.

        Args:
            location: The table's folder.
            version: Its newest version. Of the one that it had when the graph was made, all is known.
        """
        known = self._states.get(location)
        return known if known is not None and known.version == version else table_state(self._session, location)

    def forget(self) -> None:
        """Tables are looked at again: others write them."""
        self._states.clear()

    def table_of(self, node: Node) -> QueryTable:
        """How the table of a node is made."""
        dataset: Any = node.dataset
        cdc = {each.name: each.cdc for each in node.flows if each.cdc is not None}
        return QueryTable(
            dataset=self._workspace.names.shown(node.name),
            location=node.location or "",
            columns=node.columns,
            partition_by=dataset.partition_by,
            cluster_by=dataset.cluster_by,
            properties=stored(dataset.properties),
            comment=dataset.comment,
            at=str(dataset.at),
            keyed=bool(cdc),
            cdc=next(iter(cdc.values()), None),
            sequences={name: each.sequence_by for name, each in cdc.items() if each.sequence_by is not None},
        )


def _check_clusters(node: Node, dataset: Dataset) -> None:
    for name in dataset.cluster_by:
        kind = field_type(node.columns, name)
        if kind is None or not has_bounds(kind):
            said = (
                "which is no column" if kind is None else f"which is {kind.simpleString()}: Delta keeps no bounds of it"
            )
            usable = [each.name for each in node.columns if has_bounds(each.dataType)]
            raise DefinitionInvalid(
                at=str(dataset.at),
                definition=f"dataset {dataset.name}",
                detail=f"its table is to be clustered by {name}, {said}",
                fix=f"cluster it by other columns: {', '.join(usable)}",
            )
