"""Since when a flow reads each of its columns, kept in a property of its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.ports.delta import delta_ddl
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows.keyed.column_starts import ColumnStarts

if TYPE_CHECKING:
    from rivermouth.engine.flow.running import FlowRun


COLUMN_STARTS: Final = "rivermouth.column_starts"
"""Table property: since when the flow reads columns that it has not read all the time."""


def keep_column_starts(run: FlowRun) -> None:
    """The table says since when the flow reads its columns.

    Guarantees:
        Run twice: the second time finds it said. No row changes.
    """
    if run.flow.keyed is None or not run.flow.keyed.partial_updates:
        return
    properties = delta_snapshot.table_state(run.spark, run.places.table).properties
    if run.starts != ColumnStarts.from_json(properties.get(COLUMN_STARTS)):
        delta_ddl.set_property(run.spark, run.places.table, COLUMN_STARTS, run.starts.to_json())
