"""Reads dead letters: the number of each kind, and single ones in full. Writes nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.names import ROW_IN_TABLE
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.storage_checks import check_same_place
from rivermouth.rows import explode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.rows.dead_letter import DeadLetterFilter

_KIND = ("status", "stage", "reason", "field")
_EXPECTATIONS = "failed_expectations"


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters of one flow that have status, stage, reason, field and failed expectations in common.

    Attributes:
        flow: The flow.
        status: open, replayed or discarded.
        stage: Where they failed.
        reason: The reason's code.
        field: Dotted path of the field; None where the record as a whole is meant.
        failed_expectations: Names of the expectations that they failed.
        letters: How many there are.
        topic: Topic of one of them.
        partition: Its partition.
        offset: Its offset.
        position: Which element of its record it is; None for a record as a whole.
        last_at: When the newest was dead-lettered, in UTC.
    """

    flow: str
    status: str
    stage: str
    reason: str
    field: str | None
    failed_expectations: tuple[str, ...]
    letters: int
    topic: str
    partition: int
    offset: int
    position: int | None
    last_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter, whole.

    Attributes:
        flow: The flow.
        topic: Kafka's topic.
        partition: Its partition.
        offset: Its offset.
        position: Which element of its record it is, where the flow explodes them; None for a record as a whole.
        timestamp: Kafka's timestamp, in UTC.
        key: The record's key.
        value: The record's value; of an element of an array that is a whole value, the element.
        headers: (key, value) of its headers, in order.
        stage: Where it failed.
        reason: The reason's code.
        field: Dotted path of the field; None where the record as a whole is meant.
        message: The reason in words.
        failed_expectations: Names of the expectations that it failed.
        status: open, replayed or discarded.
        attempt: How often it was tried.
        dead_lettered_at: When it was dead-lettered, in UTC.
    """

    flow: str
    topic: str
    partition: int
    offset: int
    position: int | None
    timestamp: dt.datetime | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    stage: str
    reason: str
    field: str | None
    message: str | None
    failed_expectations: tuple[str, ...]
    status: str
    attempt: int
    dead_lettered_at: dt.datetime


def list_letters(spark: SparkSession, job: FlowJob, wanted: DeadLetterFilter) -> list[LetterGroup]:
    """The flow's dead letters by status, stage, reason and field, the most first; empty if there are none."""
    letters = _letters(spark, job, wanted)
    if letters is None:
        return []
    groups = (
        letters.groupBy(*_KIND, _EXPECTATIONS)
        .agg(
            F.count(F.lit(1)).alias("letters"),
            F.min(F.struct(*ROW_IN_TABLE.values())).alias("example"),
            F.max("dead_lettered_at").alias("last_at"),
        )
        .orderBy(F.desc("letters"), *_KIND, _EXPECTATIONS)
    )
    return [
        LetterGroup(
            flow=job.flow.name,
            **{name: row[name] for name in (*_KIND, "letters")},
            failed_expectations=tuple(row[_EXPECTATIONS] or ()),
            topic=row["example"]["kafka_topic"],
            partition=row["example"]["kafka_partition"],
            offset=row["example"]["kafka_offset"],
            position=row["example"]["kafka_position"],
            last_at=_utc(row["last_at"]),
        )
        for row in groups.collect()
    ]


def show_letters(spark: SparkSession, job: FlowJob, wanted: DeadLetterFilter, limit: int) -> list[Letter]:
    """At most ``limit`` of the flow's dead letters, by topic, partition, offset and position."""
    letters = _letters(spark, job, wanted)
    if letters is None:
        return []
    return [_letter(row.asDict()) for row in letters.orderBy(*ROW_IN_TABLE.values()).limit(limit).collect()]


def _letters(spark: SparkSession, job: FlowJob, wanted: DeadLetterFilter) -> DataFrame | None:
    check_same_place(spark, job.places)
    place = job.places.dead_letter_table
    if not delta_table.exists(files_for(place, spark), place):
        return None
    names: Sequence[str] = [name for name in (job.flow.name, job.flow.previously) if name]
    frame = explode.with_position(spark.read.format("delta").load(place))
    return frame.where(F.col("flow").isin(*names) & wanted.condition())


def _letter(row: dict[str, Any]) -> Letter:
    def raw(value: bytearray | None) -> bytes | None:
        return None if value is None else bytes(value)

    return Letter(
        **{name: row[name] for name in ("flow", *_KIND, "message", "attempt")},
        topic=row["kafka_topic"],
        partition=row["kafka_partition"],
        offset=row["kafka_offset"],
        position=row["kafka_position"],
        timestamp=None if row["kafka_timestamp"] is None else _utc(row["kafka_timestamp"]),
        key=raw(row["kafka_key"]),
        value=raw(row["kafka_value"]),
        headers=tuple((header["key"], raw(header["value"])) for header in row["kafka_headers"] or ()),
        failed_expectations=tuple(row[_EXPECTATIONS] or ()),
        dead_lettered_at=_utc(row["dead_lettered_at"]),
    )


def _utc(timestamp: dt.datetime) -> dt.datetime:
    # PySpark hands over naive times of the machine's own zone.
    return timestamp.astimezone(dt.UTC)
