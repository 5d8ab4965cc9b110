"""A flow looks after its own tables: between batches and after a run that drained, when it is due.

It is done by the flow's writer under its lock, so that no batch of the flow and no OPTIMIZE ever conflict. A failure
is reported, and stops nothing: the work is tried again when it is due the next time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermouth.domain.delta import maintenance, table_files
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine.batch.pipeline import write_entry
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.events import Maintained
from rivermouth.engine.maintenance import optimize
from rivermouth.engine.table.describe_tables import tables_of
from rivermouth.errors import RivermouthError, first_line
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_reader import reader_for
from rivermouth.ports.spark.session import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rivermouth.domain.delta.maintenance import MaintenanceReport, Operation
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.engine.table.describe_tables import FlowTable
    from rivermouth.ports.lake.lake_reader import LakeReader
    from rivermouth.spec import Flow, Maintenance, Optimize, Vacuum


@dataclass(frozen=True, slots=True)
class _Duty:
    table: FlowTable
    operation: Operation
    due_at: float


def between_batches(run: FlowRun) -> None:
    """Does for the flow's tables what is due; nothing, and at no cost, if that is nothing.

    Guarantees:
        No row changes. Stopped half-way: tables are as they were, or done with; what is left is done the next time.
    """
    if run.flow.maintenance is not None and time.time() >= run.due_at:
        _maintain(run, run.flow.maintenance, at_once=False)


def after_run(run: FlowRun, *, wrote: bool) -> None:
    """Does for the flow's tables what is due after a run that drained, or all of it if the flow says so.

    Args:
        run: The flow.
        wrote: Whether the run wrote anything.

    Guarantees:
        As ``between_batches``.
    """
    plan = run.flow.maintenance
    if plan is not None and not run.stopping.is_set():
        _maintain(run, plan, at_once=plan.after_run and wrote)


def _maintain(run: FlowRun, plan: Maintenance, *, at_once: bool) -> None:
    with run.lock:
        now = time.time()
        duties = list(_duties(run.context, run.flow, plan, now))
        due = [duty for duty in duties if at_once or duty.due_at <= now]
        later = [duty.due_at for duty in duties if duty not in due]
        # Dead letters may come for the first time, and others may look after the table too.
        run.due_at = min([now + every_s for every_s in _every_s(plan).values()] + later, default=float("inf"))
        if not due:
            return
        reader = reader_for(run.spark, run.places.lake)
        for duty in due:
            if run.stopping.is_set():
                return
            report = _tried(run, plan, duty, reader)
            if report is not None:
                run.emit(Maintained(run.flow.name, report))
        try:
            _copy_entry(run)
        except Exception as error:
            # The next batch finds out what became of the entry.
            if has_ended(run.spark):
                raise
            run.warn(f"the ledger's entry was not written once more: {first_line(error)}")


def _every_s(plan: Maintenance) -> dict[Operation, float]:
    """What is to be done, and how often, in seconds; what is put together first can be deleted later."""
    wanted: dict[Operation, Optimize | Vacuum | None] = {"optimize": plan.optimize, "vacuum": plan.vacuum}
    return {operation: what.every for operation, what in wanted.items() if what is not None}


def _duties(context: FlowContext, flow: Flow, plan: Maintenance, now: float) -> Iterator[_Duty]:
    for table in tables_of(flow, context.places):
        if not delta_table.exists(context.files, table.location):
            continue
        names = context.files.names(table.reports)
        for operation, every_s in _every_s(plan).items():
            yield _Duty(table, operation, maintenance.next_due(maintenance.last_run(names, operation, now), every_s))


def _tried(run: FlowRun, plan: Maintenance, duty: _Duty, reader: LakeReader) -> MaintenanceReport | None:
    """What it came to, which is kept; None where there was nothing to do."""
    began, before = time.time(), None
    try:
        if run.lease is not None:
            run.lease.check()
        before = optimize.look(reader, duty.table)
        if before is None:
            return None
        report = _done(run.context, run.flow, plan, duty, reader, before)
    except RivermouthError as error:
        report = optimize.failure(duty.table, duty.operation, began, before, error.message)
    except Exception as error:
        if has_ended(run.spark):
            raise
        report = optimize.failure(duty.table, duty.operation, began, before, first_line(error))
    try:
        optimize.keep(run.files, duty.table, report)
    except RivermouthError as error:
        report = maintenance.failed(report, error.message)
    return report if report.error is not None or report.before != report.after else None


def _done(
    context: FlowContext, flow: Flow, plan: Maintenance, duty: _Duty, reader: LakeReader, before: optimize.TableSnapshot
) -> MaintenanceReport:
    table = duty.table
    if duty.operation == "optimize":
        zorder = flow.zorder if table.kind == "rows" else ()
        # Only Delta knows what is left to cluster.
        if not (zorder or before.snapshot.cluster_by or table_files.compaction(before.snapshot.files).files):
            return optimize.nothing_done(table, "optimize", before)
        return optimize.optimize(context.spark, reader, table, before, zorder=zorder)
    if plan.vacuum is None:
        return optimize.nothing_done(table, "vacuum", before)
    retain_s, even_below = plan.vacuum.retain, plan.vacuum.even_below_168_hours
    word = "even_below_168_hours: true"
    optimize.check_retention(table, before.snapshot, retain_s, even_below=even_below, word=word)
    if table.kind == "rows":
        optimize.vacuum_beside(context.spark, context.files, table, retain_s=retain_s)
    limit = before.at - maintenance.whole_hours(retain_s) * 3600
    if not table_files.unneeded(before.snapshot, before.stored, before=limit):
        return optimize.nothing_done(table, "vacuum", before)
    return optimize.vacuum(context.spark, reader, table, before, retain_s=retain_s)


def _copy_entry(run: FlowRun) -> None:
    """Writes the newest entry of the ledger once more, before the log that holds it is cleaned.

    Delta keeps commits for a time only. A flow whose topics have been silent for longer than that would be left with
    the side file, which is a cache.
    """
    position = run.position
    commit = delta_table.read_commit(run.files, run.places.table, position.version)
    if commit is not None and (commit.committed_at or 0.0) > time.time() - maintenance.ENTRY_AGE_S:
        return
    if run.lease is not None:
        run.lease.check()
    run.ledger.check_undisturbed(position)
    recover(run)
    before = run.position
    entry = before.entry.successor("maintenance", before.counts or Counts())
    made = write_entry(run.context, run.position, entry)
    run.advance(entry, made.version, counts=Counts(), report=before.report)
    run.ledger.keep(run.position)
