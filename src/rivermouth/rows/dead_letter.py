"""The dead letter row: a record that could not go into the table, whole, with the reason."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields
from functools import reduce
from operator import and_
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
from rivermouth.rows import envelope, lookups, partition_values
from rivermouth.rows.checks import JUDGEABLE, failed_column
from rivermouth.rows.columns import number_keys
from rivermouth.rows.columns.attempts import EXPRESSION_MESSAGE, EXPRESSION_REASON
from rivermouth.rows.columns.codegen import by_reference
from rivermouth.rows.columns.time_ranges import TIME_MESSAGE, TIME_REASON
from rivermouth.rows.conform import HEADERS_TYPE
from rivermouth.rows.keyed.changes import MESSAGES
from rivermouth.rows.routing import DEAD_LETTER
from rivermouth.rows.split_changes import once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.spec import Flow, Lookup

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

STATUSES: Final = ("open", "replayed", "discarded")
STAGES: Final = ("decode", "conform", "lookup", "expectation")
WHY: Final = ("stage", "reason", "field", "message", "failed_expectations")
"""The columns that say why a letter fails; a replay that it does not pass renews them."""

POSITION: Final = StructField("kafka_position", IntegerType())
"""Of flows that explode their records: which element it is, null for a record as a whole."""

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


_WHAT_CHANGES_LACK: Final = (
    f"CASE {names.PROBLEM} {' '.join(f'WHEN {code!r} THEN {text!r}' for code, text in MESSAGES.items())} END"
)


TIMESTAMP_REASON: Final = "KAFKA_TIMESTAMP_RANGE"
_TIMESTAMP_MESSAGE: Final = (
    "Kafka's timestamp of the record is before 1582-10-15 or after the year 9999: does its producer count microseconds "
    "where Kafka counts milliseconds? metadata_columns without kafka_timestamp takes the record"
)


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters are meant: those that fit every part that is given.

    Attributes:
        status: open, replayed, discarded, or None for all.
        reason: Reason code.
        stage: decode, conform, lookup or expectation.
        field: Dotted path of the field.
        expectation: Name of a failed expectation.
        topic: Kafka topic.
        partition: Kafka partition.
        position: Which element of its record, where a flow explodes them.
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
    position: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    def condition(self) -> Column:
        """The filter as a boolean column over ``columns`` of a flow that explodes its records, or with nulls for it."""
        equal = {"kafka_topic": self.topic, "kafka_partition": self.partition, POSITION.name: self.position}
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


def columns(flow: Flow) -> StructType:
    """The columns of the flow's dead letters: ``COLUMNS``, and ``kafka_position`` if it explodes its records."""
    return StructType([*COLUMNS.fields, *([POSITION] if flow.explosion is not None else [])])


# By their length in bytes, what keys may be that are no text.
_KEYS_BY_SIZE: Final = {
    size: f"; it has {size} bytes: key_format: {kind} reads such whole numbers, and raw keeps the bytes"
    for kind, size in number_keys.SIZES.items()
}


def as_envelope(letters: DataFrame, *more: str) -> DataFrame:
    """Dead letters as envelope rows again, for another try, with the columns in ``more`` as ``__<name>``."""
    beside = (F.col(name).alias(f"__{name.removeprefix('__')}") for name in more)
    # Their own timestamp could not be kept; the one that replaces it here is refused for the same reason.
    kept = F.when(F.col("reason") == TIMESTAMP_REASON, F.expr(envelope.OUT_OF_RANGE)).otherwise(
        F.col("kafka_timestamp")
    )
    columns = {**{source: F.col(column) for column, source in _SOURCES.items()}, names.TIMESTAMP: kept}
    return letters.select(*(column.alias(source) for source, column in columns.items()), *beside)


def as_kafka(letters: DataFrame) -> DataFrame:
    """Dead letters as Spark's Kafka source gave their records: ``key``, ``value``, ``topic`` and so on."""
    return as_envelope(letters).selectExpr(*(f"{name} AS {source}" for source, name in envelope.SOURCE_COLUMNS.items()))


