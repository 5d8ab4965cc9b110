"""Decisions about data that is gone: held against Kafka and the table, and recorded in the table's ledger."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import IntegerType, StructField

from rivermouth import names
from rivermouth.engine.events import DecisionRecorded
from rivermouth.engine.recovery import finish_decision, recount, recover
from rivermouth.engine.steps import rows_within
from rivermouth.errors import DecisionRefused, EpochColumnTaken, RewindDoubles
from rivermouth.ports import delta
from rivermouth.ports.table_ledger import Standing
from rivermouth.rows import decisions, ledger
from rivermouth.rows.decisions import Found, Wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rivermouth.engine.running import RunningFlow
    from rivermouth.ports.kafka import Kafka, Topic
    from rivermouth.rows.decisions import Ruling
    from rivermouth.rows.ledger import Counts, Offsets
    from rivermouth.spec import Flow


def found_of(kafka: Kafka, flow: Flow, topics: Mapping[str, Topic]) -> Found:
    """What Kafka holds of the flow's topics now."""
    return Found(
        ids={name: topic.id for name, topic in topics.items()},
        first=kafka.beginning_offsets(topics),
        end=kafka.end_offsets(topics),
        whole=not flow.assign,
    )


def needed_of(standing: Standing) -> Offsets:
    """From where the flow has to read: a batch that is not settled is read once more."""
    return standing.entry.next_offsets if standing.counts is not None else standing.entry.settled


def check_topics(run: RunningFlow, topics: Mapping[str, Topic]) -> None:
    """Nothing, if Kafka still holds what the ledger expects next.

    Raises:
        TopicRecreated: A topic has another id than the ledger knows.
        PartitionsFewer: A topic has fewer partitions than the ledger knows.
        OffsetsExpired: Offsets that were not read yet are gone.
        OffsetsBeyondEnd: A topic ends before the offset that the ledger expects.
    """
    found = found_of(run.kafka, run.flow, topics)
    problem = decisions.problem(run.flow.name, run.standing.entry, needed_of(run.standing), found)
    if problem is not None:
        raise problem


def decide(run: RunningFlow, topics: Mapping[str, Topic], wanted: Wanted | None) -> None:
    """Records what was decided, by a command or beforehand by ``on_data_loss``; nothing where nothing was.

    Raises:
        DecisionRefused: The decision does not fit what is gone.
        RewindDoubles: The table has rows that would be read again.
        LedgerVoid: Others changed the table, and that was not decided as a whole.
        RivermouthError: What would stop the flow all the same; then nothing is recorded.

    Guarantees:
        Run twice: recorded once. Stopped half-way: it is recorded whole or not at all; the dead letters that a
        rewind gives up are given up before the next batch.
    """
    if not run.standing.entry.unsettled:
        recover(run)  # marks of a replay or a decision that was cut off, which need nothing of Kafka
    found, flow = found_of(run.kafka, run.flow, topics), run.flow
    entry, needed = run.standing.entry, needed_of(run.standing)
    if wanted:
        _check_void(run, wanted)
        ruling = decisions.rule(flow.name, entry, needed, found, wanted, void=run.void is not None)
        if ruling is not None:
            _record(run, ruling)
    if run.void is not None:
        raise run.void
    if flow.on_data_loss == "record":
        entry, needed = run.standing.entry, needed_of(run.standing)
        automatic = decisions.by_setting(entry, needed, found, at=now())
        ruling = decisions.rule(flow.name, entry, needed, found, automatic) if automatic else None
        if ruling is not None:
            _record(run, ruling)


