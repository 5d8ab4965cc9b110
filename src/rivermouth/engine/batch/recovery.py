"""After a crash: what the newest ledger entry left undone is found in the table and in Kafka, and done."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    complete,
    dead_letters_of,
    rows_within,
    table_coordinates,
    table_order,
    table_rows,
    transformed,
    with_epoch,
    without_erased,
    without_erased_changes,
)
from rivermouth.engine.batch.recover_deletes import forget_what_is_no_deletion
from rivermouth.engine.batch.recover_erasure import finish_forget
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.aggregates import struct_of
from rivermouth.rows.columns.epochs import epoch_now
from rivermouth.rows.keyed import history, partial_updates
from rivermouth.rows.keyed.column_starts import unread
from rivermouth.rows.split_changes import last_of_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.ledger.ledger import Counts
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.rows.keyed.change_order import ChangeOrder, Truncations
    from rivermouth.side_tables.deleted_keys import Tombstones


def recover(run: FlowRun) -> None:
    """Finishes the newest entry where a crash left it: a batch's dead letters and counts, a replay's marks, an erasure.

    Guarantees:
        Run twice: the second time finds it settled. The table itself is not touched.
    """
    if run.position.counts is not None:
        return
    started = time.monotonic()
    entry, ranges = run.position.entry, run.position.entry.unsettled
    if entry.kind == "replay":
        run.reached("recover")
        finish_replay(run)
    elif entry.kind == "decision":
        run.reached("recover")
        finish_decision(run)
    elif entry.kind == "forget":
        run.reached("recover")
        finish_forget(run)
    elif ranges:
        run.reached("recover")
        counts = recount(run, ranges)
        run.emit(complete(run, ranges, counts, time.monotonic() - started))
    else:
        run.count(ledger.Counts())
        run.ledger.keep(run.position)


def recount(run: FlowRun, ranges: Ranges, gone: Ranges | None = None) -> Counts:
    """Counts the newest entry's batch by what is in the table, and sees to it that all else is where it belongs.

    What the table has was written, whatever the flow's rules say by now: they may have been changed since, or
    depend on the time of day. A record that it does not have and that passes now becomes a dead letter.

    Args:
        run: The flow.
        ranges: The batch's.
        gone: What of them Kafka no longer holds, as was decided.

    Guarantees:
        Run twice: the second time finds the dead letters and writes none.
    """
    if run.flow.keyed is not None:
        return _recounted_changes(run, ranges, gone or {})
    if not gone:
        return _recounted(run, ranges, complete=True)
    # Its letters are there whole or not at all; those of records that are gone could not be made again.
    buried = run.dead_letters.newest_entry(run.position.entry.flow, run.flow.previously) >= run.position.entry.number
    present = rows_within(run, gone).distinct()
    found = present.count()
    letters = letters_within(run, gone).count() if buried else 0
    records = found + letters
    if run.flow.explosion is not None:
        places = present.unionByName(letters_within(run, gone)) if buried else present
        records = places.select(*names.IN_TABLE).distinct().count()
    counts = ledger.Counts(
        consumed=records,
        exploded=found + letters - records,
        written=found,
        dead_lettered=letters,
        lost=offset_ranges.size(gone) - records,
    )
    rest = offset_ranges.without(ranges, gone)
    return counts + _recounted(run, rest, complete=not buried) if rest else counts


def letters_within(run: FlowRun, ranges: Ranges) -> DataFrame:
    """Coordinates of the newest entry's dead letters in these ranges."""
    return as_coordinates(_own_letters(run)).where(envelope.inside(ranges))


def _own_letters(run: FlowRun) -> DataFrame:
    """Dead letters of the newest entry's batch."""
    return run.dead_letters.frame().where(F.col("batch") == run.position.entry.number)


def _completed(run: FlowRun, routed: DataFrame, held: DataFrame, counts: Counts) -> Counts:
    """Sees to it that the newest entry's dead letters are those of ``routed``; the counts with those found besides.

    Args:
        run: The flow.
        routed: Standing ready: Kafka may not have all of these records any more.
        held: As ``routed``, with the coordinates of all records of the batch.
        counts: Those of the batch.
    """
    if not counts.dead_lettered and not run.dead_letters.exists():
        return counts
    letters, kept = _with_vanished(run, dead_letters_of(routed, run), held)
    counts += ledger.Counts(consumed=kept, dead_lettered=kept)
    run.reached("bury")
    run.dead_letters.complete(letters, run.position.entry, counts.dead_lettered, run.flow.previously)
    run.reached("buried")
    return counts