def dead_letters(
    routed: DataFrame,
    flow: Flow,
    *,
    target: str,
    entry: int,
    topic_ids: Mapping[str, str | None],
    beside: Sequence[str] = (),
) -> DataFrame:
    """The dead letters among routed rows, each with its reason, in the shape of ``columns``.

    Args:
        routed: As ``routing.route`` returns them; read once.
        flow: Gives the format, which explains its own refusals, and the expectations.
        target: Full name of the table that the rows did not reach.
        entry: Number of the ledger entry of their batch.
        topic_ids: Kafka's UUID by topic.
        beside: Further columns of ``routed`` that stay as they are.
    """
    dead = envelope.explain(routed.where(f"{names.ROUTE} = '{DEAD_LETTER}' AND {once(flow)}"), flow)
    told = {
        **_SOURCES,
        "kafka_timestamp": f"CASE WHEN NOT {envelope.TIMESTAMP_OUT_OF_RANGE} THEN {names.TIMESTAMP} END",
        "topic_id": _topic_id(topic_ids),
        "flow": names.literal(flow.name),
        "target": names.literal(target),
        "stage": f"CASE {_stage(flow)} ELSE 'decode' END",
        **_said(flow, unmade=names.UNMADE in dead.columns),
        "failed_expectations": _failed_names(flow),
        "schema_version": "1",
        "batch": by_reference(f"CAST({entry} AS BIGINT)"),
        "attempt": "1",
        "status": "'open'",
        "dead_lettered_at": by_reference("current_timestamp()"),
    }
    if flow.explosion is not None:
        told[POSITION.name] = f"CASE WHEN {names.POSITION} >= 0 THEN {names.POSITION} END"
    return dead.selectExpr(*(f"{sql} AS {name}" for name, sql in told.items()), *beside)


def _said(flow: Flow, *, unmade: bool) -> dict[str, str]:
    """SQL of what is said of a dead letter: ``reason``, ``field`` and ``message``."""
    refused = f"NOT {names.DECODED}"
    if_unmade = f"WHEN {names.UNMADE} IS NOT NULL THEN" if unmade else ""
    return {
        "reason": _case(
            _if_timestamp(flow, TIMESTAMP_REASON),
            f"WHEN {refused} THEN {names.REASON}",
            if_unmade and f"{if_unmade} {names.UNMADE}.reason",
            _reason(flow),
        ),
        "field": _case(
            _if_timestamp(flow, "kafka_timestamp"),
            f"WHEN {refused} THEN {names.FIELD}",
            if_unmade and f"{if_unmade} {names.UNMADE}.field",
            _field(flow),
        ),
        "message": _with_others(
            flow,
            _case(
                _if_timestamp(flow, _TIMESTAMP_MESSAGE),
                f"WHEN {refused} THEN {names.MESSAGE}",
                if_unmade and f"{if_unmade} {_of_unmade()}",
                _message(flow),
            ),
        ),
    }


def _of_unmade() -> str:
    """SQL of the message of records for which an expression of the flow makes nothing that a table can have."""
    cases = []
    for reason, message in ((TIME_REASON, TIME_MESSAGE), (EXPRESSION_REASON, EXPRESSION_MESSAGE)):
        before, after = map(names.literal, message.split("{}"))
        cases.append(f"WHEN '{reason}' THEN concat({before}, {names.UNMADE}.field, {after})")
    return f"CASE {names.UNMADE}.reason {' '.join(cases)} END"


def _with_others(flow: Flow, message: str) -> str:
    """SQL of a message that also names the rows which were refused together with the one that it is about."""
    rows = flow.change_envelope.rows_of_record() if flow.change_envelope else None
    if rows is None:
        return message
    told = f"concat('; the ', {rows}, ' rows of the record are stored together or not at all')"
    return f"concat({message}, CASE WHEN {rows} > 1 THEN {told} ELSE '' END)"


def _case(*branches: str) -> str:
    return f"CASE {' '.join(branches)} END"


def _if_timestamp(flow: Flow, then: str) -> str:
    """A branch for records whose Kafka timestamp the table cannot hold; it comes first, or replay would not know it."""
    out = f"WHEN {envelope.TIMESTAMP_OUT_OF_RANGE} THEN {names.literal(then)}"
    return out if envelope.stores_timestamp(flow) else ""


def _of_key(flow: Flow) -> tuple[str, str, str]:
    """SQL of the reason, field and message of records whose key was refused."""
    if flow.key_columns is None:
        cases = " ".join(f"WHEN {size} THEN {names.literal(said)}" for size, said in _KEYS_BY_SIZE.items())
        other = names.literal("; key_format: raw keeps the bytes, and avro, protobuf, jvm and others read them")
        message = f"concat('the key is not valid UTF-8', CASE length({names.KEY}) {cases} ELSE {other} END)"
        return "'KEY_INVALID_UTF8'", "'kafka_key'", message
    return (
        "'KEY_INVALID'",
        "concat_ws('.', 'kafka_key', __key_field)",
        "concat('as the value of a key: ', __key_reason, ': ', __key_message)",
    )


