"""A materialized view, refreshed: in full, by rows that are new, or by the groups in which a row changed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.merge_report import way
from rivermouth.engine.query.query_batch import check_counts, merge_rows, report_batch
from rivermouth.engine.query.query_table import conformed
from rivermouth.engine.query.steps.batch_letters import (
    MARK,
    Routed,
    at_its_time,
    counting,
    hold,
    write_dead_letters,
    write_same,
)
from rivermouth.engine.query.streaming import failure
from rivermouth.errors import RivermouthError
from rivermouth.names import quoted
from rivermouth.ports.internals.observed import Observed
from rivermouth.ports.internals.persisted import computed, held_bytes
from rivermouth.ports.internals.query_plans import KEY
from rivermouth.rows import row_expectations
from rivermouth.rows.keyed.merge_plan import Merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.domain.query.refresh_decision import Decision
    from rivermouth.domain.query.view_rules import Way
    from rivermouth.engine.query.query_run import QueryRun
    from rivermouth.ports.internals.query_plans import ViewPlan

_NEW: Final = "__new"
_ADDED: Final = ("insert", "update_postimage")


@dataclass(frozen=True, slots=True)
class ViewSource:
    """A Delta table that a view reads.

    Attributes:
        version: The version that is read.
        table_id: Delta's UUID of the table.
        known: The version that the newest refresh read; -1 where there is none.
        has_feed: Whether its change data feed has all changes since then.
    """

    version: int
    table_id: str
    known: int = -1
    has_feed: bool = False


def refresh(plan: ViewPlan, decision: Decision, sources: Mapping[str, ViewSource], run: QueryRun) -> None:
    """Refreshes a materialized view as it was decided, in one commit with its ledger entry.

    Args:
        plan: The query.
        decision: How.
        sources: What it reads, by folder.
        run: The flow; its ``position`` is the refresh's entry afterwards.

    Raises:
        CommitLost: Another process wrote the entry first.
        CountsDisagree: Other rows were written than were counted.
        RowExpectationFailed: A row broke an expectation whose action is fail.
        LettersDisagree: As ``batch_letters.hold``.
        QueryFailed: Spark could not compute or write the rows or the dead letters.

    Guarantees:
        Stopped anywhere: the table has the rows of before, or the new ones. Readers see one or the other. What was read
        is what the entry says, whatever is committed to the sources meanwhile.
    """
    started, context = time.monotonic(), run.context
    read = {path: (each.version, each.table_id) for path, each in sources.items()}
    entry = run.entry.after_refresh(decision.kind, decision.reason, read)
    entry = replace(entry, fingerprint=run.fingerprint, onto=run.position.version)
    try:
        context.step("check")
        if decision.way is None:
            _write(plan.whole(), entry, run, replaces=True)
        elif decision.kind == "append":
            rows = _changed(plan, decision.way, sources, _ADDED)
            _write(plan.over(decision.way.leaves, rows, decision.way.emptied), entry, run, replaces=False)
        else:
            _write_groups(plan, decision.way, sources, entry, run)
        report_batch(run.entry.counts, started, run)
    except RivermouthError:
        raise
    except Exception as error:
        raise failure(error, run) from error


def _write(frame: DataFrame, entry: QueryEntry, run: QueryRun, *, replaces: bool) -> None:
    """Writes what the query gave, in the place of all rows or behind them, and its dead letters."""
    context, spark = run.context, frame.sparkSession
    routed = at_its_time(row_expectations.route(frame, context.expectations), entry, run)
    write_same(routed, run, lambda rows: _write_rows(rows, entry, run, replaces=replaces))
    if replaces:
        context.dead_letters.forget_before(spark, run.entry)
    if run.entry.counts.dead_lettered:
        write_dead_letters(spark, run)


def _write_rows(routed: Routed, entry: QueryEntry, run: QueryRun, *, replaces: bool) -> None:
    """Writes the rows for the table in one commit with the entry; the dead letters are held before."""
    context, expectations = run.context, run.context.expectations
    observed = Observed(routed.rows, counting(routed.rows, expectations))
    rows = conformed(observed.rows.where(row_expectations.IN_TABLE), run.columns)
    context.step("write")

    def counted() -> QueryEntry:
        told = observed.get()
        return hold(routed, entry.counted(row_expectations.counted(expectations, told)), told[MARK], run)

    run.position, commit = context.ledger.write(
        rows, run.position, counted, table_id=run.table_id, replace=replaces and (run.layout or True)
    )
    context.step("written")
    check_counts(commit.rows_written, run)


def _changed(
    plan: ViewPlan, how: Way, sources: Mapping[str, ViewSource], kinds: Sequence[str] | None
) -> list[DataFrame]:
    """The rows that changed in each table of the way; of some kinds of changes, or of all."""
    paths = {node.number: node.table.path for node in plan.tree.nodes() if node.table is not None}
    found = []
    for leaf in how.leaves:
        source = sources[paths[leaf]]
        rows = plan.changes(leaf, source.known, by_feed=source.has_feed)
        found.append(rows if kinds is None else rows.where(F.col("_change_type").isin(*kinds)))
    return found


def _write_groups(
    plan: ViewPlan, how: Way, sources: Mapping[str, ViewSource], entry: QueryEntry, run: QueryRun
) -> None:
    """Computes the groups in which a row changed, and puts them in the place of what they were."""
    expectations = run.context.expectations
    rows = _changed(plan, how, sources, None)
    counting = row_expectations.counting_columns(expectations)
    with ExitStack() as held:
        keys, count = held.enter_context(computed(plan.keys(how.keyed, how.leaves, rows, how.emptied)))
        few = F.broadcast(keys) if way(count["rows"], held_bytes(keys)).join == "broadcast" else keys
        routed = row_expectations.route(plan.restricted(how.keyed, few), expectations)
        ready, told = held.enter_context(computed(routed, *counting))
        entry = entry.counted(row_expectations.counted(expectations, told.asDict()))
        new = conformed(ready.where(row_expectations.IN_TABLE), run.columns)
        _merge(new, keys, [plan.tree.output[each.place][1] for each in how.columns], entry, run)


def _merge(new: DataFrame, keys: DataFrame, columns: Sequence[str], entry: QueryEntry, run: QueryRun) -> None:
    """Takes the rows of these groups out of the table and adds the new ones, in one commit with the entry."""
    context, table = run.context, run.columns
    wanted = {name.lower(): number for number, name in enumerate(columns)}
    fields = {each.name.lower(): each for each in table}
    of_key = [
        (F.col(f"{KEY}{wanted[name]}") if name in wanted else F.lit(None)).cast(field.dataType).alias(field.name)
        for name, field in fields.items()
    ]
    gone = keys.select(*of_key, F.lit(False).alias(_NEW))
    changes = gone.unionAll(new.withColumn(_NEW, F.lit(True)))
    with computed(changes.withColumn(names.CHANGE, F.monotonically_increasing_id())) as (ready, told):
        plan = Merge(
            on=_is_group(columns),
            ranges={},
            delete=f"NOT s.{_NEW}",
            update="false",
            insert=f"s.{_NEW}",
            values={quoted(each.name): f"s.{quoted(each.name)}" for each in table},
        )
        context.step("write")
        commit = merge_rows(ready, told["rows"], plan, entry, run)
        context.step("written")
        check_counts(commit.metrics.get("numTargetRowsInserted"), run)


def _is_group(columns: Sequence[str]) -> Column:
    parts = [f"s.{quoted(name)} <=> t.{quoted(name)}" for name in columns]
    return F.expr(" AND ".join([f"NOT s.{_NEW}", *parts]))
