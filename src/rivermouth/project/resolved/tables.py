"""What a door does with the tables of a project without a Spark session; see ``commands.maintenance`` for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rivermouth.domain.project.table_per_topic import is_child_of
from rivermouth.engine.table.describe_tables import FlowTable, TableDescription, describe, tables_of
from rivermouth.errors import TableUnknown
from rivermouth.names import did_you_mean
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.project.resolved.known_tables import check_one, with_children
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.static_checks import validate_static

TIMEOUT_S: Final = 20.0
"""Bound on each answer of an object store; listing a large table takes its time."""


def chosen(project: ResolvedProject, names: Sequence[str] = ()) -> list[FlowTable]:
    """The tables of these names, in the order of the file; all, with those of dead letters, where none is named.

    Args:
        project: Its flows.
        names: ``schema.table``, with the catalog where the flow names one; the name of a flow means its table, and the
            name of a family means the tables of all its topics.

    Raises:
        TableUnknown: No flow writes a table of that name.
        RivermouthError: The project itself is wrong.
    """
    validate_static(project)
    project = with_children(project)
    tables = [table for flow in project.flows() for table in tables_of(flow, project.places_of(flow))]
    known = {called: {table.name} for table in tables for called in _called(table)}
    for name, flow in project.spec.flows.items():
        if flow.is_family:
            of_children = (each for each in tables if is_child_of(each.flow, name) and each.kind == "rows")
            known[name] = {table.name for table in of_children}
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known) if known else "add a flow under flows:"
            raise TableUnknown(name=name, fix=fix)
    wanted = {table for name in names for table in known[name]} if names else {table.name for table in tables}
    return [table for table in tables if table.name in wanted]


def chosen_one(project: ResolvedProject, name: str) -> FlowTable:
    """The one table of this name.

    Raises:
        ArgumentInvalid: It is the name of a family, which has a table for each topic.
        TableUnknown: No flow writes a table of that name.
        RivermouthError: The project itself is wrong.
    """
    check_one(project, name, "TABLE")
    (table,) = chosen(project, [name])
    return table


def described(project: ResolvedProject, names: Sequence[str] = ()) -> list[TableDescription]:
    """What the tables of these names, or all, consist of, and what would help them; changes nothing.

    Where no table is named, dead letters that there never were are left out.

    Raises:
        TableUnknown: No flow writes a table of that name.
        LakeNotReadable: The store does not answer, or refuses.
    """
    reader = reader_of(project)
    found = [describe(reader, table) for table in chosen(project, names)]
    return [each for each in found if each.exists or names or each.kind == "rows"]


def reader_of(project: ResolvedProject) -> LakeReader:
    """What reads the project's lake."""
    return LakeReader(project.spark_conf, timeout_s=TIMEOUT_S)


def _called(table: FlowTable) -> tuple[str, ...]:
    if table.kind == "dead_letters":
        return (table.name,)
    return (table.name, table.places.full_name, table.flow)
