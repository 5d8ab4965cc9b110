"""What an update would do, dataset by dataset; nothing is written for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.domain.query import query_state
from rivermouth.domain.query.refresh_decision import ViewState, decide
from rivermouth.domain.query.view_tree import plain_path, table_name
from rivermouth.engine.query.auto_cdc import check_order
from rivermouth.engine.query.query_batch import static_versions
from rivermouth.engine.query.query_table import changes
from rivermouth.pipelines.real_time import is_real_time
from rivermouth.pipelines.running.flows.cleared_sources import left_behind
from rivermouth.pipelines.running.flows.deliveries import is_archive, is_kafka
from rivermouth.pipelines.running.flows.flow_runs import (
    check_kind,
    check_streams,
    context_of,
    evaluated_flow,
    fingerprint_of,
    own_position,
)
from rivermouth.pipelines.running.flows.sinks import check_streams_of_mark
from rivermouth.pipelines.running.flows.snapshots import has_run
from rivermouth.pipelines.running.flows.static_tables import static_tables
from rivermouth.pipelines.running.flows.views import view_of
from rivermouth.pipelines.running.output_modes import output_mode, sink_output_mode
from rivermouth.pipelines.running.reset import may_be_reset, to_clear
from rivermouth.pipelines.selection import chosen_flows, chosen_names
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.internals.query_plans import keeps_state, state_operators, streams_of
from rivermouth.rows import kafka_records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryContext
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated
    from rivermouth.pipelines.selection import Selection
    from rivermouth.ports.delta.query_ledger import QueryPosition

Action = Literal[
    "create",
    "continue",
    "clear",
    "read again",
    "run",
    "not selected",
    "nothing",
    "append",
    "groups",
    "full",
    "refused",
]
Effect = Literal["same", "appended", "changed", "lost"]
"""What an update may do to the rows of a table, as a view that reads it sees it; see ``SourceChange``."""
_HAS_RUN: Final = "it runs once, and has run"
_MANY: Final = 4
"""Up to this number of tables each is looked at for what it may get in an update."""


@dataclass(frozen=True, slots=True)
class PlannedFlow:
    """What one flow would do.

    Attributes:
        flow: Its name.
        kind: ``append``, ``update``, ``auto_cdc``, ``auto_cdc_from_snapshot`` or ``refresh``.
        action: What is done. Of a view ``nothing``, ``append`` (new rows are appended), ``groups`` (groups in which a
            row changed are computed again) or ``full``; ``refused`` where its policy forbids a full refresh.
        reason: Why.
        is_stateful: Whether its query keeps state between batches.
        state: What is to be known of that state, a sentence each: when a window is written, and what grows.
        or_else: What is done instead where a table that it reads gets no new rows in this update, or others.
    """

    flow: str
    kind: str
    action: Action
    reason: str
    is_stateful: bool = False
    or_else: tuple[Action, ...] = ()
    state: tuple[str, ...] = ()


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
        expectations: Name, condition and action of each; behind them the columns that must not be null.
        may_be_reset: Whether a full refresh may clear it.
        registered: Its name in the project's catalog; None where it has none.
        notes: What is to be known of what it reads, a sentence each.
    """

    dataset: str
    kind: str
    at: str
    reads: tuple[str, ...]
    flows: tuple[PlannedFlow, ...] = ()
    new_columns: tuple[str, ...] = ()
    expectations: tuple[str, ...] = ()
    may_be_reset: bool = True
    registered: str | None = None
    notes: tuple[str, ...] = ()


