"""What follows the commit that erases: dead letters, what is only marked as deleted, and the report."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import ledger
from rivermouth.domain.ledger.erasure import ForgetReport
from rivermouth.engine.events import Forgotten
from rivermouth.engine.table.describe_tables import tables_of
from rivermouth.errors import ErasureUnfinished, MaintenanceConflict
from rivermouth.ports.delta import delta_maintenance, delta_table
from rivermouth.ports.delta.delta_log import read_snapshot
from rivermouth.ports.delta.delta_merge import delete_alone
from rivermouth.ports.lake.lake_reader import reader_for
from rivermouth.side_tables import erased_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.spec import Flow

# So often others may come first.
_PURGES: Final = 5


def finish_forget(run: FlowRun) -> None:
    """Does what the newest entry, an erasure, left to do: its dead letters go, and the bytes of deleted rows.

    Guarantees:
        Run twice: the second time finds nothing. Stopped half-way: the rest is done the next time.
    """
    entry = run.entry
    marked = run.erased.marked(run.spark, entry.attempt)
    records, request = 0, None
    if marked is not None:
        run.reached("forget_letters")
        _delete_dead_letters(run.dead_letters, marked)
        gone = (F.col(erased_records.PLACE) != erased_records.ELSEWHERE) & F.col(erased_records.CHANGE).isNull()
        found = marked.where(gone).select(*erased_records.COORDINATES).distinct()
        records = found.count()
        request = marked.agg(F.max("request")).collect()[0][0]
    elif run.state_lost:
        # The list was deleted. The entry has the number of erased records; for an entry of an older version of
        # rivermouth the table's log has it.
        records = entry.erases or _deleted_rows(run)
    _clear_old_memory(run.context)
    run.reached("forget_purge")
    _purge(run.context, run.flow)
    if marked is not None:
        run.erased.confirm(run.spark, entry.attempt)
    report = None if request is None else report_of(run.files, run.places, request)
    if report is not None:
        report = dataclasses.replace(report, done=True)
        keep(run.files, run.places, report)
        told = {"rows": report.rows, "dead_letters": report.dead_letters, "records": records}
        run.emit(Forgotten(run.flow.name, entry.number, report.mark, **told))
    run.count(ledger.Counts(erased=records))
    run.ledger.keep(run.position)


def _deleted_rows(run: FlowRun) -> int:
    """How many rows the newest entry deleted; 0 in a keyed table, whose rows are more or fewer than their records."""
    commit = None if run.flow.keyed else run.ledger.commit_of(run.entry, run.position.version - 1)
    return 0 if commit is None else int(commit.metrics.get("numTargetRowsDeleted", 0))


def report_of(files: LakeFiles, places: FlowPlaces, mark: str) -> ForgetReport | None:
    """What is kept of the request with that mark; None if there is none, or it is damaged."""
    try:
        return ForgetReport.from_json(files.read(_path(places, mark)) or "")
    except (ValueError, TypeError):
        return None


def keep(files: LakeFiles, places: FlowPlaces, report: ForgetReport) -> None:
    """Keeps a report in the lake's state.

    Guarantees:
        Run twice: the same file. Stopped half-way: the old one, or none.
    """
    files.write(_path(places, report.mark), report.to_json())


def _path(places: FlowPlaces, mark: str) -> str:
    return f"{places.erased}/reports/{mark}.json"


def _delete_dead_letters(dead_letters: DeadLetterTable, marked: DataFrame) -> None:
    """Deletes the dead letters among ``marked``."""
    back = {key: f"s.{name}" for name, key in names.IN_TABLE.items()}
    same = " AND ".join(f"t.{key} = {name}" for key, name in {**back, "batch": "s.batch"}.items())
    letters = (
        marked.where(F.col(erased_records.PLACE) != erased_records.TABLE).select(*names.IN_TABLE, "batch").distinct()
    )
    if dead_letters.exists() and not letters.isEmpty():
        delete_alone(letters.localCheckpoint(), dead_letters.location, F.expr(same))


def _clear_old_memory(context: FlowContext) -> None:
    """Deletes what is remembered of the keys of tables that were here before: nobody reads it any more."""
    folder = context.places.tombstones
    for name in context.files.names(folder):
        if context.tombstones is None or name != context.table_id:
            context.files.delete(f"{folder}/{name}")


def _purge(context: FlowContext, flow: Flow) -> None:
    """Rewrites the files in which rows are only marked as deleted: their bytes would stay as long as the file."""
    reader = reader_for(context.spark, context.places.lake)
    for table in tables_of(flow, context.places):
        if not delta_table.exists(context.files, table.location):
            continue
        for left in reversed(range(_PURGES)):
            snapshot = read_snapshot(reader, table.location)
            if snapshot is None or not any(each.deleted_rows for each in snapshot.files):
                break
            try:
                delta_maintenance.purge(context.spark, table.name, table.location)
            except MaintenanceConflict as error:
                # The process that committed first has most likely rewritten these files.
                if not left:
                    detail = error.facts["detail"]
                    raise ErasureUnfinished(flow=flow.name, table=table.name, detail=detail) from error
            else:
                break
