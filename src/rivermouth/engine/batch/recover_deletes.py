"""Deletions that are remembered and by the rules of now were none: a rewind, which reads them again, forgets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_few,
    beginning_offsets,
    table_order,
    table_rows,
    transformed,
    without_fail_policies,
)
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.epochs import epoch_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.rows.keyed.change_order import ChangeOrder


def forget_what_is_no_deletion(run: FlowRun, again: Ranges) -> None:
    """Forgets records within ``again`` that Kafka holds and that delete nothing by the present rules.

    Otherwise the keys that they deleted once would stay deleted when older records are read again. A tombstone stays
    remembered: its place is that of the record that it followed. A history compares each record with what is remembered
    of it by itself.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: all of them are still remembered, or none.
    """
    order, memory = table_order(run.view, run.entry), run.tombstones
    if order is None or memory is None or run.flow.keyed is None or run.flow.keyed.versions or not memory.exists():
        return
    ranges = _readable(run.kafka, run.entry, again)
    facts = _within(run.entry, memory.frame(run.spark, order), ranges, order).localCheckpoint() if ranges else None
    remembered = 0 if facts is None else facts.count()
    if facts is None or not remembered:
        return
    wanted = as_few(facts.select(*names.IN_TABLE).distinct(), remembered)
    whole = run.source.with_headers(headers=run.flow.reads_headers)
    held = envelope.read(whole.batch(run.spark, ranges)).join(wanted, [*names.IN_TABLE], "left_semi")
    routed = transformed(held, without_fail_policies(run)).localCheckpoint()
    told = table_rows(routed.where(F.col(names.ROUTE) == routing.TABLE), run)
    wrong = facts.join(routed.select(*names.IN_TABLE).distinct(), [*names.IN_TABLE], "left_semi")
    wrong = wrong.alias("f").join(told.alias("s"), F.expr(_confirmed(order)), "left_anti").localCheckpoint()
    if not wrong.isEmpty():
        memory.forget_records(wrong, order)


def _readable(kafka: OffsetSource, entry: Entry, again: Ranges) -> Ranges:
    """What Kafka holds of ``again`` by now: a decision may be finished long after it was made."""
    first = beginning_offsets(kafka, entry, again.keys())
    starts = {
        topic: {p: max(start, first[topic][p]) for p, (start, _end) in parts.items() if p in first[topic]}
        for topic, parts in again.items()
        if topic in first
    }
    return offset_ranges.between(starts, offset_ranges.ends(again))


def _within(entry: Entry, facts: DataFrame, ranges: Ranges, order: ChangeOrder) -> DataFrame:
    """What is remembered of records within ``ranges``, of the epoch of now."""
    found = facts.select("*", *order.coordinates).where(envelope.inside(ranges))
    if order.epochs:
        now = epoch_now(entry, F.col(names.TOPIC), F.col(names.PARTITION))
        found = found.where(F.coalesce(names.EPOCH_COLUMN, F.lit(0)) == now)
    return found


def _confirmed(order: ChangeOrder) -> str:
    """SQL: whether a change ``s`` of a record deletes what ``f`` says it did."""
    one = f"NOT f.{names.TRUNCATE} AND s.{names.DELETE} AND NOT s.{names.TRUNCATE} AND {order.same_key('s', 'f')}"
    every = f"f.{names.TRUNCATE} AND s.{names.TRUNCATE}"
    there = f"s.{names.SEQUENCE} IS NULL OR s.{names.SEQUENCE} <=> f.{names.SEQUENCE}"
    return f"{order.same_record('s', 'f')} AND (({one}) OR ({every})) AND ({there})"
