"""AUTO CDC from snapshots: a target that is kept as the newest snapshot of its source, or as all of them in turn."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.query import auto_cdc, query_batch
from rivermouth.engine.query.streaming import run_batch
from rivermouth.errors import SnapshotInvalid, SnapshotVersionInvalid
from rivermouth.pipelines.running.declared_columns import with_computed
from rivermouth.pipelines.running.flows.flow_runs import opened, own_position
from rivermouth.pipelines.running.reads import in_own_session
from rivermouth.pipelines.session.snapshot_functions import (
    VERSION_TYPES,
    follows,
    is_versioned,
    takes_version,
    version_text,
)
from rivermouth.pipelines.spec import PythonQuery

if TYPE_CHECKING:
    import threading

    from pyspark.sql import DataFrame

    from rivermouth.engine.query.query_run import QueryContext, QueryRun
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.running.load import Loaded


def run_snapshots(
    loaded: Loaded, node: Node, flow: FlowNode, context: QueryContext, stopping: threading.Event
) -> QueryCounts:
    """Merges the snapshots that are new; where a function gives them, one after the other until there is none.

    Args:
        loaded: The pipeline.
        node: The target.
        flow: The flow.
        context: What is fixed of it.
        stopping: Set when no further snapshot is to be merged.

    Raises:
        SnapshotInvalid: The function returned something else than a frame and its version.
        SnapshotVersionInvalid: The version does not follow the newest one.
        TableRestored: The target was taken back to an older version.
        RivermouthError: The typed reason why a snapshot could not be merged.
    """
    counts, query = QueryCounts(), flow.query
    context.ledger.check_not_restored(own_position(context, loaded.workspace.session))
    if not isinstance(query, PythonQuery) or not takes_version(query):
        evaluated = loaded.workspace.evaluate(query, context.dataset, flow.at)
        loaded.resolver.grow(node, flow, evaluated.frame)
        frame = in_own_session(evaluated).frame
        run = opened(loaded, context, frame)
        query_batch.complete_held(frame.sparkSession, run)
        _merge(flow, run, with_computed(frame, node.columns), loaded.workspace.now())
        return run.counts
    nothing = loaded.workspace.session.range(0)
    query_batch.complete_held(nothing.sparkSession, opened(loaded, context, nothing))
    while not stopping.is_set():
        found: list[Any] = []
        newest = _newest(loaded, context)

        def next_frame(newest: Any = newest, found: list[Any] = found) -> Any:
            found.append(query.function(newest))  # type: ignore[call-arg]
            # An empty frame where there is none, so that the workspace has one to look at.
            return nothing if found[0] is None else _checked(found[0], newest, flow)[0]

        evaluated = loaded.workspace.evaluate(PythonQuery(next_frame, query.conf, query.use), context.dataset, flow.at)
        if found[0] is None:
            return counts
        loaded.resolver.grow(node, flow, evaluated.frame)
        frame = in_own_session(evaluated).frame
        run = opened(loaded, context, frame)
        _merge(flow, run, with_computed(frame, node.columns), found[0][1])
        counts += run.counts
    return counts


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


def _newest(loaded: Loaded, context: QueryContext) -> Any:
    """The version of the newest snapshot that the target has; None before the first."""
    lines = context.ledger.position(loaded.workspace.session).entry.offsets
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