def _stage(flow: Flow) -> str:
    conform, not_found = "'conform'", _if_not_found(flow, lambda _: "'lookup'")
    return f"{_if_unkept(flow, conform)} {_if_change(flow, conform)} {not_found} WHEN {JUDGEABLE} THEN 'expectation'"


def _reason(flow: Flow) -> str:
    return (
        f"WHEN NOT {names.KEY_VALID} THEN {_of_key(flow)[0]} "
        f"{_if_unkept(flow, repr('PARTITION_VALUE_INVALID'))} {_if_change(flow, names.PROBLEM)} "
        f"WHEN {names.VALUE} IS NULL THEN 'NULL_VALUE' "
        f"{_if_not_found(flow, lambda _: names.literal(lookups.REASON))} "
        f"WHEN {_refused(flow)} THEN 'EXPECTATION' ELSE 'RULES_CHANGED'"
    )


def _field(flow: Flow) -> str:
    columns = _if_not_found(flow, lambda each: names.literal(", ".join(each.on)))
    unkept = _if_unkept(flow, partition_values.field(flow))
    return f"WHEN NOT {names.KEY_VALID} THEN {_of_key(flow)[1]} {unkept} {columns}"


def _message(flow: Flow) -> str:
    passes = "it passes the flow's rules now, and did not when its batch was written"
    return (
        f"WHEN NOT {names.KEY_VALID} THEN {_of_key(flow)[2]} "
        f"{_if_unkept(flow, partition_values.message(flow))} {_if_change(flow, _WHAT_CHANGES_LACK)} "
        f"WHEN {names.VALUE} IS NULL THEN 'the value is null' "
        f"{_if_not_found(flow, lambda each: names.literal(lookups.not_found(each)))} "
        f"WHEN NOT ({_refused(flow)}) THEN {names.literal(passes)} "
        f"ELSE concat('failed: ', concat_ws(', ', {_failed_names(flow)}))"
    )


def _if_change(flow: Flow, then: str) -> str:
    """A branch for records that decode, and cannot be a change of a keyed table."""
    if flow.keyed is None:
        return ""
    return f"WHEN {names.DECODED} AND {names.KEY_VALID} AND {names.PROBLEM} IS NOT NULL THEN {then}"


def _if_unkept(flow: Flow, then: str) -> str:
    """A branch for records that decode, and have a partition value that the table cannot keep."""
    if not partition_values.are_judged(flow):
        return ""
    return f"WHEN {names.DECODED} AND {names.KEY_VALID} AND {names.PARTITION_PROBLEM} IS NOT NULL THEN {then}"


def _if_not_found(flow: Flow, then: Callable[[Lookup], str]) -> str:
    """Branches for records that a lookup refuses, as it found no row for them."""
    first = len(flow.expectations)
    return " ".join(
        f"WHEN {failed_column(first + index)} THEN {then(each)}"
        for index, each in enumerate(flow.lookup)
        if each.missing == DEAD_LETTER
    )


def _refused(flow: Flow) -> str:
    """SQL: whether an expectation failed whose action sends the record to the dead letters."""
    failed = [failed_column(i) for i, each in enumerate(flow.expectations) if each.route == DEAD_LETTER]
    return " OR ".join(failed) or "false"


def _failed_names(flow: Flow) -> str:
    failed = [
        f"CASE WHEN {failed_column(index)} THEN {names.literal(each.name)} END"
        for index, each in enumerate(flow.expectations)
    ]
    names_or_none = f"array_compact(array({', '.join(failed)}))" if failed else "array()"
    return f"CAST({names_or_none} AS array<string>)"


def _topic_id(topic_ids: Mapping[str, str | None]) -> str:
    known = {topic: topic_id for topic, topic_id in topic_ids.items() if topic_id}
    cases = (f"WHEN {names.literal(topic)} THEN {names.literal(topic_id)}" for topic, topic_id in known.items())
    return f"CASE {names.TOPIC} {' '.join(cases)} END" if known else "CAST(NULL AS STRING)"
