"""The dead letters of a query's batch: held before the batch is committed, written to their table behind it.

A batch is read once more for its dead letters, and only if it has some. They must be those that were counted when its
rows were written. Where they are others, because the query or a condition says something else each time, nothing is
committed: the batch is computed once, and rows and dead letters are taken from that.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.errors import FilesOfBatchGone, LettersChanged, LettersDisagree
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals.observed import Observed
from rivermouth.ports.internals.persisted import computed
from rivermouth.ports.internals.query_plans import missing_files
from rivermouth.rows import row_expectations
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryRun
    from rivermouth.rows.row_expectations import RowExpectation

MARK: Final = "letters_mark"
"""Name of the sum of the marks of the dead letters, among what is counted of routed rows."""


@dataclass(frozen=True, slots=True)
class Routed:
    """The rows of a batch with their ways.

    Attributes:
        rows: As ``row_expectations.route`` returns them.
        kept: Whether they were computed, so that each look at them finds the same.
    """

    rows: DataFrame
    kept: bool = False


class _OtherLetters(Exception):
    """The second look at a batch has found other dead letters than the first."""


def at_its_time(routed: DataFrame, entry: QueryEntry, run: QueryRun) -> DataFrame:
    """The rows of a batch, for whose conditions it is one time: when Spark planned it, also where it comes again."""
    if not run.context.expectations:
        return routed
    planned = entry.planned_at_ms
    if not planned:
        return sessions.at_time(routed, sessions.now(routed.sparkSession))
    return sessions.at_time(routed, dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=planned))


def counting(routed: DataFrame, expectations: Sequence[RowExpectation]) -> dict[str, Aggregate]:
    """What is counted of routed rows while they are written: as of ``row_expectations.counting``, and ``MARK``."""
    mark = Aggregate("sum", row_expectations.letter_mark(routed.schema, expectations))
    return {**row_expectations.counting(expectations), MARK: mark}


def counting_columns(expectations: Sequence[RowExpectation], mark: str) -> list[Column]:
    """The same as columns of an aggregate; ``mark`` is SQL of a dead letter's mark."""
    summed = F.expr(Aggregate("sum", mark).sql).alias(MARK)
    return [*row_expectations.counting_columns(expectations), summed]


def write_same(routed: DataFrame, run: QueryRun, write: Callable[[Routed], None]) -> None:
    """Calls what writes a batch; once more with its rows computed, if two looks at them have found other dead letters.

    Later batches of that run are computed first.

    Args:
        routed: The rows with their ways.
        run: The flow.
        write: Writes rows and entry in one commit, and calls ``hold`` before it.
    """
    if run.is_repeatable:
        try:
            write(Routed(routed))
        except _OtherLetters:
            run.is_repeatable = False
        else:
            return
        run.begin_counts()
        run.late_before = run.late_rows()
    with computed(routed) as (kept, _):
        write(Routed(kept, kept=True))


def hold(routed: Routed, entry: QueryEntry, mark: int, run: QueryRun) -> QueryEntry:
    """The entry, which is about to be committed; its dead letters are held until they are in their table.

    Args:
        routed: The rows of the batch.
        entry: With the counts of the first look at them.
        mark: The sum of the dead letters' marks in that look.
        run: The flow.

    Raises:
        LettersDisagree: The rows are computed, and records that the query decodes were refused in one look alone.
    """
    counted, context = entry.counts.dead_lettered, run.context
    if not counted:
        return entry
    context.step("hold")
    sums = {MARK: Aggregate("sum", row_expectations.letter_mark(routed.rows.schema, context.expectations))}
    observed = Observed(routed.rows, sums)
    found = context.held_letters.hold(_letters(observed.rows, run, entry), entry)
    if (found, observed.get()[MARK]) == (counted, mark):
        return entry
    context.held_letters.forget(entry.flow)
    if not routed.kept:
        raise _OtherLetters
    where = {"flow": context.flow, "dataset": context.dataset}
    raise LettersDisagree(**where, entry=entry.number, counted=counted, found=found)


def _letters(routed: DataFrame, run: QueryRun, entry: QueryEntry) -> DataFrame:
    context = run.context
    letters = context.dead_letters.letters(routed, context.expectations, entry, run.columns)
    if run.query is None or not run.decoded:
        return letters
    letters = letters.withColumn("reason", F.lit("EXPECTATION"))
    for each in run.decoded:
        refused = each.letters(routed.sparkSession, run.query, entry, context.dataset)
        letters = letters.unionByName(refused, allowMissingColumns=True)
    return letters


def write_dead_letters(spark: SparkSession, run: QueryRun) -> bool:
    """Writes the dead letters of the newest entry that are held; whether there were any."""
    context, entry = run.context, run.entry
    context.step("dead_letters")
    letters = context.held_letters.held(spark, entry)
    if letters is None:
        return False
    context.dead_letters.write(letters, entry)
    context.held_letters.forget(entry.flow)
    return True


def lacks_dead_letters(spark: SparkSession, run: QueryRun) -> bool:
    """Whether the newest batch ended between its commit and its dead letters."""
    entry = run.entry
    if not entry.counts.dead_lettered:
        return False
    return run.context.dead_letters.newest_entry(spark, entry.flow) < entry.number


def complete_held(spark: SparkSession, run: QueryRun) -> None:
    """Writes the dead letters of the newest batch, if they are missing and were held."""
    if lacks_dead_letters(spark, run):
        write_dead_letters(spark, run)


def complete_dead_letters(frame: DataFrame, run: QueryRun) -> None:
    """Writes the dead letters of the newest batch, if they are missing.

    Earlier versions did not hold them. Then they are found in the rows of the batch.

    Args:
        frame: The rows of that batch again.
        run: The flow.

    Raises:
        LettersChanged: They were not held, and are others now than the ledger entry has counted.
        FilesOfBatchGone: They were not held, and files of the batch are gone.
    """
    spark, context, entry = frame.sparkSession, run.context, run.entry
    if not lacks_dead_letters(spark, run) or write_dead_letters(spark, run):
        return
    check_files(spark, run.query, context.flow)
    routed = at_its_time(row_expectations.route(frame, context.expectations), entry, run)
    found = context.held_letters.hold(_letters(routed, run, entry), entry)
    if found != entry.counts.dead_lettered:
        context.held_letters.forget(entry.flow)
        where = {"flow": context.flow, "dataset": context.dataset}
        raise LettersChanged(**where, entry=entry.number, counted=entry.counts.dead_lettered, found=found)
    write_dead_letters(spark, run)


def check_files(spark: SparkSession, query: StreamingQuery | None, flow: str) -> None:
    """Checks that all files of the batch that a query processes are there.

    Raises:
        FilesOfBatchGone: Some are gone since the batch was planned.
    """
    gone = [] if query is None else missing_files(spark, query)
    if gone:
        raise FilesOfBatchGone(flow=flow, count=len(gone), file=gone[0])
