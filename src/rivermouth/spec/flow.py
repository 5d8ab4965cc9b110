"""A flow: topics, their format, what is expected of each record, and the table."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from rivermouth.errors import UnknownKind
from rivermouth.extend import find_kind
from rivermouth.names import (
    DEFAULT_METADATA_COLUMNS,
    IN_TABLE,
    METADATA_COLUMNS,
    ROW_IN_TABLE,
    did_you_mean,
)
from rivermouth.spec import flow_rules
from rivermouth.spec.compression import Compression
from rivermouth.spec.evolution import Evolution
from rivermouth.spec.explosion import Explosion, parsed
from rivermouth.spec.keyed import KeyedSink, Texts, words
from rivermouth.spec.kinds import Action, Format, Sink, kind_from_yaml
from rivermouth.spec.maintenance import Maintenance
from rivermouth.spec.offsets import EndingOffsets, StartingOffsets
from rivermouth.spec.places import Places
from rivermouth.spec.selection import is_star
from rivermouth.spec.source import Source
from rivermouth.spec.values import Constructed, DurationS, Noun

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_TABLE = re.compile(r"^[A-Za-z0-9_{}-]+(\.[A-Za-z0-9_{}-]+){1,2}$")
NullValues = Literal["drop", "keep", "dead_letter"]


def _null_values(known: dict[str, Any]) -> NullValues:
    """The default of ``null_values``; ``known`` are the fields before it, as nouns or as a dump of them."""
    used = known.get("format")
    kind = used.get("type") if isinstance(used, Mapping) else getattr(used, "type", None)
    return "keep" if kind == "raw" and known.get("explode") is None else "drop"


class Expectation(Noun):
    """A condition that each record should meet; it counts as met only if it is TRUE, so NULL fails.

    Attributes:
        name: Names it in counts and dead letters.
        condition: A Spark SQL expression over the table's columns.
        action: What happens to a record that fails: warn, drop, dead_letter or fail.
    """

    name: str = Field(min_length=1, max_length=100)
    condition: str = Field(min_length=1)
    action: str = "warn"

    @model_validator(mode="after")
    def _known_action(self) -> Self:
        find_kind("actions", self.action)
        return self

    @property
    def route(self) -> str:
        """Where a record goes that fails this expectation."""
        action: Action = find_kind("actions", self.action)
        return action.route


class Trigger(Noun):
    """How often a flow looks for records, and how many it takes at a time.

    Attributes:
        every: Time from the start of one batch to the start of the next, with ``--follow``.
        max_offsets: The most offsets in a batch, over all partitions.
        min_offsets: Wait until there are this many offsets, but no longer than ``max_delay``.
        max_delay: Bound on the wait for ``min_offsets``.
        min_partitions: The least number of Spark tasks that read a batch.
    """

    every: DurationS = 10.0
    max_offsets: int | None = Field(default=None, gt=0)
    min_offsets: int | None = Field(default=None, gt=0)
    max_delay: DurationS | None = None
    min_partitions: int | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _delay_goes_with_minimum(self) -> Self:
        if self.max_delay is not None and self.min_offsets is None:
            msg = "max_delay bounds the wait for min_offsets: give min_offsets too"
            raise ValueError(msg)
        if self.min_offsets and self.max_offsets and self.min_offsets > self.max_offsets:
            greater = f"min_offsets ({self.min_offsets}) is greater than max_offsets ({self.max_offsets})"
            msg = f"{greater}: write max_offsets: {self.min_offsets}"
            raise ValueError(msg)
        return self


class Table(Noun):
    """The Delta table that a flow writes; in YAML a name, or a mapping with its layout.

    Attributes:
        name: ``schema.table`` is in the lake; ``catalog.schema.table`` is also registered in that catalog. With
            ``{topic}`` in it a flow of several topics has a table for each; with ``{column}``, a flow over a table
            has one for each value of that partition column.
        max_tables: The most tables, where there are several.
        partition_by: Columns; ``{name: expression}`` derives one, for example ``{day: date(kafka_timestamp)}``.
        cluster_by: Columns for liquid clustering; not together with ``partition_by``.
        properties: Delta table properties, set when the table is created.
        comment: Comment on the table.
        column_comments: Comments by column name.
    """

    name: str
    max_tables: int = Field(default=100, gt=0)
    partition_by: tuple[str | dict[str, str], ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str | int | bool] = {}
    comment: str | None = None
    column_comments: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _TABLE.match(self.name):
            # One word may be the table; the schema it cannot be without.
            example = f"table: bronze.{self.name}" if _WORD.fullmatch(self.name) else "table: bronze.orders"
            msg = f"{self.name!r} is no table name (schema.table or catalog.schema.table): {example}"
            raise ValueError(msg)
        if self.partition_by and self.cluster_by:
            msg = "a table is partitioned or clustered, not both: keep one of partition_by and cluster_by"
            raise ValueError(msg)
        return self


class Flow(Constructed):
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

    name: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    assign: dict[str, tuple[int, ...]] = {}
    source: Source | None = None
    starting_offsets: StartingOffsets = StartingOffsets(kind="earliest")
    ending_offsets: EndingOffsets | None = None
    on_data_loss: Literal["fail", "record"] = "fail"
    group_id: str | None = None
    format: Annotated[SerializeAsAny[Format], BeforeValidator(kind_from_yaml("formats"))]
    compression: Compression | None = None
    key_format: Annotated[SerializeAsAny[Format] | None, BeforeValidator(kind_from_yaml("formats"))] = None
    metadata_columns: dict[str, str] = {name: name for name in DEFAULT_METADATA_COLUMNS}
    explode: str | None = None
    null_values: NullValues = Field(default_factory=_null_values)
    select: Texts = ()
    evolution: Evolution | None = None
    expectations: tuple[Expectation, ...] = ()
    table: Table
    sink: Annotated[SerializeAsAny[Sink], BeforeValidator(kind_from_yaml("sinks"))]
    places: Places = Places()
    trigger: Trigger = Trigger()
    maintenance: Maintenance | None = None
    previously: str | None = None

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

    @property
    def is_family(self) -> bool:
        """Whether it stands for many flows: one for each of its topics, or for each value of a column of its source."""
        several = self.topic_pattern is not None or len({*self.topics, *self.assign}) > 1
        return self.routed_by is not None or (several and "{topic}" in self.table.name)

    @property
    def routed_by(self) -> str | None:
        """The partition column of its source of which each value has a table of its own; None if it has no such."""
        named = _PLACEHOLDER.findall(self.table.name) if self.source is not None else []
        return next((name for name in named if name != "topic"), None)

    @property
    def is_found(self) -> bool:
        """Whether of a family nobody knows beforehand for what it stands."""
        return self.is_family and (self.topic_pattern is not None or self.routed_by is not None)

    @property
    def zorder(self) -> tuple[str, ...]:
        """Columns by which its maintenance orders the rows within the files."""
        optimize = self.maintenance and self.maintenance.optimize
        return optimize.zorder if optimize else ()

    @property
    def keyed(self) -> KeyedSink | None:
        """The sink, if its table has its rows by key."""
        return self.sink if isinstance(self.sink, KeyedSink) else None

    @property
    def explosion(self) -> Explosion | None:
        """Of what its records are made several rows; None where a record is one."""
        return None if self.explode is None else parsed(self.explode)

    @property
    def identity(self) -> Mapping[str, str]:
        """The columns of the way by which its rows are told apart, as those of a table: its records or elements."""
        return IN_TABLE if self.explode is None else ROW_IN_TABLE

    @property
    def splits(self) -> bool:
        """Whether a record may be several changes of the flow's table."""
        return self.keyed is not None and (self.format.splits or self.keyed.snapshots)

    @property
    def wraps(self) -> bool:
        """Whether something is around each value that its format does not read."""
        return self.compression is not None or self.format.behind_header or bool(self.format.string_documents)

    @property
    def value_format(self) -> Format:
        """How a value is read: by the flow's format, or as an array of what that reads."""
        in_array = self.keyed is not None and self.keyed.snapshots and self.keyed.rows is None
        form = ((self.format.arrays() if in_array else None) or self.format).evolving(self.policies)
        return form if self.whole_columns is None else form.keeping(self.whole_columns)

    @property
    def whole_columns(self) -> frozenset[str] | None:
        """The words, in lower case, among which are the columns whose value each change must tell.

        None where each must tell all: its format or its table knows nothing else.
        """
        if self.keyed is None or not (self.keyed.keeps_values and self.format.leaves_values):
            return None
        derived = (part for part in self.table.partition_by if isinstance(part, dict))
        named = (part for part in self.table.partition_by if isinstance(part, str))
        return self.keyed.reads | words([*named, *(text for part in derived for text in part.values())])

    @property
    def policies(self) -> Evolution:
        """What happens to documents that the schema does not foresee, every word of it given.

        A value by which a keyed table finds or deletes its rows is never rescued: without it the record is another.
        Nor does a column become wider of which a key is computed: of another type it may make another key.
        """
        policies = (self.evolution or Evolution()).settled(
            infers=self.format.infers and self.takes_evolution, gains=self.gains_columns, widens=self.widens_columns
        )
        if self.keyed is None:
            return policies
        return policies.holding(never_rescued=self.keyed.reads, never_widened=self.keyed.computes_keys_of)

    @property
    def takes_evolution(self) -> bool:
        """Whether its schema can grow while it runs."""
        return self.format.evolves and not (self.keyed is not None and self.keyed.snapshots)

    @property
    def gains_columns(self) -> bool:
        """Whether its table has a place for what its schema has besides from some record on."""
        return self.explode is None and (not self.select or any(map(is_star, self.select)))

    @property
    def widens_columns(self) -> bool:
        """Whether columns that its format reads may become wider, or be rescued.

        Nobody knows of which of them ``select`` makes the keys and the order of a keyed table.
        """
        return self.explode is None and not (self.select and self.keyed is not None)

    @property
    def default_key(self) -> str:
        """The metadata column by which a keyed table's rows are told apart, if no keys are named."""
        return "primary_key" if self.format.changes else "kafka_key"

    @property
    def key_as_text(self) -> bool:
        """Whether ``kafka_key`` is decoded as UTF-8; raw flows keep bytes unless told otherwise."""
        if self.key_format is None:
            return self.format.type != "raw"
        return self.key_format.type == "text"

    @property
    def key_columns(self) -> Format | None:
        """How keys become columns; None where they are bytes or text."""
        if self.key_format is None or self.key_format.type in flow_rules.PLAIN_KEYS:
            return None
        return self.key_format.of_keys().evolving(Evolution().settled(infers=False))

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of records are read."""
        forms = (self.value_format, *([self.key_columns] if self.key_columns else []))
        return "kafka_headers" in self.metadata_columns or any(form.reads_headers for form in forms)

    @property
    def keys_are_judged(self) -> bool:
        """Whether a record may be refused for its key."""
        return "kafka_key" in self.metadata_columns and (self.key_as_text or self.key_columns is not None)


def _change_columns(value: Mapping[str, Any]) -> tuple[str, ...]:
    """The further metadata columns of a flow whose format tells changes; none for others, and for what is wrong."""
    form, sink = value.get("format"), value.get("sink")
    with suppress(UnknownKind):
        kind = form if isinstance(form, Format) else find_kind("formats", _type_of(form))
        if not kind.changes:
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