def plan(loaded: Loaded, selection: Selection) -> list[PlannedDataset]:
    """What an update with this selection would do, in the order in which it would.

    Raises:
        DatasetNotInPipeline: One is named that the pipeline does not define.
        ResetNotAllowed, RefreshWouldLose: A full refresh is not possible; see ``to_clear``.
        TableSchemaChanged: A query brings columns that its table cannot take.
        TableOfFlow: A flow of a project file wrote a table that the update would write.
        CdcOrderLost: The order of the changes is lost whose rows a table has.
        FlowKindChanged, StreamsMoved, SinkStreamsMoved: A query cannot go on where its entry is.
        TableRestored: A table was taken back to an older version.
    """
    graph, name = loaded.graph, loaded.pipeline.name
    cleared = to_clear(loaded, selection, lambda _: None)
    reset = chosen_flows(graph, name, selection.reset_checkpoint)
    wanted = chosen_names(graph, name, selection.refresh, sinks=True)
    behind = left_behind(graph, cleared, reset)
    some = (wanted | cleared | reset.keys()) if not selection.full_refresh_all else set()
    pending: dict[str, frozenset[Effect]] = {}
    found = []
    for node in loaded.graph.nodes:
        clears = node.name in cleared
        flows = []
        for flow in node.flows if node.kind != "view" else ():
            if some and node.name not in some:
                flows.append(PlannedFlow(flow.name, flow.kind, "not selected", "other datasets are named"))
                continue
            position = _position(loaded, node, flow, clears=clears)
            if clears and node.kind == "materialized_view":
                planned = PlannedFlow(flow.name, flow.kind, "full", "all rows are removed, and computed again")
            elif clears and node.kind != "sink":
                planned = PlannedFlow(flow.name, flow.kind, "clear", "all rows are removed, and its sources read again")
            elif flow in reset.get(node.name, ()) and node.kind == "materialized_view":
                planned = PlannedFlow(flow.name, flow.kind, "full", "it is computed again")
            elif clears or flow in reset.get(node.name, ()):
                planned = PlannedFlow(flow.name, flow.kind, "read again", "rows stay, and sources are read again")
            else:
                planned = _flow(loaded, node, flow, position, pending)
            flows.append(planned)
        found.append(_dataset(loaded, node, tuple(flows), behind.get(node.name)))
        if node.location:
            pending[plain_path(node.location)] = frozenset(_effects_of(node, found[-1]))
    return found


def _dataset(loaded: Loaded, node: Node, flows: tuple[PlannedFlow, ...], behind: str | None) -> PlannedDataset:
    shown = loaded.graph.shown(node)
    reads = tuple(f"{each.name} (stream)" if each.stream else each.name for each in node.inputs)
    return PlannedDataset(
        dataset=shown,
        kind=node.kind,
        at=str(node.at),
        reads=reads,
        flows=flows,
        new_columns=_new_columns(loaded, node),
        expectations=(
            *(f"{each.name}: {each.condition} ({each.action})" for each in node.expectations),
            *(f"{each.name} NOT NULL (fail)" for each in node.not_null),
        ),
        may_be_reset=may_be_reset(node),
        registered=loaded.pipeline.registered(node),
        notes=(*dict.fromkeys(note for each in node.inputs for note in each.notes), *([behind] if behind else ())),
    )


def _new_columns(loaded: Loaded, node: Node) -> tuple[str, ...]:
    if not node.is_table or node.columns is None:
        return ()
    files, location = loaded.workspace.files_of_lake, loaded.pipeline.table(node.name, node.dataset)
    if not delta_table.exists(files, location):
        return tuple(f"{each.name} {each.dataType.simpleString()}" for each in node.columns)
    tables = loaded.resolver.tables
    if node.name in tables.misfits or node.name in tables.to_redefine:
        return tuple(f"{each.name} {each.dataType.simpleString()}" for each in node.columns)
    added, widened = changes(table_state(loaded.workspace.session, location), tables.table_of(node))
    return tuple(f"{each.name} {each.dataType.simpleString()}" for each in [*added, *widened])


