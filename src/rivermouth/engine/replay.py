"""Dead letters looked at, tried again, or given up."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.engine.events import Replayed
from rivermouth.engine.recovery import recover
from rivermouth.engine.steps import judged, table_coordinates, table_rows, with_epoch, written
from rivermouth.names import COORDINATES, EPOCH, IN_TABLE
from rivermouth.ports.table_ledger import Standing
from rivermouth.rows import dead_letter, exploding, routing
from rivermouth.rows.ledger import Counts
from rivermouth.rows.splitting import once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.engine.running import RunningFlow
    from rivermouth.rows.dead_letter import DeadLetterFilter

_KEYS = [*COORDINATES, "batch"]
_RECORD = [*IN_TABLE, EPOCH]
_POSITION = dead_letter.POSITION.name


def replay(run: RunningFlow, wanted: DeadLetterFilter, *, dry_run: bool, marks_failures: bool = True) -> Replayed:
    """Judges open dead letters again and moves those into the table that now pass.

    Args:
        run: The flow, opened, its last batch settled.
        wanted: Which dead letters; only open ones are tried.
        dry_run: Only say what would move.
        marks_failures: Count the try as one more of those that still fail, even if none passes.

    Raises:
        CommitLost: Another process wrote the ledger entry first.

    Guarantees:
        Run twice: the second time moves none. Stopped after the rows are in the table and before the letters
        are marked: they are marked when the flow is opened the next time.
    """
    name = uuid.uuid4().hex[:12]
    if not run.dead_letters.exists():
        return Replayed(run.flow.name, name, tried=0, replayed=0, remaining=0, dry_run=dry_run)
    with run.lock:
        _prepare(run)
        letters = _open_letters(run, wanted).persist(StorageLevel.DISK_ONLY)
        try:
            return _replay(run, letters, name, dry_run=dry_run, marks_failures=marks_failures)
        finally:
            letters.unpersist()


def discard(run: RunningFlow, wanted: DeadLetterFilter, *, dry_run: bool) -> int:
    """Gives open dead letters up: they stay in their table as ``discarded``; says how many.

    Guarantees:
        Run twice: the second time finds none.
    """
    if not run.dead_letters.exists():
        return 0
    with run.lock:
        _prepare(run)
        letters = _open_letters(run, wanted)
        found = letters.count()
        if found and not dry_run:
            run.dead_letters.mark(letters.select(*_keys(run), F.lit("discarded").alias("new_status")).distinct())
        return found


def _prepare(run: RunningFlow) -> None:
    """Sees to it that this process may write the table, and that the newest entry is settled."""
    if run.lease is not None:
        run.lease.check()
    run.ledger.check_undisturbed(run.standing)
    recover(run)


def _replay(run: RunningFlow, letters: DataFrame, name: str, *, dry_run: bool, marks_failures: bool) -> Replayed:
    if not marks_failures and letters.isEmpty():
        return Replayed(run.flow.name, name, tried=0, replayed=0, remaining=0, dry_run=dry_run)
    passing = _passing(run, letters)
    wanted = {**IN_TABLE, **({exploding.WANTED: _POSITION} if run.flow.explosion is not None else {})}
    keys = (F.col(name).alias(key) for name, key in wanted.items())
    places = passing.where(once(run.flow)).select(*keys, F.col("__batch").alias("batch"), EPOCH)
    coordinates = (places.distinct() if run.flow.explosion is not None else places).persist(StorageLevel.DISK_ONLY)
    try:
        tried, passed = letters.count(), coordinates.count()
        if not dry_run and (passed or marks_failures):
            counts = _append(run, passing, coordinates) if passed else run.standing.counts
            _mark(run, letters, coordinates)
            run.standing = replace(run.standing, counts=counts)
            run.ledger.keep(run.standing)
        return Replayed(run.flow.name, name, tried=tried, replayed=passed, remaining=tried - passed, dry_run=dry_run)
    finally:
        coordinates.unpersist()


def _passing(run: RunningFlow, letters: DataFrame) -> DataFrame:
    """The rows of letters that pass now; of a record that was refused as a whole all of them or none."""
    letters = with_epoch(run, letters)
    if run.flow.explosion is None:
        tried_again = dead_letter.as_envelope(letters, "batch", EPOCH).distinct()
        return judged(tried_again, run, ("__batch", EPOCH)).where(F.col("__route") == routing.TABLE)
    beside = ("__batch", EPOCH, exploding.WANTED)
    tried_again = dead_letter.as_envelope(letters.withColumn(exploding.WANTED, F.col(_POSITION)), "batch", *beside[1:])
    routed = judged(tried_again.distinct(), run, beside)
    letter = Window.partitionBy(*IN_TABLE, *beside)
    passes = F.min(F.col("__route") == routing.TABLE).over(letter)
    return routed.withColumn("__passes", passes).where("__passes")


def _append(run: RunningFlow, passing: DataFrame, coordinates: DataFrame) -> Counts:
    """The passing rows that the table does not have, with an entry that moves no offset; not settled yet.

    A keyed table takes them all: it knows which of them come too late.
    """
    before = run.standing
    entry = before.entry.carried("replay", before.counts or Counts())
    missing = passing if run.flow.keyed is not None else _missing(passing, coordinates, run)
    run.reached("replay_write")
    commit = written(table_rows(missing, run), run, entry)
    run.standing = Standing(entry, commit.version, report=before.report)
    return Counts(replayed=commit.rows_written or 0)


def _missing(passing: DataFrame, coordinates: DataFrame, run: RunningFlow) -> DataFrame:
    records = coordinates.withColumnsRenamed({key: name for name, key in IN_TABLE.items()}).select(*_RECORD)
    present = table_coordinates(run).join(F.broadcast(records), _RECORD, "left_semi").distinct()
    return passing.join(F.broadcast(present), [*run.flow.identity, EPOCH], "left_anti")


def _mark(run: RunningFlow, letters: DataFrame, coordinates: DataFrame) -> None:
    run.reached("replay_mark")
    passed = F.broadcast(coordinates.withColumn("__passed", F.lit(True)))
    status = F.when(F.col("__passed"), "replayed").otherwise("open")
    keys = _keys(run)
    verdicts = letters.select(*keys).distinct().join(passed, keys, "left")
    run.dead_letters.mark(verdicts.select(*keys, status.alias("new_status")))


def _keys(run: RunningFlow) -> list[str]:
    """What dead letters are marked by; ``_open_letters`` has no null in it."""
    return [*_KEYS, *([_POSITION] if run.flow.explosion is not None else [])]


def _open_letters(run: RunningFlow, wanted: DeadLetterFilter) -> DataFrame:
    letters = run.dead_letters.frame()
    mine = (F.col("flow").isin(run.flow.name, run.flow.previously or run.flow.name)) & (F.col("status") == "open")
    found = exploding.with_position(letters).where(mine & wanted.condition())
    if run.flow.explosion is None:
        return found.select(letters.columns)
    return found.withColumn(_POSITION, F.coalesce(_POSITION, F.lit(exploding.WHOLE)))
