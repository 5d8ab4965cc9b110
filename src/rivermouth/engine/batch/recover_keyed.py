"""Counts of a keyed table's batch that a crash left: its rows do not name all records that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    rows_within,
    table_order,
    table_rows,
    transformed,
    without_erased,
    without_erased_changes,
    without_fail_policies,
)
from rivermouth.engine.batch.recover_counts import counted, own_letters, with_dead_letters
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.epochs import epoch_now
from rivermouth.rows.keyed import history, history_results, partial_updates
from rivermouth.rows.keyed.column_starts import unread
from rivermouth.rows.split_changes import last_of_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.ledger.ledger import Counts
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.side_tables.deleted_keys import Tombstones

_IS_TOMBSTONE: Final = f"{names.DELETE} AND {names.SEQUENCE} IS NULL"
_THERE: Final = "__there"


def recount_keyed(run: FlowRun, ranges: Ranges, gone: Ranges) -> Counts:
    """Counts of a keyed table, whose rows do not name all records that made them: by the records that Kafka has now.

    The records are checked by the flow's present rules, and none of these stops the flow; the table's rows correct
    the result.
    """
    whole = run.source.with_headers(headers=True)
    counts, rest = ledger.Counts(lost=offset_ranges.size(gone)), offset_ranges.without(ranges, gone)
    if not rest:
        return counts
    held = without_erased(envelope.read(whole.batch(run.spark, rest)), run, rest)
    judged_now = transformed(held, without_fail_policies(run))
    routed = _as_merged(without_erased_changes(judged_now, run, rest), run, rest).persist(StorageLevel.DISK_ONLY)
    try:
        counts += counted(routed, run.flow, rest)
        counts = with_dead_letters(run, routed, routed, counts)
    finally:
        routed.unpersist()
    return counts


def _as_merged(routed: DataFrame, run: FlowRun, ranges: Ranges) -> DataFrame:
    """Routed records of the newest entry, with the route that they took, as far as the keyed table shows it.

    The rules may be others by now. A record was merged if its row is in the table, or if it is remembered. A record
    was not merged if it passes now and is newer than the row of its key, or if its key has no row and was not deleted;
    nor was a deletion or a truncation that passes now and left no trace.
    """
    coordinates = [*names.IN_TABLE]
    present = rows_within(run, ranges)
    if (remembered := remembered_coordinates(run)) is not None:
        now = epoch_now(run.entry, F.col(names.TOPIC), F.col(names.PARTITION))
        mine = remembered.where(envelope.inside(ranges)).where(F.col(names.EPOCH) == now)
        present = present.unionByName(mine.drop(names.EPOCH))
    present = present.distinct().withColumn("__present", F.lit(True))
    marked = routed.join(present, coordinates, "left")
    if run.state_lost:
        # Without the deleted keys a change that came too late looks like one that was not merged.
        return _as_dead_lettered(marked, run)
    unmerged = _unmerged(marked, run).withColumn("__unmerged", F.lit(True))
    marked = marked.join(unmerged, coordinates, "left")
    route = (
        F.when(F.col("__present"), routing.TABLE)
        .when(F.col("__unmerged"), routing.DEAD_LETTER)
        .otherwise(F.col(names.ROUTE))
    )
    return marked.withColumn(names.ROUTE, route).drop("__present", "__unmerged")


def _as_dead_lettered(marked: DataFrame, run: FlowRun) -> DataFrame:
    """Routed records with the route that the dead letters show, where they were written; else that of the rules."""
    route = F.when(F.col("__present"), routing.TABLE)
    entry, letters = run.entry, run.dead_letters
    if letters.newest_entry(entry.flow, run.flow.previously) < entry.number:
        return marked.withColumn(names.ROUTE, route.otherwise(F.col(names.ROUTE))).drop("__present")
    buried = (
        as_coordinates(own_letters(run.dead_letters, run.entry))
        .select(*names.IN_TABLE)
        .distinct()
        .withColumn("__buried", F.lit(True))
    )
    merged = F.when(F.col(names.ROUTE) == routing.DEAD_LETTER, routing.TABLE).otherwise(F.col(names.ROUTE))
    route = route.when(F.col("__buried"), routing.DEAD_LETTER).otherwise(merged)
    found = marked.join(buried, [*names.IN_TABLE], "left").withColumn(names.ROUTE, route)
    return found.drop("__present", "__buried")


def remembered_coordinates(run: FlowRun) -> DataFrame | None:
    """Coordinates and ``__epoch`` of the records that a keyed table has, though none of its rows has theirs.

    Of versions those that it remembers; of rows that come in parts those whose values are in newer rows. None for
    other tables, and where nothing is remembered.
    """
    facts, order = _facts(run), table_order(run.view, run.entry)
    if order is not None and order.partial:
        return partial_updates.sources(run.spark.read.format("delta").load(run.places.table), order)
    if facts is None or order is None:
        return None
    epoch = F.coalesce(F.col(names.EPOCH_COLUMN), F.lit(0)) if order.epochs else F.lit(0)
    return facts.select(*order.coordinates, epoch.alias(names.EPOCH))


def _facts(run: FlowRun) -> DataFrame | None:
    """What is remembered of versions, up to the newest entry."""
    order, memory = table_order(run.view, run.entry), run.tombstones
    if order is None or memory is None or run.flow.keyed is None or not run.flow.keyed.versions or not memory.exists():
        return None
    return history.until(memory.frame(run.spark, order), run.entry.number)


def _unmerged(marked: DataFrame, run: FlowRun) -> DataFrame:
    """Coordinates of the records that pass now, and by which the keyed table would be another if they had then.

    All deletions and truncations are remembered before the commit that executes them.
    """
    order, memory = table_order(run.view, run.entry), run.tombstones
    if order is None or memory is None:
        return marked.select(*names.IN_TABLE).limit(0)
    open_now = (F.col(names.ROUTE) == routing.TABLE) & F.col("__present").isNull()
    changed = table_rows(last_of_keys(marked, run.flow).where(open_now & ~F.col(names.TRUNCATE)), run)
    marks = table_rows(marked.where(open_now & F.col(names.TRUNCATE)), run)
    table = run.spark.read.format("delta").load(run.places.table)
    if run.flow.keyed is not None and run.flow.keyed.versions:
        found = _unmerged_versions(changed, history.ExistingVersions(table, _facts(run)), order)
    else:
        truncations = memory.truncations(run.spark, order, changed.schema[names.SEQUENCE].dataType.simpleString())
        if truncations is not None:
            changed, marks = (
                each.alias("s").where(~truncations.older("s", names.SEQUENCE)) for each in (changed, marks)
            )
        if order.partial:
            found = _unmerged_parts(changed, table, order, memory, unread(run.starts, order, run.entry))
        else:
            found = _unmerged_rows(changed, table, order, memory)
    if order.truncates:
        found = found.unionByName(_places(_not_remembered(marks, run.context, order), order))
    # A snapshot is found by its rows and by what it deletes.
    return found.distinct()


def _unmerged_versions(changed: DataFrame, known: history.ExistingVersions, order: ChangeOrder) -> DataFrame:
    found = _places(history_results.unmerged(changed, known, order), order)
    if not order.unplaced:
        return found
    keys = changed.where(_IS_TOMBSTONE).select(*map(names.quoted, order.keys)).distinct()
    if keys.isEmpty():
        return found

    def of_keys(rows: DataFrame) -> DataFrame:
        return rows.alias("c").join(keys.alias("w"), F.expr(order.same_key("w", "c")), "left_semi")

    mine = history.ExistingVersions(of_keys(known.versions))
    if known.facts is not None:
        marks = history.truncations(changed, known.facts, order)
        mine = history.ExistingVersions(mine.versions, of_keys(known.facts), marks)
    return found.unionByName(_places(history_results.unmerged_tombstones(of_keys(changed), mine, order), order))


def _unmerged_rows(changed: DataFrame, table: DataFrame, order: ChangeOrder, memory: Tombstones) -> DataFrame:
    joined = changed.alias("s").join(table.alias("t"), F.expr(order.same_key("s", "t")), "left")
    is_there = F.expr(order.is_there("t"))
    missing = joined.where(~is_there | F.expr(order.newer("s", "t"))).select("s.*", is_there.alias(_THERE)).alias("s")
    # A snapshot deletes no key by itself.
    if not order.snapshots and memory.exists():
        # Of a deletion that was merged no older row of its key is left. Where one without a sequence was is not known.
        unplaced = f"s.{names.SEQUENCE} IS NULL OR" if order.sequence else ""
        merged = f"NOT s.{_THERE} AND ({unplaced} {_outdone(order)})"
        late = f"IF(s.{names.DELETE}, {merged}, NOT {order.newer('s', 'r', names.SEQUENCE)})"
        facts = memory.frame(table.sparkSession, order).where(~F.col(names.TRUNCATE)).alias("r")
        missing = missing.join(facts, F.expr(f"{order.same_key('s', 'r')} AND {late}"), "left_anti")
    return _places(missing, order)


def _outdone(order: ChangeOrder) -> str:
    """SQL: whether ``r``, which is remembered, is the deletion ``s`` of its key, or a newer one."""
    known = f"(r.{names.SEQUENCE} IS NOT NULL OR s.{names.SEQUENCE} IS NULL) AND" if order.sequence else ""
    return f"(({order.same_record('r', 's')}) OR ({known} {order.newer('r', 's', names.SEQUENCE)}))"


def _not_remembered(marks: DataFrame, context: FlowContext, order: ChangeOrder) -> DataFrame:
    """These truncations without those that are remembered: each is remembered before the commit that executes it."""
    memory = context.tombstones
    if memory is None or not memory.exists():
        return marks
    known = memory.frame(context.spark, order).where(names.TRUNCATE).alias("r")
    return marks.alias("s").join(known, F.expr(order.same_record("s", "r")), "left_anti")


def _unmerged_parts(
    changed: DataFrame, table: DataFrame, order: ChangeOrder, memory: Tombstones, since: Mapping[str, Column]
) -> DataFrame:
    """Coordinates of the records that would change a row, in one of its columns or as a whole, and of deletions."""
    columns = partial_updates.whole_columns(changed, order)
    known = partial_updates.current_rows(table, columns, order)
    placed = partial_updates.placed(changed, known, order) if order.sequence else changed
    deletions = placed.where(names.DELETE).alias("s")
    found = partial_updates.candidates(placed.where(~F.col(names.DELETE)), order, since)
    facts = memory.deletions(table.sparkSession, order)
    if facts is not None:
        deleted = partial_updates.newest(partial_updates.remembered(facts, found, order), order)
        found = partial_updates.against(found, deleted, order)
        was_merged = F.expr(f"{order.same_key('s', 'r')} AND {_outdone(order)}")
        deletions = deletions.join(facts.alias("r"), was_merged, "left_anti")
    merged = partial_updates.merged(found, known, columns, order)
    moving = merged.where(partial_updates.MOVES).select(*names.IN_TABLE)
    return moving.unionByName(_places(deletions, order))


def _places(rows: DataFrame, order: ChangeOrder) -> DataFrame:
    return rows.select(*order.coordinates).distinct()
