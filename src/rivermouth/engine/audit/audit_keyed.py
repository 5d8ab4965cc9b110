"""The audit of a keyed table: what Kafka's records come to, held against its rows, key by key."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger.audit_window import Tally, whole
from rivermouth.engine.batch.pipeline import marked_changes, rows_within, table_order, table_rows, transformed
from rivermouth.rows import routing
from rivermouth.rows.keyed import change_order, changes, history, partial_updates
from rivermouth.rows.keyed.column_starts import unread
from rivermouth.rows.split_changes import once
from rivermouth.side_tables import erased_records as of_erased
from rivermouth.side_tables.deleted_keys import truncations_of
from rivermouth.side_tables.erased_records import ENTRY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.audit_window import Window
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.engine.flow.running import FlowContext, FlowRun, TableView
    from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.spec import Flow

_KEYS = [*names.IN_TABLE]
_FINE = "__fine"
_NUMBER = "__number"


def tally(run: FlowRun, held: DataFrame, letters: DataFrame | None, window: Window, *, compacted: bool) -> Tally:
    """What was found: a record is in the table if its key's row is as new as the newest record of the key.

    In a table with every version of a key, if the records of its key change nothing when they come again.

    Args:
        run: The flow. The records are checked by its present rules.
        held: The records that Kafka holds, as envelope rows.
        letters: Coordinates of their dead letters; None without any.
        window: Theirs.
        compacted: Whether Kafka may have taken some of them away.
    """
    routed = transformed(held, run)
    with ExitStack() as ends:
        marked = marked_changes(routed, run, window.ranges)
        if marked is not None:
            marked = _persisted(marked, ends)
            routed = of_erased.kept(marked)
        audit = _Audit(run, window, compacted, _persisted(routed, ends), marked, letters, erased_since(run, window))
        return audit.tally()


def _persisted(frame: DataFrame, ends: ExitStack) -> DataFrame:
    frame = frame.persist()
    ends.callback(frame.unpersist)
    return frame


@dataclass(frozen=True, slots=True)
class _Audit:
    """The audit of one window.

    Attributes:
        run: The flow.
        window: What was audited.
        compacted: Whether Kafka may have taken some records away.
        routed: The records that Kafka holds, with their route.
        marked: Their changes, with those that are erased; None where none is.
        letters: Coordinates of dead letters; None without any.
        gone: Coordinates of records that were erased; None without any.
    """

    run: FlowRun
    window: Window
    compacted: bool
    routed: DataFrame
    marked: DataFrame | None
    letters: DataFrame | None
    gone: DataFrame | None

    def tally(self) -> Tally:
        """What was found."""
        version = _version(self.run.ledger, self.run.position, self.window)
        table = self.run.spark.read.format("delta").option("versionAsOf", version).load(self.run.places.table)
        records = self.routed.where(once(self.run.flow))
        there = rows_within(self.run, self.window.ranges, version)
        numbers = {
            "visible": _count(records),
            "not_in_kafka": _count(there.join(self.routed, _KEYS, "left_anti")),
            "doubled": self._doubled(table),
            **self._in_table(table),
        }
        if self.letters is not None:
            numbers["in_dead_letters"] = _count(self.letters.join(self.routed, _KEYS, "left_semi"))
        if self.gone is not None:
            numbers["erased"] = _count(records.join(self.gone, _KEYS, "left_semi"))
            numbers["back"] = _count(there.join(self.gone, _KEYS, "left_semi"))
        if self.marked is not None:
            numbers["changes_back"] = _count(
                _changes_back(self.marked, table, _order(self.run.view, self.run.entry), self.run)
            )
        found = _collected(numbers)
        in_table = found["in_table"] + found.get("truncations", 0)
        dead, erased = found.get("in_dead_letters", 0), found.get("erased", 0)
        return Tally(
            visible=found["visible"],
            in_table=in_table,
            in_dead_letters=dead,
            in_neither=found["visible"] - in_table - dead - erased,
            doubled=found["doubled"],
            not_in_kafka=found["not_in_kafka"],
            erased=erased,
            back=found.get("back", 0) + found.get("changes_back", 0),
        )

    def _in_table(self, table: DataFrame) -> dict[str, DataFrame]:
        """How many records are ``in_table``, and, where they are counted apart, how many ``truncations`` of them."""
        run, order = self.run, _order(self.run.view, self.run.entry)
        kept = self.routed.where(F.col(names.ROUTE) == routing.TABLE)
        for others in (self.letters, self.gone):
            kept = kept if others is None else kept.join(others, _KEYS, "left_anti")
        if not _has_versions(run.flow):
            fine = (
                _fine_parts(kept, table, order, run, self.window.until)
                if order.partial
                else _fine(kept, table, order, run)
            )
            return _in_table(kept, fine, order, run.flow, truncated=True)
        # Where Kafka has all records, the end of a version that follows from none of them is wrong.
        deduced = self.compacted or not whole(self.window, run.entry)
        fine = _fine_versions(kept, table, order, run, self.window.until, deduced=deduced)
        outlived = order.truncates and not order.snapshots and _outlived(kept, table, order, run)
        return _in_table(kept, fine, order, run.flow, truncated=not outlived)

    def _doubled(self, table: DataFrame) -> DataFrame:
        versions = [names.START_AT] if _has_versions(self.run.flow) else []
        identity = [*map(names.quoted, _order(self.run.view, self.run.entry).keys), *versions]
        return table.groupBy(*identity).count().agg(F.sum(F.col("count") - 1).alias(_NUMBER))


def _count(rows: DataFrame) -> DataFrame:
    """One row: how many these are."""
    return rows.agg(F.count(F.lit(1)).alias(_NUMBER))


def _collected(numbers: dict[str, DataFrame]) -> dict[str, int]:
    """The numbers by name, each of a frame with one row; of all of them Spark makes one job."""
    frames = [frame.select(F.lit(name).alias("name"), F.col(_NUMBER)) for name, frame in numbers.items()]
    found = reduce(lambda one, two: one.unionAll(two), frames).collect()
    return {row["name"]: row[_NUMBER] or 0 for row in found}


def _order(view: TableView, entry: Entry) -> ChangeOrder:
    order = table_order(view, entry)
    if order is None:
        msg = "a table without keys has no order"
        raise TypeError(msg)
    return order


def _has_versions(flow: Flow) -> bool:
    return flow.keyed is not None and flow.keyed.versions


def erased_since(run: FlowRun, window: Window) -> DataFrame | None:
    """Coordinates of the window's records that were erased since they were read; None if there can be none."""
    found = run.erased.within(run.spark, run.entry, window.ranges)
    if found is None:
        return None
    found = of_erased.whole(found, run.flow)
    mine = found.where(F.col(ENTRY).between(window.since + 1, window.until) & F.col(names.TIMESTAMP).isNull())
    return mine.select(*_KEYS).distinct()


