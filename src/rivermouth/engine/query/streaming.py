"""A streaming query of a flow: started where its ledger is, and run until it has read what there is, or stopped."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.domain.query import state_failures
from rivermouth.domain.query.failure_texts import cause, whole_text
from rivermouth.domain.query.query_entry import ONE_BATCH, QueryEntry, fingerprint
from rivermouth.domain.query.view_tree import table_name
from rivermouth.engine.flow import task_failures
from rivermouth.engine.flow.query_end import STOP_TIMEOUT_S, Stopping, until_ended
from rivermouth.engine.query.query_events import CheckpointMade, QueryChanged
from rivermouth.engine.query.steps.batch_letters import complete_held, lacks_dead_letters
from rivermouth.engine.query.steps.first_read import by_commits
from rivermouth.errors import (
    CheckpointOfAnotherFlow,
    NullInColumn,
    QueryFailed,
    QueryStateChanged,
    QueryStateLost,
    RivermouthError,
    RowExpectationFailed,
    SourceChangedRows,
    StaticTableMissing,
    first_line,
)
from rivermouth.ports.internals import gateway
from rivermouth.ports.internals.query_plans import late_rows, settings_to_start, stream_sources
from rivermouth.ports.kinesis import failures as kinesis_failures
from rivermouth.ports.lake.query_checkpoint import FixedOffsets, FoundCheckpoint, QueryCheckpoint
from rivermouth.rows import row_expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rivermouth.engine.query.query_run import QueryContext, QueryRun

Batch = Callable[["DataFrame", int, str, "QueryRun"], None]
_CHANGED_ROWS: Final = ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE")
_STATIC_FILES_GONE: Final = re.compile(r"static files are gone: (\S.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_COUNTED: Final = "rivermouth_rows"

SOURCES_CHANGED: Final = "its sources have changed since its first batch was planned"
"""Why a checkpoint is replaced whose query has no batch yet."""
GIVEN_UP: Final = f"the current batch did not end in {STOP_TIMEOUT_S:.0f} s and was given up; the next run writes it"
"""What is said where a stop does not wait any longer."""


def run_query(
    frame: DataFrame, run: QueryRun, batch: Batch, *, interval_s: float | None = None, output_mode: str = "append"
) -> int:
    """Runs the query until it has read what there is; with an interval until ``run.stopping`` is set.

    Args:
        frame: A streaming frame.
        run: The flow.
        batch: Writes a batch: ``query_batch.process``, or that of a keyed target or a sink.
        interval_s: Of the batches of a query that goes on.
        output_mode: Spark's.

    Returns:
        How many rows the watermark left out.

    Raises:
        RivermouthError: The typed reason why the flow cannot go on.

    Guarantees:
        Stopped anywhere and run again: continues where the ledger is, whatever the checkpoint says.
    """
    prepare(frame, run)
    frame = by_commits(frame, run)
    try:
        return _run(frame, run, batch, interval_s, output_mode)
    except QueryFailed as error:
        if not _mended(frame.sparkSession, run, error):
            raise
    return _run(frame, run, batch, interval_s, output_mode)


def _run(frame: DataFrame, run: QueryRun, batch: Batch, interval_s: float | None, output_mode: str) -> int:
    callback = _Callback(run, batch)
    try:
        return _until_done(_start(frame, run, callback, interval_s, output_mode), run)
    finally:
        gateway.release_function(frame.sparkSession, callback)


def _start(
    frame: DataFrame, run: QueryRun, callback: _Callback, interval_s: float | None, output_mode: str
) -> StreamingQuery:
    writer = frame.writeStream.queryName(f"{run.context.dataset} {run.context.flow}".replace("`", ""))
    writer = writer.option("checkpointLocation", run.context.places.checkpoint).outputMode(output_mode)
    try:
        with settings_to_start(frame):
            query = writer.trigger(**trigger_of(interval_s)).foreachBatch(callback).start()
    except (PySparkException, Py4JJavaError) as error:
        raise failure(error, run) from error
    callback.query_id, run.query = str(query.id), query
    if run.stateful:
        run.late_rows = partial(late_rows, query)
    callback.ready()
    return query


def trigger_of(interval_s: float | None) -> dict[str, Any]:
    """Spark's trigger: at an interval, or for what is there."""
    if interval_s is None:
        return {"availableNow": True}
    return {"processingTime": f"{max(0, round(interval_s * 1000))} milliseconds"}