def _counted(routed: DataFrame, run: FlowRun, ranges: Ranges) -> Counts:
    aggregates = routing.counting(run.flow, routing.block_size(offset_ranges.size(ranges)))
    return routing.counted(run.flow, routed.agg(F.expr(struct_of(aggregates))).collect()[0][0].asDict())


def _recounted(run: FlowRun, ranges: Ranges, *, complete: bool) -> Counts:
    whole = run.source.with_headers(headers=True)
    present = rows_within(run, ranges).distinct().withColumn("__present", F.lit(True))
    held = without_erased(envelope.read(whole.batch(run.spark, ranges)), run, ranges)
    routed = transformed(held, run).join(present, [*run.flow.identity], "left")
    written = F.col("__present").isNotNull()
    table = routed.where(written).withColumn(names.ROUTE, F.lit(routing.TABLE))
    counts = _counted(table, run, ranges)
    # What compaction has taken away since is in the table all the same.
    vanished = present.count() - counts.written
    counts += ledger.Counts(consumed=vanished, written=vanished)
    other = F.when(F.col(names.ROUTE) == routing.TABLE, routing.DEAD_LETTER).otherwise(F.col(names.ROUTE))
    rest = routed.where(~written).drop("__present").withColumn(names.ROUTE, other).persist(StorageLevel.DISK_ONLY)
    coordinates = [*names.IN_TABLE]
    try:
        counts += _counted(rest, run, ranges)
        if complete:
            # Of a record with several rows one may be in the table, and another a dead letter.
            known = present if run.flow.explosion is None else held
            counts = _completed(run, rest, rest.select(coordinates).unionByName(known.select(coordinates)), counts)
        if run.flow.explosion is not None:
            counts = _in_records(run, counts, rest.select(coordinates).unionByName(present.select(coordinates)))
    finally:
        rest.unpersist()
    return counts


def _in_records(run: FlowRun, counts: Counts, places: DataFrame) -> Counts:
    """Counts of rows with ``consumed`` counted in records, which are those of ``places`` and of the dead letters."""
    if run.dead_letters.exists():
        places = places.unionByName(as_coordinates(_own_letters(run)).select(*names.IN_TABLE))
    records = places.distinct().count()
    rows = counts.written + counts.dropped + counts.dead_lettered
    return dataclasses.replace(counts, consumed=records, exploded=rows - records)


def _recounted_changes(run: FlowRun, ranges: Ranges, gone: Ranges) -> Counts:
    """Of a keyed table, whose rows do not tell of all records that made them: those of now do, and what they say."""
    whole = run.source.with_headers(headers=True)
    counts, rest = ledger.Counts(lost=offset_ranges.size(gone)), offset_ranges.without(ranges, gone)
    if not rest:
        return counts
    judged_now = transformed(without_erased(envelope.read(whole.batch(run.spark, rest)), run, rest), run)
    routed = _as_merged(without_erased_changes(judged_now, run, rest), run, rest).persist(StorageLevel.DISK_ONLY)
    try:
        counts += _counted(routed, run, rest)
        counts = _completed(run, routed, routed, counts)
    finally:
        routed.unpersist()
    return counts


def _as_merged(routed: DataFrame, run: FlowRun, ranges: Ranges) -> DataFrame:
    """Judged records of the newest entry, with the route that they took, as far as the keyed table tells.

    The rules may be others by now. A record whose row stands, or which is remembered, was merged; one that passes now
    and is newer than the row of its key, or has none and was not deleted, was not.
    """
    coordinates = [*names.IN_TABLE]
    present = rows_within(run, ranges)
    if (remembered := _remembered(run)) is not None:
        now = epoch_now(run.position.entry, F.col(names.TOPIC), F.col(names.PARTITION))
        mine = remembered.where(envelope.inside(ranges)).where(F.col(names.EPOCH) == now)
        present = present.unionByName(mine.drop(names.EPOCH))
    present = present.distinct().withColumn("__present", F.lit(True))
    marked = routed.join(present, coordinates, "left")
    if run.state_lost:
        # Without the deleted keys a change that came too late looks like one that was not merged.
        return _as_buried(marked, run)
    unmerged = _unmerged(marked, run).withColumn("__unmerged", F.lit(True))
    marked = marked.join(unmerged, coordinates, "left")
    route = (
        F.when(F.col("__present"), routing.TABLE)
        .when(F.col("__unmerged"), routing.DEAD_LETTER)
        .otherwise(F.col(names.ROUTE))
    )
    return marked.withColumn(names.ROUTE, route).drop("__present", "__unmerged")


