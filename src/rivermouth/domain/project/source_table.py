"""A flow that reads the table of another one: which table that may be, and in which order they run. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.domain.project.table_per_topic import makes_table
from rivermouth.names import did_you_mean, named

if TYPE_CHECKING:
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.spec import Flow

# A dead letter of the flow keeps them, whatever the flow itself wants.
_ALWAYS: Final = ("kafka_timestamp", "kafka_key")
_IF_WANTED: Final = ("kafka_timestamp_type", "kafka_headers")
_KEEP: Final = "in flow {}: null_values: keep"


@dataclass(frozen=True, slots=True)
class SourceTable:
    """The table that a flow reads instead of Kafka.

    Attributes:
        flow: The flow that writes it.
        places: Of that flow.
        where: Which of its rows the reader has, as an SQL condition over its columns; None for all.
    """

    flow: Flow
    places: FlowPlaces
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a flow cannot read a table.

    Attributes:
        field: The field of the flow that is to blame.
        detail: What is wrong.
        fix: The next step.
    """

    field: str
    detail: str
    fix: str


def owner_of(flow: Flow, tables: Mapping[str, str]) -> str | None:
    """The name of the flow that writes the table which ``flow`` reads; None if there is none.

    Args:
        flow: It has a ``source``.
        tables: Flow by name of its table, with and without the catalog.
    """
    return None if flow.source is None or flow.source.table is None else tables.get(flow.source.table)


def problems(flow: Flow, flows: Mapping[str, Flow], tables: Mapping[str, str]) -> Iterator[Problem]:
    """All that keeps ``flow`` from reading its source.

    Args:
        flow: A flow of the project.
        flows: All of them by name.
        tables: Flow by name of its table, with and without the catalog.
    """
    if flow.source is None or flow.source.table is None:
        return
    table = flow.source.table
    fitting = [name for name, owner in tables.items() if owner != flow.name and flows[owner].format.type == "raw"]
    fix = f"source: {did_you_mean(table, fitting)}" if fitting else "add a flow with format: raw, and name its table"
    owner = owner_of(flow, tables)
    family = next((each.name for each in flows.values() if makes_table(each, table)), None)
    if owner is None and family is not None:
        detail = f"{table} is one of the tables of flow {family}, one a topic, and such a table is not read"
        yield Problem(
            "source", detail, "read the topic: topics: [...]; or give it a flow of its own, and read its table"
        )
        return
    if owner is None:
        yield Problem("source", f"no flow of the project writes a table {table!r}", fix.removeprefix("source: "))
        return
    if owner == flow.name:
        yield Problem("source", f"{table} is the flow's own table", "name the table of another flow")
        return
    ring = _ring(flow, flows, tables)
    if ring:
        yield Problem("source", f"the flows read each other: {' reads '.join(ring)}", "let one of them read topics")
        return
    yield from _of_owner(flow, flows[owner], table)


def lookup_problems(flow: Flow, flows: Mapping[str, Flow], tables: Mapping[str, str]) -> Iterator[Problem]:
    """All that keeps ``flow`` from looking up columns in tables of other flows; arguments as of ``problems``."""
    for each in flow.lookup:
        owner = tables.get(each.table)
        if owner == flow.name:
            yield Problem("lookup", f"{each.table} is the flow's own table", "name the table of another flow")
        elif owner is not None and flow.name in _all_read_by(owner, flows, tables):
            detail = f"flow {owner}, which writes {each.table}, itself reads the table of flow {flow.name}"
            yield Problem("lookup", detail, "let one of them read topics alone")


def _all_read_by(name: str, flows: Mapping[str, Flow], tables: Mapping[str, str]) -> set[str]:
    """The flows whose tables a flow reads or looks up columns in, and those that these read."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        flow = flows[waiting.pop()]
        owners = {owner_of(flow, tables), *(tables.get(each.table) for each in flow.lookup)} - {None} - found
        found |= owners  # type: ignore[arg-type]
        waiting += owners  # type: ignore[arg-type]
    return found


def _of_owner(flow: Flow, owner: Flow, table: str) -> Iterator[Problem]:
    """What the table's flow does with records that the reader would miss, or lacks of what it goes by."""
    if owner.format.type != "raw":
        detail = f"{table} has rows of the format {owner.format.type}, and only raw keeps the records as they were"
        yield Problem("source", detail, f"read a table of a flow with format: raw, or topics as flow {owner.name} does")
        return
    if owner.select:
        detail = f"{table} has what flow {owner.name} selects, and not the records as they were"
        yield Problem("source", detail, f"read a table of a flow without select, or topics as flow {owner.name} does")
    if owner.keyed is not None:
        detail = f"{table} has one row a key (sink {owner.sink.type}), and not all records"
        yield Problem("source", detail, f"in flow {owner.name}: sink: append")
    wanted = (*_ALWAYS, *(name for name in _IF_WANTED if name in flow.metadata_columns))
    for name in wanted:
        if name not in owner.metadata_columns:
            detail = f"{table} has no {name}, which this flow keeps"
            yield Problem("source", detail, f"add {name} to metadata_columns of flow {owner.name}")
    column = flow.routed_by
    if column is not None and column not in named(owner.table.partition_by):
        detail = f"{column} is no partition column of {table}, and tables are made by these"
        made = f"{{{column}: \"get_json_object(CAST(value AS STRING), '$.{column}')\"}}"
        yield Problem("table", detail, f"in flow {owner.name}: table: {{name: {table}, partition_by: [{made}]}}")
    yield from _late(owner, table)
    yield from _null_values(flow, owner, table)


def _late(owner: Flow, table: str) -> Iterator[Problem]:
    """Records that a replay would bring into the table behind the reader's back."""
    late = [f"expectation {each.name}" for each in owner.all_expectations if each.action == "dead_letter"]
    late += ["null_values: dead_letter"] if owner.null_values == "dead_letter" else []
    for cause in late:
        detail = f"{table} gets dead letters of flow {owner.name} ({cause}) only when they are replayed, out of turn"
        here = f"take {cause} out of flow {owner.name}, and let this flow expect it"
        yield Problem("source", detail, _KEEP.format(owner.name) if cause.startswith("null") else here)


def _null_values(flow: Flow, owner: Flow, table: str) -> Iterator[Problem]:
    if owner.null_values != "drop":
        return
    keep = _KEEP.format(owner.name)
    if flow.keyed is not None and flow.keyed.tombstones_delete:
        detail = f"{table} has no records without a value, by which the sink {flow.sink.type} deletes"
        yield Problem("sink", detail, f"{keep}; or here: tombstones: ignore")
    if flow.keyed is None and flow.null_values != "drop":
        yield Problem("null_values", f"{table} has no records without a value", f"{keep}; or drop them here too")


def _ring(flow: Flow, flows: Mapping[str, Flow], tables: Mapping[str, str]) -> list[str]:
    """The names of flows that read each other, beginning and ending with this one; empty if it reads none of such."""
    way = [flow.name]
    while (owner := owner_of(flows[way[-1]], tables)) is not None:
        if owner == flow.name:
            return [*way, owner]
        if owner in way:
            return []  # told of those who are in it
        way.append(owner)
    return []
