"""Rows appended in one of Delta's transactions, in the steps of Delta's own writer."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, java_session, jvm
from rivermouth.domain.delta.table_transaction import CountedTransaction, NewLayout, TableTransaction
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals.delta_snapshot import clustering_of, table_state

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
    way = _way(spark, transaction, carried.replaces if isinstance(carried, CountedTransaction) else False)
    written = _with_footers if by_footers else _without_footers
    actions = written(transaction, _writer(rows, log, way), way, spark)
    text = carried.metadata if isinstance(carried, TableTransaction) else carried.metadata()
    set_transaction = java_class(spark, f"{_DELTA}.actions.SetTransaction")
    number = set_transaction(carried.app_id, carried.app_version, some(int(time.time() * 1000)))
    new_columns = some(True) if way.schema.isDefined() else none
    operation = java_class(spark, f"{_DELTA}.DeltaOperations$Write")(
        way.mode, some(way.partition_by), none, some(text), none, new_columns, none, none, none
    )
    transaction.commit(actions.appended(number), operation)
    return True


@dataclass(frozen=True, slots=True)
class _Way:
    """How Delta's writer writes rows, as objects of the JVM.

    Attributes:
        mode: Of saving.
        options: Of the writer.
        partition_by: The partition columns that the table gets; empty where it keeps its own.
        cluster_by: The clustering columns that it has then, as an option.
        schema: The columns that it gets, as an option.
    """

    mode: Any
    options: Any
    partition_by: Any
    cluster_by: Any
    schema: Any


def _way(spark: SparkSession, transaction: Any, replaces: bool | NewLayout) -> _Way:
    """How rows are written behind the others of the table, or in the place of all."""
    to_scala, (none, some) = jvm(spark).PythonUtils, _options(spark)
    modes = java_class(spark, "org.apache.spark.sql.SaveMode")
    no_options, no_columns = to_scala.toScalaMap({}), to_scala.toSeq([])
    if not replaces:
        return _Way(modes.Append, no_options, no_columns, none, none)
    # With the other word, which a session may prefer, rows of partitions without new rows would stay.
    options = {"partitionOverwriteMode": "static"}
    if not isinstance(replaces, NewLayout):
        # Without them a clustered table would lose its clustering columns.
        clusters = clustering_of(spark, transaction.snapshot())
        return _Way(modes.Overwrite, to_scala.toScalaMap(options), no_columns, clusters, none)
    options["overwriteSchema"] = "true"
    clusters = none
    if replaces.cluster_by is not None:
        spec = java_class(spark, f"{_DELTA}.skipping.clustering.temp.ClusterBySpec")
        clusters = some(spec.fromProperty(json.dumps([each.split(".") for each in replaces.cluster_by])))
    # Not those of the rows: their metadata may have what other tables check, as the length of a varchar.
    schema = some(java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(replaces.schema))
    partitions = to_scala.toSeq(list(replaces.partition_by))
    return _Way(modes.Overwrite, to_scala.toScalaMap(options), partitions, clusters, schema)


def _writer(rows: DataFrame, log: Any, way: _Way) -> Any:
    """Delta's writer of these rows: it writes files and returns the actions that add them."""
    spark = rows.sparkSession
    none, _some = _options(spark)
    no_settings = jvm(spark).PythonUtils.toScalaMap({})
    options = java_class(spark, f"{_DELTA}.DeltaOptions")(way.options, java_session(spark).sessionState().conf())
    writer = java_class(spark, f"{_DELTA}.commands.WriteIntoDelta")
    return writer(log, way.mode, options, way.partition_by, no_settings, java_frame(rows), none, way.schema, False)


def _options(spark: SparkSession) -> tuple[Any, Any]:
    """Scala's None, and its Some of a value."""
    option = java_class(spark, "scala.Option")
    return option.empty(), option.apply


def _without_footers(transaction: Any, writer: Any, way: _Way, spark: SparkSession) -> Any:
    """The actions that add the writer's files, with the statistics that Delta works out from every row."""
    return writer.write(transaction, java_session(spark), way.cluster_by, False)


def _with_footers(transaction: Any, writer: Any, way: _Way, spark: SparkSession) -> Any:
    """The same actions, with the same statistics; from the footers of the files where they know them all."""
    footers, snapshot = java_class(spark, "rivermouth.internals.stats.Footers"), transaction.snapshot()
    wanted = spark.conf.get(STATISTICS_CONF, "true") == "true"
    if not (wanted and footers.suffice(snapshot)):
        return _without_footers(transaction, writer, way, spark)
    spark.conf.set(STATISTICS_CONF, "false")
    try:
        actions = _without_footers(transaction, writer, way, spark)
    finally:
        spark.conf.unset(STATISTICS_CONF)
    return footers.told(actions, snapshot, snapshot.path().getParent(), sessions.hadoop_conf(spark))
