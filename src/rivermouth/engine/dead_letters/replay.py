"""Dead letters looked at, tried again, or given up."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine.batch.deliver import deliver
from rivermouth.engine.batch.pipeline import (
    agree,
    as_few,
    lookup_versions,
    newest_lookups,
    table_coordinates,
    table_rows,
    transform,
    transformed,
    with_epoch,
    without_fail,
    without_fail_policies,
    write_rows,
)
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.events import Replayed, StillFailing
from rivermouth.engine.schema.evolve import foreseen, grow
from rivermouth.names import COORDINATES, EPOCH, IN_TABLE, ROUTE
from rivermouth.rows import dead_letter, explode, routing
from rivermouth.rows.split_changes import once

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.rows.dead_letter import DeadLetterFilter
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.spec import Flow

_KEYS = [*COORDINATES, "batch"]
_RECORD = [*IN_TABLE, EPOCH]
_POSITION = dead_letter.POSITION.name
_PASSES = "__passes"


def replay(run: FlowRun, wanted: DeadLetterFilter, *, dry_run: bool, marks_failures: bool = True) -> Replayed:
    """Checks open dead letters again by the flow's present rules, and moves those that pass into the table.

    Where the flow's schema may grow, it grows by them first, as it would by a batch. What fails an expectation that
    would stop the flow stays a dead letter. The letters are judged once: a row is written and its letter marked by the
    same answer, also of a rule that would give another one the next time.

    Args:
        run: The flow, opened; its last batch is complete.
        wanted: Which dead letters; only open ones are tried.
        dry_run: Only say what would move.
        marks_failures: Count the try as one more of those that still fail, even if none passes, and write why they fail
            by the present rules.

    Raises:
        CommitLost: Another process wrote the ledger entry first.
        CountsDisagree: Other rows were written than were found to pass; no letter is marked.

    Guarantees:
        Run twice: the second time moves none. Stopped after the rows are in the table and before the letters
        are marked: they are marked when the flow is opened the next time.
    """
    name = uuid.uuid4().hex[:12]
    if not run.dead_letters.exists():
        return Replayed(run.flow.name, name, tried=0, replayed=0, remaining=0, dry_run=dry_run)
    with run.lock:
        _prepare(run)
        letters = _open_letters(run.dead_letters, run.flow, wanted).persist(StorageLevel.DISK_ONLY)
        try:
            return _replay(run, letters, name, dry_run=dry_run, marks_failures=marks_failures)
        finally:
            letters.unpersist()


def discard(run: FlowRun, wanted: DeadLetterFilter, *, dry_run: bool) -> int:
    """Gives open dead letters up: they stay in their table as ``discarded``; says how many.

    Guarantees:
        Run twice: the second time finds none.
    """
    if not run.dead_letters.exists():
        return 0
    with run.lock:
        _prepare(run)
        letters = _open_letters(run.dead_letters, run.flow, wanted)
        found = letters.count()
        if found and not dry_run:
            run.dead_letters.mark(letters.select(*_keys(run.flow), F.lit("discarded").alias("new_status")).distinct())
        return found


def _prepare(run: FlowRun) -> None:
    """Makes sure that this process may write the table, and that the newest entry is complete."""
    if run.lease is not None:
        run.lease.check()
    run.ledger.check_undisturbed(run.position)
    recover(run)


def _replay(run: FlowRun, letters: DataFrame, name: str, *, dry_run: bool, marks_failures: bool) -> Replayed:
    if letters.isEmpty():
        return Replayed(run.flow.name, name, tried=0, replayed=0, remaining=0, dry_run=dry_run)
    if run.flow.lookup:
        newest_lookups(run)
    flow = _with_room_for(run, letters, dry_run=dry_run)
    with ExitStack() as ends:
        routed = _kept(_judged_again(run, flow, letters), ends)
        passing = routed.where(_PASSES)
        places = passing.where(once(flow)).select(*_places(flow))
        coordinates = _kept(places.distinct() if flow.explosion is not None else places, ends)
        tried, passed = letters.count(), coordinates.count()
        failing = None
        if passed < tried and (dry_run or marks_failures):
            failing = as_few(_kept(_failing(run, flow, routed), ends), tried - passed)
        reasons = () if failing is None else _counted(failing, tried - passed)
        if not dry_run and (passed or marks_failures):
            counts = _append(run, passing, coordinates, passed) if passed else run.position.counts
            _mark(run, letters, as_few(coordinates, passed), failing)
            run.count(counts)
            run.ledger.keep(run.position)
    done = Replayed(run.flow.name, name, tried=tried, replayed=passed, remaining=tried - passed, dry_run=dry_run)
    return replace(done, reasons=reasons)


def _kept(frame: DataFrame, ends: ExitStack) -> DataFrame:
    """The frame, computed once."""
    kept = frame.persist(StorageLevel.DISK_ONLY)
    ends.callback(kept.unpersist)
    return kept


def _with_room_for(run: FlowRun, letters: DataFrame, *, dry_run: bool) -> Flow:
    """The flow with a schema that has grown by the letters; a dry run keeps nothing, and changes no table."""
    rows = dead_letter.as_envelope(letters)
    if dry_run:
        return foreseen(run.context, run.view, rows)
    grow(run, rows)
    return run.flow


def _judged_again(run: FlowRun, flow: Flow, letters: DataFrame) -> DataFrame:
    """The rows of letters by the rules of now; of a record that was refused as a whole all of them pass or none."""
    letters = with_epoch(run.entry, letters)
    more: tuple[str, ...] = ("batch", EPOCH)
    beside: tuple[str, ...] = ("__batch", EPOCH)
    if flow.explosion is not None:
        letters = letters.withColumn(explode.WANTED, F.col(_POSITION))
        more, beside = (*more, explode.WANTED), (*beside, explode.WANTED)
    tried_again = dead_letter.as_envelope(letters, *more).distinct()
    # A letter that fails an expectation which stops the flow stays a letter. Of a dry run the flow may have a schema
    # that is kept nowhere.
    if flow is run.flow:
        routed = transformed(tried_again, without_fail_policies(run, routing.DEAD_LETTER), beside)
    else:
        tables = run.lookups.frames(run.spark, flow)
        routed = transform(tried_again, without_fail(flow, routing.DEAD_LETTER), beside, tables=tables)
    passes = F.col(ROUTE) == routing.TABLE
    if flow.explosion is not None:
        passes = F.min(passes).over(Window.partitionBy(*IN_TABLE, *beside))
    return routed.withColumn(_PASSES, passes)


def _places(flow: Flow) -> list[Column]:
    """The columns of routed rows by which their dead letter is found to be marked, and its epoch."""
    wanted = {**IN_TABLE, **({explode.WANTED: _POSITION} if flow.explosion is not None else {})}
    return [*(F.col(name).alias(key) for name, key in wanted.items()), F.col("__batch").alias("batch"), F.col(EPOCH)]


def _failing(run: FlowRun, flow: Flow, routed: DataFrame) -> DataFrame:
    """Why letters fail now, one row for each: of several elements of a record the first that fails."""
    flow = without_fail(flow, routing.DEAD_LETTER)
    beside = [name for name in ("__batch", explode.WANTED) if name in routed.columns]
    told = dead_letter.dead_letters(
        routed, flow, target=run.dead_letters.target, entry=run.entry.number, topic_ids={}, beside=beside
    )
    keys = _keys(run.flow)
    whose = {"batch": F.col("__batch")}
    whose |= {_POSITION: F.col(explode.WANTED)} if flow.explosion is not None else {}
    why = F.struct(*(F.col(name) for name in ([_POSITION] if flow.explosion is not None else []) + [*dead_letter.WHY]))
    found = told.select(*COORDINATES, why.alias("why"), *(column.alias(name) for name, column in whose.items()))
    first = found.groupBy(*keys).agg(F.min("why").alias("why"))
    return first.select(*keys, *(F.col(f"why.{name}").alias(f"new_{name}") for name in dead_letter.WHY))


def _counted(failing: DataFrame, remaining: int) -> tuple[StillFailing, ...]:
    grouped = failing.groupBy("new_reason", "new_field").count().collect()
    found = [StillFailing(reason, field, letters) for reason, field, letters in grouped]
    if dropped := remaining - sum(each.letters for each in found):
        found.append(StillFailing("DROPPED", None, dropped))
    return tuple(sorted(found, key=lambda each: (-each.letters, each.reason, each.field or "")))


def _append(run: FlowRun, passing: DataFrame, coordinates: DataFrame, passed: int) -> Counts:
    """Writes the passing rows that the table does not have, with an entry that moves no offset; not complete yet.

    A keyed table gets them all: its merge leaves out those that come too late.
    """
    before = run.position
    entry = before.entry.successor("replay", before.counts or Counts())
    entry = replace(entry, lookups=lookup_versions(run)) if run.flow.lookup else entry
    with ExitStack() as ends:
        missing, expected = passing, passed
        if run.flow.keyed is None:
            missing, expected = _missing(passing, as_few(coordinates, passed), run, ends)
        run.reached("replay_write")
        commit = write_rows(table_rows(missing, run), run, entry)
    run.advance(entry, commit.version, report=before.report)
    agree(run.flow, entry, "rows in the table", commit.rows_written, expected)
    deliver(run)
    return Counts(replayed=commit.rows_written or 0)


def _missing(passing: DataFrame, coordinates: DataFrame, run: FlowRun, ends: ExitStack) -> tuple[DataFrame, int]:
    """The passing rows that the table does not have, and how many they are."""
    records = coordinates.withColumnsRenamed({key: name for name, key in IN_TABLE.items()}).select(*_RECORD)
    present = _kept(table_coordinates(run).join(records, _RECORD, "left_semi").distinct(), ends)
    if there := present.count():
        passing = passing.join(as_few(present, there), [*run.flow.identity, EPOCH], "left_anti")
    return passing, passing.count()


def _mark(run: FlowRun, letters: DataFrame, coordinates: DataFrame, failing: DataFrame | None) -> None:
    run.reached("replay_mark")
    keys = _keys(run.flow)
    passed = coordinates.withColumn("__passed", F.lit(True))
    status = F.when(F.col("__passed"), "replayed").otherwise("open")
    verdicts = letters.select(*keys).distinct().join(passed, keys, "left")
    told = [status.alias("new_status")]
    if failing is not None:
        verdicts = verdicts.join(failing, keys, "left")
        told += [F.col(f"new_{name}") for name in dead_letter.WHY]
    run.dead_letters.mark(verdicts.select(*keys, *told))


def _keys(flow: Flow) -> list[str]:
    """What dead letters are marked by; ``_open_letters`` has no null in it."""
    return [*_KEYS, *([_POSITION] if flow.explosion is not None else [])]


def _open_letters(dead_letters: DeadLetterTable, flow: Flow, wanted: DeadLetterFilter) -> DataFrame:
    letters = dead_letters.frame()
    mine = (F.col("flow").isin(flow.name, flow.previously or flow.name)) & (F.col("status") == "open")
    found = explode.with_position(letters).where(mine & wanted.condition())
    if flow.explosion is None:
        return found.select(letters.columns)
    return found.withColumn(_POSITION, F.coalesce(_POSITION, F.lit(explode.WHOLE)))
