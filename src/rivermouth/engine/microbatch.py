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
    counts = bury(ranges, counts, seen, block, run)  # 7 a secondary of the same entry

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
    """Finishes the newest entry where a crash left it: its batch's dead letters and counts, its replay's marks.

    Guarantees:
        Run twice: the second time finds it settled. The table itself is not touched.
    """
    if run.standing.counts is not None:
        return
    started = time.monotonic()
    entry, ranges = run.standing.entry, run.standing.entry.unsettled
    if entry.kind == "replay":
        run.reached("recover")
        finish_replay(run)
    elif ranges:
        run.reached("recover")
        counts = recount(run, ranges)
        run.emit(settled(run, ranges, counts, time.monotonic() - started))
    else:
        run.standing = dataclasses.replace(run.standing, counts=ledger.Counts())
        run.ledger.keep(run.standing)


def recount(run: RunningFlow, ranges: Ranges) -> Counts:
    """Counts the newest entry's batch by what is in the table, and sees to it that all else is where it belongs.

    What the table has was written, whatever the flow's rules say by now: they may have been changed since, or
    depend on the time of day. A record that it does not have and that passes now becomes a dead letter.

    Guarantees:
        Run twice: the second time finds the dead letters and writes none.
    """
    entry = run.standing.entry
    whole = dataclasses.replace(run.source, headers=True)
    present = coordinates_within(run, ranges).withColumn("__present", F.lit(True))
    routed = judged(envelope.read(whole.batch(run.spark, ranges)), run).join(
        present, [names.TOPIC, names.PARTITION, names.OFFSET], "left"
    )
    written = F.col("__present").isNotNull()
    block = routing.block_size(ledger.size(ranges))
    table = routed.where(written).withColumn(names.ROUTE, F.lit(routing.TABLE))
    counts = routing.counted(run.flow, table.agg(*_aggregates(table, run, block)).collect()[0].asDict())
    other = F.when(F.col(names.ROUTE) == routing.TABLE, routing.DEAD_LETTER).otherwise(F.col(names.ROUTE))
    rest = routed.where(~written).drop("__present").withColumn(names.ROUTE, other).persist(StorageLevel.DISK_ONLY)
    try:
        counts += routing.counted(run.flow, rest.agg(*_aggregates(rest, run, block)).collect()[0].asDict())
        if counts.dead_lettered or run.dead_letters.exists():
            run.reached("bury")
            run.dead_letters.complete(_letters(rest, run), entry, counts.dead_lettered, run.flow.previously)
            run.reached("buried")
    finally:
        rest.unpersist()
    return counts


def coordinates_within(run: RunningFlow, ranges: Ranges) -> DataFrame:
    """``__topic``, ``__partition`` and ``__offset`` of the table's rows within ``ranges``."""
    columns = zip(names.COORDINATES, (names.TOPIC, names.PARTITION, names.OFFSET), strict=True)
    renamed = [F.col(names.quoted(run.flow.metadata_columns[name])).alias(target) for name, target in columns]
    table = run.spark.read.format("delta").load(run.places.table).select(*renamed)
    return table.where(envelope.inside(ranges)).distinct()


def finish_replay(run: RunningFlow) -> None:
    """Marks the dead letters whose rows the newest entry, a replay, brought into the table.

    Guarantees:
        Run twice: the second time finds none. Stopped half-way: all are marked or none, and it is done again.
    """
    standing = run.standing
    keys = [F.col(names.quoted(run.flow.metadata_columns[name])).alias(name) for name in names.COORDINATES]
    table = run.spark.read.format("delta").load(run.places.table).select(*keys)
    letters = run.dead_letters.frame().where(F.col("status") == "open").select(*names.COORDINATES).distinct()
    moved = table.join(F.broadcast(letters), list(names.COORDINATES), "left_semi").distinct()
    run.dead_letters.mark(moved.withColumn("new_status", F.lit("replayed")))
    commit = run.ledger.commit_of(standing.entry, standing.version - 1)
    replayed = 0 if commit is None else commit.rows_written or 0
    run.standing = dataclasses.replace(standing, counts=ledger.Counts(replayed=replayed))
    run.ledger.keep(run.standing)


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


def bury(ranges: Ranges, counts: Counts, seen: Mapping[str, Any], block: int, run: RunningFlow) -> Counts:
    """Writes the dead letters of the newest entry, if there are any; the counts as they are then.

    Only the neighbourhoods that the first pass marked are read and judged again, so that the whole batch is
    parsed once. If the two passes do not agree, because a rule depends on the time of day, what is in the table
    decides.
    """
    if counts.dead_lettered == 0:
        return counts
    blocks = seen["blocks"]
    whole = dataclasses.replace(run.source, headers=True)
    rows = envelope.read(whole.batch(run.spark, routing.marked(ranges, blocks, block)))
    suspects = routing.nearby(rows, blocks, block)
    marks = Observation()
    mark = routing.mark_of(*names.COORDINATES, among=F.lit(True))
    found = _letters(judged(suspects, run), run).observe(marks, mark.alias("mark"))
    run.reached("bury")
    buried = run.dead_letters.write(found, run.standing.entry)
    run.reached("buried")
    agrees = buried == counts.dead_lettered and marks.get["mark"] == seen["dead_mark"]
    return counts if agrees else recount(run, ranges)


def _letters(routed: DataFrame, run: RunningFlow) -> DataFrame:
    entry = run.standing.entry
    return dead_letter.dead_letters(
        routed, run.flow, target=run.dead_letters.target, entry=entry.number, topic_ids=entry.topic_ids
    )


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
