"""Rows and dead letters erased by a condition, so that they stay erased and the ledger and the audit still add up.

The order of effects: what is erased is remembered by its coordinates, then the rows go with a ledger entry in one
commit, then dead letters and bytes. What a crash leaves undone before the commit was never done; what it leaves after
it, ``recover`` does.
"""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta import table_files
from rivermouth.domain.ledger import ledger
from rivermouth.domain.ledger.erasure import ForgetReport, after, sha256
from rivermouth.engine.batch.pipeline import table_order
from rivermouth.engine.batch.recover_erasure import finish_forget, keep, report_of
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.erasure.select_rows import select_for_erasure
from rivermouth.engine.table.describe_tables import DEFAULT_RETAIN_S
from rivermouth.errors import CommitLost, ForgetRefused
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_merge import delete
from rivermouth.ports.delta.table_ledger import transaction_of
from rivermouth.ports.internals import delta_snapshot
from rivermouth.side_tables import erased_records

if TYPE_CHECKING:
    from pyspark.sql import Column

    from rivermouth.domain.ledger.erasure import ForgetRequest
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.engine.erasure.select_rows import ErasureSelection
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.spec import Flow

_RETENTION: Final = "delta.deletedFileRetentionDuration"


def forget(run: FlowRun, request: ForgetRequest, *, dry_run: bool) -> ForgetReport:
    """Erases the rows and dead letters for which the request's conditions are TRUE.

    In a keyed table all rows of a key are erased if one of them fits. In an append table the rows that fit are erased.
    Dead letters are erased too if only erased rows have their Kafka key.

    Args:
        run: The flow, opened.
        request: What is to be erased.
        dry_run: Only say how much that is.

    Raises:
        ForgetRefused: A condition is none, or the table's rows cannot be erased.
        CommitLost: Another process wrote the ledger entry first.

    Guarantees:
        Run twice with one mark: once. Stopped before the commit: nothing is erased, but keys may have lost what was
        remembered of their deletions. Stopped after it: the rest is done when the flow is opened the next time.
    """
    if run.flow.explosion is not None:
        detail = "its rows are elements of records, and an element alone cannot be kept from being read again"
        fix = "leave explode out, into a table of its own, and erase there"
        raise ForgetRefused(table=run.places.name, detail=detail, fix=fix)
    with run.lock:
        if run.lease is not None:
            run.lease.check()
        run.ledger.check_undisturbed(run.position)
        recover(run)
        before = report_of(run.files, run.places, request.mark)
        if before is not None and before.done:
            return before
        with ExitStack() as ends:
            chosen = select_for_erasure(run, request, ends)
            report = _report(run.context, run.flow, request, chosen)
            if dry_run or not report.found:
                return dataclasses.replace(report, dry_run=dry_run, done=not dry_run)
            return _erase(run, request, chosen, report)


def _erase(run: FlowRun, request: ForgetRequest, chosen: ErasureSelection, report: ForgetReport) -> ForgetReport:
    before, order = run.position, table_order(run.view, run.entry)
    entry = before.entry.successor("forget", before.counts or ledger.Counts(), erases=chosen.known)
    report = dataclasses.replace(report, entry=entry.number)
    keep(run.files, run.places, report)
    run.reached("forget_remember")
    named = {erased_records.ENTRY: F.lit(entry.number), "mark": F.lit(entry.attempt), "request": F.lit(request.mark)}
    run.erased.remember(chosen.records.withColumns(named), entry)
    if order is not None and run.tombstones is not None and chosen.remembered:
        run.tombstones.forget_keys(chosen.matches, order)
    run.reached("forget_write")
    _delete(run, entry, chosen, order)
    commit = run.ledger.commit_of(entry, before.version)
    if commit is None:
        raise CommitLost(flow=entry.flow, entry=entry.number, table=run.places.table)
    run.advance(entry, commit.version, report=before.report)
    run.reached("forgotten")
    finish_forget(run)
    return report_of(run.files, run.places, request.mark) or dataclasses.replace(report, done=True)


def _delete(run: FlowRun, entry: ledger.Entry, chosen: ErasureSelection, order: ChangeOrder | None) -> None:
    try:
        on = _on(run.flow, run.entry, chosen, order)
        delete(chosen.matches, run.places.table, on, transaction_of(entry, run.table_id))
    except delta_table.conflicts() as error:
        detail = f"somebody committed a change of the same files first ({type(error).__name__})"
        fix = f"rivermouth tables forget {run.places.name} --where CONDITION"
        raise ForgetRefused(table=run.places.name, detail=detail, fix=fix) from error


def _on(flow: Flow, entry: Entry, chosen: ErasureSelection, order: ChangeOrder | None) -> Column:
    """When a row goes: by columns alone, for the log keeps the text of it."""
    if order is not None:
        return F.expr(order.same_key("s", "t"))
    called = flow.metadata_columns
    same = {name: f"t.{names.quoted(called[column])}" for name, column in names.IN_TABLE.items()}
    if entry.epochs:
        same[names.EPOCH] = f"coalesce(t.{names.EPOCH_COLUMN}, 0)"
    equal = [f"{column} = s.{name}" for name, column in same.items()]
    if chosen.least is not None:
        # By literal bounds alone Delta skips files.
        equal.append(f"{same[names.OFFSET]} BETWEEN {chosen.least} AND {chosen.greatest}")
    return F.expr(" AND ".join(equal))


def _report(context: FlowContext, flow: Flow, request: ForgetRequest, chosen: ErasureSelection) -> ForgetReport:
    state = delta_snapshot.table_state(context.spark, context.places.table)
    promised = table_files.interval_s(state.properties.get(_RETENTION, "")) or 0.0
    found = bool(chosen.rows or chosen.dead_letters or chosen.remembered)
    return ForgetReport(
        flow=flow.name,
        table=context.places.name,
        mark=request.mark,
        at=request.at,
        who=request.who,
        why=request.why,
        where_sha256=sha256(request.where),
        dead_letters_sha256=sha256(request.dead_letters),
        rows=chosen.rows,
        dead_letters=chosen.dead_letters,
        remembered=chosen.remembered,
        shared=chosen.shared,
        unjudged=chosen.unjudged,
        records=chosen.known,
        in_part=chosen.in_part,
        last_version=state.version if found else None,
        vacuum_from=after(request.at, max(DEFAULT_RETAIN_S, promised)) if found else None,
    )
