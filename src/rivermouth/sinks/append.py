"""The append sink: each record that passes is one row, added and never changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rivermouth.ports.delta.table_ledger import transaction_of
from rivermouth.sinks._appending import AppendingSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.internals.multi_table_write import PartedFiles
    from rivermouth.sinks._target import Target


class Append(AppendingSink):
    """Rows are added to the table."""

    type: Literal["append"] = "append"

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
        transaction = transaction_of(entry, target.table_id)
        return files.commit(spark, number, transaction, table_id=target.table_id, onto=target.version)


KIND = Append
