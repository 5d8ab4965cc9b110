"""The flow of a topic that is carried without a file, as it is in the lake: no two topics are one flow or one table.

The names of two topics may differ only in characters that no name of a table has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.errors import ArgumentInvalid, LakeNotReadable
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.project.resolved.one_topic import flow_names

if TYPE_CHECKING:
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.project.resolved.resolved_project import ResolvedProject


def in_lake(project: ResolvedProject, reader: LakeFiles) -> ResolvedProject:
    """The project of one topic, with the name that its flow has in the lake.

    Args:
        project: As ``ingest_spec`` makes it.
        reader: Of the lake. Nothing is checked where it cannot read that.

    Raises:
        ArgumentInvalid: The table is there, and holds another topic.
    """
    try:
        return _in_lake(project, reader)
    except LakeNotReadable:
        return project  # Spark may know how


def holds_other(project: ResolvedProject, reader: LakeFiles) -> bool:
    """Whether the table of the project's one topic is there, and holds another topic."""
    (flow,) = project.flows()
    entry = _newest(reader, project.places(flow.name), flow.name)
    return entry is not None and _is_of_other(entry, flow.topics[0])


def _in_lake(project: ResolvedProject, reader: LakeFiles) -> ResolvedProject:
    (flow,) = project.flows()
    (topic,) = flow.topics
    places, names = project.places(flow.name), flow_names(topic)
    entry = _newest(reader, places, flow.name)
    if entry is None:
        is_taken = flow.infers and any(_is_of_other(each, topic) for each in _namesakes(reader, places))
        return _named(project, names[1] if is_taken else names[0])
    if _is_of_other(entry, topic):
        detail = f"table {places.full_name} is there already, and holds topic {', '.join(entry.next_offsets)}"
        raise ArgumentInvalid(argument="table", detail=detail, fix=f"--table {flow.table.name}_2")
    return _named(project, entry.flow) if entry.flow in names else project


def _named(project: ResolvedProject, name: str) -> ResolvedProject:
    (flow,) = project.spec.flows.values()
    flows = {name: flow.model_copy(update={"name": name})}
    return replace(project, spec=project.spec.model_copy(update={"flows": flows}))


def _newest(reader: LakeFiles, places: FlowPlaces, flow: str) -> Entry | None:
    """The newest entry in the table's ledger; None where there is no table."""
    if not delta_table.exists(reader, places.table):
        return None
    ledger = TableLedger(reader, places.table, places.ledger_file, flow=flow)
    found = next(iter(ledger.newest(1)), None) or ledger.read_side_file()
    return None if found is None else found.entry


def _namesakes(reader: LakeFiles, places: FlowPlaces) -> Iterator[Entry]:
    """The newest entries of the tables whose flow has the same name, if it has inferred a schema."""
    if not reader.names(places.schemas()):
        return
    folder = places.ledger_file.rpartition("/")[0]
    for name in reader.names(folder):
        found = TableLedger(reader, places.table, f"{folder}/{name}", flow=places.flow).read_side_file()
        if found is not None and found.entry.flow == places.flow:
            yield found.entry


def _is_of_other(entry: Entry, topic: str) -> bool:
    return bool(entry.next_offsets) and topic not in entry.next_offsets