def _as_buried(marked: DataFrame, run: FlowRun) -> DataFrame:
    """Judged records with the route that the dead letters tell, where they were written; else that of the rules."""
    route = F.when(F.col("__present"), routing.TABLE)
    entry, letters = run.position.entry, run.dead_letters
    if letters.newest_entry(entry.flow, run.flow.previously) < entry.number:
        return marked.withColumn(names.ROUTE, route.otherwise(F.col(names.ROUTE))).drop("__present")
    buried = as_coordinates(_own_letters(run)).select(*names.IN_TABLE).distinct().withColumn("__buried", F.lit(True))
    merged = F.when(F.col(names.ROUTE) == routing.DEAD_LETTER, routing.TABLE).otherwise(F.col(names.ROUTE))
    route = route.when(F.col("__buried"), routing.DEAD_LETTER).otherwise(merged)
    found = marked.join(buried, [*names.IN_TABLE], "left").withColumn(names.ROUTE, route)
    return found.drop("__present", "__buried")


def _remembered(run: FlowRun) -> DataFrame | None:
    """Coordinates and ``__epoch`` of the records that a keyed table has, though none of its rows has theirs.

    Of versions those that it remembers; of rows that come in parts those whose values stand in newer rows. None for
    other tables, and where nothing is remembered.
    """
    facts, order = _facts(run), table_order(run)
    if order is not None and order.partial:
        return partial_updates.sources(run.spark.read.format("delta").load(run.places.table), order)
    if facts is None or order is None:
        return None
    epoch = F.coalesce(F.col(names.EPOCH_COLUMN), F.lit(0)) if order.epochs else F.lit(0)
    return facts.select(*order.coordinates, epoch.alias(names.EPOCH))


def _facts(run: FlowRun) -> DataFrame | None:
    """What is remembered of versions, up to the newest entry."""
    order, memory = table_order(run), run.tombstones
    if order is None or memory is None or run.flow.keyed is None or not run.flow.keyed.versions or not memory.exists():
        return None
    return history.until(memory.frame(run.spark, order), run.position.entry.number)


def _unmerged(marked: DataFrame, run: FlowRun) -> DataFrame:
    """Coordinates of the records that pass now, and by which the keyed table would be another if they had then."""
    order = table_order(run)
    if order is None or run.tombstones is None:
        return marked.select(*names.IN_TABLE).limit(0)
    open_now = (F.col(names.ROUTE) == routing.TABLE) & F.col("__present").isNull()
    changed = table_rows(last_of_keys(marked, run.flow).where(open_now & ~F.col(names.TRUNCATE)), run)
    rows = changed.where(~F.col(names.DELETE)).alias("s")
    table = run.spark.read.format("delta").load(run.places.table)
    if run.flow.keyed is not None and run.flow.keyed.versions:
        return _places(history.unmerged(rows, history.ExistingVersions(table, _facts(run)), order), order)
    kind = rows.schema[names.SEQUENCE].dataType.simpleString()
    truncations = run.tombstones.truncations(run.spark, order, kind)
    if order.partial:
        since = unread(run.starts, order, run.position.entry)
        return _unmerged_parts(rows, table, order, run.tombstones, truncations, since)
    rows, marks = changed.alias("s"), table_rows(marked.where(open_now & F.col(names.TRUNCATE)), run).alias("s")
    if truncations is not None:
        rows, marks = (each.where(~truncations.older("s", names.SEQUENCE)) for each in (rows, marks))
    joined = rows.alias("s").join(table.alias("t"), F.expr(order.same_key("s", "t")), "left")
    is_there, newer = F.expr(order.is_there("t")), F.expr(order.newer("s", "t"))
    # Of a deletion that was merged no older row of its key is left.
    missing = joined.where((is_there & newer) | (~is_there & ~F.col(f"s.{names.DELETE}"))).select("s.*")
    late = run.tombstones.older(missing, order)
    if late is not None:
        missing = missing.join(late, [*order.keys], "left_anti")
    found = _places(missing, order)
    return found.unionByName(_places(_not_remembered(marks, run, order), order)) if order.truncates else found


def _not_remembered(marks: DataFrame, run: FlowRun, order: ChangeOrder) -> DataFrame:
    """Of these truncations those of which nothing is remembered: each is, before the commit that carries it out."""
    memory = run.tombstones
    if memory is None or not memory.exists():
        return marks
    known = memory.frame(run.spark, order).where(names.TRUNCATE).alias("r")
    return marks.alias("s").join(known, F.expr(order.same_record("s", "r")), "left_anti")