def _until_done(query: StreamingQuery, run: QueryRun) -> int:
    reports = TriggerReports(query)
    look = reports.look if run.stateful else lambda: None
    try:
        if not until_ended(query, run.stopping, look, run.context.works):
            run.context.note(GIVEN_UP)
        look()
        if (ended := query.exception()) is not None and not run.stopping.is_set():
            raise failure(run.failure or ended, run) from with_cause(ended, run.failure)
    except (PySparkException, Py4JJavaError) as error:
        if not run.stopping.is_set():
            raise failure(run.failure or error, run) from with_cause(error, run.failure)
    finally:
        failed = run.failure  # a stop may cancel the batch in hand, which then fails
        if query.isActive:
            query.stop()
    if failed is not None and not isinstance(failed, Stopping):
        raise failure(failed, run) from failed
    return reports.late


def counted(rows: DataFrame) -> DataFrame:
    """The same rows of a stream; Spark's reports have their number, and ``TriggerReports.read`` is their sum then."""
    return rows.observe(_COUNTED, F.count(F.lit(1)).alias(_COUNTED))


class TriggerReports:
    """Adds up what Spark reports of a query's triggers.

    Attributes:
        read: Rows that were counted (``counted``); where none are, those that came in from the sources.
        late: Rows that a watermark left out.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1
        self.read = self.late = 0

    def look(self) -> None:
        """Adds the reports that are new. Each look has Spark write down all that it keeps."""
        for progress in self._query.recentProgress:
            if progress["batchId"] > self._seen:
                self._seen = progress["batchId"]
                told = progress["observedMetrics"].get(_COUNTED)
                self.read += max(0, progress["numInputRows"] if told is None else told[_COUNTED])
                self.late += sum(each.get("numRowsDroppedByWatermark", 0) for each in progress["stateOperators"])


def run_batch(frame: DataFrame, batch_id: int, offsets: tuple[str, ...], run: QueryRun, batch: Batch) -> None:
    """Writes one batch that is not from a stream: all rows of a frame.

    Args:
        frame: A batch frame.
        batch_id: A number for it, greater than those before.
        offsets: What its ledger entry says in the place of a stream's offsets.
        run: The flow.
        batch: As of ``run_query``.

    Raises:
        RivermouthError: The typed reason why it failed.
    """
    run.context = replace(run.context, checkpoint=FixedOffsets(offsets))
    try:
        batch(frame, batch_id, ONE_BATCH, run)
    except RivermouthError:
        raise
    except Exception as error:
        raise failure(error, run) from error


def complete_letters(spark: SparkSession, run: QueryRun) -> None:
    """Writes the dead letters of the newest batch, if they are missing and were held.

    Raises:
        RivermouthError: The typed reason why they could not be written.
    """
    try:
        complete_held(spark, run)
    except RivermouthError:
        raise
    except Exception as error:
        raise failure(error, run) from error


class _Callback:
    """What ``foreachBatch`` calls; keeps the first failure, which Spark would hand on only as text."""

    def __init__(self, run: QueryRun, batch: Batch) -> None:
        self._run = run
        self._batch = batch
        self._ready = threading.Event()
        self.query_id = ""

    def ready(self) -> None:
        """The query's id is known."""
        self._ready.set()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        run = self._run
        self._ready.wait()
        if run.stopping.is_set():
            raise Stopping
        try:
            self._batch(frame, batch_id, self.query_id, run)
        except BaseException as error:
            run.failure = run.failure or error
            raise


