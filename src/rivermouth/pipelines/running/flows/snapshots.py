"""AUTO CDC from snapshots: a target that is kept as the newest snapshot of its source, or as all of them in turn."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query import auto_cdc
from rivermouth.engine.query.streaming import complete_letters, run_batch
from rivermouth.errors import SnapshotInvalid, SnapshotVersionInvalid
from rivermouth.pipelines.running.declared_columns import with_computed
from rivermouth.pipelines.running.flows.flow_runs import check_kind, opened, own_position
from rivermouth.pipelines.running.reads import in_own_session
from rivermouth.pipelines.session.snapshot_functions import (
    VERSION_TYPES,
    follows,
    is_versioned,
    takes_version,
    time_after,
    version_text,
)
from rivermouth.pipelines.spec import PythonQuery
from rivermouth.ports.spark.local_frames import no_rows

if TYPE_CHECKING:
    import threading

    from pyspark.sql import DataFrame

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryContext, QueryRun
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated


def run_snapshots(
    loaded: Loaded, node: Node, flow: FlowNode, context: QueryContext, stopping: threading.Event
) -> QueryCounts | None:
    """Merges the snapshots that are new; where a function gives them, one after the other until there is none.

    Args:
        loaded: The pipeline.
        node: The target.
        flow: The flow.
        context: What is fixed of it.
        stopping: Set when no further snapshot is to be merged.

    Returns:
        The counts; None where the flow runs once, and has run.

    Raises:
        SnapshotInvalid: The function returned something else than a frame and its version.
        SnapshotVersionInvalid: The version does not follow the newest one.
        TableRestored: The target was taken back to an older version.
        FlowKindChanged: The flow has read a stream before.
        RivermouthError: The typed reason why a snapshot could not be merged.
    """
    entry, counts = _checked_entry(loaded, flow, context), QueryCounts()
    if not _is_versioned(flow):
        frame = _taken(loaded, node, flow, loaded.workspace.evaluate(flow.query, context.dataset, flow.at))
        run = opened(loaded, flow, context, frame)
        complete_letters(frame.sparkSession, run)
        if has_run(flow, entry):
            return None
        _merge(flow, run, with_computed(frame, node.columns), time_after(_newest(run.entry), loaded.workspace.now()))
        return run.counts
    nothing = loaded.workspace.session.range(0)
    complete_letters(nothing.sparkSession, opened(loaded, flow, context, nothing))
    if has_run(flow, entry):
        return None
    while not stopping.is_set():
        merged = _merge_next(loaded, node, flow, context)
        if merged is None:
            _end(loaded, flow, context)
            return counts
        counts += merged
    return counts


def has_run(flow: FlowNode, entry: QueryEntry) -> bool:
    """Whether a flow of snapshots runs once, and all of its snapshots are in its target."""
    return flow.once and entry.has_run(streaming=_is_versioned(flow))


def _is_versioned(flow: FlowNode) -> bool:
    """Whether a function gives the snapshots, each with its version."""
    return isinstance(flow.query, PythonQuery) and takes_version(flow.query)


def _checked_entry(loaded: Loaded, flow: FlowNode, context: QueryContext) -> QueryEntry:
    position = own_position(context, loaded.workspace.session)
    check_kind(context, position.entry, flow, streaming=False)
    context.ledger.check_not_restored(position)
    return position.entry


def _taken(loaded: Loaded, node: Node, flow: FlowNode, evaluated: Evaluated) -> DataFrame:
    """The rows of a snapshot, in a session of their own; the target can take them."""
    loaded.resolver.grow(node, flow, evaluated.frame)
    return in_own_session(evaluated).frame


def _merge_next(loaded: Loaded, node: Node, flow: FlowNode, context: QueryContext) -> QueryCounts | None:
    """Merges the snapshot that follows the newest one, and returns its counts; None where there is none."""
    query, found = flow.query, list[Any]()
    newest = _newest(context.ledger.position(loaded.workspace.session).entry)

    def next_frame() -> Any:
        found.append(query.function(newest))  # type: ignore[call-arg,union-attr]
        # An empty frame where there is none, so that the workspace has one to look at.
        return loaded.workspace.session.range(0) if found[0] is None else _checked(found[0], newest, flow)[0]

    evaluated = loaded.workspace.evaluate(PythonQuery(next_frame, query.conf, query.use), context.dataset, flow.at)
    if found[0] is None:
        return None
    frame = _taken(loaded, node, flow, evaluated)
    run = opened(loaded, flow, context, frame)
    _merge(flow, run, with_computed(frame, node.columns), found[0][1])
    return run.counts


def _end(loaded: Loaded, flow: FlowNode, context: QueryContext) -> None:
    """Writes down that a flow which runs once has merged all snapshots, if it has merged one."""
    if not flow.once:
        return
    position = context.ledger.position(loaded.workspace.session)
    if position.entry.offsets:
        state = loaded.resolver.tables.state(context.places.table, position.version)
        nothing = no_rows(loaded.workspace.session, state.columns)
        context.ledger.write(nothing, position, position.entry.after_end, table_id=state.table_id)


def _checked(found: Any, newest: Any, flow: FlowNode) -> tuple[DataFrame, Any]:
    if not is_versioned(found):
        raise SnapshotInvalid(at=str(flow.at), flow=flow.name)
    pair: tuple[DataFrame, Any] = found
    if newest is not None and not follows(pair[1], newest):
        raise SnapshotVersionInvalid(
            at=str(flow.at),
            flow=flow.name,
            version=version_text(pair[1]),
            kind=type(pair[1]).__name__,
            newest=version_text(newest),
            newest_kind=type(newest).__name__,
        )
    return pair


def _newest(entry: QueryEntry) -> Any:
    """The version of the newest snapshot that the target has; None before the first."""
    lines = entry.offsets
    if not lines:
        return None
    kind, text = json.loads(lines[0])["snapshot"], json.loads(lines[1])
    if kind == "datetime":
        return dt.datetime.fromisoformat(text)
    return dt.date.fromisoformat(text) if kind == "date" else text


def _merge(flow: FlowNode, run: QueryRun, frame: DataFrame, version: Any) -> None:
    cdc = flow.cdc
    if cdc is None:
        msg = "a flow of snapshots has settings of AUTO CDC"
        raise TypeError(msg)
    kind = VERSION_TYPES[type(version)]
    target = auto_cdc.open_target(frame.sparkSession, run, cdc, kind, snapshots=True)
    text = version_text(version)
    lines = (json.dumps({"snapshot": type(version).__name__}), json.dumps(text))
    rows = _with_mark(frame, F.lit(text).cast(kind))
    run_batch(rows, run.entry.batch_id + 1, lines, run, auto_cdc.CdcBatch(target))


def _with_mark(frame: DataFrame, version: Any) -> DataFrame:
    """The rows of a snapshot, and one that marks the whole: what the snapshot does not hold is deleted."""
    ways = {names.DELETE: F.lit(False), names.TRUNCATE: F.lit(False), names.SEQUENCE: version}
    rows = frame.withColumns(ways)
    nothing = [F.lit(None).cast(each.dataType).alias(each.name) for each in frame.schema]
    one = frame.sparkSession.range(1).select(*nothing)
    return one.withColumns({**ways, names.TRUNCATE: F.lit(True)}).unionByName(rows)
