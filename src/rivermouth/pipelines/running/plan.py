"""What an update would do, dataset by dataset; nothing is written for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from rivermouth.engine.query import refresh
from rivermouth.engine.query.query_table import changes
from rivermouth.pipelines.running.flows.flow_runs import context_of, evaluated_flow, fingerprint_of
from rivermouth.pipelines.running.flows.refresh_node import is_deterministic, versions
from rivermouth.pipelines.running.reset import may_be_reset
from rivermouth.pipelines.selection import chosen_names
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.internals.query_plans import analysed_plan, keeps_state

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.selection import Selection

Action = Literal["create", "continue", "compute", "nothing", "clear", "read again", "run", "not selected"]


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """What one flow would do.

    Attributes:
        flow: Its name.
        kind: ``append``, ``update``, ``auto_cdc``, ``auto_cdc_from_snapshot`` or ``refresh``.
        action: What is done.
        reason: Why.
        is_stateful: Whether its query keeps state between batches.
    """

    flow: str
    kind: str
    action: Action
    reason: str
    is_stateful: bool = False


@dataclass(frozen=True, slots=True)
class PlannedDataset:
    """What an update would do with one dataset or sink.

    Attributes:
        dataset: Its name.
        kind: ``streaming_table``, ``materialized_view``, ``view`` or ``sink``.
        at: Where it is defined.
        reads: What its queries read; ``(stream)`` behind what is read as one.
        flows: What each of its flows would do.
        new_columns: Columns that the table would be made with, or would get, with their types.
        expectations: Name, condition and action of each.
        may_be_reset: Whether a full refresh may clear it.
    """

    dataset: str
    kind: str
    at: str
    reads: tuple[str, ...]
    flows: tuple[PlannedFlow, ...] = ()
    new_columns: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()
    may_be_reset: bool = True


def plan(loaded: Loaded, selection: Selection) -> list[PlannedDataset]:
    """What an update with this selection would do, in the order in which it would.

    Raises:
        DatasetNotInPipeline: One is named that the pipeline does not define.
        TableSchemaChanged: A query brings columns that its table cannot take.
    """
    graph, name = loaded.graph, loaded.pipeline.name
    cleared = chosen_names(graph, name, selection.full_refresh)
    reset = chosen_names(graph, name, selection.reset_checkpoint)
    wanted = chosen_names(graph, name, selection.refresh)
    some = (wanted | cleared | reset) if not selection.full_refresh_all else set()
    computed: set[str] = set()
    found = []
    for node in loaded.graph.nodes:
        clears = node.name in cleared or (selection.full_refresh_all and node.is_table and may_be_reset(node))
        flows = []
        for flow in node.flows if node.kind != "view" else ():
            if some and node.name not in some:
                planned = PlannedFlow(flow.name, flow.kind, "not selected", "other datasets are named")
            elif clears:
                planned = PlannedFlow(flow.name, flow.kind, "clear", "all rows are removed, and its sources read again")
            elif node.name in reset:
                planned = PlannedFlow(flow.name, flow.kind, "read again", "rows stay, and sources are read again")
            else:
                planned = _flow(loaded, node, flow, computed)
            flows.append(planned)
            if planned.action not in ("nothing", "not selected") and node.location:
                computed.add(node.location)
        found.append(_dataset(loaded, node, tuple(flows)))
    return found


def _dataset(loaded: Loaded, node: Node, flows: tuple[PlannedFlow, ...]) -> PlannedDataset:
    shown = node.name.table if node.kind == "sink" else loaded.graph.names.shown(node.name)
    reads = tuple(f"{each.name} (stream)" if each.stream else each.name for each in node.inputs)
    expectations = node.dataset.expectations if node.dataset is not None else ()
    return PlannedDataset(
        dataset=shown,
        kind=node.kind,
        at=str(node.at),
        reads=reads,
        flows=flows,
        new_columns=_new_columns(loaded, node),
        expectations=tuple(f"{each.name}: {each.condition} ({each.action})" for each in expectations),
        may_be_reset=may_be_reset(node),
    )


def _new_columns(loaded: Loaded, node: Node) -> tuple[str, ...]:
    if not node.is_table or node.columns is None:
        return ()
    files, location = loaded.workspace.files_of_lake, loaded.pipeline.table(node.name, node.dataset)
    if not delta_table.exists(files, location):
        return tuple(f"{each.name} {each.dataType.simpleString()}" for each in node.columns)
    there = table_state(loaded.workspace.session, location).columns
    added, widened = changes(there, loaded.resolver.table_of(node))
    return tuple(f"{each.name} {each.dataType.simpleString()}" for each in [*added, *widened])


def _flow(loaded: Loaded, node: Node, flow: FlowNode, computed: set[str]) -> PlannedFlow:
    if node.kind == "sink":
        return PlannedFlow(flow.name, flow.kind, "run", "what is new since its checkpoint")
    if flow.kind == "auto_cdc_from_snapshot":
        return PlannedFlow(flow.name, flow.kind, "run", "the newest snapshots")
    context = context_of(loaded, node, flow, lambda _: None)
    entry = context.ledger.position().entry
    evaluated = evaluated_flow(loaded, node, flow)
    analysed, print_ = analysed_plan(evaluated.frame), fingerprint_of(evaluated.frame)
    if flow.kind == "refresh":
        sources, outside = versions(loaded, evaluated.inputs, analysed)
        decision = refresh.decide(entry, print_, sources, outside, deterministic=is_deterministic(analysed))
        if not decision.computes and set(sources) & computed:
            reason = "what it reads may get a new version in this update"
            return PlannedFlow(flow.name, flow.kind, "compute", reason)
        return PlannedFlow(flow.name, flow.kind, "compute" if decision.computes else "nothing", decision.reason)
    stateful = keeps_state(evaluated.frame)
    if flow.once and entry.kind == "batch":
        return PlannedFlow(flow.name, flow.kind, "nothing", "it runs once, and has run", stateful)
    if not entry.offsets:
        return PlannedFlow(flow.name, flow.kind, "create", "its sources are read from where they begin", stateful)
    reason = f"what is new since ledger entry {entry.number}"
    if entry.fingerprint != print_:
        reason += "; its query has changed, and rows that are in the table stay as they are"
    return PlannedFlow(flow.name, flow.kind, "continue", reason, stateful)
