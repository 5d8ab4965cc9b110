"""Empties a flow's table, so that it is rebuilt from the table that the flow reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from rivermouth.domain.ledger import ledger_rebuild, offset_ranges
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine.batch.pipeline import table_coordinates
from rivermouth.engine.batch.recover_actions import finish_decision
from rivermouth.engine.batch.recovery import recover
from rivermouth.engine.events import DecisionRecorded, TableEmptied
from rivermouth.errors import CommitLost, RebuildRefused
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import transaction_of
from rivermouth.rows import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.ledger_rebuild import Rebuild
    from rivermouth.engine.flow.running import FlowRun

_KEEP: Final = "write into another table, by a flow of its own, and keep this one"


def empty(run: FlowRun, topics: Mapping[str, Topic], wanted: Rebuild) -> None:
    """Takes all rows out of the table, and sets its ledger back to where the source begins, in one commit.

    Others may have changed the table since: nothing of that is left. The source holds what the ledger expects.
    Open dead letters that will be read again are given up, and deleted keys are remembered no more.

    Raises:
        RebuildRefused: The table has rows that the source could not bring back, or Delta does not let it be emptied.
        CommitLost: Another process committed first.

    Guarantees:
        Run twice: emptied twice. Stopped half-way: nothing happened, or the table is empty, and the next run, of
        whatever command, gives the dead letters up before its first batch.
    """
    first = run.kafka.beginning_offsets(topics)
    _check_whole(run, offset_ranges.between(first, run.kafka.end_offsets(topics)))
    if run.void is None or (run.position.counts is None and not run.entry.unsettled):
        recover(run)  # an erasure, too, and a rewind, though others changed the table since
    before = run.position
    rows = run.spark.read.format("delta").load(run.places.table).count()
    # If others changed the table before the last batch was complete, its counts are not needed: it is read again.
    entry = ledger_rebuild.entry_after(before.entry, first, run.topic_ids, before.counts or Counts(), wanted)
    run.reached("decide")
    run.advance(entry, _emptied(run, entry).version, report=before.report)
    run.void = None
    run.reached("decided")
    finish_decision(run)
    run.emit(TableEmptied(run.flow.name, entry.number, rows))
    for decision in entry.decisions:
        if decision.entry == entry.number:
            run.emit(DecisionRecorded(run.flow.name, entry.number, decision))


def _check_whole(run: FlowRun, held: offset_ranges.Ranges) -> None:
    """Raises RebuildRefused if the table has rows of records that the source does not hold."""
    flow, table = run.flow, run.places.table
    for topic in run.entry.epochs:
        detail = f"it has records of topic {topic} from before that was created again or cut, and the source has none"
        raise RebuildRefused(flow=flow.name, table=table, detail=detail, fix=_KEEP)
    other = table_coordinates(run).where(f"NOT coalesce({envelope.inside(held)}, false)").count()
    if other:
        detail = f"{other:,} of its rows are of records that the source does not have"
        raise RebuildRefused(flow=flow.name, table=table, detail=detail, fix=_KEEP)


def _emptied(run: FlowRun, entry: Entry) -> delta_table.Commit:
    location = run.places.table
    try:
        delta_table.empty(run.spark, location, transaction_of(entry, run.table_id))
    except PySparkException as error:
        if "delta.appendOnly" not in str(error):
            raise
        detail = "its property delta.appendOnly lets no row be taken out"
        fix = f"ALTER TABLE delta.`{location}` UNSET TBLPROPERTIES ('delta.appendOnly')"
        raise RebuildRefused(flow=run.flow.name, table=location, detail=detail, fix=fix) from error
    commit = run.ledger.commit_of(entry, run.position.version)
    if commit is None:
        raise CommitLost(flow=entry.flow, entry=entry.number, table=location)
    return commit
