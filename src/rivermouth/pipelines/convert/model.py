"""What a flow and a dataset of a pipeline have in common: records of Kafka, SELECTs over them, and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rivermouth.names import is_plain, quoted
from rivermouth.pipelines.spec import AutoCdc, Dataset, SourceLine
from rivermouth.pipelines.sql.tokens import tokens

KAFKA_COLUMNS: Final[Mapping[str, str]] = {
    "kafka_topic": "topic",
    "kafka_partition": "partition",
    "kafka_offset": "offset",
    "kafka_timestamp": "timestamp",
    "kafka_timestamp_type": "timestampType",
    "kafka_headers": "headers",
    "ingested_at": "current_timestamp()",
}
"""Metadata columns of flows, and what they are in a query over Spark's Kafka source; the key is not among them."""
POSITION: Final = "kafka_position"
TOMBSTONE: Final = "is_tombstone"
"""The column of changes that says whether a record has no value."""
INTERVAL: Final = "pipelines.trigger.interval"
IS_DOCUMENT: Final = "is_document"
HAS_KEY: Final = "has_key"
HAS_SEQUENCE: Final = "has_sequence"
HAS_VALUE: Final = "has_value"
VALUE_THERE: Final = "value IS NOT NULL"
SEQUENCE: Final = "struct({timestamp}, {offset})"
"""Kafka's own order of the changes of a key, where no ``sequence_by`` is given."""

Place = Callable[..., str | None]
"""Gives the line of a setting by its path."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting of one side that has no equal on the other.

    Attributes:
        at: ``file:line``; None where nobody knows it.
        setting: What it is about: ``on_data_loss``, ``format``, a name of an option.
        text: What is different after the conversion, as a sentence.
    """

    at: str | None
    setting: str
    text: str

    def __str__(self) -> str:
        return f"{self.at}: {self.setting}: {self.text}" if self.at else f"{self.setting}: {self.text}"


@dataclass(frozen=True, slots=True)
class Step:
    """A SELECT over the rows of the step before it; of the first step over Spark's Kafka source.

    Attributes:
        items: SQL of its columns.
        where: SQL of its condition, over the columns before it.
        replaces: Names of its columns that take the place of one of this name in ``*``, if there is one.
    """

    items: tuple[str, ...]
    where: str | None = None
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Draft:
    """A table with all that makes its rows: what both a flow and a pipeline can say.

    Attributes:
        dataset: The table, without a query.
        kafka: Options of the Kafka source, without those of the cluster (``kafka.*``).
        steps: The SELECTs from Kafka's columns to those of the table, or to the changes of an AUTO CDC flow.
        conf: Settings of the query.
        cdc: What an AUTO CDC flow makes of the changes; None where rows are appended.
        cluster: Options ``kafka.*`` of the source.
        through: Tables of the pipeline that its query reads, on the way from Kafka.
        flow: The name of the flow that it was; empty where it was none.
        decode: Settings with which the records are decoded before the SELECTs; empty where they are not.
        inner: Settings of the queries of ``through``, and of views.
    """

    dataset: Dataset
    kafka: Mapping[str, str]
    steps: tuple[Step, ...]
    conf: Mapping[str, str] = field(default_factory=dict)
    cdc: AutoCdc | None = None
    cluster: Mapping[str, str] = field(default_factory=dict)
    through: tuple[str, ...] = ()
    flow: str = ""
    decode: Mapping[str, Any] = field(default_factory=dict)
    inner: tuple[Mapping[str, str], ...] = ()

    @property
    def at(self) -> SourceLine:
        """Where it is written."""
        return self.dataset.at

    @property
    def parts(self) -> frozenset[str]:
        """The columns that are partitions or keys, in lower case."""
        keys = self.cdc.keys if self.cdc else ()
        return frozenset(name.lower() for name in (*self.dataset.partition_by, *keys))


@dataclass(frozen=True, slots=True)
class NoFlow:
    """A dataset that is no flow.

    Attributes:
        dataset: Its name.
        at: ``file:line``.
        reason: Why, as a sentence without its subject.
    """

    dataset: str
    at: str
    reason: str

    def __str__(self) -> str:
        return f"{self.at}: {self.dataset} is no flow: {self.reason}"


class NotReadable(Exception):
    """A query does something that a flow does not.

    Attributes:
        at: Where.
        reason: A sentence without its subject.
    """

    def __init__(self, at: SourceLine, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Relation:
    """SELECTs over one source.

    Attributes:
        at: Where the query is written.
        options: Of Spark's Kafka source; None where a table is read.
        table: The name of the table that is read, as it is written.
        steps: In their order.
        decode: Settings with which the records are decoded before them.
    """

    at: SourceLine
    options: Mapping[str, str] | None = None
    table: str | None = None
    steps: tuple[Step, ...] = field(default=())
    decode: Mapping[str, Any] = field(default_factory=dict)

    def then(self, step: Step) -> Relation:
        """The same, with a SELECT over it."""
        return replace(self, steps=(*self.steps, step))

    def over(self, inner: Relation) -> Relation:
        """The same SELECTs over another relation in the place of the table."""
        return replace(inner, at=self.at, steps=(*inner.steps, *self.steps))


def word(name: str) -> str:
    """A name as SQL takes it, with backquotes only where it needs them."""
    return name if is_plain(name) else quoted(name)


def trimmed(sql: str) -> str:
    """SQL without the comments before and behind it, which would hide what follows."""
    found = tokens(sql, SourceLine("<setting>", 1))
    return sql[found[0].start : found[-1].end] if found else sql


def listed(names: Iterable[str]) -> str:
    """Names as a list in SQL."""
    return ", ".join(map(word, names))


def all_null_but(names: Iterable[str], before: str = "") -> str:
    """SQL: whether one of these columns is not null."""
    return " OR ".join(f"{before}{word(name)} IS NOT NULL" for name in names)


def none_null(texts: Iterable[str]) -> str:
    """SQL: whether none of these expressions is null."""
    return " AND ".join(f"{text} IS NOT NULL" for text in texts)
