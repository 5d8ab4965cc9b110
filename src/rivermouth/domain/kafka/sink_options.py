"""The options of a Kafka sink, read and judged. Pure values; nothing here puts a value into a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from rivermouth.errors import KafkaOptionRefused
from rivermouth.names import did_you_mean

Delivery = Literal["exactly_once", "at_least_once"]
TIMEOUT: Final = "transaction.timeout.ms"
_KAFKA: Final = "kafka."
_TOPIC: Final = "topic."
_GUARANTEE: Final = "deliveryGuarantee"
OF_READERS: Final = ("failOnDataLoss", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger", "minPartitions")
"""Options of Spark's Kafka source that people write at sinks too, where they decide nothing."""
_KNOWN: Final = ("topic", _GUARANTEE, "includeHeaders", "topic.partitions", "topic.replication.factor")
_NUMBERS: Final = ("partitions", "replication.factor")
_OURS: Final[Mapping[str, str]] = {
    "transactional.id": "rivermouth names the transactions, so that a run finds the one before",
    "key.serializer": "keys are the bytes of the column key",
    "value.serializer": "values are the bytes of the column value",
}
_DEFAULTS: Final[Mapping[str, str]] = {
    "acks": "all",
    # Larger requests, and fewer: the records of a batch come at once. A batch that is larger than the topic's
    # max.message.bytes is split by this size, for ever if it is larger too.
    "linger.ms": "20",
    "batch.size": str(64 << 10),
    "buffer.memory": str(64 << 20),
    "max.block.ms": "20000",
    # As long as a batch may take; brokers allow 15 minutes unless they are told otherwise.
    TIMEOUT: "600000",
}


@dataclass(frozen=True, slots=True)
class KafkaSinkOptions:
    """What the options of a Kafka sink say.

    Attributes:
        topic: Of all records; None where a column names it.
        delivery: ``exactly_once``: each batch is a transaction. ``at_least_once``: a batch that is tried again is
            written again.
        client: Options of Kafka's producer.
        creation: Settings of the topic, which is made with them if it does not exist; empty where it is never made.
    """

    topic: str | None = None
    delivery: Delivery = "exactly_once"
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    creation: Mapping[str, str] = field(default_factory=dict)

    @property
    def producer(self) -> dict[str, str]:
        """Options of Kafka's producer, with those of ours that the user did not set."""
        return {**_DEFAULTS, **self.client}

    @property
    def partitions(self) -> int:
        """Of a topic that is made; 0 for the broker's default."""
        return int(self.creation.get("partitions", 0))

    @property
    def replication_factor(self) -> int:
        """Of a topic that is made; 0 for the broker's default."""
        return int(self.creation.get("replication.factor", 0))

    @property
    def topic_settings(self) -> dict[str, str]:
        """Settings of a topic as Kafka calls them, such as ``cleanup.policy``."""
        return {name: value for name, value in self.creation.items() if name not in _NUMBERS}


def read_options(options: Mapping[str, str]) -> KafkaSinkOptions:
    """The options of a sink of the format ``kafka``, as a pipeline writes them.

    Raises:
        KafkaOptionRefused: One is unknown, has a value that it cannot have, or is rivermouth's to decide.
    """
    client, creation, plain = dict[str, str](), dict[str, str](), dict[str, str]()
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(_KAFKA):
            client[lower.removeprefix(_KAFKA)] = value
        elif lower.startswith(_TOPIC):
            creation[lower.removeprefix(_TOPIC)] = value
        else:
            plain[lower] = value
    _check(client, creation, plain)
    guarantee = plain.get(_GUARANTEE.lower(), "exactly_once").lower().replace("-", "_")
    if guarantee not in get_args(Delivery):
        raise KafkaOptionRefused(
            option=_GUARANTEE, reason="it is exactly_once or at_least_once", fix=f"{_GUARANTEE}: exactly_once"
        )
    delivery: Delivery = "exactly_once" if guarantee == "exactly_once" else "at_least_once"
    return KafkaSinkOptions(plain.get("topic"), delivery, client, creation)


def _check(client: Mapping[str, str], creation: Mapping[str, str], plain: Mapping[str, str]) -> None:
    known = {name.lower() for name in _KNOWN}
    for name in plain:
        if name not in known and not name.startswith("databricks."):
            fix = did_you_mean(name, _KNOWN)
            raise KafkaOptionRefused(option=name, reason="a Kafka sink does not know it", fix=fix)
    for name, reason in _OURS.items():
        if name in client:
            raise KafkaOptionRefused(option=f"{_KAFKA}{name}", reason=reason, fix="remove it from the sink")
    for name in _NUMBERS:
        if not creation.get(name, "1").isdecimal():
            reason = "it must be a whole number"
            raise KafkaOptionRefused(option=f"{_TOPIC}{name}", reason=reason, fix=f"{_TOPIC}{name}: 3")
    if creation and "topic" not in plain:
        reason = "only a topic that the sink names is created, and not those of a column"
        raise KafkaOptionRefused(option=f"{_TOPIC}{min(creation)}", reason=reason, fix="topic: orders")
