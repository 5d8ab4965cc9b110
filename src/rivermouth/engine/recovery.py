"""After a crash: what the newest ledger entry left undone is found in the table and in Kafka, and done."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.steps import aggregate, judged, letters_of, settled
from rivermouth.rows import envelope, ledger, routing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.engine.running import RunningFlow
    from rivermouth.rows.ledger import Counts, Ranges


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
    counted = aggregate(run, routing.block_size(ledger.size(ranges)))
    table = routed.where(written).withColumn(names.ROUTE, F.lit(routing.TABLE))
    counts = routing.counted(run.flow, table.agg(counted).collect()[0]["counts"].asDict())
    other = F.when(F.col(names.ROUTE) == routing.TABLE, routing.DEAD_LETTER).otherwise(F.col(names.ROUTE))
    rest = routed.where(~written).drop("__present").withColumn(names.ROUTE, other).persist(StorageLevel.DISK_ONLY)
    try:
        counts += routing.counted(run.flow, rest.agg(counted).collect()[0]["counts"].asDict())
        if counts.dead_lettered or run.dead_letters.exists():
            run.reached("bury")
            run.dead_letters.complete(letters_of(rest, run), entry, counts.dead_lettered, run.flow.previously)
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