def _changes_back(marked: DataFrame, table: DataFrame, order: ChangeOrder, run: FlowRun) -> DataFrame:
    """The rows of the table that show a change that was erased."""
    gone = table_rows(marked.where(of_erased.IS_ERASED).where(F.col(names.ROUTE) == routing.TABLE), run)
    same = f"{order.same_key('t', 'g')} AND {order.same_record('t', 'g')}"
    return table.alias("t").join(F.broadcast(gone.alias("g")), F.expr(same), "left_semi")


def _version(ledger: TableLedger, position: LedgerPosition, window: Window) -> int:
    """The newest version of the table that holds all of the window's records, and none that came later."""
    versions = [each.version for each in ledger.newest() if each.entry.number == window.until]
    return max(versions, default=position.version)


def _in_table(
    kept: DataFrame, fine: DataFrame, order: ChangeOrder, flow: Flow, *, truncated: bool
) -> dict[str, DataFrame]:
    """How many records are in the table: with each of their changes, where they have several.

    A truncation is, if what it deletes is gone, ``truncated``.
    """
    if not flow.splits:
        found = {"in_table": fine.agg(F.sum(F.when(F.col(_FINE), F.col(changes.RECORDS))).alias(_NUMBER))}
        if truncated and order.truncates:
            found["truncations"] = _count(kept.where(names.TRUNCATE))
        return found
    # A snapshot is in the table if all of its rows are.
    rows = kept.alias("k").join(fine.alias("f"), F.expr(order.same_key("k", "f")), "left")
    told = F.when(F.col(names.TRUNCATE), F.lit(truncated)).otherwise(F.coalesce(_FINE, F.lit(False))).alias(_FINE)
    whole_records = rows.select(*_KEYS, told).groupBy(*_KEYS).agg(F.bool_and(_FINE).alias(_FINE)).where(_FINE)
    return {"in_table": _count(whole_records)}


