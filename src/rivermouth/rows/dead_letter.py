"""The dead letter row: a record that could not go into the table, whole, with the reason."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rivermouth import names
from rivermouth.rows.checks import failed_column
from rivermouth.rows.generated_code import by_reference
from rivermouth.rows.routing import DEAD_LETTER
from rivermouth.rows.schema import HEADERS_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from rivermouth.spec import Flow

COLUMNS: Final = StructType(
    [
        StructField("kafka_topic", StringType()),
        StructField("kafka_partition", IntegerType()),
        StructField("kafka_offset", LongType()),
        StructField("kafka_timestamp", TimestampType()),
        StructField("kafka_timestamp_type", IntegerType()),
        StructField("kafka_key", BinaryType()),
        StructField("kafka_value", BinaryType()),
        StructField("kafka_headers", HEADERS_TYPE),
        StructField("topic_id", StringType()),
        StructField("flow", StringType()),
        StructField("target", StringType()),
        StructField("stage", StringType()),
        StructField("reason", StringType()),
        StructField("field", StringType()),
        StructField("message", StringType()),
        StructField("failed_expectations", ArrayType(StringType())),
        StructField("schema_version", IntegerType()),
        StructField("batch", LongType()),
        StructField("attempt", IntegerType()),
        StructField("status", StringType()),
        StructField("dead_lettered_at", TimestampType()),
    ]
)
"""``batch`` is the number of the ledger entry; ``status`` is open, replayed or discarded."""

_SOURCES: Final = {
    "kafka_topic": names.TOPIC,
    "kafka_partition": names.PARTITION,
    "kafka_offset": names.OFFSET,
    "kafka_timestamp": names.TIMESTAMP,
    "kafka_timestamp_type": names.TIMESTAMP_TYPE,
    "kafka_key": names.KEY,
    "kafka_value": names.VALUE,
    "kafka_headers": names.HEADERS,
}


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters are meant: those that fit every part that is given.

    Attributes:
        status: open, replayed, discarded, or None for all.
        reason: Reason code.
        stage: decode or expectation.
        field: Dotted path of the field.
        expectation: Name of a failed expectation.
        topic: Kafka topic.
        partition: Kafka partition.
        first_offset: Smallest offset.
        last_offset: Greatest offset; it is meant too.
        since: Earliest time of their burial, with a zone.
        until: Latest time of their burial, with a zone.
    """

    status: str | None = "open"
    reason: str | None = None
    stage: str | None = None
    field: str | None = None
    expectation: str | None = None
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def condition(self) -> Column:
        """The filter as a boolean column over ``COLUMNS``."""
        equal = {"kafka_topic": self.topic, "kafka_partition": self.partition}
        equal |= {name: getattr(self, name) for name in ("status", "reason", "stage", "field")}
        parts = [F.col(name) == value for name, value in equal.items() if value is not None]
        if self.expectation is not None:
            parts.append(F.array_contains("failed_expectations", self.expectation))
        if self.first_offset is not None:
            parts.append(F.col("kafka_offset") >= self.first_offset)
        if self.last_offset is not None:
            parts.append(F.col("kafka_offset") <= self.last_offset)
        if self.since is not None:
            parts.append(F.col("dead_lettered_at") >= F.lit(self.since))
        if self.until is not None:
            parts.append(F.col("dead_lettered_at") <= F.lit(self.until))
        return reduce(and_, parts, F.lit(True))

    def to_json(self) -> dict[str, Any]:
        """The parts that are given, as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value.isoformat() if isinstance(value, dt.datetime) else value for name, value in values.items()}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The filter that ``to_json`` wrote."""
        times = {name: dt.datetime.fromisoformat(body[name]) for name in ("since", "until") if body.get(name)}
        return cls(**{**body, **times})


def as_envelope(letters: DataFrame) -> DataFrame:
    """Dead letters as envelope rows again, for another try."""
    return letters.select(*(F.col(column).alias(source) for column, source in _SOURCES.items()))


def dead_letters(
    routed: DataFrame, flow: Flow, *, target: str, entry: int, topic_ids: Mapping[str, str | None]
) -> DataFrame:
    """The dead letters among routed rows, each with its reason, in the shape of ``COLUMNS``.

    Args:
        routed: As ``routing.route`` returns them; read once.
        flow: Gives the format, which explains its own refusals, and the expectations.
        target: Full name of the table that the rows did not reach.
        entry: Number of the ledger entry of their batch.
        topic_ids: Kafka's UUID by topic.
    """
    ids = {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}
    dead = flow.format.explain(routed.where(F.col(names.ROUTE) == DEAD_LETTER))
    refused = ~F.col(names.DECODED)
    judged = F.col(names.KEY_VALID) & F.col(names.VALUE).isNotNull()
    field = F.when(~F.col(names.KEY_VALID), "kafka_key")
    columns = [
        *(F.col(source).alias(column) for column, source in _SOURCES.items()),
        _topic_id(ids).alias("topic_id"),
        F.lit(flow.name).alias("flow"),
        F.lit(target).alias("target"),
        F.when(refused, "decode").when(judged, "expectation").otherwise("decode").alias("stage"),
        F.when(refused, F.col(names.REASON)).otherwise(_reason(flow)).alias("reason"),
        F.when(refused, F.col(names.FIELD)).otherwise(field).alias("field"),
        F.when(refused, F.col(names.MESSAGE)).otherwise(_message(flow)).alias("message"),
        _failed_names(flow).alias("failed_expectations"),
        F.lit(1).alias("schema_version"),
        by_reference(F.lit(entry).cast("bigint")).alias("batch"),
        F.lit(1).alias("attempt"),
        F.lit("open").alias("status"),
        by_reference(F.current_timestamp()).alias("dead_lettered_at"),
    ]
    return dead.select(*columns)


def _reason(flow: Flow) -> Column:
    return (
        F.when(~F.col(names.KEY_VALID), "KEY_INVALID_UTF8")
        .when(F.col(names.VALUE).isNull(), "NULL_VALUE")
        .when(_refused(flow), "EXPECTATION")
        .otherwise("RULES_CHANGED")
    )


def _message(flow: Flow) -> Column:
    passes = "it passes the flow's rules now, and did not when its batch was written"
    return (
        F.when(~F.col(names.KEY_VALID), "the key is not valid UTF-8")
        .when(F.col(names.VALUE).isNull(), "the value is null")
        .when(~_refused(flow), passes)
        .otherwise(F.concat(F.lit("failed: "), F.concat_ws(", ", _failed_names(flow))))
    )


def _refused(flow: Flow) -> Column:
    """Whether an expectation failed whose action sends the record to the dead letters."""
    failed = [F.col(failed_column(i)) for i, each in enumerate(flow.expectations) if each.route == DEAD_LETTER]
    return reduce(or_, failed, F.lit(False))


def _failed_names(flow: Flow) -> Column:
    none = F.array().cast("array<string>")
    if not flow.expectations:
        return none
    failed = [F.when(F.col(failed_column(index)), F.lit(each.name)) for index, each in enumerate(flow.expectations)]
    return F.coalesce(F.array_compact(F.array(*failed)), none)


def _topic_id(ids: Mapping[str, str]) -> Column:
    if not ids:
        return F.lit(None).cast("string")
    pairs = [part for topic, topic_id in ids.items() for part in (F.lit(topic), F.lit(topic_id))]
    return F.create_map(*pairs)[F.col(names.TOPIC)]
