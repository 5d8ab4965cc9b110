"""MERGE into a Delta table as one commit of the ledger's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.names import folded
from rivermouth.ports.delta.delta_table import METADATA_CONF
from rivermouth.ports.internals.sessions import settings
from rivermouth.ports.internals.single_pass_merge import merge_once
from rivermouth.rows.keyed.key_ranges import within
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.rows.reserved_names import VECTORS

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.delta.merge_report import ReadFiles
    from rivermouth.domain.delta.table_transaction import TableTransaction

_TXN: Final = "spark.databricks.delta.write."
# The changes are computed and kept in memory and on disk: Delta need not materialize them before it reads them twice.
_READY: Final = {"spark.databricks.delta.merge.materializeSource": "none"}
# Its commit would hold the entry once more.
_ALONE: Final = {"spark.databricks.delta.autoCompact.enabled": "false"}
# Up to this number of files a version's checksum lists them, so that the next merge need not look for them in the log.
_LISTED: Final = {
    "spark.databricks.delta.allFilesInCrc.enabled": "true",
    "spark.databricks.delta.allFilesInCrc.thresholdNumFiles": "400",
}
_WHOLE_FILES: Final = {"spark.databricks.delta.merge.deletionVectors.persistent": "false"}


def merge(
    changes: DataFrame,
    number: int,
    location: str,
    what: Merge,
    transaction: TableTransaction,
    *,
    few: bool,
) -> ReadFiles | None:
    """Merges ``changes`` in one commit with its transaction number and metadata, also if nothing changes.

    Args:
        changes: At most one for each row of the table; read twice, or once more by Delta's own command. They may have
            a number each, in a column ``__change``, which stays the same.
        number: How many they are.
        location: The table's folder.
        what: Which change does what.
        transaction: The number and the metadata of the commit.
        few: Whether the changes are few enough to go to each task whole.

    Returns:
        What was read, once; None if Delta's own command has merged.

    Guarantees:
        Run twice with one number: Delta skips the second. Stopped half-way: no commit, and files that no
        version names.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    spark = changes.sparkSession
    with settings(spark, _of_ledger(transaction)):
        if few and (looked := merge_once(changes, number, location, what, transaction)):
            return looked
        source, table = (F.broadcast(changes) if few else changes).alias("s"), DeltaTable.forPath(spark, location)
        merging = table.alias("t").merge(source, what.on & within(what.ranges))
        merging = merging.whenMatchedDelete(what.delete).whenMatchedUpdate(what.update, set=dict(what.values))
        merging = merging.whenNotMatchedInsert(what.insert, values=dict(what.values))
        if what.sweep is not None:
            merging = merging.whenNotMatchedBySourceDelete(what.sweep)
        with settings(spark, _without_vectors(table)):
            merging.execute()
    return None


def delete(matches: DataFrame, location: str, on: Column, transaction: TableTransaction) -> None:
    """Deletes the rows ``t`` that match a row ``s`` of ``matches``, in one commit with a ledger entry, also if none do.

    It is a MERGE whose condition only names columns: the log would keep the condition of a DELETE with its values.

    Args:
        matches: Rows that are computed and kept; read twice.
        location: The table's folder.
        on: When ``s`` matches a row ``t``.
        transaction: The number and the metadata of the commit.

    Raises:
        PySparkException: One of ``delta_table.conflicts()``: another writer changed the same files first.

    Guarantees:
        Run twice with one number: Delta skips the second. Stopped half-way: no commit, and files that no
        version names.
    """
    with settings(matches.sparkSession, _of_ledger(transaction)):
        delete_alone(matches, location, on)


def delete_alone(matches: DataFrame, location: str, on: Column) -> None:
    """The same in a table that has no ledger; no commit if no row goes."""
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    table = DeltaTable.forPath(matches.sparkSession, location)
    with settings(matches.sparkSession, _without_vectors(table)):
        table.alias("t").merge(matches.alias("s"), on).whenMatchedDelete().execute()


def _without_vectors(table: DeltaTable) -> dict[str, str]:
    """Where a table has columns of the names that Delta uses to mark rows as gone, files are rewritten instead."""
    found = {folded(name) for name in table.toDF().columns}
    return _WHOLE_FILES if found & VECTORS else {}


def _of_ledger(transaction: TableTransaction) -> dict[str, str]:
    numbers = {f"{_TXN}txnAppId": transaction.app_id, f"{_TXN}txnVersion": str(transaction.app_version)}
    return {METADATA_CONF: transaction.metadata, **numbers, **_READY, **_ALONE, **_LISTED}
