"""One flow of a dataset, refreshed: a stream read to its end, a view computed, changes merged, a sink written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts
from rivermouth.domain.query.refresh_decision import decide
from rivermouth.engine.query import auto_cdc, query_batch
from rivermouth.engine.query.nothing_new import NOTHING_NEW, has_nothing_new
from rivermouth.engine.query.query_events import ViewDecided
from rivermouth.engine.query.refresh import refresh
from rivermouth.engine.query.steps.batch_letters import complete_dead_letters
from rivermouth.engine.query.streaming import complete_letters, run_batch, run_query
from rivermouth.engine.query.update_batch import UpdateBatch
from rivermouth.errors import RefreshNotIncremental
from rivermouth.pipelines.running.declared_columns import computed_names, sequence_type
from rivermouth.pipelines.running.flows import sinks
from rivermouth.pipelines.running.flows.cleared_sources import told_if_cleared
from rivermouth.pipelines.running.flows.flow_runs import context_of, evaluated_flow, opened
from rivermouth.pipelines.running.flows.snapshots import run_snapshots
from rivermouth.pipelines.running.flows.static_tables import named_if_missing, static_tables
from rivermouth.pipelines.running.flows.views import view_of
from rivermouth.pipelines.running.output_modes import output_mode
from rivermouth.pipelines.running.reads import in_own_session
from rivermouth.pipelines.settings.known_settings import REMEMBER, setting_of
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.schemas.column_types import nullable_columns

if TYPE_CHECKING:
    from rivermouth.engine.query.query_events import QueryListener
    from rivermouth.engine.query.query_run import QueryContext, QueryRun
    from rivermouth.engine.query.streaming import Batch
    from rivermouth.pipelines.graph import FlowNode, Input, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated

_HAS_RUN: Final = "it has run"


@dataclass(frozen=True, slots=True)
class Done:
    """What a flow has done in an update.

    Attributes:
        counts: Of its batches.
        late_rows: Rows that a watermark left out.
        reason: Why a view was refreshed as it was.
        refresh: How a view was refreshed: ``nothing``, ``append``, ``groups`` or ``full``; empty of other flows.
    """

    counts: QueryCounts = NO_COUNTS
    late_rows: int = 0
    reason: str = ""
    refresh: str = ""


@dataclass(frozen=True, slots=True)
class FlowHooks:
    """How the update takes part in the work of its flows.

    Attributes:
        listener: Gets the events.
        stopping: Set when a flow shall end after the batch in hand.
        step: Called at each step of a batch.
    """

    listener: QueryListener
    stopping: threading.Event
    step: Callable[[str], None]


def refresh_node(
    loaded: Loaded,
    node: Node,
    flow: FlowNode,
    hooks: FlowHooks,
    *,
    interval_s: float | None = None,
) -> Done:
    """Runs one flow until it has read what there is; with an interval until it is stopped.

    Raises:
        RivermouthError: The typed reason why it failed.
    """
    workspace, context = loaded.workspace, context_of(loaded, node, flow, hooks.listener, hooks.step)
    workspace.activate()
    if flow.kind == "auto_cdc_from_snapshot":
        return _snapshots(loaded, node, flow, context, hooks)
    evaluated = evaluated_flow(loaded, node, flow)
    if node.kind == "sink":
        work = sinks.SinkWork(loaded, node, flow, evaluated, context, hooks.stopping, interval_s)
        with told_if_cleared(loaded, node, flow, evaluated.inputs), named_if_missing(loaded, flow, evaluated.inputs):
            return Done(*sinks.run_sink(work))
    if not evaluated.frame.isStreaming:
        evaluated = in_own_session(evaluated)
    run = _opened(loaded, flow, context, evaluated)
    run.stopping = hooks.stopping
    if flow.kind == "refresh":
        return _view(loaded, node, evaluated, run)
    context.ledger.check_not_restored(run.position)
    if flow.once:
        return _once(evaluated, run, _batch(loaded, node, flow, evaluated, run), "update" if flow.keys else "append")
    if interval_s is None:
        tables = map(loaded.resolver.tables.newest, _streamed_tables(loaded, evaluated.inputs))
        if has_nothing_new(run, tables, lambda: workspace.kafka_ends.of(evaluated.kafka)):
            return Done(reason=NOTHING_NEW)
    batch = _batch(loaded, node, flow, evaluated, run)
    mode = output_mode(flow, evaluated.frame, is_alone=len(node.flows) == 1)
    run.replaces = mode == "complete"
    with told_if_cleared(loaded, node, flow, evaluated.inputs), named_if_missing(loaded, flow, evaluated.inputs):
        late = run_query(evaluated.frame, run, batch, interval_s=interval_s, output_mode=mode)
    return Done(run.counts, late)


def _opened(loaded: Loaded, flow: FlowNode, context: QueryContext, evaluated: Evaluated) -> QueryRun:
    """A flow into a table, where it is in its ledger; its newest entry has its dead letters."""
    run = opened(loaded, flow, context, evaluated.frame)
    run.views, run.decoded = evaluated.views, evaluated.decoded
    if run.entry.kind == "cleared":  # what others added while the table was being emptied
        context.dead_letters.give_up(loaded.workspace.session, flow.name)
    if evaluated.frame.isStreaming:
        run.static_tables = [place for _, place in static_tables(loaded, evaluated.inputs)]
    complete_letters(evaluated.frame.sparkSession, run)
    return run


def _snapshots(loaded: Loaded, node: Node, flow: FlowNode, context: QueryContext, hooks: FlowHooks) -> Done:
    counts = run_snapshots(loaded, node, flow, context, hooks.stopping)
    return Done(reason=_HAS_RUN) if counts is None else Done(counts)


def _batch(loaded: Loaded, node: Node, flow: FlowNode, evaluated: Evaluated, run: QueryRun) -> Batch:
    if flow.keys:
        return UpdateBatch(flow.keys)
    if flow.cdc is None:
        return query_batch.process
    target = auto_cdc.open_target(
        loaded.workspace.session,
        run,
        flow.cdc,
        sequence_type(flow.cdc, evaluated.frame),
        remember_s=remembers_s(loaded, node),
    )
    return auto_cdc.CdcBatch(replace(target, computed=computed_names(node.columns)))


def remembers_s(loaded: Loaded, node: Node) -> float:
    """How long the deleted keys of a target are remembered."""
    properties = {} if node.dataset is None else node.dataset.properties
    text = setting_of(properties, REMEMBER) or setting_of(loaded.pipeline.configuration, REMEMBER)
    return float(text) if text else auto_cdc.REMEMBER_S


def _view(loaded: Loaded, node: Node, evaluated: Evaluated, run: QueryRun) -> Done:
    context = run.context
    if run.entry.refreshed == "full":  # its update may have ended before it deleted them
        context.dead_letters.forget_before(loaded.workspace.session, run.entry)
    run.layout = loaded.resolver.tables.prepare_layout(node)
    if run.layout is not None:
        run.columns = nullable_columns(loaded.resolver.tables.to_redefine[node.name].columns)
    view = view_of(loaded, node, evaluated, context, run.position, run.columns)
    run.fingerprint, decision = view.state.fingerprint, decide(view.state)
    if decision.refused:
        raise RefreshNotIncremental(dataset=context.dataset, reason=decision.reason)
    context.emit(ViewDecided(context.dataset, context.flow, decision.kind, decision.reason))
    if decision.kind != "nothing":
        refresh(view.plan, decision, view.sources, run)
    if run.layout is not None:
        loaded.resolver.tables.complete_redefinition(node)
    return Done(run.counts, reason=decision.reason, refresh=decision.kind)


def _streamed_tables(loaded: Loaded, inputs: Iterable[Input]) -> list[str]:
    """The folders of the Delta tables that a query reads as streams, also by views, as far as they are known."""
    return [each.location for each in loaded.graph.through_views(inputs) if each.stream and each.location is not None]


def _once(evaluated: Evaluated, run: QueryRun, batch: Batch, mode: str) -> Done:
    """A flow that runs once for ever: nothing, where its entry is in the table."""
    frame, entry = evaluated.frame, run.entry
    if entry.has_run(streaming=frame.isStreaming):
        if not frame.isStreaming:
            complete_dead_letters(frame, run)
        return Done(reason=_HAS_RUN)
    if not frame.isStreaming:
        run_batch(frame, 0, ("{}",), run, batch)
        return Done(run.counts)
    late = run_query(frame, run, batch, output_mode=mode)
    if not run.stopping.is_set():
        nothing = no_rows(frame.sparkSession, run.columns)
        run.context.ledger.write(nothing, run.position, run.entry.after_end, table_id=run.table_id)
    return Done(run.counts, late)
