"""What Spark's sessions have and PySpark does not show: Hadoop's settings, a clone, checked SQL settings, the time.

PySpark is imported where it is called: ``status`` reads a lake without Spark, and imports this module.
"""

# ruff: noqa: SLF001 - PySpark has no public way to any of it

from __future__ import annotations

import datetime as dt
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.jvm.java_objects import java_class, java_session, jvm

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

_ASKED_FOR: Final = (
    "PythonUtils",
    "PythonSQLUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "PythonErrorUtils",
    "PythonRDD",
    "SerDeUtil",
    "SimplePythonFunction",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.util.Utils",
)
# Package by package; the first two of these for each error that the JVM raises, to find out which it is.
_ASKED_FOR_IN_PARTS: Final = (
    "py4j.reflection.TypeUtil",
    "org.apache.spark.util.Utils",
    "io.delta.tables.DeltaTable",
)

_ADDS_SETTINGS: Final = ("org.apache.hadoop.mapred.JobConf", "org.apache.hadoop.yarn.conf.YarnConfiguration")
_ADDS_SETTINGS_OF: Final = {"s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
"""Classes that have Hadoop read all settings once more when they are loaded; some by the scheme of a file system."""
_CONFIGURATION: Final = "org.apache.hadoop.conf.Configuration"
_SOURCES: Final = "updatingResource"
"""Its list of the sources of each setting."""

_TIME: Final = "rivermouth.internals.plan.SessionTime"
_TIME_SETTING: Final = "spark.rivermouth.session_time_us"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

CHANGING: Final = threading.RLock()
"""Held while a session that flows share has other settings for a moment; no clone is made of it meanwhile."""

_BETWEEN: Final = "\x1f"
"""Between two settings in a text of all; no setting has it."""


def keep_classes(spark: SparkSession) -> None:
    """Spares each batch PySpark's search for classes that it asks the JVM for by name, again and again.

    py4j looks for such a name in every package that was imported and in every jar, and does not remember.
    """
    known = jvm(spark)
    for name in _ASKED_FOR:
        setattr(known, name, getattr(known, name))
    for name in _ASKED_FOR_IN_PARTS:
        place = known
        for part in name.split("."):
            found = getattr(place, part)
            setattr(place, part, found)
            place = found


def forget_sources(spark: SparkSession, schemes: Collection[str]) -> None:
    """Forgets from which file each of Hadoop's settings came. Only Hadoop's own dump of the settings shows it.

    Spark sends all settings, more than a thousand, with every task that reads or writes files, and Hadoop compresses
    the sources of each of them by itself. Of a plain append of ten rows that takes more than half of the time
    (``Configuration.write``, https://hadoop.apache.org/docs/stable/api/org/apache/hadoop/conf/Configuration.html).

    Args:
        spark: The session.
        schemes: Of the URIs that it will read and write.

    Guarantees:
        The settings are the same afterwards. Hadoop without such a list is left as it is.
    """
    known, classes = context_hadoop_conf(spark), java_class(spark, "java.lang.Class")
    # Where Spark brings jars to a session, as on a cluster, the loader of the thread alone knows their classes.
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    for name in (*_ADDS_SETTINGS, *(_ADDS_SETTINGS_OF[each] for each in schemes if each in _ADDS_SETTINGS_OF)):
        if java_class(spark, name) is not None:
            classes.forName(name, True, loader)
    known.size()  # they are read no sooner than this
    for field in classes.forName(_CONFIGURATION).getDeclaredFields():
        if field.getName() == _SOURCES:
            field.setAccessible(True)
            field.get(known).clear()


def cloned(spark: SparkSession, at: dt.datetime | None = None) -> SparkSession:
    """A session with the same context and settings, whose SQL settings are its own.

    Args:
        spark: The other one.
        at: As of ``new_session``.
    """
    from pyspark import RDD  # noqa: PLC0415 - see the module
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with CHANGING:
        to_frame = RDD.toDF  # a new session would take it
        found = SparkSession(spark.sparkContext, _at(at, _allowing(spark, at).cloneSession()))
        RDD.toDF = to_frame  # type: ignore[method-assign]
    return found


def new_session(spark: SparkSession, at: dt.datetime | None = None) -> Any:
    """A new session in Java with the context and the catalog of another one.

    Args:
        spark: The other one.
        at: What ``current_timestamp()`` and its relatives are in its queries; None for the time of the machine.
    """
    return _at(at, _allowing(spark, at).newSession())


def now(spark: SparkSession) -> dt.datetime:
    """The current time of a session, in UTC: that of the machine, or the one that a test has set."""
    given = spark.conf.get(_TIME_SETTING, None)
    return dt.datetime.now(dt.UTC) if given is None else _EPOCH + dt.timedelta(microseconds=int(given))


def at_time(frame: DataFrame, at: dt.datetime) -> DataFrame:
    """The same query, in which ``current_timestamp()`` and its relatives are ``at``.

    In a session whose time a test has set, they are that time.
    """
    from pyspark.sql import DataFrame  # noqa: PLC0415 - see the module

    spark = frame.sparkSession
    if spark.conf.get(_TIME_SETTING, None) is not None:
        return frame
    return DataFrame(java_class(spark, _TIME).fixed(frame._jdf, _micros(at)), spark)


def _micros(at: dt.datetime) -> int:
    return (at - _EPOCH) // dt.timedelta(microseconds=1)


def _allowing(spark: SparkSession, at: dt.datetime | None) -> Any:
    """Java's session; those that are made of it from now on have the time that is set for them."""
    found = java_session(spark)
    if at is not None:
        java_class(spark, _TIME).allow(found)
    return found


def _at(at: dt.datetime | None, java: Any) -> Any:
    """A session of Java's, whose time is set."""
    if at is not None:
        java.conf().set(_TIME_SETTING, str(_micros(at)))
    return java


def rehomed(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The same query in another session of the same context, whose SQL settings then hold for it."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 - see the module

    datasets = java_class(spark, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(datasets.ofRows(java_session(spark), frame._jdf.logicalPlan()), spark)


def drop_view(frame: DataFrame, name: str) -> None:
    """Drops a temporary view that was made of the frame. Unlike with PySpark's own way, cached rows stay cached."""
    frame._jdf.sparkSession().sessionState().catalog().dropTempView(name)


def read_settings(spark: SparkSession) -> None:
    """Has Spark read its SQL settings now. It would do so at the first query, and raise what is wrong with them."""
    java_session(spark).sessionState()


def hadoop_conf(spark: SparkSession) -> Any:
    """Hadoop's settings, as the session has them (an ``org.apache.hadoop.conf.Configuration``)."""
    return java_session(spark).sessionState().newHadoopConf()


def context_hadoop_conf(spark: SparkSession) -> Any:
    """Hadoop's settings, as the context of the session has them."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def context(spark: SparkSession) -> Any:
    """Spark's context, the one of Scala."""
    return spark.sparkContext._jsc.sc()


@contextmanager
def standing_in(spark: SparkSession) -> Iterator[None]:
    """In the block ``SparkSession.builder.getOrCreate()`` and ``getActiveSession()`` give this session."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see the module

    before = SparkSession._instantiatedSession, SparkSession._activeSession
    SparkSession._instantiatedSession = SparkSession._activeSession = spark
    try:
        with active(spark):  # PySpark gives the session that the JVM has, if it is another
            yield
    finally:
        SparkSession._instantiatedSession, SparkSession._activeSession = before


def make_active(spark: SparkSession) -> None:
    """Makes the session that of the calling thread in the JVM, from which Delta takes its settings."""
    java_class(spark, "org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session(spark))


@contextmanager
def active(spark: SparkSession) -> Iterator[None]:
    """In the block the session is that of the calling thread in the JVM, from which Spark takes its settings."""
    sessions = java_class(spark, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(java_session(spark))
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def all_settings(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that somebody has set, of its context and its own.

    ``conf.getAll`` of PySpark asks the JVM for each of them alone.
    """
    text: str = java_session(spark).conf().getAll().mkString(_BETWEEN)
    pairs = (each.partition(" -> ") for each in text.split(_BETWEEN) if each)
    return {name: value for name, _, value in pairs}


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """In the block the session has these settings; afterwards those that it had before."""
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, previous in before.items():
            if previous is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, previous)
