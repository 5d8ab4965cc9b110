"""How far a flow's schema may grow: as far as its table can be changed with it, also where columns are computed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import StructField, StructType

from rivermouth.engine.schema.kept_schemas import with_columns
from rivermouth.engine.table.flow_table import table_changes, table_shape
from rivermouth.errors import RivermouthError
from rivermouth.names import folded
from rivermouth.rows import conform, reserved_names
from rivermouth.schemas.evolution import GROWN, Growth

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.spec import Flow

Grow = Callable[[Collection[str]], Growth | None]
"""How a schema grows if columns of these names, in lower case, stay as they are; None where it does not."""


@dataclass(frozen=True, slots=True)
class GrowthLimit:
    """A flow's table, as far as the flow's schema can grow with it.

    Attributes:
        spark: Any session with our settings.
        location: The table's folder.
        state: Its newest snapshot.
        columns: Names of the columns that the flow writes.
    """

    spark: SparkSession
    location: str
    state: TableState
    columns: Collection[str]

    def fitting(self, flow: Flow, grow: Grow) -> Growth | None:
        """How the schema grows by ``grow``, without changes that would make the flow select what its table cannot take.

        Args:
            flow: The flow, with its schema as it is.
            grow: Says how the schema grows.
        """
        pinned = flow.evolving_format.pinned
        growth = grow(pinned)
        if not flow.select or growth is None or self._takes(flow, growth.schema):
            return growth
        mine = flow.evolving_format.schema_as_declared()
        wider = {each.name: each for each in growth.schema if each.name in mine.names and each != mine[each.name]}
        alone = {name: [new if each.name == name else each for each in mine] for name, new in wider.items()}
        unfit = {name.lower() for name, fields in alone.items() if not self._takes(flow, StructType(fields))}
        growth = grow(pinned | unfit)
        if growth is None or self._takes(flow, growth.schema):
            return growth
        return grow(pinned | {name.lower() for name in wider})

    def is_taken(self, flow: Flow) -> Callable[[str], bool]:
        """Whether a new column cannot have a name; what the flow selects under that name stays what it is."""
        taken = {folded(name) for name in self.columns} if flow.select else set()
        # Somebody else may have turned it on.
        taken |= reserved_names.CHANGE_FEED if reserved_names.has_change_feed(self.state.properties) else set()
        return lambda name: folded(name) in taken or conform.is_taken(flow, name)

    def _takes(self, flow: Flow, grown: StructType) -> bool:
        """Whether the table can be changed to what the flow writes with this schema."""
        try:
            wanted = with_columns(flow, marked(flow, grown))
            table_changes(wanted, self.location, self.state, table_shape(self.spark, wanted))
        except RivermouthError:
            return False
        return True


def marked(flow: Flow, grown: StructType) -> StructType:
    """What a flow's schema has grown to, with a mark at the columns that it did not have."""
    known = flow.evolving_format.schema_as_declared().names
    new = {name: {GROWN: True} for name in grown.names if name not in known}
    return StructType([StructField(f.name, f.dataType, True, {**f.metadata, **new.get(f.name, {})}) for f in grown])
