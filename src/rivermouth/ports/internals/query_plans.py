"""What Spark has made of a query: its analysed plan, whether a streaming one keeps state, and parts of a view's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.errors import PySparkException
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, java_session, jvm
from rivermouth.domain.query.query_state import StateOperator
from rivermouth.domain.query.view_tree import PlanNode, read_tree
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CONSTRAINTS: Final = "spark.sql.constraintPropagation.enabled"
"""Whether Spark infers filters from the conditions of a query."""
_STATEFUL: Final = (
    "Aggregate",
    "Deduplicate",
    "Distinct",
    "FlatMapGroups",
    "TransformWithState",
    "StreamingGlobalLimit",
    "GlobalLimit",
)


_BATCH_PART: Final = "rivermouth.internals.plan.BatchPart"
_MISSING_FILES: Final = "rivermouth.internals.files.MissingFiles"
_FRESH_FILES: Final = "rivermouth.internals.plan.FreshFiles"
_FROM_JSON: Final = "rivermouth.internals.plan.FromJson"
_FIRST_VERSION: Final = "rivermouth.internals.plan.FirstVersion"
_UNCHECKED: Final = {"spark.sql.streaming.unsupportedOperationCheck": "false"}
# Of the metadata of columns: the watermark's delay, and that a column is a window.
_DELAY: Final = "spark.watermarkDelayMs"
_WINDOWS: Final = ("spark.timeWindow", "spark.sessionWindow")
_FUNCTIONS: Final = ("FlatMapGroups", "TransformWithState")
_PLAN_TEXT: Final = "rivermouth.internals.plan.PlanText"
_NAMES_SOURCE: Final = re.compile(r"path|subscribe(pattern)?|assign|stream(name|arn)?|starting\w*", re.IGNORECASE)
"""Options that say what is read, and from where on."""
_LATE: Final = "numRowsDroppedByWatermark"


OutputMode = Literal["append", "complete", "update"]
"""Spark's output modes of a streaming query."""


def analysed_plan(frame: DataFrame) -> str:
    """The analysed query as text, whole: queries that differ in their last column have different texts."""
    return str(java_class(frame.sparkSession, _PLAN_TEXT).whole(java_frame(frame)))


def constants_of(frame: DataFrame) -> str:
    """The constants in the analysed query with their types: in its text ``'a,b'`` and ``'a', 'b'`` are alike."""
    return str(java_class(frame.sparkSession, _PLAN_TEXT).constants(java_frame(frame)))


def streams_of(frame: DataFrame) -> tuple[str, ...]:
    """The streams of a query in the order by which Spark numbers them: of each its format, and its path or topics."""
    return tuple(java_class(frame.sparkSession, _PLAN_TEXT).streams(java_frame(frame)))


def stream_sources(frame: DataFrame) -> str:
    """What a streaming query reads: its sources with the options that name them, and with where they begin.

    Limits of a batch and options of clients are no part of it.
    """
    leaves = java_frame(frame).queryExecution().analyzed().collectLeaves()
    found = (leaves.apply(index) for index in range(leaves.size()))
    return "\n".join(sorted(_source(each) for each in found if each.isStreaming()))


def _source(leaf: Any) -> str:
    options: list[tuple[str, str]] = []
    kind = str(leaf.nodeName())
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        entries, table = source.options().iterator(), source.catalogTable()
        while entries.hasNext():
            entry = entries.next()
            options.append((str(entry.productElement(0)), str(entry.productElement(1))))
        named = str(table.get().qualifiedName()) if table.isDefined() else ""
        kind = f"{source.className()} {source.paths().toString()} {named}"
    elif kind == "StreamingRelationV2":
        kind = str(leaf.sourceName())
        options = [(str(each.getKey()), str(each.getValue())) for each in leaf.extraOptions().entrySet()]
    return f"{kind} {sorted(each for each in options if _NAMES_SOURCE.fullmatch(each[0]))}"


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
    """Whether a query can only give its whole result with each batch: a stream that aggregates without a watermark."""
    if not frame.isStreaming:
        return False
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
    mine = str(plan.nodeName()).startswith(_STATEFUL) or _is_join_of_streams(plan)
    return mine or any(map(_is_stateful, _children(plan)))


