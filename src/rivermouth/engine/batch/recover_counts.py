"""Counts of a batch that a crash left, and the dead letters that it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    dead_letters_of,
)
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.aggregates import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Counts, Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.spec import Flow


def letters_within(dead_letters: DeadLetterTable, entry: Entry, ranges: Ranges) -> DataFrame:
    """Coordinates of the newest entry's dead letters in these ranges."""
    return as_coordinates(own_letters(dead_letters, entry)).where(envelope.inside(ranges))


def own_letters(dead_letters: DeadLetterTable, entry: Entry) -> DataFrame:
    """Dead letters of the newest entry's batch."""
    return dead_letters.frame().where(F.col("batch") == entry.number)


def with_dead_letters(run: FlowRun, routed: DataFrame, held: DataFrame, counts: Counts) -> Counts:
    """Makes sure that the newest entry's dead letters are those of ``routed``; returns the counts with further ones.

    The further ones are dead letters whose records compaction has taken away since.

    Args:
        run: The flow.
        routed: Rows that are computed and kept, because Kafka may not have all of these records any more.
        held: As ``routed``, with the coordinates of all records of the batch.
        counts: Those of the batch.
    """
    if not counts.dead_lettered and not run.dead_letters.exists():
        return counts
    letters, kept = _with_vanished(run.dead_letters, run.entry, dead_letters_of(routed, run), held)
    counts += ledger.Counts(consumed=kept, dead_lettered=kept)
    run.reached("write_dead_letters")
    run.dead_letters.complete(letters, run.entry, counts.dead_lettered, run.flow.previously)
    run.reached("dead_letters_written")
    return counts


def counted(routed: DataFrame, flow: Flow, ranges: Ranges) -> Counts:
    """Counts of these routed records."""
    aggregates = routing.counting(flow, routing.block_size(offset_ranges.size(ranges)))
    return routing.counted(flow, routed.agg(F.expr(struct_of(aggregates))).collect()[0][0].asDict())


def _with_vanished(
    dead_letters: DeadLetterTable, entry: Entry, letters: DataFrame, held: DataFrame
) -> tuple[DataFrame, int]:
    """``letters``, and those of the newest entry whose records compaction has taken away since; how many these are."""
    if not dead_letters.exists():
        return letters, 0
    mine = own_letters(dead_letters, entry)
    if mine.isEmpty():  # as most often: spares another read of the batch
        return letters, 0
    seen = held.select(*names.IN_TABLE).withColumnsRenamed(names.IN_TABLE)
    vanished = mine.join(seen, [*names.COORDINATES], "left_anti")
    kept = vanished.count()
    return (letters.unionByName(vanished.localCheckpoint()), kept) if kept else (letters, 0)
