"""One batch: the way of a record from Kafka into exactly one of table, dead letters, or a count."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.domain.ledger import ledger
from rivermouth.engine.batch.pipeline import judged, kept_changes, letters_of, settled, table_rows, unerased, written
from rivermouth.engine.batch.recovery import recount, recover
from rivermouth.engine.batch.shared_batch import added_part
from rivermouth.engine.events import BatchDone, BatchSkipped
from rivermouth.engine.flow.shared_part import Part
from rivermouth.errors import CountsDisagree
from rivermouth.ports.delta.table_ledger import Standing
from rivermouth.ports.spark.observed import Observed
from rivermouth.rows import envelope, explode, routing
from rivermouth.rows.columns import number_keys

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import DataFrame

    from rivermouth.domain.ledger.ledger import Counts, Entry, Ranges
    from rivermouth.engine.flow.running import RunningFlow


def process(batch: DataFrame | Part, planned: Ranges, run: RunningFlow) -> BatchDone | BatchSkipped:
    """Carries one batch into the flow's table and its dead letters.

    Args:
        batch: A frame of Spark's Kafka source that holds the planned ranges; or what was made of it together with the
            batches of other flows.
        planned: What Spark or the plan means to write; the ledger decides what of it is still to do.
        run: The flow; its ``standing`` is the batch's entry afterwards.

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
    run.reached("judge")
    ranges = ledger.judge(run.flow.name, run.standing.entry.next_offsets, planned)
    if not ranges:
        return BatchSkipped(run.flow.name, planned)
    recover(run)  # nothing, unless the batch before failed after its commit
    before = run.standing
    entry = before.entry.after_batch(ranges, before.counts or ledger.Counts(), run.topic_ids)

    block = routing.block_size(ledger.size(ranges))
    part = batch if isinstance(batch, Part) and ranges == planned else None
    added = None if part is None else added_part(part, run, entry)
    seen: Mapping[str, Any]
    if part is not None and added is not None:
        commit, seen = added, part.seen  # 1-6 as below, for many tables
    else:
        frame = run.source.batch(run.spark, ranges) if isinstance(batch, Part) else batch
        run.reached("read")
        rows = envelope.read(frame, None if ranges == planned else ranges)  # 1 coordinates, key, value
        rows = unerased(rows, run, ranges)
        rows = envelope.in_few_tasks(rows, ranges, run.flow)
        routed = judged(rows, run, watched=run.watches(planned))  # 2-5 decode, conform, check, route
        routed = kept_changes(routed, run, ranges)
        keys = number_keys.counting(run.flow) if before.entry.number == 0 else {}
        observed = Observed(routed, routing.counting(run.flow, block) | keys)

        run.reached("write")
        table = table_rows(observed.rows.where(f"{names.ROUTE} = '{routing.TABLE}'"), run)
        commit = written(table, run, entry)  # 6 rows and entry in one commit
        seen = observed.get()
    counts = routing.counted(run.flow, seen)
    if before.entry.number == 0 and (said := number_keys.told(seen)):
        run.warn(said)
    run.standing = Standing(entry, commit.version)
    run.reached("written")
    _agree(run, entry, "rows in the table", commit.rows_written, counts.written + counts.merged)

    run.reached("dead_letters")
    counts = bury(ranges, counts, seen, block, run)  # 7 a secondary of the same entry

    run.reached("settle")
    return settled(run, ranges, counts, time.monotonic() - started, commit.merge)  # 8 counts that add up


def bury(ranges: Ranges, counts: Counts, seen: Mapping[str, Any], block: int, run: RunningFlow) -> Counts:
    """Writes the dead letters of the newest entry, if there are any; the counts as they are then.

    Only the neighbourhoods that the first pass marked are read and judged again, so that the whole batch is
    parsed once. If the two passes do not agree, because a rule depends on the time of day, what is in the table
    decides.
    """
    if counts.dead_lettered == 0:
        return counts
    blocks = seen["blocks"]
    whole = run.source.with_headers(headers=True)
    marked = routing.marked(ranges, blocks, block)
    rows = unerased(envelope.read(whole.batch(run.spark, marked)), run, marked)
    rows = envelope.in_few_tasks(rows, marked, run.flow)
    suspects = routing.nearby(rows, blocks, block)
    routed = kept_changes(judged(suspects, run), run, marked)
    mark = routing.mark_of(*explode.identity_of_letters(run.flow))
    letters = Observed(letters_of(routed, run), {"mark": mark})
    run.reached("bury")
    buried = run.dead_letters.write(letters.rows, run.standing.entry)
    run.reached("buried")
    agrees = buried == counts.dead_lettered and letters.get()["mark"] == seen["dead_mark"]
    return counts if agrees else recount(run, ranges)


def _agree(run: RunningFlow, entry: Entry, what: str, found: int | None, expected: int) -> None:
    if found is not None and found != expected:
        detail = f"{found} {what}, {expected} were counted; is an expectation or expression not deterministic?"
        raise CountsDisagree(flow=run.flow.name, entry=entry.number, detail=detail)