def _fine(kept: DataFrame, table: DataFrame, order: ChangeOrder, run: FlowRun) -> DataFrame:
    """One row for each key: the newest change, the number of its records, and whether the table agrees with it."""
    told = table_rows(kept, run)
    rest = told.where(f"NOT {names.TRUNCATE}").drop(names.TRUNCATE)
    newest = changes.newest(changes.by_partition(rest, order), order)
    joined = newest.alias("s").join(table.alias("t"), F.expr(order.same_key("s", "t")), "left")
    missing = ~F.expr(order.is_there("t"))
    newer = F.expr(order.newer("s", "t"))
    same = F.expr(order.same_record("s", "t"))
    gone = F.col(names.DELETE)
    for truncations in _truncations(told, order, run.context):
        gone = gone | truncations.older("s", names.SEQUENCE)
    fine = F.when(gone, missing | ~newer).otherwise(~missing & (~newer | same))
    state = joined.select(*(F.col(f"s.{names.quoted(key)}") for key in order.keys), changes.RECORDS, fine.alias(_FINE))
    late = None if run.tombstones is None else run.tombstones.older(newest, order)
    if late is None:
        return state
    late = late.withColumn("__late", F.lit(True))
    known = state.join(late, [*order.keys], "left")
    return known.withColumn(_FINE, F.coalesce("__late", F.lit(False)) | F.col(_FINE))


def _truncations(told: DataFrame, order: ChangeOrder, context: FlowContext) -> list[change_order.Truncations]:
    """The truncations that are remembered, and, for what is remembered no more, those that Kafka still holds."""
    kind = told.schema[names.SEQUENCE].dataType.simpleString()
    remembered = None if context.tombstones is None else context.tombstones.truncations(context.spark, order, kind)
    held = truncations_of(told, order, kind) if order.truncates else None
    return [each for each in (remembered, held) if each is not None]


def _fine_parts(kept: DataFrame, table: DataFrame, order: ChangeOrder, run: FlowRun, until: int) -> DataFrame:
    """A row a key: how many records it has, and whether they would change nothing if they came again."""
    told = table_rows(kept, run)
    rest = told.where(f"NOT {names.TRUNCATE}").drop(names.TRUNCATE)
    columns = partial_updates.whole_columns(rest, order)
    known = partial_updates.current_rows(table, columns, order)
    placed = partial_updates.placed(rest, known, order) if order.sequence else rest
    found = partial_updates.candidates(placed, order, unread(run.starts, order, run.entry))
    if run.tombstones is not None and (facts := run.tombstones.deletions(run.spark, order)) is not None:
        # What was deleted after the window is in that version of the table.
        found = found.unionByName(partial_updates.remembered(history.until(facts, until), found, order))
    merged = partial_updates.merged(
        partial_updates.newest(found, order), known, columns, order, _truncations(told, order, run.context)
    )
    return merged.select(*map(names.quoted, order.keys), changes.RECORDS, (~F.col(partial_updates.MOVES)).alias(_FINE))


def _outlived(kept: DataFrame, table: DataFrame, order: ChangeOrder, run: FlowRun) -> bool:
    """Whether a version is valid before and after one of the truncations."""
    return not history.truncated(table, history.truncations(table_rows(kept, run), None, order), order).isEmpty()


def _fine_versions(
    kept: DataFrame, table: DataFrame, order: ChangeOrder, run: FlowRun, until: int, *, deduced: bool
) -> DataFrame:
    """A row a key: how many records it has, and whether they would change nothing of its history."""
    told = table_rows(kept, run)
    facts = None
    if run.tombstones is not None and run.tombstones.exists():
        # What was read after the window may have been remembered already, and is not in that version of the table.
        facts = history.until(run.tombstones.frame(run.spark, order), until)
    marks = history.truncations(told, facts, order)
    keys = told.where(f"NOT {names.TRUNCATE}").select(*map(names.quoted, order.keys))
    keys = keys.unionAll(history.truncated(table, history.truncations(told, None, order), order)).distinct().alias("w")
    versions = table.alias("t").join(keys, F.expr(order.same_key("w", "t")), "left_semi")
    mine = None if facts is None else facts.alias("r").join(keys, F.expr(order.same_key("w", "r")), "left_semi")
    # As in other tables, what a record has in its columns is no part of an audit.
    points = history.points(told, history.ExistingVersions(versions, mine, marks), order, values=False, deduced=deduced)
    wrong = F.expr(f"{history.HAS_UPDATE} OR {history.HAS_DELETE}")
    counted = points.groupBy(*map(names.quoted, order.keys))
    return counted.agg(F.sum(history.RECORDS).alias(changes.RECORDS), (~F.bool_or(wrong)).alias(_FINE))
