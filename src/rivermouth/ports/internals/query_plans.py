"""What Spark has made of a query: its analysed plan, and whether a streaming query keeps state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, jvm
from rivermouth.ports.internals.sessions import active, settings

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


# Spark cuts texts of plans after so many columns and letters.
_WHOLE_PLANS: Final = {
    "spark.sql.debug.maxToStringFields": str(2**31 - 1),
    "spark.sql.maxPlanStringLength": str(2**31 - 16),
}


def analysed_plan(frame: DataFrame) -> str:
    """The analysed query as text, whole: queries that differ in their last column have different texts."""
    spark = frame.sparkSession
    with active(spark), settings(spark, _WHOLE_PLANS):  # texts are cut as the active session says
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
    plan, modes = java_frame(frame).queryExecution().analyzed(), jvm(frame.sparkSession).org.apache.spark.sql.streaming
    return not _supports(frame, plan, modes.OutputMode.Append()) and _supports(frame, plan, modes.OutputMode.Complete())


def _supports(frame: DataFrame, plan: Any, mode: Any) -> bool:
    checker = java_class(frame.sparkSession, "org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker")
    try:
        checker.checkForStreaming(plan, mode)
    except PySparkException:
        return False
    return True


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
