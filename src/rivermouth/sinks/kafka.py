"""The Kafka sink: each record that passes is a row of the table and a record of a topic, once in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from rivermouth.domain.kafka.sink_options import KafkaSinkOptions, read_options
from rivermouth.errors import KafkaOptionRefused
from rivermouth.sinks._appending import AppendingSink

if TYPE_CHECKING:
    pass


def _as_texts(value: object) -> object:
    return {str(name): str(each) for name, each in value.items()} if isinstance(value, dict) else value


_Texts = Annotated[
    Mapping[str, str],
    BeforeValidator(_as_texts),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number"]}}),
]


class KafkaSink(AppendingSink):
    """Rows are added to the table, and then written to a topic of the project's Kafka, commit by commit.

    Attributes:
        topic: The topic.
        key: The column of the table that becomes the key of a record; none: records have no key.
        value: The column that becomes the value as it is, text or bytes; where it is null, so is the value. Without one
            ``format`` says what the value is.
        format: How a row becomes the value of a record: ``json``, an object of the columns that are no metadata.
        headers: By name of a header the column of the table that it has.
        partition: The column with the number of a record's partition; without it Kafka's own partitioner decides.
        create_topic: Settings with which the topic is created if it does not exist: ``partitions``,
            ``replication.factor``, and those that Kafka knows, such as ``cleanup.policy``. None: it is never created.
        options: Options of Kafka's producer, such as ``compression.type``. Those of the project's cluster hold too.
    """

    type: Literal["kafka"] = "kafka"
    topic: str = Field(min_length=1)
    key: str | None = Field(default=None, min_length=1)
    value: str | None = Field(default=None, min_length=1)
    format: Literal["json"] = "json"
    headers: _Texts = Field(default_factory=dict)
    partition: str | None = Field(default=None, min_length=1)
    create_topic: _Texts | None = None
    options: _Texts = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_can_be(self) -> Self:
        try:
            self.options_with({})
        except KafkaOptionRefused as error:
            option, reason, fix = (str(error.facts[name]).replace("topic.", "") for name in ("option", "reason", "fix"))
            msg = f"{option.removeprefix('kafka.')} is refused, because {reason}: {fix}"
            raise ValueError(msg) from None
        return self

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table that it names, by the setting."""
        named = {"key": self.key, "value": self.value, "partition": self.partition}
        return {**{name: column for name, column in named.items() if column}, **self.headers}

    def options_with(self, cluster: Mapping[str, str]) -> KafkaSinkOptions:
        """What its producer and its topic are told.

        Args:
            cluster: Options of a client of the project's cluster.
        """
        client = {f"kafka.{name}": value for name, value in {**cluster, **self.options}.items()}
        settings = {f"topic.{name}": value for name, value in (self.create_topic or {}).items()}
        return read_options({"topic": self.topic, **client, **settings})


KIND = KafkaSink
