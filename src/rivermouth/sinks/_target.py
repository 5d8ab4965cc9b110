"""What a sink is told of the table that it writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.side_tables.deleted_keys import Tombstones


class SinkEntry(Protocol):
    """What a sink needs of the ledger entry that its commit carries."""

    @property
    def flow(self) -> str:
        """The flow that writes."""

    @property
    def number(self) -> int:
        """The number of the entry: the transaction number of the commit."""

    def to_json(self) -> str:
        """The text that the commit carries."""


class SinkLedger(Protocol):
    """What a sink needs of the ledger of its table."""

    location: str
    """The table's folder."""

    def commit_of(self, entry: Any, after_version: int) -> Commit | None:
        """The commit that carries ``entry``, looked for in the versions after ``after_version``; None without one."""


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

    ledger: SinkLedger
    table_id: str
    version: int
    order: ChangeOrder | None = None
    tombstones: Tombstones | None = None
