"""The frozen nouns that a user writes, in YAML or in Python: both build equal objects.

Every model refuses unknown keys. Text may hold ``${NAME}`` or ``${NAME:-default}``; it stays as written
here and is resolved only where it is used, so that no printout of these objects shows a secret.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializeAsAny,
    WithJsonSchema,
    model_validator,
)

from rivermouth.extend import find_kind
from rivermouth.names import COORDINATES, DEFAULT_METADATA_COLUMNS, METADATA_COLUMNS, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?|d|days?)\s*$")
_UNIT_S = {"ms": 0.001, "mi": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,99}$")
_TABLE = re.compile(r"^[A-Za-z0-9_{}-]+(\.[A-Za-z0-9_{}-]+){1,2}$")


class Noun(BaseModel):
    """Base of all nouns: frozen, and strict about keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def duration_s(text: object) -> object:
    """``"30 seconds"`` as 30.0; other values pass, for the type check to judge.

    Raises:
        ValueError: The text is no duration.
    """
    if not isinstance(text, str):
        return text
    match = _DURATION.match(text)
    if match is None:
        msg = f"{text!r} is no duration: write a number and a unit, for example '30 seconds' (ms, s, m, h, d)"
        raise ValueError(msg)
    number, unit = match.groups()
    key = "ms" if unit.startswith(("ms", "milli")) else unit[0]
    return float(number) * _UNIT_S[key]


def _duration_text(seconds: float) -> str:
    """``30.0`` as ``"30 seconds"``; read back it is the same number."""
    number = f"{Decimal(repr(seconds)):f}"
    return f"{number.removesuffix('.0')} seconds"


DurationS = Annotated[
    float,
    BeforeValidator(duration_s),
    Field(gt=0, allow_inf_nan=False),
    PlainSerializer(_duration_text, return_type=str),
    WithJsonSchema({"type": "string", "examples": ["30 seconds", "500 ms"]}),
]
Offsets = dict[str, dict[int, int]]


class KafkaCluster(Noun):
    """Where the brokers are and how to talk to them.

    Attributes:
        bootstrap_servers: ``host:port``, several parted by commas.
        options: Kafka client options as in Kafka's own documentation, without a ``kafka.`` prefix.
    """

    bootstrap_servers: str = "localhost:9092"
    options: dict[str, str | int | bool] = {}


class SparkSettings(Noun):
    """The Spark session of a run.

    Attributes:
        master: Spark's master URL.
        driver_memory: Heap of the driver, in Spark's notation.
        conf: Spark options; they win over rivermouth's own settings.
    """

    master: str = "local[*]"
    driver_memory: str = "2g"
    conf: dict[str, str | int | float | bool] = {}


class Places(Noun):
    """Templates of the places where things lie; a flow may override them.

    Placeholders: ``{lake}``, ``{schema}``, ``{table}``, ``{topic}``, ``{bucket_prefix}``.

    Attributes:
        table: Folder of the table.
        checkpoint: Folder of the query's checkpoint. It is a cache: it may be deleted at any time.
        dead_letter_table: Folder of the table of dead letters.
        bucket_prefix: What ``{bucket_prefix}`` stands for.
    """

    table: str | None = None
    checkpoint: str | None = None
    dead_letter_table: str | None = None
    bucket_prefix: str | None = None

    DEFAULTS: ClassVar[Mapping[str, str]] = {
        "table": "{lake}/{schema}/{table}",
        "checkpoint": "{lake}/_rivermouth/checkpoints/{schema}.{table}",
        "dead_letter_table": "{lake}/{schema}/{table}__dead_letters",
        "bucket_prefix": "",
    }