def _position(loaded: Loaded, node: Node, flow: FlowNode, *, clears: bool) -> QueryPosition | None:
    """Where a flow is in its table, which no flow of a project file may have written; None of a sink.

    Raises:
        TableOfFlow: Such a flow wrote it.
        CdcOrderLost: The table has rows of changes whose order is lost, and is not cleared.
    """
    if node.kind == "sink":
        return None
    context = context_of(loaded, node, flow, lambda _: None)
    if not delta_table.exists(context.files, context.places.table):
        return context.ledger.position()
    with loaded.workspace.errors(flow.at, flow.name):
        if flow.cdc is not None and not clears:
            check_order(context)
        return own_position(context, loaded.workspace.session)


def _flow(
    loaded: Loaded,
    node: Node,
    flow: FlowNode,
    position: QueryPosition | None,
    pending: Mapping[str, frozenset[Effect]],
) -> PlannedFlow:
    if position is None:
        return _into_sink(loaded, node, flow)
    context = context_of(loaded, node, flow, lambda _: None)
    if flow.kind != "refresh":
        with loaded.workspace.errors(flow.at, flow.name):
            context.ledger.check_not_restored(position)
    if flow.kind == "auto_cdc_from_snapshot":
        return _snapshots(loaded, flow, context, position.entry)
    evaluated = evaluated_flow(loaded, node, flow)
    if flow.kind == "refresh":
        return _view(_state(loaded, node, context, evaluated, position), flow, pending)
    entry = position.entry
    with loaded.workspace.errors(flow.at, flow.name):
        check_kind(context, entry, flow, streaming=evaluated.frame.isStreaming)
        check_streams(context, entry, streams_of(evaluated.frame))
    stateful = keeps_state(evaluated.frame)
    mode = output_mode(flow, evaluated.frame, is_alone=len(node.flows) == 1)
    state = query_state.texts(state_operators(evaluated.frame), mode)
    if flow.once and entry.has_run(streaming=evaluated.frame.isStreaming):
        return PlannedFlow(flow.name, flow.kind, "nothing", _HAS_RUN, stateful, state=state)
    action: Action = "continue" if entry.offsets else "create"
    reason = _where_it_begins(entry, evaluated)
    if mode == "complete":
        reason += "; each batch replaces all rows"
    if mode == "update":
        reason += f"; a row replaces the one with its {', '.join(flow.keys)}"
    reason += _joined(loaded, evaluated)
    return PlannedFlow(flow.name, flow.kind, action, reason, stateful, state=state)


def _where_it_begins(entry: QueryEntry, evaluated: Evaluated) -> str:
    if not entry.offsets:
        return "its sources are read from their starting positions"
    reason = f"what is new since ledger entry {entry.number}"
    if entry.fingerprint != fingerprint_of(evaluated.frame):
        reason += "; its query or a column of its sources has changed, and rows that are in the table stay as they are"
    return reason


def _snapshots(loaded: Loaded, flow: FlowNode, context: QueryContext, entry: QueryEntry) -> PlannedFlow:
    with loaded.workspace.errors(flow.at, flow.name):
        check_kind(context, entry, flow, streaming=False)
    if has_run(flow, entry):
        return PlannedFlow(flow.name, flow.kind, "nothing", _HAS_RUN)
    return PlannedFlow(flow.name, flow.kind, "run", "the newest snapshots")


def _joined(loaded: Loaded, evaluated: Evaluated) -> str:
    """The tables that a stream is joined with, with the versions that its next batch finds; empty without any."""
    named = {place: name for name, place in static_tables(loaded, evaluated.inputs)}
    found = static_versions(loaded.workspace.files_of_lake, named)
    return "".join(f"; with table {named[place]} at version {version} or newer" for place, version in found.items())


