"""One batch: the way of a record from Kafka into exactly one of table, dead letters, or a count."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.domain.ledger.undeclared_names import after_batch
from rivermouth.engine.batch.deliver import deliver
from rivermouth.engine.batch.pipeline import (
    agree,
    complete,
    dead_letters_of,
    newest_lookups,
    table_rows,
    transformed,
    without_erased,
    without_erased_changes,
    without_fail_policies,
    write_rows,
)
from rivermouth.engine.batch.recovery import recount, recover
from rivermouth.engine.events import BatchDone, BatchSkipped
from rivermouth.ports.internals.observed import Observed
from rivermouth.rows import envelope, explode, routing
from rivermouth.rows.columns import number_keys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Counts, Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.delta.delta_table import Commit


def process(frame: DataFrame, planned: Ranges, run: FlowRun) -> BatchDone | BatchSkipped:
    """Writes one batch into the flow's table and its dead letters.

    1. ledger: only what the table lacks of the planned ranges is kept.
    2. read: coordinates, key, value and headers of each record, without those that were erased.
    3. transform: decode, look up, conform, check and route, which give each row its route; see ``pipeline.transform``.
    4. count: the rows of each route are counted in the pass that writes.
    5. write: the rows for the table and the ledger entry, in one Delta commit.
    6. deliver: of a flow into a topic or an archive of files, the rows of the commit, all at once.
    7. dead letters: only if there are any, they are found again, explained and written to their own table.
    8. complete: the counts must add up; they are kept, and reported.

    Args:
        frame: A frame of Spark's Kafka source that holds the planned ranges.
        planned: What Spark or the plan means to write; the ledger decides what of it is still to do.
        run: The flow; its ``position`` is the batch's entry afterwards.

    Raises:
        LedgerGap: Offsets before the batch are missing in the table.
        ExpectationFailed: A record broke an expectation whose action is fail.
        CommitLost: Another process wrote the entry first.
        CountsDisagree: Rows were written or found other than were counted.

    Guarantees:
        Run twice: the second time skips. Stopped anywhere: the table has the whole batch with its entry or
        nothing of it; dead letters that are missing then are found and added before the next batch.
    """
    started = time.monotonic()
    # 1 ledger
    ranges, entry = begin(planned, run)
    if entry is None:
        return BatchSkipped(run.flow.name, planned)
    # 2 read
    run.reached("read")
    rows = envelope.read(frame, None if ranges == planned else ranges)
    rows = envelope.coalesce_small_batch(without_erased(rows, run, ranges), ranges, run.flow)
    # 3 transform
    routed = without_erased_changes(transformed(rows, run, watched=run.watches(planned)), run, ranges)
    # 4 count
    keys = number_keys.counting(run.flow) if entry.number == 1 else {}
    observed = Observed(routed, routing.counting(run.flow, routing.block_size(offset_ranges.size(ranges))) | keys)
    # 5 write
    run.reached("write")
    table = table_rows(observed.rows.where(f"{names.ROUTE} = '{routing.TABLE}'"), run)
    commit = write_rows(table, run, entry)
    # 6 to 8 deliver, dead letters, complete
    return finish(ranges, entry, commit, observed.get(), run, started)


def begin(planned: Ranges, run: FlowRun) -> tuple[Ranges, Entry | None]:
    """What of the planned ranges is still to do, and the ledger entry of that; None where nothing is.

    Raises:
        LedgerGap: Offsets before the batch are missing in the table.
        RivermouthError: A table in which the flow looks up columns cannot be used.
    """
    run.reached("ledger")
    ranges = ledger.remaining_ranges(run.flow.name, run.entry.next_offsets, planned)
    if not ranges:
        return ranges, None
    recover(run)  # nothing, unless the batch before failed after its commit
    before = run.position
    entry = before.entry.after_batch(ranges, before.counts or ledger.Counts(), run.topic_ids)
    return ranges, replace(entry, lookups=newest_lookups(run)) if run.flow.lookup else entry


def finish(
    ranges: Ranges, entry: Entry, commit: Commit, seen: Mapping[str, Any], run: FlowRun, started: float
) -> BatchDone:
    """Writes the dead letters of a batch whose rows are in the table, and completes its counts.

    Args:
        ranges: The batch's.
        entry: Its ledger entry, which the commit has brought.
        commit: The commit.
        seen: What was counted of the records: as ``routing.counting`` names it.
        run: The flow; ``entry`` becomes its newest.
        started: When the batch began, by the monotonic clock.

    Raises:
        CountsDisagree: Rows were written or found other than were counted.
    """
    counts = routing.counted(run.flow, seen)
    if entry.number == 1 and (said := number_keys.described(seen)):
        run.warn(said)
    undeclared = after_batch(run.position.report, seen)
    run.advance(entry, commit.version)
    run.reached("written")
    agree(run.flow, entry, "rows in the table", commit.rows_written, counts.written + counts.merged)
    deliver(run)
    run.reached("dead_letters")
    counts = write_dead_letters(ranges, counts, seen, run)
    run.reached("complete")
    return complete(run, ranges, counts, time.monotonic() - started, commit.merge, undeclared)


def write_dead_letters(ranges: Ranges, counts: Counts, seen: Mapping[str, Any], run: FlowRun) -> Counts:
    """Writes the dead letters of the newest entry, if there are any; the counts as they are then.

    Only the blocks of offsets that the first pass marked are read and checked again, so that the whole batch is
    parsed once. If the two passes do not agree, because a rule depends on the time of day, what is in the table
    decides.
    """
    if counts.dead_lettered == 0:
        return counts
    blocks, block = seen["blocks"], routing.block_size(offset_ranges.size(ranges))
    whole = run.source.with_headers(headers=True)
    marked = routing.marked(ranges, blocks, block)
    rows = without_erased(envelope.read(whole.batch(run.spark, marked)), run, marked)
    rows = envelope.coalesce_small_batch(rows, marked, run.flow)
    suspects = routing.nearby(rows, blocks, block)
    # Nothing stops a batch that is in the table.
    routed = without_erased_changes(transformed(suspects, without_fail_policies(run)), run, marked)
    mark = routing.mark_of(*explode.identity_of_letters(run.flow))
    letters = Observed(dead_letters_of(routed, run), {"mark": mark})
    run.reached("write_dead_letters")
    buried = run.dead_letters.write(letters.rows, run.entry)
    run.reached("dead_letters_written")
    agrees = buried == counts.dead_lettered and letters.get()["mark"] == seen["dead_mark"]
    return counts if agrees else recount(run, ranges)
