"""Since when a flow reads each of its columns, kept in a property of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.ports.delta import delta_ddl
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows.keyed.column_starts import ColumnStarts

if TYPE_CHECKING:
    from rivermouth.engine.flow.running import FlowContext, TableView


COLUMN_STARTS: Final = "rivermouth.column_starts"
"""Table property: since when the flow reads columns that it has not read all the time."""


def keep_column_starts(context: FlowContext, view: TableView) -> None:
    """Writes into the table's properties since when the flow reads its columns.

    Guarantees:
        Run twice: the second time finds it written. No row changes.
    """
    if view.flow.keyed is None or not view.flow.keyed.partial_updates:
        return
    properties = delta_snapshot.table_state(context.spark, context.places.table).properties
    if view.starts != ColumnStarts.from_json(properties.get(COLUMN_STARTS)):
        delta_ddl.set_property(context.spark, context.places.table, COLUMN_STARTS, view.starts.to_json())