def _into_sink(loaded: Loaded, node: Node, flow: FlowNode) -> PlannedFlow:
    evaluated = evaluated_flow(loaded, node, flow)
    frame = evaluated.frame
    with loaded.workspace.errors(flow.at, flow.name):
        check_streams_of_mark(loaded, node, flow, frame)
    state = query_state.texts(state_operators(frame), sink_output_mode(flow, frame))
    reason = "what is new since its checkpoint, at least once"
    if is_archive(node):
        reason = "what is new since its last batch, exactly once: each batch has a manifest"
    if is_kafka(node) and node.sink is not None:
        reason = "what is new since its last batch, exactly once: each batch is a transaction of Kafka"
        if read_options(node.sink.options).delivery == "at_least_once":
            reason = (
                f"what is new since its checkpoint, at least once: copies have one {kafka_records.ID_HEADER} header"
            )
        if is_real_time(loaded.pipeline.configuration, flow):
            reason = "with --follow as records come (real-time mode); what is in flight comes again after a crash"
        if "key" not in frame.columns:
            reason += f"; {kafka_records.KEYLESS}"
    if flow.once:
        reason = "its rows once, exactly once; nothing, if it has run"
    reason += _joined(loaded, evaluated)
    return PlannedFlow(flow.name, flow.kind, "run", reason, bool(state), state=state)


def _state(
    loaded: Loaded, node: Node, context: QueryContext, evaluated: Evaluated, position: QueryPosition
) -> ViewState:
    session, table = loaded.workspace.session, context.places.table
    columns = table_state(session, table).columns if delta_table.exists(context.files, table) else None
    return view_of(loaded, node, evaluated, context, position, columns).state


def _view(state: ViewState, flow: FlowNode, pending: Mapping[str, frozenset[Effect]]) -> PlannedFlow:
    """How a view will be refreshed: as things are, or as they may be once the tables that it reads are refreshed."""
    waiting = {path: pending[path] for path in state.sources if pending.get(path, frozenset()) - {"same"}}
    found = dict[Action, str]()
    for each in _cases(state, waiting):
        decision = decide(each)
        action: Action = "refused" if decision.refused else decision.kind
        found.setdefault(action, decision.reason)
        if decision.kind == "groups" and state.policy == "auto" and waiting:
            found.setdefault("full", "most of a table that it reads may be new")
    for_sure = len(found) == 1
    first = next(each for each in _BY_WEIGHT if each in found)
    reason = found[first]
    if not for_sure:
        tables = ", ".join(table_name(path) for path in waiting)
        reason = f"what {tables} will get in this update decides"
    return PlannedFlow(flow.name, flow.kind, first, reason, or_else=tuple(a for a in _BY_WEIGHT if a in found)[1:])


_BY_WEIGHT: Final[tuple[Action, ...]] = ("append", "groups", "full", "refused", "nothing")


def _cases(state: ViewState, waiting: Mapping[str, frozenset[Effect]]) -> Iterator[ViewState]:
    """The view as it may be once the tables that it reads are refreshed."""
    choices: list[frozenset[Effect]] = list(waiting.values())
    if len(choices) > _MANY:
        choices = [frozenset[Effect](("same", "lost"))] * len(choices)
    for effects in product(*(sorted(each) for each in choices)):
        then = dict(state.sources)
        for path, effect in zip(waiting, effects, strict=True):
            then[path] = then[path].and_then(effect)
        yield replace(state, sources=then)


def _effects_of(node: Node, planned: PlannedDataset) -> Iterator[Effect]:
    """What the update may do to a table. No view follows one that gets columns, also where its rows stay."""
    if planned.new_columns:
        yield "lost"
        return
    for flow, each in zip(node.flows, planned.flows, strict=False):
        yield from _effects(flow, each)


def _effects(flow: FlowNode, planned: PlannedFlow) -> Iterator[Effect]:
    """What a flow may do to the rows of its table."""
    for action in (planned.action, *planned.or_else):
        match action:
            case "nothing" | "not selected" | "refused":
                yield "same"
            case "clear" | "full":
                yield "lost"
            case "append":
                yield from ("same", "appended")
            case "groups":
                yield from ("same", "appended", "changed")
            case _:
                yield from ("same", "appended")
                if flow.cdc is not None or flow.keys:
                    yield "changed"
                if "replaces all rows" in planned.reason:
                    yield "lost"
