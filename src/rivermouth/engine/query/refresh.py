"""A materialized view: its table equals its batch query, computed in one commit when something that it reads is new."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.engine.query.query_batch import write_dead_letters
from rivermouth.engine.query.query_events import BatchWritten
from rivermouth.engine.query.query_table import conformed
from rivermouth.engine.query.streaming import failure
from rivermouth.errors import CountsDisagree, RivermouthError
from rivermouth.ports.internals.observed import Observed
from rivermouth.rows import row_expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryRun


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a materialized view is to be computed.

    Attributes:
        computes: Whether it is.
        reason: Why, or why not.
    """

    computes: bool
    reason: str


def decide(
    entry: QueryEntry, fingerprint: str, sources: Mapping[str, int], outside: tuple[str, ...], *, deterministic: bool
) -> Decision:
    """Whether a view is to be computed.

    Args:
        entry: The newest of its table.
        fingerprint: Of its query as it is now.
        sources: The versions of the Delta tables that it reads, by their folders.
        outside: What else it reads, of which nobody knows whether it has changed.
        deterministic: Whether the query comes to the same over the same rows: it asks neither for the time nor for
            random numbers.
    """
    if entry.kind != "refresh":
        return Decision(computes=True, reason="it was not computed yet")
    if entry.fingerprint != fingerprint:
        return Decision(computes=True, reason="its query has changed")
    if outside:
        return Decision(computes=True, reason=f"it reads {outside[0]}, and nobody knows whether that has changed")
    if not deterministic:
        return Decision(computes=True, reason="its query depends on the time or on chance")
    changed = [
        place.rstrip("/").rpartition("/")[2]
        for place, version in sources.items()
        if entry.sources.get(place) != version
    ]
    if changed or set(entry.sources) != set(sources):
        return Decision(computes=True, reason=f"new versions of {', '.join(changed) or 'what it reads'}")
    return Decision(computes=False, reason="no table that it reads has a new version")


def refresh(frame: DataFrame, sources: Mapping[str, int], run: QueryRun) -> None:
    """Computes a materialized view anew: all rows are replaced in one commit.

    Args:
        frame: The batch query.
        sources: The versions of the Delta tables that it reads, by their folders.
        run: The flow; its ``position`` is the refresh's entry afterwards.

    Raises:
        CommitLost: Another process wrote the entry first.
        CountsDisagree: Other rows were written than were counted.
        RowExpectationFailed: A row broke an expectation whose action is fail.
        QueryFailed: Spark could not compute or write the rows or the dead letters.

    Guarantees:
        Stopped anywhere: the table has the rows of before, or all new ones. Readers see one or the other.
    """
    try:
        _replace_rows(frame, sources, run)
    except RivermouthError:
        raise
    except Exception as error:
        raise failure(error, run) from error


def _replace_rows(frame: DataFrame, sources: Mapping[str, int], run: QueryRun) -> None:
    started, context = time.monotonic(), run.context
    entry = run.position.entry.after_refresh(sources, fingerprint=run.fingerprint)
    context.step("check")
    routed = row_expectations.route(frame, context.expectations)
    observed = Observed(routed, row_expectations.counting(context.expectations))
    rows = conformed(observed.rows.where(f"{names.ROUTE} = '{row_expectations.TABLE}'"), run.columns)
    context.step("write")
    position, commit = context.ledger.write(
        rows,
        run.position,
        lambda: entry.counted(row_expectations.counted(context.expectations, observed.get())),
        table_id=run.table_id,
        replace=True,
    )
    context.step("written")
    run.position, counts = position, position.entry.counts
    if commit.rows_written is not None and commit.rows_written != counts.written:
        detail = f"{commit.rows_written} rows in the table, {counts.written} were counted"
        raise CountsDisagree(flow=context.flow, entry=entry.number, detail=f"{detail}; is the query deterministic?")
    if counts.dead_lettered:
        write_dead_letters(routed, run)
    run.counts += counts
    context.emit(BatchWritten(context.dataset, context.flow, entry.number, counts, time.monotonic() - started))
