"""MERGE into a Delta table as one commit of the ledger's."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.delta import METADATA_CONF

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

_TXN: Final = "spark.databricks.delta.write."
# The changes stand ready in memory and on disk: Delta need not write them down before it reads them twice.
_READY: Final = {"spark.databricks.delta.merge.materializeSource": "none"}
# Its commit would carry the entry once more.
_ALONE: Final = {"spark.databricks.delta.autoCompact.enabled": "false"}


@dataclass(frozen=True, slots=True)
class Merge:
    """What becomes of a table's rows ``t`` and of changes ``s``; every part is an expression over the two.

    Attributes:
        on: When a change is about a row.
        delete: When such a row goes.
        update: When such a row becomes the change's.
        insert: When a change that is about no row becomes one.
        values: What a column is set to, by its quoted name.
        sweep: When a row that no change is about goes too; None if never.
    """

    on: Column
    delete: str
    update: str
    insert: str
    values: Mapping[str, str]
    sweep: Column | None = None


def merge(changes: DataFrame, location: str, what: Merge, *, app_id: str, app_version: int, metadata: str) -> None:
    """Merges ``changes`` in one commit with its transaction number and metadata, also if nothing changes.

    Args:
        changes: At most one for each row of the table; read twice.
        location: The table's folder.
        what: Which change does what.
        app_id: The transaction's application.
        app_version: Its number.
        metadata: The text for ``userMetadata``.

    Guarantees:
        Run twice with one ``app_version``: Delta skips the second. Stopped half-way: no commit, and files that no
        version names.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    spark = changes.sparkSession
    conf = {
        METADATA_CONF: metadata,
        f"{_TXN}txnAppId": app_id,
        f"{_TXN}txnVersion": str(app_version),
        **_READY,
        **_ALONE,
    }
    with _set(spark, conf):
        merging = DeltaTable.forPath(spark, location).alias("t").merge(changes.alias("s"), what.on)
        merging = merging.whenMatchedDelete(what.delete).whenMatchedUpdate(what.update, set=dict(what.values))
        merging = merging.whenNotMatchedInsert(what.insert, values=dict(what.values))
        if what.sweep is not None:
            merging = merging.whenNotMatchedBySourceDelete(what.sweep)
        merging.execute()


@contextmanager
def _set(spark: SparkSession, conf: Mapping[str, Any]) -> Iterator[None]:
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(name)
