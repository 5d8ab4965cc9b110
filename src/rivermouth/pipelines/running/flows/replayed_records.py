"""Records that queries of a pipeline's table could not decode, tried again by the queries as they are now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rivermouth.engine.query.replay_letters import replay
from rivermouth.engine.query.replays.replay_records import RecordQuery, ReplayedRecords, replay_records
from rivermouth.engine.query.replays.replayed_rows import LeftRecords, ReplayedRows
from rivermouth.pipelines.running.flows.flow_runs import evaluated_flow
from rivermouth.pipelines.running.output_modes import output_mode
from rivermouth.pipelines.running.reads import in_own_session
from rivermouth.ports.internals.query_plans import keeps_state

if TYPE_CHECKING:
    from rivermouth.engine.query.replay_letters import LetterTable
    from rivermouth.pipelines.graph import Node
    from rivermouth.pipelines.running.load import Loaded
    from rivermouth.pipelines.running.reads import Evaluated


def replayed_node(
    loaded: Loaded, node: Node, table: LetterTable, failed: str | None, *, dry_run: bool = False
) -> ReplayedRows:
    """Tries the open dead letters of a table again: rows by its expectations, and records by the queries of its flows.

    Args:
        loaded: The pipeline.
        node: The table's node.
        table: The table with its dead letters.
        failed: Only those that failed the expectation of this name.
        dry_run: Only counts.

    Raises:
        CommitLost: Another process replayed dead letters of the table at the same time.
        LettersNotTaken: The table does not take the rows of all dead letters that pass.
        TableSchemaChanged: The table cannot take the columns of a query.
        RivermouthError: Why a query cannot make rows of the records.

    Guarantees:
        As ``replay`` and ``replay_records``.
    """
    workspace = loaded.workspace
    workspace.activate()
    done, of_flows = replay(workspace.session, table, failed, dry_run=dry_run)
    for name, records in of_flows.items():
        flow = next((each for each in node.flows if each.name == name), None)
        if flow is None:
            done = _leaving(done, records, f"flow {name} is not defined any more")
            continue
        evaluated = in_own_session(evaluated_flow(loaded, node, flow))
        if why := _not_replayed(evaluated):
            done = _leaving(done, records, why)
            continue
        query = RecordQuery(name, evaluated.frame, evaluated.decoded[0], loaded.resolver.tables.table_of(node))
        found = replay_records(evaluated.frame.sparkSession, table, query, dry_run=dry_run)
        done = _added(done, found)
    return done


def has_other_rows_with_each_batch(loaded: Loaded, node: Node) -> bool:
    """Whether each batch of a table's flow is its whole result, which replaces all rows."""
    if len(node.flows) != 1 or node.flows[0].once:
        return False
    flow = node.flows[0]
    return output_mode(flow, evaluated_flow(loaded, node, flow).frame, is_alone=True) == "complete"


def _added(done: ReplayedRows, found: ReplayedRecords) -> ReplayedRows:
    return replace(
        done,
        tried=done.tried + found.tried,
        replayed=done.replayed + found.replayed,
        remaining=done.remaining + found.tried - found.replayed,
        records=done.records + found.replayed,
        rows=done.rows + found.rows,
        dropped=done.dropped + found.dropped,
        dead_lettered=done.dead_lettered + found.dead_lettered,
    )


def _leaving(done: ReplayedRows, records: int, why: str) -> ReplayedRows:
    return replace(done, left=(*done.left, LeftRecords(records, why)))


def _not_replayed(evaluated: Evaluated) -> str:
    """Why refused records of a query cannot be tried again; empty where they can."""
    if not evaluated.decoded:
        return "its query does not decode records any more"
    if len(evaluated.decoded) > 1:
        return f"its query decodes at {len(evaluated.decoded)} places, and they do not say at which they were refused"
    if keeps_state(evaluated.frame):
        return "its query keeps state, which has gone on without them"
    explosion = evaluated.decoded[0].flow.explosion
    if explosion is not None and explosion.is_whole:
        return "its query takes arrays of documents apart, and the table may have other elements of theirs"
    return ""