class StartingOffsets(Noun):
    """Where a flow starts that has no ledger yet.

    In YAML: ``earliest``, ``latest``, ``{topic: {partition: offset}}`` (-2 earliest, -1 latest), a timestamp
    (ISO 8601; without an offset it is UTC) or ``{group: G}`` for the committed offsets of a consumer group.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamp", "group"] = "earliest"
    offsets: Offsets = {}
    timestamp: dt.datetime | None = None
    group: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: object) -> object:
        return _offsets_from_yaml(value, words=("earliest", "latest"), group=True)

    def text(self) -> str:
        """The value in the words of the YAML, for printouts."""
        return _offsets_text(self)


class EndingOffsets(Noun):
    """Where a bounded run ends: ``latest``, ``{topic: {partition: offset}}`` (-1 latest) or a timestamp."""

    kind: Literal["latest", "offsets", "timestamp"] = "latest"
    offsets: Offsets = {}
    timestamp: dt.datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: object) -> object:
        return _offsets_from_yaml(value, words=("latest",), group=False)

    def text(self) -> str:
        """The value in the words of the YAML, for printouts."""
        return _offsets_text(self)


def _offsets_from_yaml(value: object, *, words: tuple[str, ...], group: bool) -> object:
    if isinstance(value, dict) and "kind" in value:
        return value
    if isinstance(value, str) and value in words:
        return {"kind": value}
    if isinstance(value, dict) and group and set(value) == {"group"} and isinstance(value["group"], str):
        return {"kind": "group", "group": value["group"]}
    if isinstance(value, dict) and value and all(isinstance(part, dict) for part in value.values()):
        return {"kind": "offsets", "offsets": value}
    if isinstance(value, str | dt.datetime | dt.date):
        return {"kind": "timestamp", "timestamp": _timestamp(value, words)}
    if isinstance(value, BaseModel):
        return value
    msg = f"write {', '.join(words)}, {{topic: {{partition: offset}}}}, a timestamp{' or {group: name}' * group}"
    raise ValueError(msg)


def _timestamp(value: str | dt.date, words: tuple[str, ...]) -> dt.datetime:
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            msg = f"{value!r} is no timestamp (2026-01-31T12:00:00Z); {did_you_mean(str(value), words)}"
            raise ValueError(msg) from None
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the zone is set below
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _offsets_text(value: StartingOffsets | EndingOffsets) -> str:
    if value.kind == "offsets":
        return str(value.offsets)
    if value.timestamp is not None:
        return value.timestamp.isoformat()
    group = getattr(value, "group", None)
    return f"{{group: {group}}}" if group else value.kind


class Action(Noun):
    """What a failed expectation does to its record. Lives in ``actions/<name>.py`` as ``KIND``.

    Attributes:
        name: The word in the YAML.
        strength: Of several failed expectations the one with the greatest strength decides.
        route: Where the record goes: table, dropped, dead_letter, or fail to stop the flow.
    """

    name: str
    strength: int
    route: Literal["table", "dropped", "dead_letter", "fail"]


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
        max_offsets: At most so many offsets a batch, over all partitions.
        min_offsets: Wait until there are so many, but no longer than ``max_delay``.
        max_delay: Bound on the wait for ``min_offsets``.
        min_partitions: At least so many Spark tasks read a batch.
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
            msg = f"min_offsets ({self.min_offsets}) is greater than max_offsets ({self.max_offsets})"
            raise ValueError(msg)
        return self


class Table(Noun):
    """The Delta table that a flow writes; in YAML a name, or a mapping with its layout.

    Attributes:
        name: ``schema.table`` lies in the lake; ``catalog.schema.table`` is also registered in that catalog.
        partition_by: Columns; ``{name: expression}`` derives one, for example ``{day: date(kafka_timestamp)}``.
        cluster_by: Columns for liquid clustering; not together with ``partition_by``.
        properties: Delta table properties, set when the table is created.
        comment: Comment on the table.
        column_comments: Comments by column name.
    """

    name: str
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
            msg = f"{self.name!r} is no table name: write schema.table (or catalog.schema.table)"
            raise ValueError(msg)
        if self.partition_by and self.cluster_by:
            msg = "a table is partitioned or clustered, not both: keep one of partition_by and cluster_by"
            raise ValueError(msg)
        return self


class Format(Noun):
    """Base of the formats: how the value of a record becomes columns.

    A subclass lives in ``formats/<type>.py`` (assigned there to ``KIND``) and is pure: frames in, frames out.

    Attributes:
        type: Its name in YAML.
        refuses: Whether there is any value that ``decode`` refuses.
    """

    type: str
    refuses: ClassVar[bool] = True

    def below(self, _base: Path) -> Self:
        """The same format with the files that it names resolved against the project file's folder."""
        return self

    def columns(self, spark: SparkSession) -> StructType:
        """The payload columns, in order, all nullable.

        Raises:
            ValueError: The declared schema cannot be read; the text says why.
        """
        raise NotImplementedError

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns, at full speed and without reasons.

        Args:
            rows: Has the envelope columns (``names.ENVELOPE``), ``__value`` binary.

        Returns:
            ``rows`` with ``__data`` (a struct of the payload columns: null ones where ``__value`` is null, and
            whatever they are where it was refused) and ``__decoded`` (boolean, never null; true where ``__value``
            is null).
        """
        raise NotImplementedError

    def explain(self, rows: DataFrame) -> DataFrame:
        """Why values were refused.

        Args:
            rows: As ``decode`` returns them. What is said of those with ``__decoded`` true is not looked at.

        Returns:
            ``rows`` with ``__reason`` (a closed code), ``__field`` (dotted path or null) and ``__message``
            (a sentence without row contents), all strings.
        """
        raise NotImplementedError

    def observations(self) -> dict[str, str]:
        """SQL aggregates over routed rows, counted in the same pass as the write, by the name of the count.

        ``undeclared_fields`` (bigint) is the one that reports know.
        """
        return {}


class Sink(Noun):
    """Base of the sinks: how rows get into the table. Lives in ``sinks/<type>.py`` as ``KIND``."""

    type: str


def _kind_from_yaml(family: str) -> Any:
    def build(value: object) -> object:
        if isinstance(value, str):
            value = {"type": value}
        if isinstance(value, Mapping):
            if "type" not in value:
                msg = f"a {family[:-1]} needs a type: {family[:-1]}: {{type: ...}}"
                raise ValueError(msg)
            return find_kind(family, str(value["type"])).model_validate(value)
        return value

    return build


class Flow(Noun):
    """One flow: the records of Kafka topics into one Delta table.

    Exactly one of ``topics``, ``topic_pattern`` and ``assign`` names the source.

    Attributes:
        name: Its identity, also in the table's ledger; in YAML the key under ``flows``.
        topics: Topics by name; in YAML also one name alone.
        topic_pattern: A regular expression that the whole name of a topic must match.
        assign: Partitions by topic: ``{orders: [0, 1]}``.
        starting_offsets: Where to start while the flow has no ledger yet.
        ending_offsets: Where a bounded run ends; not together with ``--follow``.
        on_data_loss: What happens where Kafka no longer holds what was not read yet, or a topic was created again:
            ``fail`` stops the flow until somebody decides, ``record`` records the loss in the ledger and goes on.
        group_id: Consumer group under which progress is shown to Kafka's own tools; never read back.
        format: How the value of a record becomes columns.
        key_format: How its key becomes ``kafka_key``: raw keeps bytes (default of raw flows), text decodes UTF-8.
        null_values: What happens to a record without a value.
        metadata_columns: Which of Kafka's coordinates the table gets, and under which names.
        expectations: Conditions that each record should meet.
        table: The Delta table.
        sink: How rows get into the table.
        places: Where things lie, if not where the project says.
        trigger: How often the flow looks for records, and how many it takes.
        previously: The name that the flow had before it was renamed.
    """

    name: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    assign: dict[str, tuple[int, ...]] = {}
    starting_offsets: StartingOffsets = StartingOffsets(kind="earliest")
    ending_offsets: EndingOffsets | None = None
    on_data_loss: Literal["fail", "record"] = "fail"
    group_id: str | None = None
    format: Annotated[SerializeAsAny[Format], BeforeValidator(_kind_from_yaml("formats"))]
    key_format: Literal["raw", "text"] | None = None
    null_values: Literal["drop", "keep", "dead_letter"] = "drop"
    metadata_columns: dict[str, str] = {name: name for name in DEFAULT_METADATA_COLUMNS}
    expectations: tuple[Expectation, ...] = ()
    table: Table
    sink: Annotated[SerializeAsAny[Sink], BeforeValidator(_kind_from_yaml("sinks"))]
    places: Places = Places()
    trigger: Trigger = Trigger()
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
        if "metadata_columns" in value:
            value["metadata_columns"] = _metadata_columns(value["metadata_columns"])
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _NAME.match(self.name):
            msg = f"{self.name!r} is no flow name: use letters, digits, _ and -, beginning with a letter"
            raise ValueError(msg)
        sources = [name for name in ("topics", "topic_pattern", "assign") if getattr(self, name)]
        if len(sources) != 1:
            named = " and ".join(sources) if sources else "none"
            msg = (
                f"name the source by exactly one of topics, topic_pattern and assign ({named} given): "
                "for example topics: [orders]"
            )
            raise ValueError(msg)
        names = [expectation.name for expectation in self.expectations]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"expectation {twice[0]!r} stands twice: each name once"
            raise ValueError(msg)
        return self

    @property
    def key_as_text(self) -> bool:
        """Whether ``kafka_key`` is decoded as UTF-8; raw flows keep bytes unless told otherwise."""
        if self.key_format is None:
            return self.format.type != "raw"
        return self.key_format == "text"


def _metadata_columns(value: object) -> object:
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        value = {name: name for name in value}
    if not isinstance(value, dict) or not all(isinstance(name, str | None) for name in value.values()):
        msg = "list the metadata columns, or map each to its name: {kafka_offset: offset}"
        raise ValueError(msg)
    for name in value:
        if name not in METADATA_COLUMNS:
            msg = f"unknown metadata column {name!r}: {did_you_mean(str(name), METADATA_COLUMNS)}"
            raise ValueError(msg)
    picked = {name: value.get(name) or name for name in METADATA_COLUMNS if name in value or name in COORDINATES}
    if len(set(picked.values())) < len(picked):
        msg = "two metadata columns have the same name"
        raise ValueError(msg)
    return picked


class ProjectSpec(Noun):
    """A project: a lake, a Kafka cluster, and flows by name.

    Attributes:
        name: Names the project in messages and metrics.
        lake: Root of the lake: a folder, or a URI such as ``s3a://bucket/prefix``.
        kafka: The brokers.
        spark: The Spark session of a run.
        places: Templates of the places where things lie.
        flows: The flows by name.
    """

    name: str = "rivermouth"
    lake: str
    kafka: KafkaCluster = KafkaCluster()
    spark: SparkSettings = SparkSettings()
    places: Places = Places()
    flows: dict[str, Flow] = {}

    @model_validator(mode="before")
    @classmethod
    def _name_flows(cls, value: object) -> object:
        if not isinstance(value, dict) or not isinstance(value.get("flows"), dict):
            return value
        flows = {
            name: {"name": str(name), **flow} if isinstance(flow, dict) else flow
            for name, flow in value["flows"].items()
        }
        return {**value, "flows": flows}
