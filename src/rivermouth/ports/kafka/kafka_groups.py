"""Consumer groups' offsets, read and written from outside: no group is ever joined."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition

from rivermouth.domain.kafka.kafka_offsets import flat_offsets
from rivermouth.domain.kafka.source_topics import GroupCommit
from rivermouth.errors import RivermouthError
from rivermouth.ports.kafka.kafka_client import KafkaClient, plain

if TYPE_CHECKING:
    from rivermouth.domain.ledger.offset_ranges import Offsets

_LOG = logging.getLogger(__name__)
# A broker that has just become a group's coordinator loads its offsets first.
_STARTING: Final = frozenset({"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
_RETRY_S: Final = 0.1
# What Kafka answers to a commit from outside while a group has members.
_ACTIVE: Final = frozenset({"UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "REBALANCE_IN_PROGRESS"})


def group_offsets(client: KafkaClient, group: str, partitions: list[TopicPartition]) -> Offsets:
    """The committed offset of each of ``partitions``; negative where there is none.

    Raises:
        BrokerUnreachable: No answer in time.
        KafkaRefused: The broker refuses the request of this client.
    """
    request = f"the offsets of consumer group {group!r}"
    deadline = time.monotonic() + client.timeout_s
    while True:
        answer = _listed(client, group, partitions, request)
        errors = [answer] if isinstance(answer, KafkaError) else [each.error for each in answer if each.error]
        if isinstance(answer, list) and not errors:
            break
        if errors[0].name() not in _STARTING or time.monotonic() > deadline:
            raise client.failure(errors[0], request)
        time.sleep(_RETRY_S)
    offsets: Offsets = {}
    for part in answer:
        offsets.setdefault(part.topic, {})[part.partition] = part.offset
    return offsets


def _listed(
    client: KafkaClient, group: str, partitions: list[TopicPartition], request: str
) -> list[TopicPartition] | KafkaError:
    futures = client.admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, partitions)],
        require_stable=True,
        request_timeout=client.timeout_s,
    )
    answer = client.answers(futures, request)[group]
    return answer if isinstance(answer, KafkaError) else list(answer.topic_partitions)


def commit_offsets(client: KafkaClient, group: str, offsets: Offsets) -> GroupCommit:
    """Commits ``offsets`` to a group that has no members; a failure is logged and reported, never raised."""
    parts = [TopicPartition(topic, partition, offset) for topic, partition, offset in flat_offsets(offsets)]
    if not parts:
        return GroupCommit(group, committed=True)
    request = f"to commit to consumer group {group!r}"
    deadline = time.monotonic() + client.timeout_s
    while True:
        try:
            failed = _altered(client, group, parts, request)
        except RivermouthError as error:
            return _not_committed(group, error.message)
        if not failed or failed[0].name() not in _STARTING or time.monotonic() > deadline:
            break
        time.sleep(_RETRY_S)
    if not failed:
        return GroupCommit(group, committed=True)
    if failed[0].name() in _ACTIVE:
        return _not_committed(group, f"consumer group {group!r} has members at work; its offsets are theirs")
    return _not_committed(group, f"the broker refused {request}: {plain(failed[0])}")


def _altered(client: KafkaClient, group: str, parts: list[TopicPartition], request: str) -> list[KafkaError]:
    futures = client.admin.alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, parts)], request_timeout=client.timeout_s
    )
    answer = client.answers(futures, request)[group]
    if isinstance(answer, KafkaError):
        return [answer]
    return [part.error for part in answer.topic_partitions if part.error]


def _not_committed(group: str, detail: str) -> GroupCommit:
    _LOG.warning("progress was not committed: %s", detail)
    return GroupCommit(group, committed=False, detail=detail)
