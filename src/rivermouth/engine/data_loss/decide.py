"""Decisions about data that is gone: held against Kafka and the table, and recorded in the table's ledger."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, StructField

from rivermouth import names
from rivermouth.domain.ledger import decisions, ledger, offset_ranges
from rivermouth.domain.ledger.data_loss import KafkaState, LossDecision, problem
from rivermouth.engine.batch.pipeline import write_entry
from rivermouth.engine.batch.recover_actions import finish_decision
from rivermouth.engine.batch.recovery import recount, recover
from rivermouth.engine.data_loss.duplicates import check_duplicates
from rivermouth.engine.events import DecisionRecorded
from rivermouth.errors import DecisionRefused, EpochColumnTaken
from rivermouth.ports.delta import delta_ddl
from rivermouth.ports.internals import delta_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.ledger import Counts
    from rivermouth.domain.ledger.loss_decision import LossDecisionResult
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.engine.flow.running import FlowContext, FlowRun, TableView
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow


def found_of(kafka: OffsetSource, flow: Flow, topics: Mapping[str, Topic]) -> KafkaState:
    """What Kafka holds of the flow's topics now."""
    return KafkaState(
        ids={name: topic.id for name, topic in topics.items()},
        first=kafka.beginning_offsets(topics),
        # An open transaction ends what can be read; the log itself goes on.
        end=kafka.end_offsets(topics, "read_uncommitted"),
        whole=not flow.assign,
        place="Kafka" if flow.source is None else flow.source.shown,
    )


def check_topics(run: FlowRun, topics: Mapping[str, Topic]) -> None:
    """Checks that Kafka still holds what the ledger expects next.

    Raises:
        TopicRecreated: A topic has another id than the ledger knows.
        PartitionsFewer: A topic has fewer partitions than the ledger knows.
        OffsetsExpired: Offsets that were not read yet are gone.
        OffsetsBeyondEnd: A topic ends before the offset that the ledger expects.
    """
    found = found_of(run.kafka, run.flow, topics)
    stopped = problem(run.flow.name, run.entry, run.position.needed, found)
    if stopped is not None:
        raise stopped


def decide(run: FlowRun, topics: Mapping[str, Topic], wanted: LossDecision | None) -> None:
    """Records what was decided, by a command or beforehand by ``on_data_loss``; nothing where nothing was.

    Raises:
        DecisionRefused: The decision does not fit what is gone, or would read records again that the table has.
        RewindDuplicates: The table has rows that would be read again.
        LedgerVoid: Others changed the table, and that was not decided as a whole.
        RivermouthError: What would stop the flow all the same; then nothing is recorded.

    Guarantees:
        Run twice: recorded once. Stopped half-way: it is recorded whole or not at all; the dead letters that a
        rewind gives up are given up before the next batch.
    """
    if run.void is None and not run.entry.unsettled:
        recover(run)  # marks of a replay or a decision that was cut off, which need nothing of Kafka
    beforehand = run.flow.on_data_loss == "record"
    if not wanted and not beforehand:
        return
    found = found_of(run.kafka, run.flow, topics)
    if wanted:
        _check_void(run, wanted, found)
        _record(run, found, wanted)
    if run.void is not None:
        raise run.void
    if beforehand:
        _record(run, found, decisions.by_setting(run.entry, run.position.needed, found, at=now()))


def now() -> str:
    """This moment as decisions name it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _record(run: FlowRun, found: KafkaState, wanted: LossDecision) -> None:
    """Rules on what is wanted, and records it; nothing where all of it was recorded before."""
    entry, needed = run.entry, run.position.needed
    result = decisions.rule(run.flow.name, entry, needed, found, wanted, void=run.void is not None)
    if result is None:
        return
    check_duplicates(run, result, wanted)
    if run.position.counts is None and not run.entry.unsettled:
        recover(run)  # not before: the side file then names the version that others made as looked at
    before = run.position
    counts = _counts(run, result, wanted)
    if result.fresh:
        add_epoch_column(run.context, run.view)
    entry = result.entry_after(before.entry, counts)
    run.reached("decide")
    commit = write_entry(run.context, run.position, entry)
    run.advance(entry, commit.version, report=before.report)
    run.void = None
    run.reached("decided")
    finish_decision(run)
    for decision in result.decisions:
        run.emit(DecisionRecorded(run.flow.name, entry.number, decision))


def _counts(run: FlowRun, result: LossDecisionResult, wanted: LossDecision) -> Counts:
    """The counts of the newest entry's own batch, which is completed here as far as Kafka still has it."""
    position = run.position
    ranges = position.entry.unsettled
    if position.counts is not None or not ranges:
        return position.counts or ledger.Counts()
    if run.void is None or run.void.facts["whole"]:
        return recount(run, ranges, result.unsettled)
    # What others left of the batch says nothing about it: it has to be read again as a whole.
    kept: Offsets = {}
    for topic, p, start, _end in offset_ranges.flat(offset_ranges.without(ranges, result.unsettled)):
        if result.next_offsets.get(topic, {}).get(p, start) > start:
            kept.setdefault(topic, {})[p] = start
    if not kept:
        return ledger.Counts()
    raise DecisionRefused(
        flow=run.flow.name,
        option="--rewind",
        detail="the last batch was not complete when others changed the table, so it has to be read again",
        fix=wanted.merged_with(LossDecision(rewinds=kept)).command(run.flow.name),
    )


def _check_void(run: FlowRun, wanted: LossDecision, found: KafkaState) -> None:
    """Checks, for a table that others restored, that the decision names each partition whose rows the restore removed.

    Partitions that the flow no longer reads are left out. So are topics that begin a new epoch: none of their removed
    rows could be read again.

    Raises:
        LedgerVoid: A partition is not named: its rows would be in no batch. Or the decision does not say that the table
            is right as it is.
    """
    if run.void is None:
        return
    moved: Offsets = run.void.facts["moved"]  # type: ignore[assignment]
    unnamed = [
        partition
        for topic, parts in moved.items()
        if topic not in wanted.epochs
        for partition in parts
        if partition in found.first.get(topic, {}) and partition not in wanted.rewinds.get(topic, {})
    ]
    if unnamed or not (wanted.rewinds or wanted.epochs):
        raise run.void


def check_epoch_column(flow: Flow, columns: Sequence[str]) -> None:
    """Checks that no column of the flow has the name of the epoch column.

    Raises:
        EpochColumnTaken: One has.
    """
    if names.EPOCH_COLUMN in (name.lower() for name in columns):
        detail = "the payload has one of that name"
        raise EpochColumnTaken(flow=flow.name, column=names.EPOCH_COLUMN, detail=detail)


def add_epoch_column(context: FlowContext, view: TableView) -> None:
    """Adds the epoch column, in which rows of different epochs differ; no row is rewritten.

    Raises:
        EpochColumnTaken: The table has a column of that name that is not the epoch column.

    Guarantees:
        Run twice: the second time finds it.
    """
    check_epoch_column(view.flow, view.columns)
    columns = delta_snapshot.table_state(context.spark, context.places.table).columns
    taken = next((column for column in columns if column.name.lower() == names.EPOCH_COLUMN), None)
    if taken is None:
        added = [StructField(names.EPOCH_COLUMN, IntegerType())]
        delta_ddl.alter(context.spark, context.places.table, added=added, widened=[])
    elif not isinstance(taken.dataType, IntegerType):
        detail = "the table has one of that name that is no int"
        raise EpochColumnTaken(flow=view.flow.name, column=names.EPOCH_COLUMN, detail=detail)