def _unmerged_parts(
    rows: DataFrame,
    table: DataFrame,
    order: ChangeOrder,
    memory: Tombstones,
    truncations: Truncations | None,
    since: Mapping[str, Column],
) -> DataFrame:
    """Coordinates of the records that would change a row, in one of its columns or as a whole."""
    columns = partial_updates.whole_columns(rows, order)
    found = partial_updates.candidates(rows, order, since)
    facts = memory.deletions(rows.sparkSession, order)
    if facts is not None:
        deleted = partial_updates.newest(partial_updates.remembered(facts, found, order), order)
        found = partial_updates.against(found, deleted, order)
    known, gone = partial_updates.current_rows(table, columns, order), [truncations] if truncations else []
    merged = partial_updates.merged(found, known, columns, order, gone)
    return merged.where(partial_updates.MOVES).select(*names.IN_TABLE).distinct()


def _places(rows: DataFrame, order: ChangeOrder) -> DataFrame:
    return rows.select(*order.coordinates).distinct()


def _with_vanished(run: FlowRun, letters: DataFrame, held: DataFrame) -> tuple[DataFrame, int]:
    """``letters``, and those of the newest entry whose records compaction has taken away since; how many these are."""
    if not run.dead_letters.exists():
        return letters, 0
    mine = _own_letters(run)
    if mine.isEmpty():  # as most often: spares another read of the batch
        return letters, 0
    seen = held.select(*names.IN_TABLE).withColumnsRenamed(names.IN_TABLE)
    vanished = mine.join(seen, [*names.COORDINATES], "left_anti")
    kept = vanished.count()
    return (letters.unionByName(vanished.localCheckpoint()), kept) if kept else (letters, 0)


def finish_replay(run: FlowRun) -> None:
    """Marks the dead letters whose rows the newest entry, a replay, brought into the table, or that are remembered.

    Guarantees:
        Run twice: the second time finds none. Stopped half-way: all are marked or none, and it is done again.
    """
    standing = run.position
    letters = with_epoch(run, run.dead_letters.frame().where(F.col("status") == "open"))
    keys = [*names.IN_TABLE, names.EPOCH]
    there, remembered = table_coordinates(run), _remembered(run)
    if remembered is not None:
        there = there.unionByName(remembered)
    opened = F.broadcast(as_coordinates(letters, names.EPOCH, "batch").distinct())
    found = there.join(opened, keys) if run.flow.explosion is None else _elements_moved(run, there, opened)
    moved = found.select(*run.flow.identity, "batch").distinct().withColumnsRenamed({**run.flow.identity})
    if remembered is not None:
        # The commit tells of versions, not of records.
        replayed = moved.count()
    else:
        commit = run.ledger.commit_of(standing.entry, standing.version - 1)
        replayed = 0 if commit is None else commit.rows_written or 0
    run.dead_letters.mark(moved.withColumn("new_status", F.lit("replayed")))
    run.count(ledger.Counts(replayed=replayed))
    run.ledger.keep(run.position)


def _elements_moved(run: FlowRun, there: DataFrame, opened: DataFrame) -> DataFrame:
    """Of a replay that exploded records: the open letters whose elements the table has.

    A letter that is a whole record counts if rows of it came with the replay: others may have been there before.
    """
    keys, standing = [*names.IN_TABLE, names.EPOCH], run.position
    single = opened.join(there, [*keys, names.POSITION], "left_semi")
    commit = run.ledger.commit_of(standing.entry, standing.version - 1)
    if commit is None:
        return single
    before, after = (table_coordinates(run, version=version) for version in (commit.version - 1, commit.version))
    came = after.join(opened.select(keys), keys, "left_semi").join(before, [*keys, names.POSITION], "left_anti")
    return single.unionByName(opened.where(f"{names.POSITION} < 0").join(came, keys, "left_semi"))


def finish_decision(run: FlowRun) -> None:
    """Gives up the open dead letters that the newest entry, a rewind or a rebuild, reads again.

    They come again if they still do not fit. What a rebuild deletes again is remembered anew, and what a rewind finds
    to be no deletion any more is forgotten.

    Guarantees:
        Run twice: the second time finds none. Stopped half-way: all are marked or none, and it is done again.
    """
    entry = run.position.entry
    again: Ranges = {}
    for decision in entry.decisions:
        if decision.entry == entry.number and decision.kind in ("rewind", "rebuild"):
            for partition, (before, after) in decision.moves.items():
                again.setdefault(decision.topic, {})[partition] = (after, before)
    if again and run.dead_letters.exists():
        # Of an epoch that begins with this very entry no letter can be there.
        now = epoch_now(entry, F.col("kafka_topic"), F.col("kafka_partition"))
        letters = with_epoch(run, run.dead_letters.frame().where(F.col("status") == "open"))
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
