"""Rows appended in one of Delta's transactions, in the steps of Delta's own writer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, java_session, jvm
from rivermouth.domain.delta.table_transaction import CountedTransaction, TableTransaction
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals.delta_snapshot import table_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELTA: Final = "org.apache.spark.sql.delta"
STATISTICS_CONF: Final = "spark.databricks.delta.stats.collect"


def append_onto(
    rows: DataFrame,
    location: str,
    version: int,
    carried: TableTransaction | CountedTransaction,
    *,
    alone: bool = False,
    by_footers: bool = False,
) -> bool:
    """What Delta's writer does, in its own steps but one; False, and nothing done, if the table is at another version.

    Appends that come first are let pass. Where it shall be ``alone``, each commit of an application that has a number
    in the table is a conflict, and so are rows that were added or removed. The metadata of a counted one is made once
    the rows are in files.
    """
    spark = rows.sparkSession
    none, some = _options(spark)
    # Delta takes its settings from the thread's session.
    sessions.make_active(spark)
    log = java_class(spark, f"{_DELTA}.DeltaLog").forTable(java_session(spark), location)
    transaction = log.startTransaction(none, none)
    if transaction.readVersion() != version:
        return False
    # As if the number had been looked for: a commit with one of this application that comes first is a conflict.
    transaction.readTxn().addOne(carried.app_id)
    if alone:
        transaction.readWholeTable()
        for app_id in table_state(spark, location).transactions:
            transaction.readTxn().addOne(app_id)
    modes = java_class(spark, "org.apache.spark.sql.SaveMode")
    replaces = isinstance(carried, CountedTransaction) and carried.replaces
    mode = modes.Overwrite if replaces else modes.Append
    written = _with_footers if by_footers else _without_footers
    # With the other word, which a session may prefer, rows of partitions without new rows would stay.
    settings = {"partitionOverwriteMode": "static"} if replaces else {}
    actions = written(transaction, _writer(rows, log, mode, settings), spark)
    text = carried.metadata if isinstance(carried, TableTransaction) else carried.metadata()
    set_transaction = java_class(spark, f"{_DELTA}.actions.SetTransaction")
    number = set_transaction(carried.app_id, carried.app_version, some(int(time.time() * 1000)))
    no_partitions = some(jvm(spark).PythonUtils.toSeq([]))
    operation = java_class(spark, f"{_DELTA}.DeltaOperations$Write")(
        mode, no_partitions, none, some(text), none, none, none, none, none
    )
    transaction.commit(actions.appended(number), operation)
    return True


def _writer(rows: DataFrame, log: Any, mode: Any, settings: dict[str, str]) -> Any:
    """Delta's writer of these rows: it writes files and returns the actions that add them."""
    spark = rows.sparkSession
    to_scala, (none, _some) = jvm(spark).PythonUtils, _options(spark)
    no_settings = to_scala.toScalaMap({})
    conf = java_session(spark).sessionState().conf()
    options = java_class(spark, f"{_DELTA}.DeltaOptions")(to_scala.toScalaMap(settings), conf)
    writer = java_class(spark, f"{_DELTA}.commands.WriteIntoDelta")
    return writer(log, mode, options, to_scala.toSeq([]), no_settings, java_frame(rows), none, none, False)


def _options(spark: SparkSession) -> tuple[Any, Any]:
    """Scala's None, and its Some of a value."""
    option = java_class(spark, "scala.Option")
    return option.empty(), option.apply


def _without_footers(transaction: Any, writer: Any, spark: SparkSession) -> Any:
    """The actions that add the writer's files, with the statistics that Delta works out from every row."""
    none, _some = _options(spark)
    return writer.write(transaction, java_session(spark), none, False)


def _with_footers(transaction: Any, writer: Any, spark: SparkSession) -> Any:
    """The same actions, with the same statistics; from the footers of the files where they know them all."""
    footers, snapshot = java_class(spark, "rivermouth.internals.stats.Footers"), transaction.snapshot()
    wanted = spark.conf.get(STATISTICS_CONF, "true") == "true"
    if not (wanted and footers.suffice(snapshot)):
        return _without_footers(transaction, writer, spark)
    spark.conf.set(STATISTICS_CONF, "false")
    try:
        actions = _without_footers(transaction, writer, spark)
    finally:
        spark.conf.unset(STATISTICS_CONF)
    return footers.told(actions, snapshot, snapshot.path().getParent(), sessions.hadoop_conf(spark))
