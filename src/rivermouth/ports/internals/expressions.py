"""What a user's expression may not do: it is code, and runs on every machine of the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import is_instance_of

from rivermouth.decoding.jvm.java_objects import java_column, java_frame, java_session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# They call any method of any class that the JVM knows.
_REFLECTION: Final = frozenset({"reflect", "try_reflect", "java_method"})
_OF_THE_DAY: Final = re.compile(r"(?i)today|tomorrow|yesterday|\bnow\b(?!\s*\()")
_CLOCKS: Final = ("CurrentTimestampLike", "CurrentDate", "CurrentTime", "LocalTimestamp")
_CATALYST: Final = "org.apache.spark.sql.catalyst"


def forbidden(spark: SparkSession, expression: str) -> str | None:
    """What of ``expression`` is refused, in words; None if nothing is. It is parsed and not analysed.

    Raises:
        ParseException: Spark's parser does not take it.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    parser = java_session(spark).sessionState().sqlParser()
    for part in _parts(parser.parseExpression(expression)):
        if is_instance_of(gateway, part, f"{_CATALYST}.expressions.PlanExpression"):
            return "it holds a subquery, which Spark would run again with every batch"
        if is_instance_of(gateway, part, f"{_CATALYST}.analysis.ExpressionWithUnresolvedIdentifier"):
            return "it makes up a name with IDENTIFIER(), which could be that of any function"
        if is_instance_of(gateway, part, f"{_CATALYST}.analysis.UnresolvedFunction"):
            names = part.nameParts()
            name = str(names.apply(names.size() - 1)).lower()
            if name in _REFLECTION:
                return f"it calls {name}(), which could run any code"
    return None


def forbidden_within(frame: DataFrame) -> str | None:
    """What is refused of the functions that a frame's columns call, in words; None if nothing is.

    Those that a catalog keeps have SQL of their own, which is not to be seen where they are called.
    """
    gateway = frame.sparkSession.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    columns = java_frame(frame).queryExecution().analyzed().expressions()
    for place in range(columns.size()):
        for part in _parts(columns.apply(place)):
            if is_instance_of(gateway, part, f"{_CATALYST}.expressions.CallMethodViaReflection"):
                return "it calls a function that calls reflect(), which could run any code"
            if is_instance_of(gateway, part, f"{_CATALYST}.expressions.PlanExpression"):
                return "it calls a function that holds a subquery, which Spark would run again with every batch"
    return None


def is_projection(frame: DataFrame) -> bool:
    """Whether the frame is a projection of one that has no plan below: each of its rows is made of one row."""
    plan: Any = java_frame(frame).queryExecution().analyzed()
    while plan.nodeName() == "Project":
        plan = plan.child()
    return not plan.children().size()


def literal_value(spark: SparkSession, column: Column) -> Any:
    """The value of a column that is a literal, as of ``lit("a")``; None for any other column."""
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    node = java_column(column).node()
    return node.value() if is_instance_of(gateway, node, "org.apache.spark.sql.internal.Literal") else None


def is_of_the_day(expression: str) -> bool:
    """Whether ``expression`` may hold a literal that Spark's parser fills in: ``DATE 'today'``."""
    return _OF_THE_DAY.search(expression) is not None


def repeatable(frame: DataFrame) -> bool:
    """Whether the frame's expressions say the same of the same rows at any time: no chance, no clock."""
    gateway = frame.sparkSession.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    columns = java_frame(frame).queryExecution().analyzed().expressions()
    clocks = [f"{_CATALYST}.expressions.{name}" for name in _CLOCKS]
    return all(
        part.deterministic() and not any(is_instance_of(gateway, part, clock) for clock in clocks)
        for place in range(columns.size())
        for part in _parts(columns.apply(place))
    )


def columns_in(spark: SparkSession, expression: str) -> set[str]:
    """The columns that ``expression`` names, as it writes them, without backticks. It is parsed and not analysed.

    Raises:
        ParseException: Spark's parser does not take it.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    parser = java_session(spark).sessionState().sqlParser()
    attribute = f"{_CATALYST}.analysis.UnresolvedAttribute"
    parts = _parts(parser.parseExpression(expression))
    return {str(part.nameParts().apply(0)) for part in parts if is_instance_of(gateway, part, attribute)}


def star_within(spark: SparkSession, expression: str) -> bool:
    """Whether a part of ``expression`` is a ``*`` for all columns, as in ``struct(*)``. It is parsed and not analysed.

    Raises:
        ParseException: Spark's parser does not take it.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - PySpark keeps it there
    parser = java_session(spark).sessionState().sqlParser()
    star = f"{_CATALYST}.analysis.UnresolvedStarBase"
    _whole, *parts = _parts(parser.parseExpression(expression))
    return any(is_instance_of(gateway, part, star) and part.target().isEmpty() for part in parts)


def _parts(expression: Any) -> Iterator[Any]:
    yield expression
    children = expression.children()
    for index in range(children.size()):
        yield from _parts(children.apply(index))
