"""Offsets of partitions, asked of their leaders."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.ports.kafka.kafka_client import KafkaClient

_ISOLATION: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
# The leader of a partition is changing, or the topic has only just been created: asked again within the bound.
_MOVING: Final = frozenset(
    {
        "NOT_LEADER_FOR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PART",
    }
)
_MOVING_WAIT_S: Final = 0.02
HINTED_TOPICS: Final = 10
"""The greatest number of topics that an error or a hint names."""


def list_offsets(client: KafkaClient, topics: Mapping[str, Topic], spec: OffsetSpec, isolation: str) -> Offsets:
    """One offset of each partition of these topics; one request a broker, and another while a leader changes.

    Args:
        client: Of the cluster.
        topics: By name.
        spec: Which offset.
        isolation: ``read_committed`` or ``read_uncommitted``.

    Raises:
        BrokerUnreachable: No answer in time.
        KafkaRefused: The broker refuses the request of this client.
    """
    if not topics:
        return {}
    request = f"the offsets of {listed(topics)}"
    offsets: Offsets = {name: {} for name in sorted(topics)}
    wanted = list(partitions_of(topics))
    deadline = time.monotonic() + client.timeout_s
    while wanted:
        futures = client.admin.list_offsets(
            dict.fromkeys(wanted, spec),
            isolation_level=_ISOLATION[isolation],
            request_timeout=client.timeout_s,
        )
        moving = []
        for part, answer in sorted(client.answers(futures, request).items()):
            if not isinstance(answer, KafkaError):
                offsets[part.topic][part.partition] = int(answer.offset)
            elif answer.name() in _MOVING and time.monotonic() < deadline:
                moving.append(part)
            else:
                raise client.failure(answer, request)
        wanted = moving
        time.sleep(_MOVING_WAIT_S if moving else 0)
    return offsets


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[TopicPartition]:
    """The partitions of these topics, as librdkafka names them."""
    for topic in topics.values():
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition)


def listed(names: Collection[str]) -> str:
    """Topics in words, in order; the last ones are counted only."""
    ordered = sorted(names)
    more = f" and {len(ordered) - HINTED_TOPICS} more" if len(ordered) > HINTED_TOPICS else ""
    return f"topic{'s' * (len(ordered) > 1)} {', '.join(ordered[:HINTED_TOPICS])}{more}"
