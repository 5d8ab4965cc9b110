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
    rows_within,
    transformed,
    without_erased,
    without_fail_policies,
)
from rivermouth.engine.batch.recover_actions import finish_decision, finish_replay
from rivermouth.engine.batch.recover_counts import counted, letters_within, own_letters, with_dead_letters
from rivermouth.engine.batch.recover_erasure import finish_forget
from rivermouth.engine.batch.recover_keyed import recount_keyed
from rivermouth.rows import envelope, routing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Counts, Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.side_tables.dead_letters import DeadLetterTable


def recover(run: FlowRun) -> None:
    """Finishes the newest entry where a crash left it: a batch's dead letters and counts, a replay's marks, an erasure.

    Guarantees:
        Run twice: the second time finds it complete. The table itself is not touched.
    """
    if run.position.counts is not None:
        return
    started = time.monotonic()
    entry, ranges = run.entry, run.entry.unsettled
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
    depend on the time of day. A record that it does not have and that passes now becomes a dead letter. No expectation
    stops the flow: the batch is written.

    Args:
        run: The flow.
        ranges: The batch's.
        gone: What of them Kafka no longer holds, as was decided.

    Guarantees:
        Run twice: the second time finds the dead letters and writes none.
    """
    if run.flow.keyed is not None:
        return recount_keyed(run, ranges, gone or {})
    if not gone:
        return _recounted(run, ranges, complete=True)
    # Its letters are there whole or not at all; those of records that are gone could not be made again.
    buried = run.dead_letters.newest_entry(run.entry.flow, run.flow.previously) >= run.entry.number
    present = rows_within(run, gone).distinct()
    found = present.count()
    letters = letters_within(run.dead_letters, run.entry, gone).count() if buried else 0
    records = found + letters
    if run.flow.explosion is not None:
        places = present.unionByName(letters_within(run.dead_letters, run.entry, gone)) if buried else present
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


def _recounted(run: FlowRun, ranges: Ranges, *, complete: bool) -> Counts:
    whole = run.source.with_headers(headers=True)
    present = rows_within(run, ranges).distinct().withColumn("__present", F.lit(True))
    held = without_erased(envelope.read(whole.batch(run.spark, ranges)), run, ranges)
    routed = transformed(held, without_fail_policies(run)).join(present, [*run.flow.identity], "left")
    written = F.col("__present").isNotNull()
    table = routed.where(written).withColumn(names.ROUTE, F.lit(routing.TABLE))
    counts = counted(table, run.flow, ranges)
    # What compaction has taken away since is in the table all the same.
    vanished = present.count() - counts.written
    counts += ledger.Counts(consumed=vanished, written=vanished)
    other = F.when(F.col(names.ROUTE) == routing.TABLE, routing.DEAD_LETTER).otherwise(F.col(names.ROUTE))
    rest = routed.where(~written).drop("__present").withColumn(names.ROUTE, other).persist(StorageLevel.DISK_ONLY)
    coordinates = [*names.IN_TABLE]
    try:
        counts += counted(rest, run.flow, ranges)
        if complete:
            # Of a record with several rows one may be in the table, and another a dead letter.
            known = present if run.flow.explosion is None else held
            counts = with_dead_letters(
                run, rest, rest.select(coordinates).unionByName(known.select(coordinates)), counts
            )
        if run.flow.explosion is not None:
            counts = _in_records(
                run.dead_letters,
                run.entry,
                counts,
                rest.select(coordinates).unionByName(present.select(coordinates)),
            )
    finally:
        rest.unpersist()
    return counts


def _in_records(dead_letters: DeadLetterTable, entry: Entry, counts: Counts, places: DataFrame) -> Counts:
    """Counts of rows with ``consumed`` counted in records, which are those of ``places`` and of the dead letters."""
    if dead_letters.exists():
        places = places.unionByName(as_coordinates(own_letters(dead_letters, entry)).select(*names.IN_TABLE))
    records = places.distinct().count()
    rows = counts.written + counts.dropped + counts.dead_lettered
    return dataclasses.replace(counts, consumed=records, exploded=rows - records)
