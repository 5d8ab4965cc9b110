"""A flow: topics, their format, what is expected of each record, and the table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Self

from pydantic import model_validator

from rivermouth.errors import UnknownKind
from rivermouth.extend import find_kind
from rivermouth.names import (
    DEFAULT_METADATA_COLUMNS,
    IN_TABLE,
    METADATA_COLUMNS,
    ROW_IN_TABLE,
    did_you_mean,
)
from rivermouth.spec.flows import flow_rules
from rivermouth.spec.flows.flow_fields import FlowFields
from rivermouth.spec.formats import ChangeEnvelope, Format
from rivermouth.spec.keyed import KeyedSink
from rivermouth.spec.kinds import Sink


class Flow(FlowFields):
    """One flow: the records of Kafka topics into one Delta table.

    Exactly one of ``topics``, ``topic_pattern``, ``assign`` and ``source`` names what it reads.

    Attributes:
        name: Its identity, also in the table's ledger; in YAML the key under ``flows``.
        topics: Topics by name; in YAML also one name alone.
        topic_pattern: A regular expression that the whole name of a topic must match.
        assign: Partitions by topic: ``{orders: [0, 1]}``.
        source: The table of another flow, to be read instead of Kafka itself: ``{table: bronze.orders}``.
        starting_offsets: Where to start while the flow has no ledger yet.
        ending_offsets: Where a bounded run ends; not together with ``--follow``.
        on_data_loss: What happens where Kafka no longer holds what was not read yet, or a topic was created again:
            ``fail`` stops the flow until you decide, ``record`` records the loss in the ledger and goes on.
        group_id: Consumer group under which progress is shown to Kafka's own tools; never read back.
        format: How the value of a record becomes columns.
        compression: How each value is compressed; not what Kafka does with batches of records.
        key_format: How its key becomes ``kafka_key``: raw keeps bytes (default of raw flows), text decodes UTF-8, long
            and int read whole numbers as Kafka's serializers write them, and a format with a schema makes a struct of
            its columns, or one value of an Avro schema that is no record.
        metadata_columns: Which of Kafka's coordinates the table gets, and under which names.
        explode: An array or a map over the columns that the format reads, as SQL: ``items AS item``, ``tags AS (name,
            tag)``. Each element becomes a row. ``*`` where a value is itself an array of documents. The column
            ``kafka_position`` says which element of its record a row is.
        null_values: What happens to a record without a value: ``drop`` counts it, ``keep`` writes a row whose payload
            columns are null, ``dead_letter`` refuses it. The default is ``keep`` with ``format: raw`` (without
            ``explode``), and ``drop`` with all other formats. Keyed sinks have ``tombstones`` instead.
        lookup: Columns that are taken from another Delta table by a key: ``{table: silver.customers, on: customer_id,
            columns: [name, tier]}``. In YAML one, or a list.
        select: SQL expressions over the columns that the format reads, and the metadata columns: their results are
            in the table in the place of those that were read. ``*`` is all of these. In YAML also a single one.
        evolution: What happens to documents that do not fit the schema.
        expectations: Conditions that each record should meet.
        table: The Delta table.
        sink: How rows get into the table.
        places: Where tables and state are kept, if not where the project says.
        trigger: How often the flow looks for records, and how many it takes.
        maintenance: When its tables are optimized and vacuumed, if not as the project says; ``{}`` for never.
        previously: The name that the flow had before it was renamed.
    """

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        if isinstance(value.get("topics"), str):
            value["topics"] = [value["topics"]]
        value.setdefault("sink", "append")
        if "metadata_columns" not in value and (beside := _change_columns(value)):
            value["metadata_columns"] = [*DEFAULT_METADATA_COLUMNS, *beside]
        exploded = value.get("explode") is not None
        if exploded:
            value.setdefault("metadata_columns", [*DEFAULT_METADATA_COLUMNS])
        if "metadata_columns" in value:
            needed = ROW_IN_TABLE if exploded else IN_TABLE
            value["metadata_columns"] = _metadata_columns(value["metadata_columns"], needed.values())
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        flow_rules.check(self)
        return self


def _change_columns(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The further metadata columns of a flow whose format tells changes; none for others, and for what is wrong."""
    form, sink = value.get("format"), value.get("sink")
    with suppress(UnknownKind):
        kind = type(form) if isinstance(form, Format) else find_kind("formats", _type_of(form))
        if not issubclass(kind, ChangeEnvelope):
            return ()
        into = sink if isinstance(sink, Sink) else find_kind("sinks", _type_of(sink))
        if not (isinstance(into, KeyedSink) or (isinstance(into, type) and issubclass(into, KeyedSink))):
            return ("operation",)
        keys = sink.get("keys") if isinstance(sink, Mapping) else getattr(sink, "keys", ())
        return () if keys else ("primary_key",)
    return ()


def _type_of(kind: object) -> str:
    return str(kind.get("type") if isinstance(kind, Mapping) else kind)


def _metadata_columns(value: object, needed: Collection[str]) -> object:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = {name: name for name in value}
    if not isinstance(value, dict) or not all(isinstance(name, str | None) for name in value.values()):
        msg = "the metadata columns are a list or a mapping to names: metadata_columns: [kafka_offset, kafka_timestamp]"
        raise ValueError(msg)
    for name in value:
        if name not in METADATA_COLUMNS:
            msg = f"unknown metadata column {name!r}: {did_you_mean(str(name), METADATA_COLUMNS)}"
            raise ValueError(msg)
    picked = {name: value.get(name) or name for name in METADATA_COLUMNS if name in value or name in needed}
    if len(set(picked.values())) < len(picked):
        msg = "two metadata columns have the same name: give each a name of its own"
        raise ValueError(msg)
    return picked
