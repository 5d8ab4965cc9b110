"""Rows of many Delta tables, written by one Spark job into the tables' folders; each table has a commit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, java_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.delta.table_transaction import TableTransaction

_FILES: Final = "parted.PartedFiles"


def takes(rows: DataFrame, location: str, version: int) -> bool:
    """Whether ``rows`` can be added to the table at ``version`` by a file and a commit, and nothing else.

    Not to a table with partitions, mapped columns, constraints, row ids, VARIANT, or a property or a feature that is
    not known to leave its files alone; and not if Parquet's footers do not have all of its statistics.

    Args:
        rows: In the table's columns.
        location: The table's folder.
        version: As the session knows the table.
    """
    spark = rows.sparkSession
    java = java_class(spark, f"rivermouth.internals.{_FILES}")
    return bool(java.takes(java_session(spark), location, version, java_frame(rows)))


class PartedFiles:
    """Files that lie in the folders of their tables, and that no version names before ``commit``.

    Args:
        rows: In the tables' columns, and one more; written at once.
        column: That one: the number of the row's table, an int and never null.
        locations: The tables' folders.

    Guarantees:
        Stopped half-way: files that no version names.
    """

    def __init__(self, rows: DataFrame, column: str, locations: Sequence[str]) -> None:
        java = java_class(rows.sparkSession, f"rivermouth.internals.{_FILES}")
        self._java = java.written(java_frame(rows), column, list(locations))
        self._locations = list(locations)

    def commit(
        self,
        spark: SparkSession,
        number: int,
        transaction: TableTransaction,
        *,
        table_id: str,
        onto: int,
    ) -> bool:
        """Adds one table's files in one commit with its transaction number and metadata, also if there are none.

        Args:
            spark: A session for this commit.
            number: Of the table.
            table_id: Delta's UUID of it.
            onto: A version of the table that the caller knows not to hold this number.
            transaction: The number and the metadata of the commit.

        Returns:
            False, and nothing is done, if the table is at another version by now, or another table is in its place.

        Guarantees:
            Of two at once with one number one is refused. Stopped half-way: no commit.
        """
        session, folder = java_session(spark), self._locations[number]
        txn = (transaction.app_id, transaction.app_version, transaction.metadata)
        return bool(self._java.commit(session, folder, number, table_id, onto, *txn))
