"""What Spark has made of a query: its analysed plan, and whether a streaming query keeps state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.errors import PySparkException

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, jvm
from rivermouth.ports.internals.sessions import active

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STATEFUL: Final = (
    "Aggregate",
    "Deduplicate",
    "FlatMapGroups",
    "TransformWithState",
    "StreamingGlobalLimit",
    "GlobalLimit",
)


OutputMode = Literal["append", "complete", "update"]
"""Spark's output modes of a streaming query."""

WHOLE_PLANS: Final = {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}
"""Settings of a session in which plans are told apart by all of their columns."""


def analysed_plan(frame: DataFrame) -> str:
    """The analysed query as text: whole in a session with ``WHOLE_PLANS``, else without what is behind 25 columns."""
    with active(frame.sparkSession):  # whose settings of printing hold
        return str(java_frame(frame).queryExecution().analyzed().toString())


def qualified_columns(frame: DataFrame) -> dict[str, set[str]]:
    """By table or alias the columns of a query that come from it, all in lower case."""
    found: dict[str, set[str]] = {}
    output = java_frame(frame).queryExecution().analyzed().output()
    for index in range(output.size()):
        attribute = output.apply(index)
        if attribute.qualifier().nonEmpty():
            found.setdefault(attribute.qualifier().last().lower(), set()).add(attribute.name().lower())
    return found


def needs_whole_result(frame: DataFrame) -> bool:
    """Whether a streaming query can only give its whole result with each batch: it aggregates without a watermark."""
    return refused_stream(frame, "append") is not None and refused_stream(frame, "complete") is None


def refused_stream(frame: DataFrame, output_mode: OutputMode) -> PySparkException | None:
    """Why Spark does not run a streaming query in an output mode; None where it does."""
    plan, modes = java_frame(frame).queryExecution().analyzed(), jvm(frame.sparkSession).org.apache.spark.sql.streaming
    mode = getattr(modes.OutputMode, output_mode.capitalize())()
    checker = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    try:
        checker.checkForStreaming(plan, mode)
    except PySparkException as error:
        return error
    return None


def keeps_state(frame: DataFrame) -> bool:
    """Whether a streaming query keeps state between its batches: it aggregates, drops duplicates, or joins streams."""
    return frame.isStreaming and _is_stateful(java_frame(frame).queryExecution().analyzed())


def _is_stateful(plan: Any) -> bool:
    if not plan.isStreaming():
        return False
    children = plan.children()
    mine = [children.apply(index) for index in range(children.size())]
    name = str(plan.nodeName())
    if name.startswith(_STATEFUL) or (name == "Join" and all(each.isStreaming() for each in mine)):
        return True
    return any(map(_is_stateful, mine))
