"""What a sink is told of the table that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rivermouth.ports.delta.table_ledger import TableLedger
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.side_tables.deleted_keys import Tombstones


@dataclass(frozen=True, slots=True)
class Target:
    """A table before a commit.

    Attributes:
        ledger: The table's.
        table_id: Delta's UUID of the table.
        version: The table's version before.
        order: How a keyed table orders its rows; None for others.
        tombstones: The deleted keys of a keyed table; None for others.
    """

    ledger: TableLedger
    table_id: str
    version: int
    order: ChangeOrder | None = None
    tombstones: Tombstones | None = None
