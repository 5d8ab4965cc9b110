"""The Kafka sink: each record that passes is a row of the table and a record of a topic, once in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, model_validator

from rivermouth.domain.kafka.sink_options import KafkaSinkOptions, read_options
from rivermouth.errors import KafkaOptionRefused
from rivermouth.sinks._appending import AppendingSink
from rivermouth.sinks._texts import Texts
from rivermouth.spec import EncodingFormat, Format, RegistryFormat
from rivermouth.spec.kinds import kind_from_yaml

TOPIC_COLUMN: Final = "topic"
"""Names the topic of each record where the sink names none."""
_OF_FORMATS: Final = kind_from_yaml("formats")


def _value_format(value: Any) -> Any:
    """JSON as the word, other formats as the objects that flows have."""
    return "json" if value in ("json", {"type": "json"}) else _OF_FORMATS(value)


class KafkaSink(AppendingSink):
    """Rows are added to the table, and then written to a topic of the project's Kafka, commit by commit.

    Attributes:
        topic: The topic. Without one the column ``topic`` of the table names the topic of each record.
        key: The column of the table that becomes the key of a record; none: records have no key.
        value: The column that becomes the value as it is, text or bytes; where it is null, so is the value. Without one
            ``format`` says what the value is.
        format: How a row becomes the value of a record: ``json`` makes an object of the columns that are no metadata.
            ``avro`` and ``protobuf`` have the settings that they have in a flow's ``format``, and take the columns that
            have the names of the schema's fields.
        headers: By name of a header the column of the table that it has.
        partition: The column with the number of a record's partition; without it Kafka's own partitioner decides.
        create_topic: Settings with which the topic is created if it does not exist: ``partitions``,
            ``replication.factor``, and those that Kafka knows, such as ``cleanup.policy``. None: it is never created.
        options: Options of Kafka's producer, such as ``compression.type``. Those of the project's cluster hold too.
    """

    type: Literal["kafka"] = "kafka"
    topic: str | None = Field(default=None, min_length=1)
    key: str | None = Field(default=None, min_length=1)
    value: str | None = Field(default=None, min_length=1)
    format: Annotated[Literal["json"] | SerializeAsAny[Format], BeforeValidator(_value_format)] = "json"
    headers: Texts = Field(default_factory=dict)
    partition: str | None = Field(default=None, min_length=1)
    create_topic: Texts | None = None
    options: Texts = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_can_be(self) -> Self:
        try:
            self.options_with({})
        except KafkaOptionRefused as error:
            option, reason, fix = (str(error.facts[name]).replace("topic.", "") for name in ("option", "reason", "fix"))
            msg = f"{option.removeprefix('kafka.')} is refused, because {reason}: {fix}"
            raise ValueError(msg) from None
        return self

    @model_validator(mode="after")
    def _format_can_be(self) -> Self:
        msg = None
        if isinstance(self.format, EncodingFormat):
            msg = self.format.unwritable
        elif isinstance(self.format, Format):
            msg = f"format {self.format.type} is read only: format: json, or avro or protobuf with their settings"
        if msg is not None:
            raise ValueError(msg)
        if self.format != "json" and self.value is not None:
            msg = "value writes a column as it is, and format makes the value of several: leave one of them out"
            raise ValueError(msg)
        return self

    @property
    def encoding(self) -> EncodingFormat | None:
        """The format that makes the value of a record, where that is not JSON."""
        return self.format if isinstance(self.format, EncodingFormat) else None

    @property
    def registry_format(self) -> RegistryFormat | None:
        """The format, if a schema registry has its schema."""
        return self.format if isinstance(self.format, RegistryFormat) and self.format.reads_registry else None

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table that it names, by the setting."""
        named = {"key": self.key, "value": self.value, "partition": self.partition}
        named["topic"] = TOPIC_COLUMN if self.topic is None else None
        return {**{name: column for name, column in named.items() if column}, **self.headers}

    def options_with(self, cluster: Mapping[str, str]) -> KafkaSinkOptions:
        """What its producer and its topic are told.

        Args:
            cluster: Options of a client of the project's cluster.
        """
        client = {f"kafka.{name}": value for name, value in {**cluster, **self.options}.items()}
        settings = {f"topic.{name}": value for name, value in (self.create_topic or {}).items()}
        topic = {} if self.topic is None else {"topic": self.topic}
        return read_options({**topic, **client, **settings})


KIND = KafkaSink