@contextmanager
def settings_to_start(frame: DataFrame) -> Iterator[None]:
    """In the block a streaming query is started with the settings that it must have, whatever its session has.

    Queries that flows start side by side wait for each other: each takes the settings that the session has just then,
    and on these depend the columns of its state.

    A join of two streams compares keys as bytes, and takes NULL for equal to NULL. Spark leaves such rows out by a
    filter that it infers from the condition of the join, which these settings turn on.
    """
    conf = {CONSTRAINTS: "true"} if _joins_streams(java_frame(frame).queryExecution().analyzed()) else {}
    with sessions.CHANGING, sessions.settings(frame.sparkSession, conf):
        yield


def _joins_streams(plan: Any) -> bool:
    if not plan.isStreaming():
        return False
    return _is_join_of_streams(plan) or any(map(_joins_streams, _children(plan)))


def _is_join_of_streams(plan: Any) -> bool:
    return str(plan.nodeName()) == "Join" and all(each.isStreaming() for each in _children(plan))


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(index) for index in range(children.size())]


def read_json_fast(spark: SparkSession) -> None:
    """Has the streams of a session, and of its clones, read ``from_json`` by our reader where it can be.

    Documents that surely fit the schema are read by our reader, all others by Spark's. The rows are the same ones.
    """
    java_class(spark, _FROM_JSON).addTo(java_session(spark))


def with_fresh_files(frame: DataFrame) -> DataFrame:
    """A streaming query whose batches list the files of tables that they are joined with; Spark lists them once.

    Delta tables are not meant: each batch reads their newest version by itself.
    """
    fresh = java_class(frame.sparkSession, _FRESH_FILES).inEachBatch(java_frame(frame))
    return ClassicDataFrame(fresh, frame.sparkSession)


def plain_tables(frame: DataFrame) -> list[str]:
    """Folders of the Delta tables that a query reads as streams, without an option that says what is read of them."""
    return list(java_class(frame.sparkSession, _FIRST_VERSION).plainTables(java_frame(frame)))


def from_first_version(frame: DataFrame, tables: Sequence[str]) -> DataFrame:
    """A streaming query that reads some of its ``plain_tables`` from their first commit on."""
    found = java_class(frame.sparkSession, _FIRST_VERSION).of(java_frame(frame), list(tables))
    return ClassicDataFrame(found, frame.sparkSession)


def count_parts(frame: DataFrame, alias: str) -> int:
    """How many parts of a query have the alias."""
    return int(java_class(frame.sparkSession, _BATCH_PART).count(java_frame(frame), alias))


def part_of_batch(spark: SparkSession, query: StreamingQuery, alias: str) -> DataFrame:
    """The rows below an alias in the batch that the query processes now, as a batch frame.

    Args:
        spark: The session of the batch's frame.
        query: The query; its batch is at work.
        alias: The alias of the part; nothing below it keeps state.

    Raises:
        LookupError: The query has no such part.
    """
    java: Any = query._jsq  # noqa: SLF001 - PySpark has no public way to the query in the JVM
    with sessions.settings(spark, _UNCHECKED):
        part = java_class(spark, _BATCH_PART).of(java, alias, java_session(spark))
    if part is None:
        raise LookupError(alias)
    return ClassicDataFrame(part, spark)


def missing_files(spark: SparkSession, query: StreamingQuery) -> list[str]:
    """Files of the batch that a query processes now that were planned and are not there; Spark leaves them out.

    Those of sources with ``ignoreMissingFiles`` are not among them.

    Args:
        spark: The session of the batch's frame.
        query: The query; its batch is at work.
    """
    java: Any = query._jsq  # noqa: SLF001 - PySpark has no public way to the query in the JVM
    return [*java_class(spark, _MISSING_FILES).of(java, java_session(spark))]


def over_rows(frame: DataFrame, alias: str, rows: DataFrame) -> DataFrame:
    """A streaming query as a batch, in the session of ``rows``; sources of other streams have no rows.

    Args:
        frame: The query.
        alias: The alias of a part of it.
        rows: What is in the place of that part: its columns, in its order and types.
    """
    session = rows.sparkSession
    java = java_class(session, _BATCH_PART).over(java_frame(frame), alias, java_frame(rows), java_session(session))
    return ClassicDataFrame(java, session)


def state_operators(frame: DataFrame) -> tuple[StateOperator, ...]:
    """The parts of a streaming query that keep state, from the result to the sources; none of a batch query."""
    if not frame.isStreaming:
        return ()
    return tuple(_operators(java_frame(frame).queryExecution().analyzed()))


