"""The versions of Spark and Delta whose internals are used, and what happens with others: the session is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.errors import SessionVersions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK: Final = "4.2"
"""Spark's internals change with its minor versions, and hardly ever with a patch."""
DELTA: Final = "4.4"


def check(spark: SparkSession) -> None:
    """Checks that the session's JVM runs the versions for which this package is written.

    A session without Delta passes: Spark says so itself when a table is read.

    Raises:
        SessionVersions: It runs others.
    """
    delta = _delta(spark)
    if _minor(spark.version) != SPARK or _minor(delta or DELTA) != DELTA:
        raise SessionVersions(spark=spark.version, delta=delta or "none", wanted_spark=SPARK, wanted_delta=DELTA)


def _delta(spark: SparkSession) -> str | None:
    package = java_class(spark, "io.delta.package")
    return None if package is None else str(package.VERSION())


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
