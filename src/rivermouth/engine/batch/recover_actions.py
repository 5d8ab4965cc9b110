"""Replays and decisions that a crash left: their marks on dead letters, and what a keyed table remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import ledger
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    as_few,
    table_coordinates,
    with_epoch,
)
from rivermouth.engine.batch.recover_deletes import forget_what_is_no_deletion
from rivermouth.engine.batch.recover_keyed import remembered_coordinates
from rivermouth.rows import envelope
from rivermouth.rows.columns.epochs import epoch_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun


def finish_replay(run: FlowRun) -> None:
    """Marks the dead letters whose rows the newest entry, a replay, brought into the table, or that are remembered.

    Guarantees:
        Run twice: the second time finds none. Stopped half-way: all are marked or none, and it is done again.
    """
    position = run.position
    letters = with_epoch(run.entry, run.dead_letters.frame().where(F.col("status") == "open"))
    keys = [*names.IN_TABLE, names.EPOCH]
    there, remembered = table_coordinates(run), remembered_coordinates(run)
    if remembered is not None:
        there = there.unionByName(remembered)
    opened = as_coordinates(letters, names.EPOCH, "batch").distinct().persist(StorageLevel.DISK_ONLY)
    try:
        few = as_few(opened, opened.count())
        found = there.join(few, keys) if run.flow.explosion is None else _elements_moved(run, there, few)
        moved = found.select(*run.flow.identity, "batch").distinct().withColumnsRenamed({**run.flow.identity})
        if remembered is not None:
            # The metrics of the commit count versions, not records.
            replayed = moved.count()
        else:
            commit = run.ledger.commit_of(position.entry, position.version - 1)
            replayed = 0 if commit is None else commit.rows_written or 0
        run.dead_letters.mark(moved.withColumn("new_status", F.lit("replayed")))
    finally:
        opened.unpersist()
    run.count(ledger.Counts(replayed=replayed))
    run.ledger.keep(run.position)


def _elements_moved(run: FlowRun, there: DataFrame, opened: DataFrame) -> DataFrame:
    """Of a replay that exploded records: the open letters whose elements the table has.

    A letter that is a whole record counts if rows of it came with the replay: others may have been there before.
    """
    keys, position = [*names.IN_TABLE, names.EPOCH], run.position
    single = opened.join(there, [*keys, names.POSITION], "left_semi")
    commit = run.ledger.commit_of(position.entry, position.version - 1)
    if commit is None:
        return single
    before, after = (table_coordinates(run, version=version) for version in (commit.version - 1, commit.version))
    came = after.join(opened.select(keys), keys, "left_semi").join(before, [*keys, names.POSITION], "left_anti")
    return single.unionByName(opened.where(f"{names.POSITION} < 0").join(came, keys, "left_semi"))


def finish_decision(run: FlowRun) -> None:
    """Gives up the open dead letters that the newest entry, a rewind or a rebuild, reads again.

    They are written again if they still do not fit. Deletions are remembered again when a rebuild repeats them. A
    remembered deletion that a rewind no longer finds to be one is forgotten.

    Guarantees:
        Run twice: the second time finds none. Stopped half-way: all are marked or none, and it is done again.
    """
    entry = run.entry
    again: Ranges = {}
    for decision in entry.decisions:
        if decision.entry == entry.number and decision.kind in ("rewind", "rebuild"):
            for partition, (before, after) in decision.moves.items():
                again.setdefault(decision.topic, {})[partition] = (after, before)
    if again and run.dead_letters.exists():
        # Of an epoch that begins with this very entry no letter can be there.
        now = epoch_now(entry, F.col("kafka_topic"), F.col("kafka_partition"))
        letters = with_epoch(run.entry, run.dead_letters.frame().where(F.col("status") == "open"))
        mine = as_coordinates(letters.where(F.col(names.EPOCH) == now), "batch").where(envelope.inside(again))
        given_up = mine.withColumnsRenamed(names.ROW_IN_TABLE).distinct().withColumn("new_status", F.lit("discarded"))
        run.dead_letters.mark(given_up)
    if run.tombstones is not None and any(
        each.entry == entry.number and each.kind == "rebuild" for each in entry.decisions
    ):
        run.tombstones.clear(run.spark)
    elif again:
        forget_what_is_no_deletion(run, again)
    run.count(ledger.Counts())
    run.ledger.keep(run.position)
