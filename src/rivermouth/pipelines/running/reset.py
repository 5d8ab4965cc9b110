"""Full refreshes and resets: which datasets an update is about, and what of them is cleared before it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.engine.query.query_events import Note
from rivermouth.engine.query.query_table import redefine
from rivermouth.errors import RefreshWouldLose, ResetNotAllowed
from rivermouth.names import AUTO_CDC_DELETED, AUTO_CDC_ROWS
from rivermouth.pipelines.running import load
from rivermouth.pipelines.running.flows.cleared_sources import left_behind
from rivermouth.pipelines.running.flows.flow_runs import context_of, own_position
from rivermouth.pipelines.running.flows.sinks import reset_sink
from rivermouth.pipelines.running.losses import what_would_be_lost
from rivermouth.pipelines.running.resolving.dataset_tables import Rewrites, never
from rivermouth.pipelines.selection import chosen_flows, chosen_names
from rivermouth.pipelines.settings.known_settings import RESET_ALLOWED, allows_reset
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.spark.local_frames import no_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from rivermouth.engine.query.query_events import QueryEvent
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.names import Names, TableName
    from rivermouth.pipelines.running.given import GivenSources
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.pipeline import Pipeline
    from rivermouth.pipelines.selection import Selection
    from rivermouth.pipelines.spec import Dataset


@contextmanager
def loaded_for(
    selection: Selection,
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    writes: bool,
    computes: bool,
    given: GivenSources | None = None,
) -> Iterator[Loaded]:
    """A pipeline loaded for an update with this selection; see ``load.loaded``.

    Tables that do not fit their definitions get the columns and partitions of these, if the update clears them or
    they have never had rows. Those of views get them also with the rows that the update computes.

    Args:
        selection: Which datasets the update is about.
        pipeline: The pipeline.
        spark: The session whose context it uses.
        writes: Whether its tables are made and changed.
        computes: Whether each view is computed before a query reads it.
        given: What a test gives in the place of sources.

    Raises:
        RivermouthError: As ``load.loaded`` and ``to_clear``.
    """
    rewrites = Rewrites(
        clears=partial(is_cleared, selection, pipeline.names),
        computes=partial(is_computed, selection, pipeline.names) if computes else never,
    )
    redefine = partial(redefine_tables, selection)
    with load.loaded(pipeline, spark, writes=writes, given=given, rewrites=rewrites, redefine=redefine) as found:
        yield found


def prepare_selection(
    loaded: Loaded, selection: Selection, listener: Callable[[QueryEvent], None]
) -> set[TableName] | None:
    """The datasets that an update refreshes; None for all. What is to be read from the beginning is cleared or reset.

    Raises:
        DatasetNotInPipeline: One is named that the pipeline does not define.
        ResetNotAllowed: One is named whose property forbids a full refresh.
        RefreshWouldLose: The sources of one no longer have what its table has.

    Guarantees:
        All of them are checked before the first is cleared.
    """
    cleared = to_clear(loaded, selection, listener)
    wanted = chosen_names(loaded.graph, loaded.pipeline.name, selection.refresh, sinks=True)
    reset = chosen_flows(loaded.graph, loaded.pipeline.name, selection.reset_checkpoint)
    nodes = [node for node in loaded.graph.nodes if node.name in cleared]
    for name, text in left_behind(loaded.graph, cleared, reset).items():
        reader = loaded.graph.node(name)
        shown = "" if reader is None else loaded.graph.shown(reader)
        listener(Note(shown, shown, text))
    for node in nodes:
        clear(loaded, node)
    for node in loaded.graph.nodes:
        if node.name in reset and node.name not in cleared:
            (reset_sink if node.kind == "sink" else read_again)(loaded, node, reset[node.name])
    if nodes:
        loaded.resolver.forget_tables()
    return (wanted | cleared | reset.keys() or None) if not selection.full_refresh_all else None


def to_clear(loaded: Loaded, selection: Selection, listener: Callable[[QueryEvent], None]) -> set[TableName]:
    """The datasets whose rows a full refresh removes; it was checked that all of them can be cleared.

    Raises:
        DatasetNotInPipeline: One is named that the pipeline does not define.
        ResetNotAllowed: One is named whose property forbids a full refresh.
        RefreshWouldLose: The sources of one no longer have what its table has, and the selection does not accept that.
    """
    named = chosen_names(loaded.graph, loaded.pipeline.name, selection.full_refresh)
    cleared = named | _all_that_may_be(loaded, named, listener, everything=selection.full_refresh_all)
    for node in loaded.graph.nodes if not selection.accepts_loss else ():
        if node.name in cleared and _has_table(loaded, node) and (lost := what_would_be_lost(loaded, node)):
            raise RefreshWouldLose(at=str(node.at), dataset=loaded.graph.names.shown(node.name), detail=lost)
    return cleared


def _has_table(loaded: Loaded, node: Node) -> bool:
    """Whether the table of a dataset is in the lake; where nothing is written, an empty one may be in its place."""
    return node.dataset is not None and delta_table.exists(
        loaded.workspace.files_of_lake, loaded.pipeline.table(node.name, node.dataset)
    )


def _all_that_may_be(
    loaded: Loaded, named: set[TableName], listener: Callable[[QueryEvent], None], *, everything: bool
) -> set[TableName]:
    """All tables whose properties allow a full refresh, where all are asked for.

    Raises:
        ResetNotAllowed: One is named whose property forbids it.
    """
    found = set()
    for node in loaded.graph.nodes:
        shown = loaded.graph.names.shown(node.name)
        if node.is_table and may_be_reset(node):
            found.add(node.name)
        elif node.name in named:
            raise ResetNotAllowed(at=str(node.at), dataset=shown)
        elif node.is_table and everything:
            listener(Note(shown, shown, f"{shown} is not cleared: {RESET_ALLOWED} = false"))
    return found if everything else set()


def may_be_reset(node: Node) -> bool:
    """Whether the dataset's properties allow a full refresh."""
    return node.dataset is None or allows_reset(node.dataset.properties)


