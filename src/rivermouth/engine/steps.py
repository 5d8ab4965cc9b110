"""What a batch, its recovery and a replay have in common: records judged, counted, settled."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.events import BatchDone
from rivermouth.errors import CountsDisagree
from rivermouth.ports.table_ledger import Standing
from rivermouth.rows import checks, dead_letter, envelope, routing, schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.engine.running import RunningFlow
    from rivermouth.rows.ledger import Counts, Ranges


def judged(rows: DataFrame, run: RunningFlow) -> DataFrame:
    """Envelope rows with their columns, failed expectations and route: steps 2 to 5."""
    run.reached("decode")
    rows = envelope.decode(rows, run.flow)
    run.reached("conform")
    rows = schema.conform(rows, run.flow)
    run.reached("check")
    rows = checks.check(rows, run.flow.expectations)
    run.reached("route")
    return routing.route(rows, run.flow)


def aggregate(run: RunningFlow, block: int) -> Column:
    """What is counted of routed rows in the pass that writes or looks at them: a struct ``counts``."""
    counts = {**routing.counting(run.flow, block), **run.flow.format.observations()}
    return F.expr(f"struct({', '.join(f'{sql} AS {name}' for name, sql in counts.items())}) AS counts")


def table_rows(rows: DataFrame, run: RunningFlow) -> DataFrame:
    """Conformed rows with the table's columns alone, in its order."""
    return rows.selectExpr(*(names.quoted(name) for name in run.columns))


def letters_of(routed: DataFrame, run: RunningFlow) -> DataFrame:
    """The dead letters among judged rows, as those of the newest entry."""
    entry = run.standing.entry
    return dead_letter.dead_letters(
        routed, run.flow, target=run.dead_letters.target, entry=entry.number, topic_ids=entry.topic_ids
    )


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
