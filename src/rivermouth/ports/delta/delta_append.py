"""Rows appended to a Delta table in one commit with the ledger's entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.ports.delta.delta_table import conflicts
from rivermouth.ports.internals.delta_transaction import append_onto

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.delta.table_transaction import CountedTransaction, TableTransaction


def append(
    rows: DataFrame,
    location: str,
    transaction: TableTransaction,
    *,
    onto: int | None = None,
    by_footers: bool = False,
) -> None:
    """Appends ``rows`` in one commit with its transaction number and metadata, also if there are no rows.

    Args:
        rows: In the table's shape.
        location: The table's folder.
        transaction: The number and the metadata of the commit.
        onto: A version of the table that the caller knows not to hold this number. While the table is at this version,
            Delta is spared the look for it, which rebuilds the table's state in three Spark jobs.
        by_footers: Whether Delta, with ``onto``, is also spared the work for its statistics, as far as the footers of
            the new files have the same. That pays for many rows: each file is asked once more for its footer.

    Guarantees:
        Run twice with one number: Delta skips the second. Of two at once one is refused. Stopped
        half-way: no commit, and files that no version names.
    """
    if onto is not None and append_onto(rows, location, onto, transaction, by_footers=by_footers):
        return
    (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", transaction.app_id)
        .option("txnVersion", transaction.app_version)
        .option("userMetadata", transaction.metadata)
        .save(location)
    )


def append_alone(rows: DataFrame, location: str, transaction: TableTransaction, *, onto: int) -> bool:
    """As ``append``, but only if the table is at ``onto`` and no flow commits meanwhile; returns whether it did.

    Guarantees:
        As ``append``.
    """
    try:
        return append_onto(rows, location, onto, transaction, alone=True)
    except conflicts():
        return False


def write_counted(
    rows: DataFrame,
    location: str,
    transaction: CountedTransaction,
    *,
    onto: int,
    alone: bool = False,
    by_footers: bool = False,
) -> bool:
    """Writes ``rows`` in one commit whose metadata is made after the rows were written, so that it can hold counts.

    Args:
        rows: In the table's shape, or in the one that it gets where they replace all rows.
        location: The table's folder.
        transaction: The number of the commit, which is not in the table yet, and what makes its metadata.
        onto: The version at which the caller knows the table to be.
        alone: Whether no flow may commit meanwhile.
        by_footers: As of ``append``; no other thread may write in the session of the rows.

    Returns:
        False, and nothing was done, if the table is at another version.

    Raises:
        PySparkException: One of ``delta_table.conflicts()``: somebody else has committed what does not go with it.

    Guarantees:
        Stopped half-way: no commit, and files that no version names.
    """
    return append_onto(rows, location, onto, transaction, alone=alone, by_footers=by_footers)
