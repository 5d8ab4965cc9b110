"""Java's objects behind those of PySpark, which keeps them in attributes that are not public.

Only this module and ``ports/internals`` read these attributes; ``tools/spark_internals.py`` checks it.
"""

# ruff: noqa: SLF001 - this is the place for it

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.errors.exceptions.captured import CapturedException
    from pyspark.sql import Column, DataFrame, SparkSession


def jvm(spark: SparkSession) -> Any:
    """The names of the session's JVM, as py4j looks them up."""
    return spark._jvm


def java_class(spark: SparkSession, name: str) -> Any:
    """A class by its full name; None if the JVM has none of that name."""
    found = getattr(spark._jvm, name)  # in one look-up: py4j would ask every jar for a class that is called "org"
    return found if isinstance(found, JavaClass) else None


def java_session(spark: SparkSession) -> Any:
    """Java's session."""
    return spark._jsparkSession


def java_frame(frame: DataFrame) -> Any:
    """Java's frame."""
    return frame._jdf


def java_column(column: Column) -> Any:
    """Java's column."""
    return column._jc


def java_error(error: Py4JJavaError | CapturedException) -> Any:
    """Java's exception behind one of PySpark's; None where it has none."""
    return error.java_exception if isinstance(error, Py4JJavaError) else error._origin


def strings(spark: SparkSession, texts: Sequence[str]) -> Any:
    """Texts as an array of Java's."""
    return array_of(spark, jvm(spark).String, texts)


def array_of(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    """Values as an array of Java's whose elements are of the class ``kind``."""
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(kind, len(values))
    for place, value in enumerate(values):
        array[place] = value
    return array
