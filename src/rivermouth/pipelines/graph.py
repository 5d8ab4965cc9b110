"""The graph of a pipeline: which dataset reads which, in what order they are refreshed; nothing here knows Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rivermouth.errors import DatasetDefinedTwice, DefinitionInvalid, FlowDefinedTwice, TargetUnknown
from rivermouth.names import did_you_mean
from rivermouth.pipelines.names import Names, TableName, Use, is_live, unquoted
from rivermouth.pipelines.spec import (
    VIEWS,
    AutoCdc,
    Dataset,
    Definitions,
    Expectation,
    Flow,
    FlowKind,
    NotNull,
    Query,
    Sink,
    SourceLine,
)

NodeKind = Literal["streaming_table", "materialized_view", "view", "sink"]


@dataclass(frozen=True, slots=True)
class Input:
    """What a query reads.

    Attributes:
        name: A dataset of the pipeline, a table of the lake, or what a source outside is called.
        stream: Whether it is read as a stream.
        inside: Whether the pipeline makes it.
        location: The folder of a Delta table that the query reads; None where it is none, or it is a view.
        notes: What a plan says about it.
    """

    name: str
    stream: bool
    inside: bool
    location: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A flow of the graph: a query into a dataset or sink.

    Attributes:
        name: Unique in the pipeline.
        kind: ``append``, ``update``, ``auto_cdc``, ``auto_cdc_from_snapshot``; ``refresh`` of a materialized view, and
            ``view`` of a view.
        query: What it reads.
        at: Where it is defined.
        once: Whether it is run once for ever.
        cdc: What an AUTO CDC flow makes of its changes.
        keys: Of an ``update`` flow into a table the columns by which a row replaces another one.
        inputs: What its query reads, as it was evaluated for the graph.
        not_null: Columns of its dataset that must not be null.
    """

    name: str
    kind: FlowKind | Literal["refresh", "view"]
    query: Query
    at: SourceLine
    once: bool = False
    cdc: AutoCdc | None = None
    keys: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    not_null: tuple[NotNull, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A dataset or sink with the flows that write it, as it is known after its queries were looked at.

    Attributes:
        name: Resolved; of a sink its name with an empty schema.
        kind: What it is.
        dataset: As it is defined; None for a sink.
        sink: As it is defined; None for a dataset.
        flows: In the order in which they are defined.
        inputs: What all of its flows read, each once.
        columns: The StructType of its queries; None for a sink.
        location: The folder of its table; None without one.
        stand_in: The folder of an empty table with its columns, which queries read while its own cannot be read with
            these; None where they read its own.
    """

    name: TableName
    kind: NodeKind
    dataset: Dataset | None
    sink: Sink | None
    flows: tuple[FlowNode, ...]
    inputs: tuple[Input, ...] = ()
    columns: Any = None
    location: str | None = None
    stand_in: str | None = None

    @property
    def at(self) -> SourceLine:
        """Where it is defined."""
        found = self.dataset or self.sink
        return found.at if found is not None else self.flows[0].at

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """The conditions on its rows; none of a sink."""
        return () if self.dataset is None else self.dataset.expectations

    @property
    def not_null(self) -> tuple[NotNull, ...]:
        """The columns of its table that must not be null."""
        return self.flows[0].not_null if self.flows else ()

    @property
    def is_table(self) -> bool:
        """Whether it has a table of its own."""
        return self.kind in ("streaming_table", "materialized_view")


@dataclass(frozen=True, slots=True)
class Declared:
    """What the files define, by resolved names, before a query is looked at.

    Attributes:
        datasets: By name, in the order in which they are defined.
        sinks: By their names in lower case.
        flows: By dataset or sink those that write it.
    """

    datasets: Mapping[TableName, Dataset]
    sinks: Mapping[str, Sink]
    flows: Mapping[TableName, tuple[FlowNode, ...]]

    def meant(self, names: Names, parts: tuple[str, ...], use: Use) -> TableName | None:
        """The table that a name in a query means.

        A temporary view has no schema, whatever ``USE`` has chosen. ``LIVE.x`` means a dataset in the schema that
        ``USE`` has chosen, or one in the pipeline's.
        """
        (plain, chosen), live = names.spellings(parts, use), is_live(parts)
        known = None if plain is None or len(parts) - live > 1 else self.datasets.get(plain)
        if known is not None and known.kind == "temporary_view":
            return plain
        return plain if live and chosen not in self.datasets else chosen


@dataclass(frozen=True, slots=True)
class Graph:
    """All nodes of a pipeline, each behind those that it reads."""

    nodes: tuple[Node, ...] = ()
    names: Names = field(default_factory=lambda: Names("default"))

    def node(self, name: TableName) -> Node | None:
        """The node of that name; None where there is none."""
        return next((each for each in self.nodes if each.name == name), None)

    def shown(self, node: Node) -> str:
        """What a dataset or sink is called."""
        return node.name.table if node.kind == "sink" else self.names.shown(node.name)

    def read_node(self, read: Input) -> Node | None:
        """The node that a query reads; None of what the pipeline does not make."""
        name = self.names.resolve(read.name) if read.inside else None
        return None if name is None else self.node(name)

    def through_views(self, inputs: Iterable[Input]) -> Iterator[Input]:
        """What a query reads, with what a view reads in the place of the view."""
        for each in inputs:
            node = self.read_node(each)
            if node is not None and node.kind == "view":
                yield from self.through_views(node.inputs)
            else:
                yield each

    def upstream(self, node: Node) -> set[TableName]:
        """The tables of the pipeline on which ``node`` depends, at any distance."""
        found: set[TableName] = set()
        waiting = [node]
        while waiting:
            for each in waiting.pop().inputs:
                other = self.read_node(each)
                if other is not None and other.name not in found:
                    found.add(other.name)
                    waiting.append(other)
        return found


def sink_name(name: str) -> TableName:
    """The name by which a sink is among the nodes."""
    return TableName("", name.lower())


def declared(definitions: Definitions, names: Names) -> Declared:
    """The datasets and sinks of a pipeline with their flows, by name.

    Raises:
        DatasetDefinedTwice: Two datasets or sinks have one name.
        FlowDefinedTwice: Two flows have one name.
        TargetUnknown: A flow writes to something that is not defined.
        DefinitionInvalid: Flows of one target do not go together.
    """
    datasets: dict[TableName, Dataset] = {}
    for each in definitions.datasets:
        name = names.resolve(each.name)
        if name is None:  # of more than three parts
            name = TableName(names.schema.lower(), each.name.lower())
        if name in datasets:
            raise DatasetDefinedTwice(at=str(each.at), dataset=names.shown(name), other=str(datasets[name].at))
        _check_expectations(each)
        datasets[name] = each
    sinks = _sinks(definitions.sinks, datasets)
    flows: dict[TableName, list[FlowNode]] = {name: [] for name in (*datasets, *map(sink_name, sinks))}
    for name, each in datasets.items():
        if each.query is not None:
            kind: Any = {"materialized_view": "refresh"}.get(each.kind, "view" if each.kind in VIEWS else "append")
            flows[name].append(FlowNode(unquoted(names.shown(name)), kind, each.query, each.at))
    for flow in definitions.flows:
        target = _target(flow, names, datasets, sinks)
        query = _with_conf(flow.query, datasets[target].flow_conf if target in datasets else {})
        flows[target].append(FlowNode(flow.name, flow.kind, query, flow.at, flow.once, flow.cdc, flow.keys))
    _check_names(each for several in flows.values() for each in several)
    for name, several in flows.items():
        _check_cdc_flows(names.shown(name), several)
    return Declared(datasets, sinks, {name: _with_truncations(each) for name, each in flows.items()})


def _with_conf(query: Query, conf: Mapping[str, str]) -> Query:
    """A query with the settings of its target, where it does not say another value."""
    return replace(query, conf={**conf, **query.conf}) if conf else query


def _sinks(found: Iterable[Sink], datasets: Mapping[TableName, Dataset]) -> dict[str, Sink]:
    sinks: dict[str, Sink] = {}
    for sink in found:
        other = sinks.get(sink.name.lower())
        taken = next((each for name, each in datasets.items() if name.table == sink.name.lower()), None)
        if other is not None or taken is not None:
            at = str((other or taken).at)  # type: ignore[union-attr]
            raise DatasetDefinedTwice(at=str(sink.at), dataset=sink.name, other=at)
        sinks[sink.name.lower()] = sink
    return sinks


def _target(flow: Flow, names: Names, datasets: Mapping[TableName, Dataset], sinks: Mapping[str, Sink]) -> TableName:
    if flow.target.lower() in sinks:
        return sink_name(flow.target)
    name = names.resolve(flow.target)
    if name is None or name not in datasets or datasets[name].kind in VIEWS:
        # ``USE`` gives the names of flows' targets a schema; a sink has none.
        if name is not None and name.table in sinks:
            return sink_name(name.table)
        known = [*(names.shown(each) for each, found in datasets.items() if found.kind not in VIEWS), *sinks]
        fix = did_you_mean(flow.target, known)
        if not fix.startswith("did you mean"):
            fix = f'define it: dp.create_streaming_table("{flow.target}")'
        raise TargetUnknown(at=str(flow.at), flow=flow.name, target=flow.target, fix=fix)
    return name


def _check_names(flows: Iterable[FlowNode]) -> None:
    known: dict[str, FlowNode] = {}
    for flow in flows:
        other = known.setdefault(flow.name.lower(), flow)
        if other is not flow:
            raise FlowDefinedTwice(at=str(flow.at), flow=flow.name, other=str(other.at))


def _check_expectations(dataset: Dataset) -> None:
    """Checks that each expectation has a name of its own, by which its rows are counted."""
    known: set[str] = set()
    for each in dataset.expectations:
        if each.name in known:
            detail, fix = f"two expectations are called {each.name}", "give one of them another name"
            raise DefinitionInvalid(at=str(dataset.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix)
        known.add(each.name)


def _check_cdc_flows(target: str, flows: Sequence[FlowNode]) -> None:
    """Checks that the flows of a target may change the same rows.

    A row of an AUTO CDC target is what the changes of its key come to, and a snapshot is all rows of its target.

    Raises:
        DefinitionInvalid: A target of AUTO CDC has a flow of another kind, a second flow next to one of snapshots, or
            flows that differ in keys, SCD type, tracked columns or what a null does; or a flow says twice what a null
            does.
    """
    first = next((each for each in flows if each.cdc is not None), None)
    if first is None or first.cdc is None:
        return
    for each in flows:
        detail, fix = _cdc_conflict(each, first, first.cdc, target) if each is not first else ("", "")
        if not detail and each.cdc is not None:
            detail, fix = _null_settings_fault(each.cdc)
        if detail:
            raise DefinitionInvalid(at=str(each.at), definition=f"flow {each.name}", detail=detail, fix=fix)


def _cdc_conflict(other: FlowNode, first: FlowNode, cdc: AutoCdc, target: str) -> tuple[str, str]:
    """Why a flow cannot write the target of the first one, and what to do; empty where it can."""
    of_first = f"flow {first.name} at {first.at}"
    if other.cdc is None:
        detail = f"it writes to {target}, whose rows {of_first} changes by AUTO CDC"
        return detail, "write its rows into another table, or make it an AUTO CDC flow"
    if "auto_cdc_from_snapshot" in (first.kind, other.kind):
        detail = f"{target} has {of_first}, and a flow of snapshots must be the only one"
        return detail, "give it a target of its own"
    if _folded(other.cdc.keys) != _folded(cdc.keys):
        keys = ", ".join(cdc.keys)
        return f"its keys are not those of {of_first}: {keys}", f"write the keys {keys}"
    if other.cdc.scd_type != cdc.scd_type:
        return f"{of_first} keeps {target} as SCD type {cdc.scd_type}", f"write SCD type {cdc.scd_type}"
    if _tracked(other.cdc) != _tracked(cdc):
        detail = f"its versions do not begin where those of {of_first} do"
        return detail, "write the same track_history_column_list or track_history_except_column_list in both flows"
    if _null_settings(other.cdc) != _null_settings(cdc):
        detail = f"a null in its changes does not do the same as in those of {of_first}"
        return detail, "write the same ignore_null_updates and columns_to_update in both flows"
    return "", ""


def _tracked(cdc: AutoCdc) -> tuple[frozenset[str], ...]:
    """The columns whose change makes a version, and those whose change makes none."""
    listed = (cdc.track_history_columns, cdc.track_history_except_columns)
    return tuple(map(_folded, listed)) if cdc.scd_type != 1 else ()


def _null_settings(cdc: AutoCdc) -> dict[str, Any]:
    """By name, the settings by which a row keeps values that a change does not bring."""
    found = {
        "ignore_null_updates": cdc.ignore_null_updates,
        "ignore_null_updates_column_list": _folded(cdc.ignore_null_updates_columns),
        "ignore_null_updates_except_column_list": _folded(cdc.ignore_null_updates_except_columns),
        "columns_to_update": (cdc.columns_to_update or "").lower(),
    }
    return {name: value for name, value in found.items() if value}


def _null_settings_fault(cdc: AutoCdc) -> tuple[str, str]:
    names = list(_null_settings(cdc))
    if len(names) > 1:
        return f"it has {' and '.join(names)}, and one of them says which values a change brings", f"keep {names[0]}"
    if names and cdc.scd_type != 1:
        detail = f"{names[0]} is for SCD type 1: a version of SCD type 2 has all values of its change"
        return detail, f"remove {names[0]}, and fill the values in the source"
    return "", ""


def _with_truncations(flows: Sequence[FlowNode]) -> tuple[FlowNode, ...]:
    """The flows of a target; each knows whether another one may truncate it."""
    truncating = [each for each in flows if each.cdc is not None and each.cdc.apply_as_truncates is not None]

    def told(flow: FlowNode) -> FlowNode:
        if flow.cdc is None or all(each is flow for each in truncating):
            return flow
        return replace(flow, cdc=replace(flow.cdc, others_truncate=True))

    return tuple(map(told, flows))


def _folded(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def circle(path: Sequence[TableName], again: TableName, names: Names) -> str:
    """The path of a circle as text: ``a -> b -> a``."""
    found = [*path[path.index(again) :], again]
    return " -> ".join(names.shown(each) for each in found)
