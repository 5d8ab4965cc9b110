"""The append sink: each record that passes is one row, added and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.ledger.offset_ranges import size
from rivermouth.errors import CommitLost
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.delta.table_ledger import app_id
from rivermouth.spec import Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.internals.multi_table_write import PartedFiles
    from rivermouth.sinks._target import Target


# Of so many rows Delta's statistics cost more than another look at the footer of each file.
MANY_OFFSETS: Final = 100_000


class Append(Sink):
    """Rows are added to the table."""

    type: Literal["append"] = "append"

    def write(self, rows: DataFrame, target: Target, entry: Entry) -> delta_table.Commit:
        """Appends ``rows`` and ``entry`` in one commit, also if there are no rows.

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
            app_id=app_id(entry.flow, target.table_id),
            app_version=entry.number,
            metadata=entry.to_json(),
            onto=target.version,
            by_footers=size(entry.unsettled) >= MANY_OFFSETS,
        )
        commit = target.ledger.commit_of(entry, target.version)
        if commit is None:
            raise CommitLost(flow=entry.flow, entry=entry.number, table=target.ledger.location)
        return commit

    def add(self, files: PartedFiles, number: int, spark: SparkSession, target: Target, entry: Entry) -> bool:
        """Adds files that lie ready, and ``entry``, in one commit; False, and nothing is done, if the table has moved.

        Args:
            files: Of many tables.
            number: Whose of them are this table's.
            spark: A session for the commit.
            target: The table.
            entry: The ledger entry that becomes true with these rows.

        Guarantees:
            As ``write``.
        """
        return files.commit(
            spark,
            number,
            table_id=target.table_id,
            onto=target.version,
            app_id=app_id(entry.flow, target.table_id),
            app_version=entry.number,
            metadata=entry.to_json(),
        )


KIND = Append