def prepare(frame: DataFrame, run: QueryRun) -> None:
    """Leaves at the checkpoint's place one that goes on where the ledger is, or none where there is no batch yet.

    Without a batch a checkpoint stays that has planned the first one, of the sources that the query has.

    Raises:
        CheckpointOfAnotherFlow: Another flow left its mark there.
        QueryStateLost: The query keeps state, and its checkpoint is not the one of the table.
    """
    context, entry = run.context, run.entry
    if isinstance(context.checkpoint, FixedOffsets):
        return
    found = _inspected(context.checkpoint, entry)
    if found.owner not in (None, context.owner):
        raise CheckpointOfAnotherFlow(flow=context.flow, checkpoint=context.checkpoint.location, owner=found.owner)
    if entry.fingerprint and entry.fingerprint != run.fingerprint:
        context.emit(QueryChanged(context.dataset, context.flow))
    if not entry.offsets:
        sources = sources_of(frame)
        if entry.kind in ("cleared", "reset"):  # its command may have ended before it did
            context.source_files.forget(frame.sparkSession, context.flow, entry.number)
        if found.plans_of_others(sources, run.streams):
            context.source_files.forget(frame.sparkSession, context.flow)
            _set_aside(context.checkpoint, context, found.state, SOURCES_CHANGED)
        elif found.state != "none" and not found.is_before_first:
            _set_aside(context.checkpoint, context, found.state, found.detail or "the table has no batch of it")
        context.checkpoint.claim(context.owner, sources=sources, streams=run.streams)
        return
    if found.state == "usable" and found.goes_on_after(entry.query_id, entry.batch_id, entry.attempt):
        run.repeats = found.repeats if found.follows == entry.attempt else None
        context.checkpoint.keep_streams(context.owner, found, run.streams)
        return
    reason = {"none": "there is none", "damaged": found.detail}.get(
        found.state, "it is not at the table's newest batch"
    )
    if entry.stateful or run.stateful:
        raise _state_lost(run, reason)
    aside = context.checkpoint.set_aside() if found.state == "damaged" else None
    run.repeats = _seed(frame.sparkSession, context.checkpoint, run)
    context.checkpoint.claim(context.owner, entry.attempt, run.repeats, streams=run.streams)
    context.emit(CheckpointMade(context.dataset, context.flow, reason, aside))


def sources_of(frame: DataFrame) -> str:
    """A short text that stays the same as long as a streaming query reads the same."""
    return fingerprint(stream_sources(frame))


def _inspected(checkpoint: QueryCheckpoint, entry: QueryEntry) -> FoundCheckpoint:
    """What lies at the checkpoint's place; damaged also where its lists have other files than the ledger counts."""
    found = checkpoint.inspect()
    if found.state != "usable" or not entry.files:
        return found
    if not found.goes_on_after(entry.query_id, entry.batch_id, entry.attempt):
        return found
    lacking = checkpoint.lacks_files(found.batch_of(entry.batch_id, entry.attempt), entry.files)
    return replace(found, state="damaged", detail=lacking) if lacking else found


def _mended(spark: SparkSession, run: QueryRun, error: QueryFailed) -> bool:
    """Whether a query has failed because of files of its checkpoint, which is made of the ledger now.

    Raises:
        QueryStateLost: The query keeps state.
        QueryStateChanged: Its state was written by another query.
    """
    context, entry = run.context, run.entry
    checkpoint = context.checkpoint
    if isinstance(checkpoint, FixedOffsets):
        return False
    text = whole_text(error.__cause__ or error)
    damage = checkpoint.damage(text, len(entry.offsets) - 1 if entry.offsets else None)
    if not damage and run.stateful and state_failures.is_gone(text):
        damage = "its state cannot be read"
    if not damage and run.stateful and (changed := state_failures.changed(text)):
        if entry.offsets:
            raise QueryStateChanged(flow=context.flow, dataset=context.dataset, detail=changed) from error
        damage = "its state is that of another query"
    if not damage:
        return False
    if entry.offsets and (run.stateful or entry.stateful):
        raise _state_lost(run, damage) from error
    aside, run.failure = checkpoint.set_aside(), None
    if entry.offsets:
        run.repeats = _seed(spark, checkpoint, run)
    follows = entry.attempt if entry.offsets else None
    checkpoint.claim(context.owner, follows, run.repeats, streams=run.streams)
    context.emit(CheckpointMade(context.dataset, context.flow, damage, aside))
    return True


