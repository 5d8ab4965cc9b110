"""Before a decision is recorded: whether the table has already what would be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.data_loss import LossDecision, rewind_text
from rivermouth.engine.batch.pipeline import as_coordinates, rows_within, table_coordinates
from rivermouth.errors import DecisionRefused, RewindDuplicates
from rivermouth.rows import envelope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from rivermouth.domain.ledger.loss_decision import LossDecisionResult
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow

_PLACE = (names.TOPIC, names.PARTITION)


def check_duplicates(run: FlowRun, result: LossDecisionResult, wanted: LossDecision) -> None:
    """Checks that the table has none of the records that will be read again, or that it is a keyed table.

    A keyed table keeps the newest record of each key, so that a record that comes again does no harm.

    Raises:
        RewindDuplicates: The table has such records, in the present epoch.
        DecisionRefused: The table or its dead letters have such records from before the log was cut.
    """
    if result.again and run.flow.keyed is None:
        for row in _counted(rows_within(run, result.again))[:1]:
            raise RewindDuplicates(
                flow=run.flow.name,
                table=run.places.table,
                rows=row["rows"],
                topic=row[names.TOPIC],
                partition=row[names.PARTITION],
                first=row["first"],
                last=row["last"],
                condition=_condition(run, row),
            )
    # A keyed table has no use for the look, where nothing was erased.
    looks = run.flow.keyed is None or run.erased.exists()
    ranges = _readable(run.kafka, run.flow, result.suspect) if looks else {}
    found = _counted(_the_same(run, ranges)) if ranges else []
    if found:
        first, told = found[0], "" if _timestamp(run.flow) else ", as far as is known without kafka_timestamp"
        erased = " (or had them, before they were erased)" if run.erased.exists() else ""
        topic, partition = first[names.TOPIC], first[names.PARTITION]
        behind: Offsets = {}
        for row in found:
            behind.setdefault(row[names.TOPIC], {})[row[names.PARTITION]] = row["last"] + 1
        raise DecisionRefused(
            flow=run.flow.name,
            option=f"--rewind {rewind_text(topic, partition, result.suspect[topic][partition][0])}",
            detail=f"of what Kafka holds of {topic}-{partition} there, the table and its dead letters have "
            f"{first['rows']} records, offsets {first['first']} to {first['last']}{told}{erased}",
            fix=wanted.merged_with(LossDecision(rewinds=behind)).command(run.flow.name),
        )


def _counted(rows: DataFrame) -> list[Row]:
    found = rows.groupBy(*_PLACE).agg(
        F.count(F.lit(1)).alias("rows"), F.min(names.OFFSET).alias("first"), F.max(names.OFFSET).alias("last")
    )
    return found.orderBy(*_PLACE).collect()


def _condition(run: FlowRun, row: Row) -> str:
    """SQL: exactly the rows that were found; the same offsets of another epoch stay."""
    topic, partition, offset = (names.quoted(run.flow.metadata_columns[name]) for name in names.COORDINATES)
    place = row[names.TOPIC], row[names.PARTITION]
    entry = run.entry
    epoch = f" AND coalesce({names.EPOCH_COLUMN}, 0) = {len(entry.begun.get(place, ()))}" if entry.epochs else ""
    # A name of a topic holds no quotes.
    where = f"{topic} = '{place[0]}' AND {partition} = {place[1]}"
    return f"{where} AND {offset} BETWEEN {row['first']} AND {row['last']}{epoch}"


def _readable(kafka: OffsetSource, flow: Flow, ranges: Ranges) -> Ranges:
    """What of ``ranges`` no open transaction holds back."""
    if not ranges:
        return {}
    ends = kafka.end_offsets(kafka.topics(flow))
    limits = {
        t: {p: min(end, ends[t][p]) for p, end in parts.items()} for t, parts in offset_ranges.ends(ranges).items()
    }
    return offset_ranges.between(offset_ranges.starts(ranges), limits)


def _timestamp(flow: Flow) -> str | None:
    return flow.metadata_columns.get("kafka_timestamp")


def _the_same(run: FlowRun, ranges: Ranges) -> DataFrame:
    """Rows and open dead letters of any epoch that are what Kafka holds at their offsets, by Kafka's timestamps."""
    column = _timestamp(run.flow)
    stamp = F.col(names.quoted(column)) if column else F.lit(None).cast("timestamp")
    there = table_coordinates(run, stamp.alias("__then")).drop(names.EPOCH, names.POSITION)
    if run.flow.keyed is not None:
        # It knows the newest record of each key; what was erased it does not know.
        there = there.limit(0)
    elif run.dead_letters.exists():
        letters = run.dead_letters.frame().where(F.col("status") == "open")
        buried = as_coordinates(letters.withColumnRenamed("kafka_timestamp", "__then"), "__then")
        there = there.unionByName(buried.drop(names.POSITION))
    erased = run.erased.records(run.spark, run.entry)
    if erased is not None:
        # Those whose timestamps are known are left out when they are read again.
        unknown = erased.where(F.col(names.TIMESTAMP).isNull())
        there = there.unionByName(unknown.select(*_PLACE, names.OFFSET, F.col(names.TIMESTAMP).alias("__then")))
    source = run.source.with_headers(headers=False)
    held = envelope.read(source.batch(run.spark, ranges)).select(*_PLACE, names.OFFSET, names.TIMESTAMP)
    if run.flow.explosion is not None:
        there = there.distinct()  # in records
    found = there.where(envelope.inside(ranges)).join(held, [*_PLACE, names.OFFSET])
    return found.where(F.col("__then").isNull() | (F.col("__then") == F.col(names.TIMESTAMP)))
