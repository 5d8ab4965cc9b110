"""Topics made in a Kafka cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, TopicCollection
from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

from rivermouth.ports.kafka.kafka_client import KafkaClient


def create_topics(
    client: KafkaClient,
    topics: Sequence[str],
    *,
    partitions: int = 1,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> dict[str, bool]:
    """Sees to it that topics exist; by name, whether each had to be made.

    Args:
        client: Of the cluster.
        topics: Names.
        partitions: Of those that are made.
        replication_factor: Of those that are made; the broker's default where None.
        config: Settings of those that are made, as Kafka calls them.

    Raises:
        BrokerUnreachable: No broker answered.
        KafkaRefused: The broker does not let this client in, or does not make a topic.

    Guarantees:
        A topic that exists stays as it is. Run twice: the second time makes none.
    """
    there = {topic: _exists(client, topic) for topic in topics}
    return {
        topic: not exists and _made(client, topic, partitions, replication_factor, config)
        for topic, exists in there.items()
    }


def _exists(client: KafkaClient, topic: str) -> bool:
    request = _request(topic)
    futures = client.admin.describe_topics(TopicCollection([topic]), request_timeout=client.timeout_s)
    answer = client.answers(futures, request)[topic]
    if not isinstance(answer, KafkaError):
        return True
    if answer.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise client.failure(answer, request)
    return False


def _made(
    client: KafkaClient, topic: str, partitions: int, replicas: int | None, config: Mapping[str, str] | None
) -> bool:
    request = _request(topic)
    new = NewTopic(topic, partitions, -1 if replicas is None else replicas, config=dict(config or {}))
    answer = client.answers(client.admin.create_topics([new], request_timeout=client.timeout_s), request)[topic]
    if not isinstance(answer, KafkaError):
        return True
    if answer.code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return False
    raise client.failure(answer, request)


def _request(topic: str) -> str:
    return f"to create topic {topic}"
