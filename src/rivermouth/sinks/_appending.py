"""Rows and a ledger entry appended to a Delta table in one commit: what sinks that only add rows share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.offset_ranges import size
from rivermouth.errors import CommitLost
from rivermouth.ports.delta import delta_append
from rivermouth.ports.delta.table_ledger import transaction_of
from rivermouth.spec import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.sinks._target import Target

# From this number of rows on, Delta's statistics cost more than reading the footer of each file again.
MANY_OFFSETS: Final = 100_000


class AppendingSink(Sink):
    """A sink whose table only gets more rows."""

    def write(self, rows: DataFrame, target: Target, entry: Entry) -> Commit:
        """Appends ``rows`` and ``entry`` to the table in one commit, also if there are no rows.

        Args:
            rows: In the shape of the table.
            target: The table.
            entry: The ledger entry that becomes true with these rows.

        Raises:
            CommitLost: Another process committed an entry of this number first.

        Guarantees:
            Run twice with one entry: the rows are there once. Stopped half-way: neither rows nor entry, or both.
        """
        delta_append.append(
            rows,
            target.ledger.location,
            transaction_of(entry, target.table_id),
            onto=target.version,
            by_footers=size(entry.unsettled) >= MANY_OFFSETS,
        )
        commit = target.ledger.commit_of(entry, target.version)
        if commit is None:
            raise CommitLost(flow=entry.flow, entry=entry.number, table=target.ledger.location)
        return commit