def late_rows(query: StreamingQuery) -> int:
    """How many rows the watermark has left out in the batch that a query runs, as far as its tasks have ended."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001 - Spark reports it only after the batch
    return 0 if execution is None else sum(_late(execution.executedPlan()))


def _late(plan: Any) -> Iterator[int]:
    metrics = plan.metrics()
    if metrics.contains(_LATE):
        yield int(metrics.apply(_LATE).value())
    for child in _members(plan.children()):
        yield from _late(child)


def _operators(plan: Any) -> Iterator[StateOperator]:
    if not plan.isStreaming():
        return
    children = list(_members(plan.children()))
    found = _operator(plan, str(plan.nodeName()), children)
    if found is not None:
        yield found
    for child in children:
        yield from _operators(child)


def _operator(plan: Any, name: str, children: list[Any]) -> StateOperator | None:
    if name == "Aggregate":
        columns = [column for each in _members(plan.groupingExpressions()) for column in _columns(each)]
        return StateOperator("aggregation", _delay_s(columns), any(map(_is_window, columns)))
    if name == "Distinct":
        return StateOperator("aggregation", _delay_s(list(_members(plan.output()))))
    if name == "Deduplicate":
        return StateOperator("deduplication", _delay_s(list(_members(plan.keys()))))
    if name == "DeduplicateWithinWatermark":
        return StateOperator("deduplication", _delay_s(list(_members(children[0].output()))))
    if name == "Join" and all(each.isStreaming() for each in children):
        condition = plan.condition()
        named = [] if condition.isEmpty() else list(_columns(condition.get()))
        both = all(_delay_s(list(_members(each.output()))) is not None for each in children)
        return StateOperator("join", _delay_s(named) if both else None)
    return StateOperator("function") if name.startswith(_FUNCTIONS) else None


def _columns(expression: Any) -> Iterator[Any]:
    """The columns that an expression names."""
    return _members(expression.references().toSeq())


def _delay_s(columns: list[Any]) -> float | None:
    delays = [each.metadata().getLong(_DELAY) for each in columns if each.metadata().contains(_DELAY)]
    return max(delays) / 1000 if delays else None


def _is_window(column: Any) -> bool:
    return any(column.metadata().contains(name) for name in _WINDOWS)


def _members(found: Any) -> Iterator[Any]:
    """Those of a sequence of Scala's."""
    members = found.iterator()
    while members.hasNext():
        yield members.next()


KEY: Final = "key_"
"""Names of the columns of keys begin so; behind it there is the number of the part of the key."""


class ViewPlan:
    """An analysed query, whose Delta tables stay at the versions that they had when it was analysed.

    Args:
        frame: The query.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._spark = frame.sparkSession
        self._java = java_class(self._spark, "rivermouth.internals.views.ViewPlan")(java_frame(frame))

    @cached_property
    def tree(self) -> PlanNode:
        """The query as plain values."""
        return read_tree(self._java.tree())

    def whole(self) -> DataFrame:
        """The whole result."""
        return self._frame(self._java.whole())

    def changes(self, leaf: int, after: int, *, by_feed: bool) -> DataFrame:
        """The rows that came to a table and went behind a version, with ``_change_type`` (string).

        Args:
            leaf: Number of the node that reads the table.
            after: A version of the table.
            by_feed: Whether its change data feed is read; else the files of its commits.
        """
        return self._frame(self._java.changes(leaf, after, not by_feed))

    def over(self, leaves: Sequence[int], rows: Sequence[DataFrame], emptied: Sequence[int]) -> DataFrame:
        """The query with other rows in the place of these tables, and with no rows in that of other nodes."""
        return self._frame(self._java.over(list(leaves), [java_frame(each) for each in rows], list(emptied)))

    def keys(self, keyed: int, leaves: Sequence[int], rows: Sequence[DataFrame], emptied: Sequence[int]) -> DataFrame:
        """The keys that such rows have at the node ``keyed``, each once, as ``key_0``, ``key_1`` and so on."""
        found = self._java.keys(keyed, list(leaves), [java_frame(each) for each in rows], list(emptied))
        return self._frame(found)

    def restricted(self, keyed: int, keys: DataFrame) -> DataFrame:
        """The part of the result that comes of the groups with these keys."""
        return self._frame(self._java.restricted(keyed, java_frame(keys)))

    def _frame(self, java: Any) -> DataFrame:
        return ClassicDataFrame(java, self._spark)