def now() -> str:
    """This moment as decisions name it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _record(run: RunningFlow, ruling: Ruling) -> None:
    before = run.standing
    _check_doubles(run, ruling)
    counts = _counts(run, ruling)
    if ruling.fresh:
        _add_epoch_column(run)
    entry = ruling.entry_after(before.entry, counts)
    empty = run.spark.createDataFrame([], delta.table_state(run.spark, run.places.table).columns)
    run.reached("decide")
    commit = run.sink.write(empty, run.ledger, entry, table_id=run.table_id, after_version=before.version)
    run.standing = Standing(entry, commit.version, report=before.report)
    run.void = None
    run.reached("decided")
    finish_decision(run)
    for decision in entry.decisions:
        if decision.entry == entry.number:
            run.emit(DecisionRecorded(run.flow.name, entry.number, decision))


def _counts(run: RunningFlow, ruling: Ruling) -> Counts:
    """The counts of the newest entry's own batch, which is settled with it as far as Kafka still has it."""
    standing = run.standing
    ranges = standing.entry.unsettled
    if standing.counts is not None or not ranges:
        return standing.counts or ledger.Counts()
    if run.void is None:
        return recount(run, ranges, ruling.unsettled)
    # What others left of the batch says nothing about it: it has to be read again as a whole.
    left = {
        topic: {p: (start, ruling.next_offsets[topic][p])}
        for topic, p, start, _end in ledger.flat(ranges)
        if ruling.next_offsets[topic][p] > start
    }
    if not left:
        return ledger.Counts()
    options = " ".join(f"--rewind {topic}-{p}:{start}" for topic, p, start, _end in ledger.flat(ranges))
    raise DecisionRefused(
        flow=run.flow.name,
        option="--rewind",
        detail="the last batch was not settled before others changed the table, so it has to be read again",
        fix=f'rivermouth run {run.flow.name} {options} --why "REASON"',
    )


def _check_void(run: RunningFlow, wanted: Wanted) -> None:
    """Nothing, if of a table that others restored each partition is named whose rows went with it.

    Raises:
        LedgerVoid: One is not: its rows would be in no batch.
    """
    if run.void is None:
        return
    moved: Offsets = run.void.facts["moved"]  # type: ignore[assignment]
    if any(set(parts) - set(wanted.rewinds.get(topic, {})) for topic, parts in moved.items()):
        raise run.void


def _check_doubles(run: RunningFlow, ruling: Ruling) -> None:
    """Nothing, if the table has none of the rows that will be read again."""
    if not ruling.again:
        return
    rows = rows_within(run, ruling.again)
    found = rows.groupBy(names.TOPIC, names.PARTITION).agg(
        F.count(F.lit(1)).alias("rows"), F.min(names.OFFSET).alias("first"), F.max(names.OFFSET).alias("last")
    )
    for row in found.orderBy(names.TOPIC, names.PARTITION).limit(1).collect():
        raise RewindDoubles(
            flow=run.flow.name,
            table=run.places.table,
            rows=row["rows"],
            topic=row[names.TOPIC],
            partition=row[names.PARTITION],
            first=row["first"],
            last=row["last"],
            condition=_condition(run, row[names.TOPIC], row[names.PARTITION], row["first"]),
        )


def _condition(run: RunningFlow, topic: str, partition: int, first: int) -> str:
    columns = [names.quoted(run.flow.metadata_columns[name]) for name in names.COORDINATES]
    # A name of a topic holds no quotes.
    return f"{columns[0]} = '{topic}' AND {columns[1]} = {partition} AND {columns[2]} >= {first}"


def check_epoch_column(flow: Flow, columns: Sequence[str]) -> None:
    """Nothing, if the flow's own columns leave that of the epochs free.

    Raises:
        EpochColumnTaken: They do not.
    """
    if names.EPOCH_COLUMN in (name.lower() for name in columns):
        raise EpochColumnTaken(flow=flow.name, column=names.EPOCH_COLUMN)


def _add_epoch_column(run: RunningFlow) -> None:
    """The column that tells rows of an earlier epoch from those of a later one; no row is rewritten."""
    check_epoch_column(run.flow, run.columns)
    columns = delta.table_state(run.spark, run.places.table).columns
    if names.EPOCH_COLUMN not in columns.names:
        added = [StructField(names.EPOCH_COLUMN, IntegerType())]
        delta.alter(run.spark, run.places.table, added=added, widened=[])
