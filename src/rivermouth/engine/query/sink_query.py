"""A query into a sink of Spark's or of the user's: its position is that of its checkpoint alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rivermouth.domain.query.failure_texts import cause
from rivermouth.domain.query.query_entry import QueryCounts, streams_moved
from rivermouth.engine.flow.query_end import Stopping, until_ended
from rivermouth.engine.query import counted_view
from rivermouth.engine.query.counted_view import CountedView, with_views
from rivermouth.engine.query.query_events import CheckpointMade, SinkWritten
from rivermouth.engine.query.steps.batch_letters import check_files
from rivermouth.engine.query.streaming import (
    GIVEN_UP,
    SOURCES_CHANGED,
    TriggerReports,
    changed_rows,
    counted,
    sources_of,
    trigger_of,
    with_cause,
)
from rivermouth.errors import (
    CheckpointOfAnotherFlow,
    QueryFailed,
    RivermouthError,
    SinkPositionLost,
    SinkStreamsMoved,
    SourceChangedRows,
    first_line,
)
from rivermouth.ports.internals import gateway
from rivermouth.ports.internals.observed import ObservedStream
from rivermouth.ports.internals.query_plans import settings_to_start, streams_of
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from rivermouth.engine.query.query_run import QueryContext


_ALL: Final = {"read": Aggregate("count_if", "true")}


@dataclass(frozen=True, slots=True)
class SinkWriter:
    """What writes the batches of a query.

    Attributes:
        format: A format of Spark's writer; None with a function.
        options: The writer's.
        function: Gets each batch and its number.
        output_mode: Spark's.
        real_time: Whether rows are written as they come: a query that goes on, without state, with a format for which
            Spark can do that.
    """

    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    function: Callable[[DataFrame, int], Any] | None = None
    output_mode: str = "append"
    real_time: bool = False


def run_sink_query(
    frame: DataFrame,
    context: QueryContext,
    writer: SinkWriter,
    stopping: threading.Event,
    *,
    interval_s: float | None,
    views: Sequence[CountedView] = (),
) -> tuple[QueryCounts, int]:
    """Runs a query into a sink.

    Args:
        frame: A streaming frame.
        context: The flow.
        writer: Writes its batches.
        stopping: Set when it shall end.
        interval_s: Of the batches of a query that goes on; None reads what there is.
        views: Views with expectations that the query reads.

    Returns:
        How many rows were read, with the counts of the views, and how many a watermark left out.

    Raises:
        QueryFailed: For a reason of Spark's, or of the function.
        CheckpointOfAnotherFlow: Another flow left its mark there.
        SinkPositionLost: The checkpoint cannot be read.
        SinkStreamsMoved: A stream of the query has another number than before, or there are more or fewer of them.

    Guarantees:
        Each batch reaches the sink at least once, with the same number; in real-time mode the rows since the last
        offsets that Spark wrote come again after a crash, with any number.
    """
    _claim(context, sources_of(frame), streams_of(frame))
    counted_view.reset(views)
    if writer.function is None and not writer.real_time:
        frame = counted(frame)
    stream = frame.writeStream.option("checkpointLocation", context.places.checkpoint).outputMode(writer.output_mode)
    stream = stream.trigger(**_trigger(writer, interval_s))
    called = None if writer.function is None else _Called(writer.function, context, stopping)
    if called is not None:
        stream = stream.foreachBatch(called)
    else:
        stream = stream.format(writer.format or "").options(**writer.options)
    try:
        with settings_to_start(frame):
            query = stream.start()
        if called is not None:
            called.started(query)
        reports = TriggerReports(query)
        try:
            _run(query, stopping, reports, context, finishes_batch=not writer.real_time)
        finally:
            reports.look()
            read = reports.read if called is None else called.read
            counts = with_views(QueryCounts(read=read, written=read), views)
            context.emit(SinkWritten(context.dataset, context.flow, counts))
    except (PySparkException, Py4JJavaError) as error:
        if called is not None and isinstance(called.failure, Stopping):
            return counts, reports.late
        raise _failure(error, called, context) from with_cause(error, None if called is None else called.failure)
    finally:
        gateway.release_function(frame.sparkSession, called)
    return counts, reports.late


def _run(
    query: StreamingQuery,
    stopping: threading.Event,
    reports: TriggerReports,
    context: QueryContext,
    *,
    finishes_batch: bool,
) -> None:
    if not until_ended(query, stopping, reports.look, context.works, finishes_batch=finishes_batch):
        context.note(GIVEN_UP)
    ended = query.exception()
    if query.isActive:
        query.stop()  # it may cancel the batch in hand, which is no failure
    if ended is not None:
        raise ended


def _trigger(writer: SinkWriter, interval_s: float | None) -> dict[str, Any]:
    if writer.real_time and interval_s is not None:
        return {"realTime": f"{round(interval_s * 1000)} milliseconds"}
    return trigger_of(interval_s)


class _Called:
    """A function that gets batches; keeps its first failure, which Spark would hand on only as text.

    Attributes:
        failure: The first one.
        read: Rows of the batches. Spark counts them again in each action of the function.
    """

    def __init__(
        self, function: Callable[[DataFrame, int], Any], context: QueryContext, stopping: threading.Event
    ) -> None:
        self._function = function
        self._stopping = stopping
        self._context = context
        self._query: StreamingQuery | None = None
        self._ready = threading.Event()
        self.failure: BaseException | None = None
        self.read = 0

    def started(self, query: StreamingQuery) -> None:
        """The query whose batches these are."""
        self._query = query
        self._ready.set()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self._ready.wait()
        if self._stopping.is_set():
            self.failure = Stopping()
            raise self.failure
        try:
            self._context.step("sink")
            check_files(frame.sparkSession, self._query, self._context.flow)
            observed = ObservedStream(frame, _ALL)
            self._function(observed.rows, batch_id)
            self.read += observed.get()["read"]
            self._context.step("sink_written")
        except BaseException as error:
            self.failure = self.failure or error
            raise


def _failure(error: Exception, called: _Called | None, context: QueryContext) -> RivermouthError:
    """The typed error behind what ended a query."""
    first = error if called is None or called.failure is None else called.failure
    if isinstance(first, RivermouthError):
        return first
    if isinstance(context.checkpoint, QueryCheckpoint) and (damage := context.checkpoint.damage(str(error))):
        return _position_lost(context, damage)
    if changed_rows(str(error)):
        return SourceChangedRows(flow=context.flow, detail=first_line(error))
    kind, detail = cause(first)
    return QueryFailed(flow=context.flow, error=kind, detail=detail)


def _claim(context: QueryContext, sources: str, streams: tuple[str, ...]) -> None:
    if not isinstance(context.checkpoint, QueryCheckpoint):
        return
    found = context.checkpoint.inspect()
    if found.owner not in (None, context.owner):
        raise CheckpointOfAnotherFlow(flow=context.flow, checkpoint=context.places.checkpoint, owner=found.owner)
    if found.state == "damaged":
        raise _position_lost(context, found.detail)
    if found.committed >= 0:
        check_streams(context, found.streams, streams)
        context.checkpoint.keep_streams(context.owner, found, streams)
        return
    if found.plans_of_others(sources, streams):
        aside = context.checkpoint.set_aside()
        context.emit(CheckpointMade(context.dataset, context.flow, SOURCES_CHANGED, aside))
    context.checkpoint.claim(context.owner, sources=sources, streams=streams)


def check_streams(context: QueryContext, before: tuple[str, ...], streams: tuple[str, ...]) -> None:
    """Checks that a query into a sink can go on with its streams.

    Args:
        context: The flow.
        before: What its streams were when the sink was given the newest batch; empty where that is not known.
        streams: What they are.

    Raises:
        SinkStreamsMoved: One has another number than before, or there are more or fewer of them.
    """
    if streams_moved(before, streams):
        told = {"before": "; ".join(before), "now": "; ".join(streams) or "none"}
        raise SinkStreamsMoved(flow=context.flow, sink=context.dataset, **told)


def _position_lost(context: QueryContext, detail: str) -> SinkPositionLost:
    return SinkPositionLost(
        flow=context.flow, sink=context.dataset, checkpoint=context.places.checkpoint, detail=detail
    )
