"""What a session that somebody else started must have, before a flow uses it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pyspark.sql.utils import is_remote

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.errors import SessionJarMissing, SparkConnectSession
from rivermouth.ports.internals.observed import Observed
from rivermouth.ports.spark import session_conf
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

# Where a class of a plan is missing, Java mostly complains about the lambda that it could not make.
_MISSING_CLASS: Final = (
    "ClassNotFoundException: rivermouth.",
    "NoClassDefFoundError: rivermouth/",
    "cannot assign instance of java.lang.invoke.SerializedLambda",
)


def check_classic() -> None:
    """Makes sure that sessions of this process have a JVM here.

    Raises:
        SparkConnectSession: They are sessions of Spark Connect.
    """
    if is_remote() or "SPARK_REMOTE" in os.environ:
        raise SparkConnectSession


def check_jar(spark: SparkSession, schemes: Collection[str]) -> None:
    """Makes sure that the session has ``rivermouth.jar``.

    With any master but a local one, one task on an executor uses a class of it: class paths of clusters are set in
    many ways.

    Args:
        spark: The session that somebody else started.
        schemes: Of the places that flows will read and write, where they are not on a local disk.

    Raises:
        SessionJarMissing: The driver does not have it, or the executors do not.
    """
    option = " --s3" if "s3a" in schemes else ""
    if java_class(spark, "rivermouth.internals.plan.Observer") is None:
        raise SessionJarMissing(place="driver", option=option)
    if session_conf.in_one_jvm(spark.sparkContext.master or ""):
        return
    try:
        Observed(spark.range(1), {"rows": Aggregate("count_if", "true")}).rows.collect()
    except Exception as error:
        if any(text in str(error) for text in _MISSING_CLASS):
            raise SessionJarMissing(place="executors", option=option) from error
        raise
