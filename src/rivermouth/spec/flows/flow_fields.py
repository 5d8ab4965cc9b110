"""The fields of a flow, and what follows from them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny

from rivermouth.names import (
    DEFAULT_METADATA_COLUMNS,
    IN_TABLE,
    ROW_IN_TABLE,
    lookup_column,
)
from rivermouth.spec.compression import Compression
from rivermouth.spec.evolution import Evolution
from rivermouth.spec.explosion import Explosion, parsed
from rivermouth.spec.flows.flow_parts import Expectation, NullValues, Table, Trigger, _null_values
from rivermouth.spec.flows.lookup import Lookup, as_list
from rivermouth.spec.formats import (
    ArrayFormat,
    ChangeEnvelope,
    EvolvingFormat,
    Format,
    InferringFormat,
    KeyFormat,
    WrappedFormat,
    require_capability,
)
from rivermouth.spec.keyed import KeyedSink, Texts, words
from rivermouth.spec.kinds import Sink, kind_from_yaml
from rivermouth.spec.maintenance import Maintenance
from rivermouth.spec.offsets import EndingOffsets, StartingOffsets
from rivermouth.spec.places import Places
from rivermouth.spec.selection import is_star
from rivermouth.spec.source import Source
from rivermouth.spec.values import Constructed

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


PLAIN_KEYS: Final = ("raw", "text")
"""Formats of keys that have no schema."""


class FlowFields(Constructed):
    """The fields of a flow as written, and what follows from them; ``Flow`` says what each means, and checks them."""

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
    lookup: Annotated[tuple[Lookup, ...], BeforeValidator(as_list)] = ()
    select: Texts = ()
    evolution: Evolution | None = None
    expectations: tuple[Expectation, ...] = ()
    table: Table
    sink: Annotated[SerializeAsAny[Sink], BeforeValidator(kind_from_yaml("sinks"))]
    places: Places = Places()
    trigger: Trigger = Trigger()
    maintenance: Maintenance | None = None
    previously: str | None = None

    @property
    def is_family(self) -> bool:
        """Whether it defines many flows: one for each topic, or one for each value of a column of its source."""
        several = self.topic_pattern is not None or len({*self.topics, *self.assign}) > 1
        return self.routed_by is not None or (several and "{topic}" in self.table.name)

    @property
    def routed_by(self) -> str | None:
        """The partition column of its source whose values each have their own table; None if there is none."""
        named = _PLACEHOLDER.findall(self.table.name) if self.source is not None else []
        return next((name for name in named if name != "topic"), None)

    @property
    def is_found(self) -> bool:
        """Whether it is a family whose flows are known only after a look at Kafka or at the source table."""
        return self.is_family and (self.topic_pattern is not None or self.routed_by is not None)

    @property
    def zorder(self) -> tuple[str, ...]:
        """Columns by which its maintenance orders the rows within the files."""
        optimize = self.maintenance and self.maintenance.optimize
        return optimize.zorder if optimize else ()

    @property
    def all_expectations(self) -> tuple[Expectation, ...]:
        """What is judged of each record: the expectations, and behind them whether each lookup finds a row."""
        actions = {"keep": "warn", "drop": "drop", "dead_letter": "dead_letter"}
        found = (
            Expectation.model_construct(name=each.name, condition=lookup_column(index), action=actions[each.missing])
            for index, each in enumerate(self.lookup)
        )
        return (*self.expectations, *found)

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
        """The internal columns that identify one of its rows (a record or an element), with their names in a table."""
        return IN_TABLE if self.explode is None else ROW_IN_TABLE

    @property
    def splits(self) -> bool:
        """Whether a record may be several changes of the flow's table."""
        envelope = self.change_envelope
        splits = envelope is not None and envelope.splits
        return self.keyed is not None and (splits or self.keyed.snapshots)

    @property
    def change_envelope(self) -> ChangeEnvelope | None:
        """The format, if its values are changes of a source's rows."""
        return self.format if isinstance(self.format, ChangeEnvelope) else None

    @property
    def infers(self) -> bool:
        """Whether its columns are inferred from what is read."""
        return isinstance(self.format, InferringFormat) and self.format.infers

    @property
    def evolving_format(self) -> EvolvingFormat:
        """The format; only of a flow whose schema is inferred, or ``takes_evolution``."""
        return require_capability(self.format, EvolvingFormat)

    @property
    def string_documents(self) -> Sequence[str]:
        """Paths of strings in its values that hold documents."""
        return self.format.string_documents if isinstance(self.format, WrappedFormat) else ()

    @property
    def has_schema_header(self) -> bool:
        """Whether each value begins with a zero and the id of a schema, which its format does not get."""
        return isinstance(self.format, WrappedFormat) and self.format.has_schema_header

    @property
    def wraps(self) -> bool:
        """Whether something is around each value that its format does not read."""
        return self.compression is not None or self.has_schema_header or bool(self.string_documents)

    @property
    def value_format(self) -> Format:
        """How a value is read: by the flow's format, or as an array of what that reads."""
        form, in_array = self.format, self.keyed is not None and self.keyed.snapshots and self.keyed.rows is None
        if in_array and isinstance(form, ArrayFormat):
            form = form.as_array(of_rows=self.source is not None and self.source.has_rows)
        if isinstance(form, EvolvingFormat):
            form = form.with_policies(self.policies)
        if isinstance(form, ChangeEnvelope) and self.whole_columns is not None:
            form = form.keeping_values(self.whole_columns)
        return form

    @property
    def whole_columns(self) -> frozenset[str] | None:
        """The words, in lower case, among which are the columns whose value each change must tell.

        None where each must tell all: its format or its table knows nothing else.
        """
        envelope = self.change_envelope
        if self.keyed is None or envelope is None or not (self.keyed.keeps_values and envelope.omits_values):
            return None
        derived = (part for part in self.table.partition_by if isinstance(part, dict))
        named = (part for part in self.table.partition_by if isinstance(part, str))
        texts = [
            *named,
            *(text for part in derived for text in part.values()),
            *(on for each in self.lookup for on in each.on),
        ]
        return self.keyed.reads | words(texts)

    @property
    def policies(self) -> Evolution:
        """What happens to documents that the schema does not foresee, with every policy set.

        A value by which a keyed table finds or deletes its rows is never rescued: without the value it is a different
        record. A column from which a key is computed never becomes wider: with another type the key may differ.
        """
        policies = (self.evolution or Evolution()).with_defaults(
            infers=self.infers and self.takes_evolution, gains=self.gains_columns, widens=self.widens_columns
        )
        if self.keyed is None:
            return policies
        return policies.holding(never_rescued=self.keyed.reads, never_widened=self.keyed.computes_keys_of)

    @property
    def takes_evolution(self) -> bool:
        """Whether its schema can grow while it runs."""
        evolves = isinstance(self.format, EvolvingFormat) and self.format.evolves
        return evolves and not (self.keyed is not None and self.keyed.snapshots)

    @property
    def gains_columns(self) -> bool:
        """Whether its table has a place for what its schema has besides from some record on."""
        return self.explode is None and (not self.select or any(map(is_star, self.select)))

    @property
    def widens_columns(self) -> bool:
        """Whether columns that its format reads may become wider, or be rescued.

        It is unknown from which of these columns ``select`` makes the keys and the order of a keyed table.
        """
        return self.explode is None and not (self.select and self.keyed is not None)

    @property
    def default_key(self) -> str:
        """The metadata column that is the key of a keyed table if the flow names no keys."""
        return "primary_key" if self.change_envelope else "kafka_key"

    @property
    def key_as_text(self) -> bool:
        """Whether ``kafka_key`` is decoded as UTF-8; raw flows keep bytes unless told otherwise."""
        if self.key_format is None:
            return self.format.type != "raw"
        return self.key_format.type == "text"

    @property
    def key_columns(self) -> Format | None:
        """How keys become columns; None where they are bytes or text."""
        if self.key_format is None or self.key_format.type in PLAIN_KEYS:
            return None
        form = self.key_format.for_keys() if isinstance(self.key_format, KeyFormat) else self.key_format
        return form.with_policies(Evolution().with_defaults(infers=False)) if isinstance(form, EvolvingFormat) else form

    @property
    def reads_headers(self) -> bool:
        """Whether the headers of records are read."""
        forms = (self.value_format, *([self.key_columns] if self.key_columns else []))
        return "kafka_headers" in self.metadata_columns or any(form.reads_headers for form in forms)

    @property
    def keys_are_judged(self) -> bool:
        """Whether a record may be refused for its key."""
        return "kafka_key" in self.metadata_columns and (self.key_as_text or self.key_columns is not None)
