"""The flows of a pipeline, made ready: each with its table, its ledger and its checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.query_entry import fingerprint
from rivermouth.engine.query.query_run import QueryContext, QueryRun
from rivermouth.errors import FlowKindChanged, StreamsMoved, TableOfFlow
from rivermouth.pipelines.running.declared_columns import with_computed
from rivermouth.ports.delta.query_ledger import QueryLedger, QueryPosition
from rivermouth.ports.internals.query_plans import analysed_plan, constants_of, keeps_state, streams_of
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint
from rivermouth.side_tables.held_letters import HeldLetters
from rivermouth.side_tables.row_dead_letters import RowDeadLetters
from rivermouth.side_tables.source_files import SourceFiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.query.query_entry import QueryEntry, SourceKind
    from rivermouth.engine.query.query_events import QueryListener
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated

_READS: Final[dict[SourceKind, str]] = {"stream": "a stream", "snapshots": "snapshots", "batch": "one batch"}


def context_of(
    loaded: Loaded, node: Node, flow: FlowNode, listener: QueryListener, step: Callable[[str], None] = lambda _: None
) -> QueryContext:
    """What stays the same while a flow is at work; nothing is read for it."""
    pipeline, files = loaded.pipeline, loaded.workspace.files_of_lake
    places, shown = pipeline.flow_places(node.name, flow.name, node.dataset), loaded.graph.shown(node)
    return QueryContext(
        dataset=shown,
        flow=flow.name,
        owner=f"{pipeline.name}/{flow.name}",
        places=places,
        files=files,
        ledger=QueryLedger(files, places.table, places.side_file, flow=flow.name, dataset=shown),
        checkpoint=QueryCheckpoint(files, places.checkpoint),
        dead_letters=RowDeadLetters(files, places.dead_letters, dataset=shown),
        held_letters=HeldLetters(files, places.table),
        source_files=SourceFiles(files, places.table),
        expectations=(*node.expectations, *flow.not_null),
        listener=listener,
        step=step,
    )


def evaluated_flow(loaded: Loaded, node: Node, flow: FlowNode) -> Evaluated:
    """The query of a flow as it is now, with the columns that its table computes; the table can take its columns.

    Raises:
        QueryFunctionFailed, QueryInvalid, DatasetUnknown: As ``Workspace.evaluate``.
        NewColumnsNotTaken, TableSchemaChanged: It has columns now that its table cannot take.
    """
    shown = loaded.graph.shown(node)
    found = loaded.resolver.evaluated(node.name, flow)
    if found is None:
        found = loaded.workspace.evaluate(flow.query, shown, flow.at, flow=flow.name)
        loaded.resolver.grow(node, flow, found.frame)
    with loaded.workspace.errors(node.at, shown):
        return replace(found, frame=with_computed(found.frame, node.columns))


def opened(loaded: Loaded, flow: FlowNode, context: QueryContext, frame: DataFrame) -> QueryRun:
    """A flow into a table that is there, where it is in its ledger.

    Raises:
        LedgerLost, LedgerUnreadable, LedgerTooNew: Its entries cannot be known.
        TableOfFlow: A flow of a project file wrote the table.
        FlowKindChanged: As ``check_kind``.
        StreamsMoved: As ``check_streams``.
    """
    position, streams = own_position(context, loaded.workspace.session), streams_of(frame)
    check_kind(context, position.entry, flow, streaming=frame.isStreaming)
    check_streams(context, position.entry, streams)
    state = loaded.resolver.tables.state(context.places.table, position.version)
    return QueryRun(
        context,
        columns=state.columns,
        table_id=state.table_id,
        position=position,
        fingerprint=fingerprint_of(frame),
        streams=streams,
        stateful=keeps_state(frame),
    )


def check_kind(context: QueryContext, entry: QueryEntry, flow: FlowNode, *, streaming: bool) -> None:
    """Checks that a flow reads the kind of source whose position its entry has.

    Raises:
        FlowKindChanged: The entry is of a stream, of snapshots or of one batch, and the flow reads another one of them.
    """
    now: SourceKind = "stream" if streaming else "batch"
    now = "snapshots" if flow.kind == "auto_cdc_from_snapshot" else now
    before = entry.source_kind
    if before not in (None, now) and flow.kind != "refresh":
        raise FlowKindChanged(flow=context.flow, dataset=context.dataset, before=_READS[before], now=_READS[now])


def check_streams(context: QueryContext, entry: QueryEntry, streams: tuple[str, ...]) -> None:
    """Checks that a query can go on with its streams.

    Raises:
        StreamsMoved: One has another number than before, or there are more or fewer of them.
    """
    if entry.streams_moved(streams):
        before, now = ("; ".join(each) for each in (entry.streams, streams))
        raise StreamsMoved(flow=context.flow, dataset=context.dataset, before=before, now=now or "none")


def own_position(context: QueryContext, session: SparkSession) -> QueryPosition:
    """Where a flow is in its table.

    Raises:
        TableOfFlow: A flow of a project file wrote the table.
        LedgerLost, LedgerUnreadable, LedgerTooNew: Its entries cannot be known.
    """
    position = context.ledger.position(session)
    if position.entry.number < 0 and (flow := context.ledger.flow_of_project()) is not None:
        raise TableOfFlow(dataset=context.dataset, table=context.places.table, flow=flow)
    return position


def fingerprint_of(frame: DataFrame) -> str:
    """The fingerprint of a query, as its ledger entries keep it."""
    return fingerprint(analysed_plan(frame), constants_of(frame))
