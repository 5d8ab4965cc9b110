"""One batch of a query: its rows into exactly one of table, dead letters, or a count."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.domain.delta.merge_report import way
from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.domain.query.kafka_size import kafka_size
from rivermouth.engine.query.query_events import BatchKnown, BatchWritten
from rivermouth.engine.query.query_table import conformed
from rivermouth.engine.query.steps.batch_letters import (
    MARK,
    Routed,
    at_its_time,
    check_files,
    complete_dead_letters,
    counting,
    hold,
    write_dead_letters,
    write_same,
)
from rivermouth.errors import QueryCountsDisagree
from rivermouth.names import quoted
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_merge import merge
from rivermouth.ports.internals.expressions import is_of_the_day
from rivermouth.ports.internals.observed import Observed
from rivermouth.ports.internals.persisted import held_bytes
from rivermouth.ports.internals.prepared_plan import Prepared
from rivermouth.ports.lake.query_checkpoint import FixedOffsets
from rivermouth.rows import envelope, row_expectations

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry
    from rivermouth.engine.query.query_run import QueryRun
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.rows.keyed.merge_plan import Merge


def process(frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
    """Writes one batch of a query into the table of its flow.

    1. ledger: a batch that the table has already is left out.
    2. sources: where they were at the end of the batch, as Spark has written it; files are kept by name.
    3. check: each expectation becomes a boolean column, and each row gets its route: where it goes.
    4. write: the rows for the table and the ledger entry with its counts, in one Delta commit. Only if there are dead
       letters, the batch is read once more before the commit, and they are held in files.
    5. dead letters: these are written to their own table. If the batch replaces all rows of the table, those of older
       batches are deleted.

    Args:
        frame: The rows of the batch.
        batch_id: Spark's number of it.
        query_id: Spark's id of the query.
        run: The flow; its ``position`` is the batch's entry afterwards.

    Raises:
        CommitLost: Another process wrote the entry first.
        QueryCountsDisagree: Other rows were written than were counted.
        LettersDisagree: As ``batch_letters.hold``.

    Guarantees:
        Run twice: the second time writes nothing. Stopped anywhere: the table has the whole batch with its entry or
        nothing of it; dead letters that are missing then are written when the flow starts again, as they were counted.
    """
    started, context = time.monotonic(), run.context
    # 1 ledger
    if is_known(frame, batch_id, query_id, run):
        return
    # 2 sources
    entry = next_entry(batch_id, query_id, run)
    frame, entry = sourced(frame, entry, run)
    # 3 check
    context.step("check")
    run.begin_counts()
    routed = _prepared("route", lambda rows: row_expectations.route(rows, context.expectations), run).over(frame)
    # 4 write
    write_same(at_its_time(routed, entry, run), run, lambda rows: _write(rows, entry, run))
    # 5 dead letters
    counts = run.entry.counts
    if counts.dead_lettered:
        write_dead_letters(frame.sparkSession, run)
    _forget_replaced(frame.sparkSession, run)
    report_batch(counts, started, run)


def _write(routed: Routed, entry: QueryEntry, run: QueryRun) -> None:
    """Writes the rows for the table in one commit with the entry; the dead letters are held before."""
    context, expectations = run.context, run.context.expectations
    observed = Observed(routed.rows, counting(routed.rows, expectations))
    context.step("write")
    rows = _prepared("conform", lambda rows: _in_table(rows, run.columns), run).over(observed.rows)

    def counted() -> QueryEntry:
        told = observed.get()
        counts = run.whole_counts(row_expectations.counted(expectations, told))
        return hold(routed, entry.counted(counts), told[MARK], run)

    run.position, commit = context.ledger.write(
        rows,
        run.position,
        counted,
        table_id=run.table_id,
        replace=run.replaces,
        # No other thread writes in its session: a stream has one of its own, and a batch query gets one.
        by_footers=True,
    )
    context.step("written")
    check_counts(commit.rows_written, run)


def _forget_replaced(spark: SparkSession, run: QueryRun) -> None:
    """Deletes the dead letters of batches whose rows the newest one has replaced."""
    if run.replaces:
        run.context.dead_letters.forget_before(spark, run.entry)


def _in_table(routed: DataFrame, columns: StructType) -> DataFrame:
    return conformed(routed.where(row_expectations.IN_TABLE), columns)


def _prepared(step: str, build: Callable[[DataFrame], DataFrame], run: QueryRun) -> Prepared:
    """What a step of each batch makes of its rows: of a stream analysed once, unless a condition names a day."""
    if step not in run.prepared:
        is_stream = not isinstance(run.context.checkpoint, FixedOffsets)
        lasts = is_stream and not any(is_of_the_day(each.condition) for each in run.context.expectations)
        run.prepared[step] = Prepared(build, lasts=lasts)
    return run.prepared[step]


def check_counts(written: int | None, run: QueryRun) -> None:
    """Checks that the commit of the newest entry has as many rows as the entry says.

    Args:
        written: Rows of the commit; None where it does not say.
        run: The flow, with that entry.

    Raises:
        QueryCountsDisagree: It has more or fewer.
    """
    entry = run.entry
    if written is not None and written != entry.counts.written:
        detail = f"its commit has {written} rows, and {entry.counts.written} were counted"
        context = run.context
        raise QueryCountsDisagree(flow=context.flow, dataset=context.dataset, entry=entry.number, detail=detail)


def report_batch(counts: QueryCounts, started: float, run: QueryRun) -> None:
    """Adds the counts of the batch that is written to those of the run, and reports it.

    Args:
        counts: Of the batch.
        started: When it began, by ``time.monotonic()``.
        run: The flow; its ``position`` is the batch's entry.
    """
    run.counts += counts
    context, seconds = run.context, time.monotonic() - started
    context.emit(BatchWritten(context.dataset, context.flow, run.entry.number, counts, seconds))


def count_repeated(rows: DataFrame, keys: Iterable[str]) -> int:
    """How many keys have several rows; null is a value like others."""
    return rows.groupBy(*map(quoted, keys)).count().where("count > 1").count()


def merge_rows(ready: DataFrame, number: int, plan: Merge, entry: QueryEntry, run: QueryRun) -> Commit:
    """Merges rows into the table, in one commit with their ledger entry; ``run.position`` is that entry afterwards.

    Args:
        ready: The rows, computed; what ``plan`` calls ``s``.
        number: How many there are.
        plan: Which row does what.
        entry: Their ledger entry.
        run: The flow.

    Raises:
        CommitLost: Another process wrote the entry first.

    Guarantees:
        Stopped anywhere: the table has the rows with their entry, or nothing of them.
    """
    context = run.context
    position = context.ledger.caught_up(run.position)
    carried = TableTransaction(context.ledger.app_id(run.table_id), entry.number, entry.to_json())
    few = way(number, held_bytes(ready)).join == "broadcast"
    merge(ready, number, context.places.table, plan, carried, few=few)
    run.position, commit = context.ledger.found(entry, position.version)
    return commit


def next_entry(batch_id: int, query_id: str, run: QueryRun) -> QueryEntry:
    """The ledger entry of a batch, without its counts."""
    offsets = run.context.checkpoint.offsets(batch_id)
    entry = run.entry.after_batch(query_id, batch_id, offsets, fingerprint=run.fingerprint, stateful=run.stateful)
    return replace(entry, sources=static_versions(run.context.files, run.static_tables), streams=run.streams)


def static_versions(files: LakeFiles, locations: Iterable[str]) -> dict[str, int]:
    """The newest version of each Delta table, by its folder; without those that are not there."""
    found = {place: delta_table.commit_versions(files, place) for place in locations}
    return {place: versions[-1] for place, versions in found.items() if versions}


def sourced(frame: DataFrame, entry: QueryEntry, run: QueryRun) -> tuple[DataFrame, QueryEntry]:
    """The rows of a batch, and its entry; few records of Kafka are in few tasks, and so in few files.

    The names of the files that the batch reads are kept, before its rows are committed.

    Raises:
        FilesOfBatchGone: Some of them are not there any more.
    """
    checkpoint = run.context.checkpoint
    before = checkpoint.offsets(entry.batch_id - 1) if entry.batch_id > 0 else ()
    found = checkpoint.files_of(entry.offsets, before)
    if found:
        run.context.step("files")
        check_files(frame.sparkSession, run.query, entry.flow)
        run.context.source_files.add(frame.sparkSession, entry.flow, entry.number, found)
    size = None if run.stateful or found else kafka_size(before, entry.offsets)
    return frame if size is None else envelope.coalesced(frame, *size), entry.with_files(len(found))


def is_known(frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> bool:
    """Whether the table has a batch already. The dead letters of the newest one are written, if they are missing."""
    entry, context = run.entry, run.context
    repeats = batch_id == run.repeats
    if not repeats and not entry.holds(query_id, batch_id):
        return False
    if repeats or entry.batch_id == batch_id:
        complete_dead_letters(frame, run)
        _forget_replaced(frame.sparkSession, run)
    if run.stateful:
        # Spark ends a query whose batch did not bring all of its state to the next version.
        check_files(frame.sparkSession, run.query, context.flow)
        frame.write.format("noop").mode("overwrite").save()
    context.emit(BatchKnown(context.dataset, context.flow, batch_id))
    return True
