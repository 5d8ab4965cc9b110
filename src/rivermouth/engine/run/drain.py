"""Ranges into the table, whatever it takes: retries, then smaller parts, then a typed stop."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch import microbatch
from rivermouth.engine.batch.deliver import open_delivery
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.batch.shared_batch import process_alone
from rivermouth.engine.data_loss.decide import check_topics
from rivermouth.engine.events import BatchDone, BatchRetried, BatchSkipped
from rivermouth.engine.flow import task_failures
from rivermouth.engine.schema.evolve import evolve
from rivermouth.errors import (
    BatchFailed,
    CommitLost,
    LakeNotReadable,
    LakeNotWritable,
    RivermouthError,
    first_line,
)
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.spark.session import has_ended
from rivermouth.rows import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.spec import Flow

DEFAULT_MAX_OFFSETS: Final = 2_000_000
LAST_OFFSET: Final = 2**63 - 1
ATTEMPTS: Final = 3
HALVINGS: Final = 8
_FIRST_DELAY_S: Final = 0.5


BatchProcess = Callable[["Ranges", "FlowRun"], BatchDone | BatchSkipped]
"""Writes a batch of a flow, which it reads by offset: ``process_alone``, or ``SharedBatch.process``."""


def write_ranges(
    ranges: Ranges,
    run: FlowRun,
    *,
    process: BatchProcess = process_alone,
    batch: DataFrame | None = None,
    backlog: int | None = None,
) -> int:
    """Writes ``ranges`` into the table, in one batch if it goes, else in parts; the number of batches.

    Args:
        ranges: What to write. What of it the ledger has already is skipped.
        run: The flow.
        process: Writes a batch that is read by offset.
        batch: The frame that Spark made for exactly these ranges; without one they are read by offset.
        backlog: Offsets that come after them, for the report.

    Raises:
        BatchFailed: Some offsets fail whatever is done; names them. Everything before them is in the table.
        RivermouthError: The typed reason why no retry would help.

    Guarantees:
        Stopped anywhere and run again: continues at the ledger's position.
    """
    batches = 0
    parts = [ranges]
    halvings = 0
    while parts and not run.stopping.is_set():
        part = parts.pop(0)
        attempts = 1 if halvings else ATTEMPTS
        first = batch if part is ranges else None
        error = _tried(part, run, functools.partial(_once, part, run, process, backlog), first, attempts=attempts)
        if error is None:
            batches += 1
            continue
        smaller = offset_ranges.halved(part)
        if halvings >= HALVINGS or smaller is None:
            raise BatchFailed(
                flow=run.flow.name, ranges=offset_ranges.text(part), attempts=ATTEMPTS + halvings, detail=_cause(error)
            ) from error
        halvings += 1
        parts = [*smaller, *parts]
        run.emit(BatchRetried(run.flow.name, part, attempts, _cause(error), offset_ranges.size(smaller[0])))
    return batches


def _cause(error: Exception) -> str:
    return task_failures.end_of_a_worker(str(error)) or first_line(error)


def max_offsets(flow: Flow) -> int:
    """The greatest number of offsets in a batch: the flow's own bound, or ours.

    Between two versions of snapshots there may be any number of offsets without a version.
    """
    snapshots = flow.source is not None and flow.source.snapshots is not None
    return flow.trigger.max_offsets or (LAST_OFFSET if snapshots else DEFAULT_MAX_OFFSETS)


def _tried(
    ranges: Ranges,
    run: FlowRun,
    once: Callable[[DataFrame | None], None],
    batch: DataFrame | None,
    *,
    attempts: int,
) -> Exception | None:
    """None once the ranges are in the table, else the error of the last attempt."""
    delay_s = _FIRST_DELAY_S
    attempt = 0
    while True:
        error = _attempt(functools.partial(once, batch), run.spark, run.flow)
        if error is None:
            return None
        batch = None
        # A batch that is not watched fails for another reason, whatever the text of its error is.
        if run.watches(ranges) and envelope.needs_look(str(error)):
            error = _attempt(functools.partial(evolve, run, ranges), run.spark, run.flow)
            if error is None:
                continue
        attempt += 1
        # Nothing that was at hand when it failed is trusted.
        run.source = run.source.with_new_consumers()
        run.prepared.clear()
        _look_again(run)
        if attempt >= attempts or run.stopping.is_set():
            return error
        run.emit(BatchRetried(run.flow.name, ranges, attempt, _cause(error), offset_ranges.size(ranges)))
        run.stopping.wait(delay_s)
        delay_s *= 2


def _attempt(action: Callable[[], None], spark: SparkSession, flow: Flow) -> Exception | None:
    """None once it is done, else an error after which another try may help."""
    try:
        action()
    except (CommitLost, LakeNotReadable, LakeNotWritable) as error:
        # A writer that was thought dead committed this entry, or the lake was away. The ledger says what is left to do.
        return error
    except RivermouthError:
        raise
    except Exception as error:
        typed = task_failures.of_flow(flow, str(error))
        if typed is not None:
            raise typed from error
        if has_ended(spark):
            raise
        return error
    return None


def _once(ranges: Ranges, run: FlowRun, process: BatchProcess, backlog: int | None, batch: DataFrame | None) -> None:
    with run.lock:
        if run.lease is not None:
            run.lease.check()
        topics = run.kafka.topics(run.flow)
        check_topics(run, topics)
        run.topic_ids = {name: topic.id for name, topic in topics.items()}
        run.ledger.check_undisturbed(run.position)
        if run.delivery is None:
            # A try before may have put the rows into the table, and not into the topic.
            open_delivery(run)
        done = process(ranges, run) if batch is None else microbatch.process(batch, ranges, run)
        if isinstance(done, BatchDone):
            done = dataclasses.replace(done, backlog=backlog)
            _commit_to_group(run, topics)
        run.emit(done)


def _look_again(run: FlowRun) -> None:
    """After a failure nobody knows which commit landed: the table does."""
    with run.lock:
        run.reload(run.ledger.position(delta_snapshot.table_state(run.spark, run.places.table).transactions))
        recover(run)


def _commit_to_group(run: FlowRun, topics: Mapping[str, Topic]) -> None:
    """Tells the group how far the flow is in what it reads; its ledger also keeps what it read before."""
    if run.flow.group_id:
        read = {name: topic.partitions for name, topic in topics.items()}
        told = run.kafka.commit(run.flow.group_id, offset_ranges.within(run.entry.next_offsets, read))
        if not told.committed:
            run.warn(f"offsets were not committed to group {run.flow.group_id}: {told.detail}")


def drain(run: FlowRun, process: BatchProcess) -> int:
    """Writes everything that is in Kafka now, or up to ``ending_offsets``; the number of batches.

    Guarantees:
        Stopped anywhere and run again: continues at the ledger's position.
    """
    topics = run.kafka.topics(run.flow)
    goal = run.kafka.resolve_ending(run.flow, topics) if run.flow.ending_offsets else run.kafka.end_offsets(topics)
    first = run.kafka.beginning_offsets(topics)
    batches = 0
    while not run.stopping.is_set():
        done = _next_batch(run, process, first, goal)
        if not done:
            break
        batches += done
    if batches:
        check_topics(run, run.kafka.topics(run.flow))
    return batches


def drain_one_batch(run: FlowRun, process: BatchProcess) -> int:
    """Writes what there is now, as far as one batch takes it; the number of batches, 0 where there is nothing.

    Guarantees:
        Those of ``write_ranges``.
    """
    topics = run.kafka.topics(run.flow)
    return _next_batch(run, process, run.kafka.beginning_offsets(topics), run.kafka.end_offsets(topics))


def _next_batch(run: FlowRun, process: BatchProcess, first: Offsets, goal: Offsets) -> int:
    """Writes the first batch of what lies before ``goal``; the number of batches that it took."""
    rest = offset_ranges.between(offset_ranges.filled(run.entry.next_offsets, first), goal)
    if not rest:
        return 0
    part = offset_ranges.limited(rest, max_offsets(run.flow))
    return write_ranges(part, run, process=process, backlog=offset_ranges.size(rest) - offset_ranges.size(part))
