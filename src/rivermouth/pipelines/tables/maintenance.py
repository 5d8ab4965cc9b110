"""Tables of pipelines read, optimized and vacuumed by means of Spark."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rivermouth.errors import ArgumentInvalid
from rivermouth.project.commands import maintenance
from rivermouth.project.commands.maintenance import TableRows, Vacuum

if TYPE_CHECKING:
    from rivermouth.domain.delta.maintenance import MaintenanceReport
    from rivermouth.pipelines.tables.described import ChosenTables, PipelineTable


def rows(found: ChosenTables, **asked: Any) -> TableRows:
    """The first rows of the one table that was found, up to a limit; see ``maintenance.rows_of_table``.

    Raises:
        ArgumentInvalid: Tables of several pipelines were found.
        TableMissing: It is not made yet.
    """
    (pipeline, (table,)), *others = found.by_pipeline
    if others:
        detail = f"pipelines {pipeline.name} and {others[0][0].name} have a table of that name"
        fix = f"rivermouth tables read {shlex.quote(table.name)}"
        raise ArgumentInvalid(argument="TABLE", detail=detail, fix=fix)
    return maintenance.rows_of_table(pipeline.project, table, **asked)


def optimized(found: ChosenTables, **asked: Any) -> list[MaintenanceReport]:
    """Puts the small files of the tables together; without a condition and an order also behind targets of AUTO CDC.

    See ``maintenance.optimized``.

    Raises:
        OptimizeRefused: A table cannot be optimized so.
        MaintenanceConflict: A writer changed the same files first.

    Guarantees:
        As ``maintenance.optimized``.
    """
    whole = not (asked.get("where") or asked.get("zorder"))
    return [
        report
        for pipeline, tables in found.by_pipeline
        for report in maintenance.optimize_tables(pipeline.project, _with_behind(tables) if whole else tables, **asked)
    ]


def vacuumed(found: ChosenTables, wanted: Vacuum, **asked: Any) -> list[MaintenanceReport]:
    """Deletes the files that no version that is kept needs, also of the tables behind targets of AUTO CDC.

    Args:
        found: The tables.
        wanted: How long files are kept. With less than 168 hours no update may run meanwhile.
        asked: Of ``maintenance.vacuum_tables``.

    Raises:
        RetentionTooShort: So short a time without the explicit word; nothing was deleted in any table of the pipeline.

    Guarantees:
        As ``maintenance.vacuumed``.
    """
    return [
        report
        for pipeline, tables in found.by_pipeline
        for report in maintenance.vacuum_tables(pipeline.project, _with_behind(tables), wanted, **asked)
    ]


def _with_behind(tables: Sequence[PipelineTable]) -> list[PipelineTable]:
    return [each for table in tables for each in (table, *table.behind)]
