"""Analysed queries: told apart from others, and whether they keep state between their batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.errors import PySparkException

from rivermouth.domain.query.query_entry import fingerprint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHOLE_PLANS: Final = {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}
"""Settings of a session in which plans are told apart by all of their columns."""
_STATEFUL = ("Aggregate", "Deduplicate", "FlatMapGroups", "TransformWithState", "StreamingGlobalLimit", "Window")


def analysed_plan(frame: DataFrame) -> str:
    """The analysed query as text: whole in a session with ``WHOLE_PLANS``, else without what is behind 25 columns."""
    sessions = cast("Any", frame.sparkSession._jvm).org.apache.spark.sql.classic.SparkSession  # noqa: SLF001
    before = sessions.getActiveSession()
    sessions.setActiveSession(frame.sparkSession._jsparkSession)  # noqa: SLF001 - the settings of printing are its
    try:
        return str(frame._jdf.queryExecution().analyzed().toString())  # noqa: SLF001 - PySpark only prints it
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def fingerprint_of(frame: DataFrame) -> str:
    """The fingerprint of a query, as its ledger entries keep it."""
    return fingerprint(analysed_plan(frame))


def keeps_state(frame: DataFrame, analysed: str) -> bool:
    """Whether a streaming query keeps state between its batches: it aggregates, drops duplicates, or joins streams."""
    if not frame.isStreaming:
        return False
    nodes = [line.lstrip(" :+-~'").split(" ", 1)[0].split("(", 1)[0] for line in analysed.splitlines()]
    if any(node.startswith(_STATEFUL) for node in nodes):
        return True
    return _joins_streams(frame._jdf.queryExecution().analyzed())  # noqa: SLF001


def _joins_streams(plan: object) -> bool:
    children = plan.children()  # type: ignore[attr-defined]
    mine = [children.apply(index) for index in range(children.size())]
    if plan.nodeName() == "Join" and all(each.isStreaming() for each in mine):  # type: ignore[attr-defined]
        return True
    return any(_joins_streams(each) for each in mine)


def needs_whole_result(frame: DataFrame) -> bool:
    """Whether a streaming query can only give its whole result with each batch: it aggregates without a watermark."""
    plan, jvm = frame._jdf.queryExecution().analyzed(), cast("Any", frame.sparkSession._jvm)  # noqa: SLF001
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    return not _supports(jvm, plan, modes.Append()) and _supports(jvm, plan, modes.Complete())


def _supports(jvm: Any, plan: object, mode: object) -> bool:
    try:
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
    except PySparkException:
        return False
    return True