def _state_lost(run: QueryRun, detail: str) -> QueryStateLost:
    context, places = run.context, run.context.places
    return QueryStateLost(
        flow=context.flow, dataset=context.dataset, checkpoint=places.checkpoint, table=places.table, detail=detail
    )


def _seed(spark: SparkSession, checkpoint: QueryCheckpoint, run: QueryRun) -> int | None:
    """Makes a checkpoint of the newest entry; if its dead letters are missing, the batch that brings its rows again."""
    context, entry = run.context, run.entry
    files = context.source_files.known(spark, context.flow, entry.number)
    before = _entry_before(run) if lacks_dead_letters(spark, run) else None
    if before is None:
        checkpoint.seed(entry.offsets, files)
        return None
    files_before = context.source_files.known(spark, context.flow, before.number)
    return checkpoint.seed_again(before.offsets, files_before if before.offsets else (), entry.offsets, files)


def _entry_before(run: QueryRun) -> QueryEntry | None:
    """The entry from which the newest batch went on; without offsets if that was the first. None if it is not known."""
    entry = run.entry
    if entry.begun == entry.offsets:
        return QueryEntry(entry.flow, number=entry.number - 1)
    found = next((each for each, _ in run.context.ledger.entries(2) if each.number == entry.number - 1), None)
    return found if found is not None and len(found.offsets) == len(entry.offsets) else None


def _set_aside(checkpoint: QueryCheckpoint, context: QueryContext, state: str, reason: str) -> None:
    aside = None
    if state == "damaged":
        aside = checkpoint.set_aside()
    else:
        checkpoint.remove()
    context.emit(CheckpointMade(context.dataset, context.flow, reason, aside))


def changed_rows(text: str) -> bool:
    """Whether a query failed because rows of a table that it streams from were changed or deleted."""
    return any(code in text for code in _CHANGED_ROWS)


def with_cause(error: BaseException, first: BaseException | None) -> BaseException:
    """An error of Spark's, and behind it the one that a batch raised, which Spark hands on only as text."""
    if first is not None and first is not error and error.__cause__ is None and not isinstance(first, RivermouthError):
        error.__cause__ = first
    return error


def failure(error: BaseException, run: QueryRun) -> RivermouthError:
    """The typed error behind what ended a query."""
    return failure_of(error, run.context.flow)


def failure_of(error: BaseException, flow: str) -> RivermouthError:
    """The typed error behind what ended a query.

    Args:
        error: As Spark raised it.
        flow: The flow of the query.
    """
    if isinstance(error, RivermouthError):
        return error
    text = whole_text(error)
    if (name := row_expectations.failed_expectation(text)) is not None:
        return RowExpectationFailed(flow=flow, name=name)
    if (column := row_expectations.null_column(text)) is not None:
        return NullInColumn(flow=flow, column=column)
    if (typed := task_failures.failure(text) or kinesis_failures.failure(text)) is not None:
        return typed
    if (gone := _STATIC_FILES_GONE.search(text)) is not None:
        return StaticTableMissing(flow=flow, table=table_name(gone[1]), location=gone[1])
    if changed_rows(text):
        return SourceChangedRows(flow=flow, detail=first_line(error))
    kind, detail = cause(error)
    return QueryFailed(flow=flow, error=kind, detail=detail)
