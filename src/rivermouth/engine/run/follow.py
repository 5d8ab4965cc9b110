"""Following: a Structured Streaming query that hands each of its batches to ``microbatch.process``."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from rivermouth.domain.ledger.ledger import beginnings, remaining_ranges
from rivermouth.engine.events import CheckpointReplaced
from rivermouth.engine.run.drain import DEFAULT_MAX_OFFSETS, BatchProcess, drain_one_batch, write_ranges
from rivermouth.errors import LakeNotWritable, RivermouthError, StopTimeout, first_line
from rivermouth.ports.internals import gateway
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.lake.checkpoint import Checkpoints
from rivermouth.ports.lake.lake_files import is_local_disk
from rivermouth.ports.spark.session import has_ended
from rivermouth.ports.spark.spark_errors import is_about_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.engine.flow.running import FlowRun

_POLL_S: Final = 0.2
# Each look for requests costs three of an object store's.
_REMOTE_POLL_S: Final = 5.0
STOP_TIMEOUT_S: Final = 60.0


class _Stopping(Exception):
    """Ends a callback that began after a stop of the flow was requested."""


def follow(run: FlowRun, between_batches: Callable[[], None]) -> None:
    """Writes what comes, at the flow's trigger, until ``run.stopping`` is set.

    Args:
        run: The flow, opened.
        between_batches: Called again and again while the query runs; takes ``run.lock`` if it writes.

    Raises:
        RivermouthError: The typed reason why the flow cannot go on.
        PySparkException, Py4JJavaError: The query failed for a reason of Spark's own; starting again may help.

    Guarantees:
        Stopped anywhere and run again: continues at the ledger's position, whatever the checkpoint says.
    """
    checkpoints = Checkpoints(run.files, run.places.checkpoint)
    reads = {name: topic.partitions for name, topic in run.kafka.topics(run.flow).items()}
    wanted = beginnings(run.entry.next_offsets, reads)
    kept = prepare_checkpoint(run, checkpoints, wanted)
    callback = _Callback(run, checkpoints)
    try:
        _follow(run, callback, wanted, between_batches)
    except (PySparkException, Py4JJavaError) as error:
        if not has_ended(run.spark):
            # A cluster that is away, or a topic that is gone, says so itself, and better.
            run.kafka.topics(run.flow)
        if kept and not callback.called and is_about_checkpoint(error):
            # Whatever of it Spark could not read, the ledger knows: the next start makes a new one.
            reason = first_line(error)
            with suppress(LakeNotWritable, OSError, Py4JError):  # the first error is reported
                run.emit(CheckpointReplaced(run.flow.name, reason, checkpoints.set_aside()))
        raise
    finally:
        gateway.release_function(run.spark, callback)


def _follow(run: FlowRun, callback: _Callback, wanted: Offsets, between_batches: Callable[[], None]) -> None:
    query = _start(run, callback, wanted)
    poll_s = _POLL_S if is_local_disk(run.places.lake) else _REMOTE_POLL_S
    try:
        while not run.stopping.is_set() and query.isActive:
            between_batches()
            run.stopping.wait(poll_s)
        if callback.failure is not None:
            raise callback.failure
        failure = query.exception()
        if failure is not None and not run.stopping.is_set():
            raise failure
    finally:
        _stop(run, query)


def follow_table(run: FlowRun, process: BatchProcess, between_batches: Callable[[], None]) -> None:
    """As ``follow`` for a flow over a table: at each trigger a batch of what the table has by then, without a query.

    Guarantees:
        Those of ``follow``; there is no checkpoint.
    """
    poll_s = _POLL_S if is_local_disk(run.places.lake) else _REMOTE_POLL_S
    while not run.stopping.is_set():
        due = time.monotonic() + run.flow.trigger.every
        drain_one_batch(run, process)
        between_batches()
        while not run.stopping.is_set() and (left_s := due - time.monotonic()) > 0:
            run.stopping.wait(min(poll_s, left_s))
            between_batches()


def prepare_checkpoint(run: FlowRun, checkpoints: Checkpoints, wanted: Offsets) -> bool:
    """Leaves at the checkpoint's place one that agrees with the ledger, or none; says whether there is one.

    A checkpoint that is behind, ahead or elsewhere, or of other partitions than ``wanted``, is removed: the ledger has
    all that it had. A damaged one is moved aside, so that it can be inspected.

    Raises:
        CheckpointForeign: It belongs to another flow.
    """
    found = checkpoints.inspect(run.flow.name, run.table_id, previously=run.flow.previously)
    kept = False
    if found.state == "damaged":
        run.emit(CheckpointReplaced(run.flow.name, found.detail, checkpoints.set_aside()))
    elif found.state == "usable":
        # A batch that Spark planned and did not call done comes again: the ledger says whether to skip or write it.
        difference = found.difference(run.entry, wanted)
        kept = difference is None
        if difference is not None:
            checkpoints.remove()
            if found.planned or found.committed:
                run.emit(CheckpointReplaced(run.flow.name, difference, None))
    checkpoints.claim(run.flow.name, run.table_id, decided=run.entry.decided)
    return kept


class _Callback:
    """What ``foreachBatch`` calls; keeps the first failure, which Spark would hand on only as text."""

    def __init__(self, run: FlowRun, checkpoints: Checkpoints) -> None:
        self._run = run
        self._checkpoints = checkpoints
        self.failure: BaseException | None = None
        self.called = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        run = self._run
        self.called = True
        if run.stopping.is_set():
            raise _Stopping
        try:
            planned = self._checkpoints.ranges(batch_id, run.entry.next_offsets)
            # Spark's own frame fails at a record that is known to have a timestamp beyond its range.
            fails = isinstance(run.source, KafkaSource) and run.source.has_overflows(planned)
            write_ranges(planned, run, batch=None if fails else batch)
        except Exception as error:
            self.failure = self.failure or error
            raise
        if remaining_ranges(run.flow.name, run.entry.next_offsets, planned):
            # A stop was requested between two parts of the batch: Spark must not call the rest done.
            raise _Stopping


def _start(run: FlowRun, callback: _Callback, wanted: Offsets) -> StreamingQuery:
    flow = run.flow
    trigger = flow.trigger
    if trigger.max_offsets is None:
        # Spark refuses a batch that may not be as large as the one that it waits for.
        largest = max(DEFAULT_MAX_OFFSETS, trigger.min_offsets or 0)
        flow = flow.model_copy(update={"trigger": trigger.model_copy(update={"max_offsets": largest})})
    if not isinstance(run.source, KafkaSource):
        msg = "only a Kafka cluster can be followed by a query"
        raise TypeError(msg)
    frame = run.source.stream(run.spark, flow, wanted)
    return (
        frame.writeStream.queryName(flow.name)
        .option("checkpointLocation", run.places.checkpoint)
        .trigger(processingTime=f"{max(1, round(trigger.every * 1000))} milliseconds")
        .foreachBatch(callback)
        .start()
    )


def _stop(run: FlowRun, query: StreamingQuery) -> None:
    """Ends the query once the batch in hand is written."""
    is_held = False
    # Until a stop is requested the batch has all the time that it takes: it is other work that failed.
    while not (is_held or run.stopping.is_set()):
        is_held = run.lock.acquire(timeout=_POLL_S)
    run.stopping.set()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    if not is_held and not run.lock.acquire(timeout=STOP_TIMEOUT_S):
        raise StopTimeout(flow=run.flow.name, timeout_s=round(STOP_TIMEOUT_S))
    run.lock.release()
    try:
        query.stop()
    except (PySparkException, RivermouthError) as error:
        if query.isActive and time.monotonic() < deadline:
            raise
        run.warn(f"the query ended with: {type(error).__name__}")
