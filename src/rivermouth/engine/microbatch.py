"""One batch: the way of a record from Kafka into exactly one of table, dead letters, or a count."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.events import BatchDone, BatchSkipped
from rivermouth.errors import CountsDisagree
from rivermouth.ports.table_ledger import Standing
from rivermouth.rows import checks, dead_letter, envelope, ledger, routing, schema

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from pyspark.sql import DataFrame

    from rivermouth.engine.running import RunningFlow
    from rivermouth.rows.ledger import Counts, Entry, Ranges


def process(batch: DataFrame, planned: Ranges, run: RunningFlow) -> BatchDone | BatchSkipped:
    """Carries one batch into the flow's table and its dead letters.

    Args:
        batch: A frame of Spark's Kafka source that holds the planned ranges.
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

    run.reached("read")
    rows = envelope.read(batch, None if ranges == planned else ranges)  # 1 coordinates, key, value
    routed = judged(rows, run)  # 2-5 decode, conform, check, route
    block = routing.block_size(ledger.size(ranges))
    observation = Observation()
    observed = routed.observe(observation, *_aggregates(routed, run, block))

    run.reached("write")
    table = table_rows(observed.where(F.col(names.ROUTE) == routing.TABLE), run)
    commit = run.sink.write(  # 6 rows and entry in one commit
        table, run.ledger, entry, table_id=run.table_id, after_version=before.version
    )
    seen = observation.get
    counts = routing.counted(run.flow, seen)
    run.standing = Standing(entry, commit.version)
    run.reached("written")
    _agree(run, entry, "rows in the table", commit.rows_written, counts.written)

    run.reached("dead_letters")
    bury(ranges, counts, seen["blocks"], block, run)  # 7 a secondary of the same entry

    run.reached("settle")
    return settled(run, ranges, counts, time.monotonic() - started)  # 8 counts that add up


def judged(rows: DataFrame, run: RunningFlow) -> DataFrame:
    """Envelope rows with their columns, failed expectations and route: steps 2 to 5."""
    run.reached("decode")
    rows = envelope.decode(rows, run.flow)
    run.reached("conform")
    rows = schema.conform(rows, run.flow, run.payload)
    run.reached("check")
    rows = checks.check(rows, run.flow.expectations)
    run.reached("route")
    return routing.route(rows, run.flow)


def recover(run: RunningFlow) -> None:
    """Finishes the newest entry's batch where a crash left it: counts it again and adds its dead letters.

    Guarantees:
        Run twice: the second time finds it settled. The table itself is not touched.
    """
    ranges = run.standing.entry.unsettled
    if run.standing.counts is not None:
        return
    if not ranges:
        run.standing = Standing(run.standing.entry, run.standing.version, ledger.Counts())
        run.ledger.keep(run.standing)
        return
    started = time.monotonic()
    run.reached("recover")
    block = routing.block_size(ledger.size(ranges))
    routed = judged(envelope.read(run.source.batch(run.spark, ranges)), run)
    seen = routed.agg(*_aggregates(routed, run, block)).collect()[0].asDict()
    counts = routing.counted(run.flow, seen)
    if run.dead_letters.newest_entry(run.flow.name, run.flow.previously) < run.standing.entry.number:
        bury(ranges, counts, seen["blocks"], block, run)
    settled(run, ranges, counts, time.monotonic() - started)


def settled(run: RunningFlow, ranges: Ranges, counts: Counts, duration_s: float) -> BatchDone:
    """Keeps the counts of the newest entry and reports its batch.

    Raises:
        CountsDisagree: The counts do not add up.
    """
    entry = run.standing.entry
    if not counts.adds_up:
        raise CountsDisagree(flow=run.flow.name, entry=entry.number, detail=f"counts do not add up: {counts}")
    done = BatchDone(
        flow=run.flow.name,
        entry=entry.number,
        version=run.standing.version,
        ranges=ranges,
        counts=counts,
        duration_s=duration_s,
    )
    report = {
        "finished_at": time.time(),
        "duration_s": round(duration_s, 3),
        "rows_per_s": round(done.rows_per_s, 1),
        "ranges": {topic: {str(p): list(ends) for p, ends in parts.items()} for topic, parts in ranges.items()},
    }
    run.standing = Standing(entry, run.standing.version, counts, report)
    run.ledger.keep(run.standing)
    return done


def bury(ranges: Ranges, counts: Counts, blocks: str, block: int, run: RunningFlow) -> None:
    """Writes the dead letters of the newest entry, if there are any.

    Only the neighbourhoods that the first pass marked are read and judged again, so that the whole batch is
    parsed once.

    Raises:
        CountsDisagree: There are more or fewer of them than the first pass counted.
    """
    entry = run.standing.entry
    if counts.dead_lettered == 0:
        return
    marks = run.spark.range(1).select(F.explode(F.split(F.lit(blocks), "\n")).alias("__mark"))
    whole = dataclasses.replace(run.source, headers=True)
    rows = envelope.read(whole.batch(run.spark, ranges)).withColumn("__mark", routing.block_mark(block))
    suspects = rows.join(F.broadcast(marks), "__mark", "left_semi").drop("__mark").persist(StorageLevel.DISK_ONLY)
    try:
        found = dead_letter.dead_letters(
            judged(suspects, run),
            run.flow,
            target=run.dead_letters.target,
            entry=entry.number,
            topic_ids=entry.topic_ids,
        )
        run.reached("bury")
        buried = run.dead_letters.write(found, entry)
        run.reached("buried")
    finally:
        suspects.unpersist()
    _agree(run, entry, "dead letters", buried, counts.dead_lettered)


def _agree(run: RunningFlow, entry: Entry, what: str, found: int | None, expected: int) -> None:
    if found is not None and found != expected:
        detail = f"{found} {what}, {expected} were counted; is an expectation or expression not deterministic?"
        raise CountsDisagree(flow=run.flow.name, entry=entry.number, detail=detail)


def _aggregates(routed: DataFrame, run: RunningFlow, block: int) -> list[Any]:
    columns: Mapping[str, Any] = {
        **routing.counting(run.flow, block),
        **run.flow.format.observations(routed),
    }
    return [column.alias(name) for name, column in columns.items()]


def table_rows(rows: DataFrame, run: RunningFlow) -> DataFrame:
    """Conformed rows with the table's columns alone, in its order."""
    return rows.select(*(names.quoted(name) for name in run.columns))
