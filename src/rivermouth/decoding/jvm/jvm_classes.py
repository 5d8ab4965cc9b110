"""Our classes in Spark's JVM, reached from Python: looked up by name, and their errors as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth.decoding.jvm.java_objects import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

JAVA_ERRORS: Final = (Py4JJavaError, PySparkException)
_PACKAGE: Final = "rivermouth"


def found(spark: SparkSession, name: str) -> Any:
    """A class of ours by its name below the package ``rivermouth``: ``avro.Decoder``."""
    return java_class(spark, f"{_PACKAGE}.{name}")


def made(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """An object of a class of ours.

    Raises:
        ValueError: It refuses the arguments; the text says why.
    """
    try:
        return found(spark, name)(*arguments)
    except JAVA_ERRORS as error:
        raise translated(error) from None


def step(spark: SparkSession, column: str, name: str, *arguments: Any) -> Column:
    """A column of what one of our steps (a ``values.Step``) makes of a binary column.

    Returns:
        A struct, never null, of ``made``, which is null where the value is null or refused, and ``reason``, ``field``
        and ``message`` (strings), which are null where it is not refused.

    Raises:
        ValueError: The step refuses its arguments; the text says why.
    """
    return ClassicColumn(made(spark, name, *arguments).over(column))


def translated(error: Exception) -> Exception:
    """An error of our classes as a ValueError with its first line; one that says nothing as it is."""
    java = java_error(error)
    text = str(java.getMessage()) if java is not None else str(error)
    return ValueError(text.strip().splitlines()[0]) if text.strip() else error


def java_error(error: Exception) -> Any:
    """The Java exception behind one of Python's; None if there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)
