"""Rows appended to a Delta table in one commit with the ledger's entry, in the steps of Delta's own writer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import JavaClass

from rivermouth.ports.delta.delta_table import conflicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

_DELTA: Final = "org.apache.spark.sql.delta"
STATISTICS_CONF: Final = "spark.databricks.delta.stats.collect"


def append(
    rows: DataFrame,
    location: str,
    *,
    app_id: str,
    app_version: int,
    metadata: str,
    onto: int | None = None,
    by_footers: bool = False,
) -> None:
    """Appends ``rows`` in one commit with its transaction number and metadata, also if there are no rows.

    Args:
        rows: In the table's shape.
        location: The table's folder.
        app_id: The transaction's application.
        app_version: Its number.
        metadata: The text for ``userMetadata``.
        onto: A version of the table that the caller knows not to hold ``app_version``. While the table stands
            there, Delta is spared the look for it, which rebuilds the table's state in three Spark jobs.
        by_footers: Whether Delta, with ``onto``, is also spared the work for its statistics, as far as the footers of
            the new files tell the same. That pays for many rows: each file is asked once more for its footer.

    Guarantees:
        Run twice with one ``app_version``: Delta skips the second. Of two at once one is refused. Stopped
        half-way: no commit, and files that no version names.
    """
    if onto is not None and _append_onto(rows, location, onto, app_id, app_version, metadata, by_footers=by_footers):
        return
    (
        rows.write.format("delta")
        .mode("append")
        .option("txnAppId", app_id)
        .option("txnVersion", app_version)
        .option("userMetadata", metadata)
        .save(location)
    )


def append_alone(rows: DataFrame, location: str, *, onto: int, app_id: str, app_version: int, metadata: str) -> bool:
    """As ``append``, but only if the table stands at ``onto`` and nobody commits meanwhile; says whether it did.

    Guarantees:
        As ``append``.
    """
    try:
        return _append_onto(rows, location, onto, app_id, app_version, metadata, alone=True)
    except conflicts():
        return False


def write_counted(
    rows: DataFrame,
    location: str,
    *,
    onto: int,
    app_id: str,
    app_version: int,
    metadata: Callable[[], str],
    replace: bool = False,
) -> bool:
    """Writes ``rows`` in one commit whose metadata is made after the rows were written, so that it can hold counts.

    Args:
        rows: In the table's shape; where they ``replace``, the table gets theirs.
        location: The table's folder.
        onto: The version at which the caller knows the table to be.
        app_id: The transaction's application.
        app_version: Its number, which the caller knows not to be in the table.
        metadata: Called once all rows are in files; gives the text for ``userMetadata``.
        replace: Whether the rows replace all rows of the table.

    Returns:
        False, and nothing was done, if the table is at another version.

    Raises:
        PySparkException: One of ``delta_table.conflicts()``: somebody else has committed what does not go with it.

    Guarantees:
        Stopped half-way: no commit, and files that no version names.
    """
    return _append_onto(rows, location, onto, app_id, app_version, metadata, replace=replace)


def _append_onto(
    rows: DataFrame,
    location: str,
    version: int,
    app_id: str,
    app_version: int,
    metadata: str | Callable[[], str],
    *,
    alone: bool = False,
    by_footers: bool = False,
    replace: bool = False,
) -> bool:
    """What Delta's writer does, in its own steps but one; False, and nothing done, if the table stands elsewhere.

    Other appends are let pass unless it shall be ``alone``.
    """
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - Delta's transactions have no Python API
    session: Any = rows.sparkSession._jsparkSession  # noqa: SLF001
    # By whole names: py4j would look into every jar for a class that is called "org", and so on.
    option, to_scala = getattr(jvm, "scala.Option"), jvm.PythonUtils
    none, some = option.empty(), option.apply
    # Delta takes its settings from the thread's session.
    getattr(jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(session)
    log = getattr(jvm, f"{_DELTA}.DeltaLog").forTable(session, location)
    transaction = log.startTransaction(none, none)
    if transaction.readVersion() != version:
        return False
    # As if the number had been looked for: a commit with one of this application that comes first is a conflict.
    transaction.readTxn().addOne(app_id)
    if alone:
        transaction.readWholeTable()
    modes = getattr(jvm, "org.apache.spark.sql.SaveMode")
    mode = modes.Overwrite if replace else modes.Append
    options = {"overwriteSchema": "true"} if replace else {}
    writer = getattr(jvm, f"{_DELTA}.commands.WriteIntoDelta")(
        log,
        mode,
        getattr(jvm, f"{_DELTA}.DeltaOptions")(to_scala.toScalaMap(options), session.sessionState().conf()),
        to_scala.toSeq([]),
        to_scala.toScalaMap({}),
        rows._jdf,  # noqa: SLF001
        none,
        none,
        False,
    )
    written = _with_footers if by_footers else _without_footers
    actions = written(transaction, writer, rows.sparkSession)
    text = metadata if isinstance(metadata, str) else metadata()
    set_transaction = getattr(jvm, f"{_DELTA}.actions.SetTransaction")
    number = set_transaction(app_id, app_version, some(int(time.time() * 1000)))
    operation = getattr(jvm, f"{_DELTA}.DeltaOperations$Write")(
        mode, some(to_scala.toSeq([])), none, some(text), none, none, none, none, none
    )
    transaction.commit(actions.appended(number), operation)
    return True


def _without_footers(transaction: Any, writer: Any, spark: SparkSession) -> Any:
    """The actions that add the writer's files, with the statistics that Delta works out from every row."""
    java: Any = spark._jvm  # noqa: SLF001 - Delta's transactions have no Python API
    return writer.write(transaction, spark._jsparkSession, getattr(java, "scala.Option").empty(), False)  # noqa: SLF001


def _with_footers(transaction: Any, writer: Any, spark: SparkSession) -> Any:
    """The same actions, with the same statistics; from the footers of the files where they know them all."""
    java: Any = spark._jvm  # noqa: SLF001 - Delta's transactions have no Python API
    session: Any = spark._jsparkSession  # noqa: SLF001
    footers, snapshot = getattr(java, "rivermouth.stats.Footers"), transaction.snapshot()
    wanted = spark.conf.get(STATISTICS_CONF, "true") == "true"
    # Another JVM, a notebook's, may not have our classes.
    if not (wanted and isinstance(footers, JavaClass) and footers.suffice(snapshot)):
        return _without_footers(transaction, writer, spark)
    spark.conf.set(STATISTICS_CONF, "false")
    try:
        actions = _without_footers(transaction, writer, spark)
    finally:
        spark.conf.unset(STATISTICS_CONF)
    return footers.told(actions, snapshot, snapshot.path().getParent(), session.sessionState().newHadoopConf())