def is_cleared(selection: Selection, names: Names, name: TableName, dataset: Dataset) -> bool:
    """Whether a full refresh of an update removes the rows of a table."""
    named = {names.resolve(text) for text in selection.full_refresh}
    return name in named or (selection.full_refresh_all and allows_reset(dataset.properties))


def is_computed(selection: Selection, names: Names, name: TableName, dataset: Dataset) -> bool:
    """Whether an update computes a view, and may give its table another definition."""
    named = {names.resolve(text) for text in (*selection.refresh, *selection.full_refresh, *selection.reset_checkpoint)}
    return allows_reset(dataset.properties) and (selection.full_refresh_all or not named or name in named)


def redefine_tables(selection: Selection, loaded: Loaded) -> None:
    """Gives tables that do not fit their definitions the columns and partitions of these; they are cleared before.

    Raises:
        DatasetNotInPipeline, ResetNotAllowed, RefreshWouldLose: As ``to_clear``.

    Guarantees:
        All tables that the selection clears are checked before the first is changed. Stopped half-way: a table is as
        it was, or without rows and its flows begin at the beginning.
    """
    cleared = to_clear(loaded, selection, lambda _: None)
    for node in loaded.graph.nodes:
        table = loaded.resolver.tables.misfits.get(node.name)
        if table is None:
            continue
        if node.name in cleared:
            clear(loaded, node)
        redefine(loaded.workspace.session, table)


def clear(loaded: Loaded, node: Node) -> None:
    """Takes all rows out of a table and forgets where its flows were; its open dead letters are discarded.

    They are discarded first: a replay of another process that has begun then writes none of them, or its rows are
    taken out with the others.

    Raises:
        TableOfFlow: A flow of a project file wrote the table.

    Guarantees:
        Run twice: as once. Stopped half-way: the table has its rows, or none and its flows begin at the beginning;
        its dead letters may be discarded before.
    """
    session, files = loaded.workspace.session, loaded.workspace.files_of_lake
    location = node.location or ""
    state = table_state(session, location)
    contexts = [context_of(loaded, node, flow, lambda _: None) for flow in node.flows]
    for context in contexts:
        own_position(context, session)
    for context in contexts:
        context.dead_letters.give_up(session, context.flow)
    for folder in (AUTO_CDC_ROWS, AUTO_CDC_DELETED):
        files.delete(f"{location}/{folder}")
    for index, context in enumerate(contexts):
        position = context.ledger.position(session)
        entry = position.entry.after_reset(cleared=True)
        if index == 0:
            carried = TableTransaction(context.ledger.app_id(state.table_id), entry.number, entry.to_json())
            delta_table.empty(session, location, carried)
            context.ledger.found(entry, position.version)
        else:
            nothing = no_rows(session, state.columns)
            context.ledger.write(nothing, position, lambda entry=entry: entry, table_id=state.table_id)  # type: ignore[misc]
        context.source_files.forget(session, context.flow)
        files.delete(context.places.checkpoint)
    views = [loaded.graph.shown(each) for each in loaded.graph.nodes if each.kind == "view"]
    loaded.workspace.file_site.schemas.keep({loaded.graph.shown(node), *views})


def read_again(loaded: Loaded, node: Node, flows: Iterable[FlowNode]) -> None:
    """Lets flows of a table read their sources from the beginning; the rows that are there stay.

    Guarantees:
        Run twice: as once. Stopped half-way: some flows begin at the beginning already.
    """
    session, files = loaded.workspace.session, loaded.workspace.files_of_lake
    state = table_state(session, node.location or "")
    for flow in flows:
        context = context_of(loaded, node, flow, lambda _: None)
        position = own_position(context, session)
        entry = replace(position.entry.after_reset(cleared=False), fingerprint="")
        nothing = no_rows(session, state.columns)
        context.ledger.write(nothing, position, lambda entry=entry: entry, table_id=state.table_id)  # type: ignore[misc]
        context.source_files.forget(session, flow.name)
        files.delete(context.places.checkpoint)
