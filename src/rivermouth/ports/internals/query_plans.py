"""What Spark has made of a query: its analysed plan, and whether a streaming query keeps state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.jvm.java_objects import java_frame

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


def analysed_plan(frame: DataFrame) -> str:
    """The analysed query as text."""
    return str(java_frame(frame).queryExecution().analyzed().toString())


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
