"""What Kafka holds: topics and their ids, where partitions begin and end, and consumer groups' offsets.

Reads and commits through librdkafka's admin requests only: no consumer is made and no group is ever joined.
Offset vectors are ``{topic: {partition: offset}}`` with concrete offsets, as in the ledger.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from confluent_kafka import (
    KafkaError,
    TopicCollection,
    Uuid,
)
from confluent_kafka.admin import ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from rivermouth.domain.kafka.kafka_offsets import check_range, completed, flat_offsets, given_end, given_start
from rivermouth.domain.kafka.kafka_options import isolation_level
from rivermouth.domain.kafka.source_topics import GroupCommit, Topic
from rivermouth.errors import (
    GroupWithoutOffsets,
    PartitionMissing,
    TopicMissing,
    TopicPatternEmpty,
    TopicPatternInvalid,
)
from rivermouth.names import did_you_mean
from rivermouth.ports.kafka.kafka_client import KafkaClient
from rivermouth.ports.kafka.kafka_groups import commit_offsets, group_offsets
from rivermouth.ports.kafka.kafka_list_offsets import HINTED_TOPICS, list_offsets, listed, partitions_of
from rivermouth.ports.kafka.kafka_sample import read_windows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from rivermouth.domain.kafka.source_topics import Isolation
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.sampling import Record, Window
    from rivermouth.spec import Flow

_MISSING: Final = frozenset({"UNKNOWN_TOPIC_OR_PART", "TOPIC_EXCEPTION"})
_NO_ID: Final = "A" * 22


class Kafka:
    """One Kafka cluster, for looking at it. Connects at the first request; several threads may share it.

    Args:
        bootstrap_servers: ``host:port``, several are separated by commas.
        options: Options as a user writes them, in the Java client's words, references already expanded.
        timeout_s: Bound on each request, in seconds: 10 for runs, 1 for ``status``.

    Raises:
        KafkaOptionRefused: An option that may not be set, or, with the first request, that cannot be used.
        KafkaClientUnable: A security option that librdkafka cannot take.
    """

    def __init__(
        self, bootstrap_servers: str, options: Mapping[str, str] | None = None, timeout_s: float = 10.0
    ) -> None:
        options = options or {}
        self._client = KafkaClient(bootstrap_servers, options, timeout_s)
        self._isolation = isolation_level(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connections; a later request opens new ones."""
        self._client.close()

    # --- topics ---

    def topics(self, flow: Flow) -> dict[str, Topic]:
        """The topics that ``flow`` reads, by name, sorted.

        A ``topic_pattern`` is a regular expression that the whole name must match; topics that are internal
        to Kafka never match. (Spark's own ``subscribePattern`` also takes a name in which the pattern is
        merely found: hand it ``spark_pattern``.)

        Raises:
            TopicMissing: A named topic does not exist.
            PartitionMissing: An assigned partition does not exist.
            TopicPatternInvalid: The pattern is no regular expression.
            TopicPatternEmpty: No topic matches the pattern.
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker does not let this client see them.
        """
        if flow.topic_pattern:
            return self._matching(flow.name, flow.topic_pattern)
        names = sorted(flow.assign or set(flow.topics))
        found = self.describe(names)
        for name in names:
            if name not in found:
                raise TopicMissing(flow=flow.name, topic=name, fix=self._fix(name))
        return {name: _assigned(flow, found[name]) for name in names} if flow.assign else found

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """The topics of ``names`` that exist, by name, sorted, whole; one request, internal ones left out.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker does not let this client see them.
        """
        if not names:
            return {}
        request = f"to describe {listed(names)}"
        futures = self._client.admin.describe_topics(
            TopicCollection(sorted(names)), request_timeout=self._client.timeout_s
        )
        topics: dict[str, Topic] = {}
        for name, answer in sorted(self._client.answers(futures, request).items()):
            if isinstance(answer, KafkaError):
                if answer.name() not in _MISSING:
                    raise self._client.failure(answer, request)
            elif not answer.is_internal:
                partitions = tuple(sorted(partition.id for partition in answer.partitions))
                topics[name] = Topic(name, _notation(answer.topic_id), partitions)
        return topics

    def cluster_id(self) -> str | None:
        """The cluster's id, in place of topic ids where a service has none; None where it lacks both.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker does not let this client in.
        """
        return self._client.cluster_id()

    def compacted(self, names: Collection[str]) -> set[str]:
        """Those of the topics from which Kafka may take a record away that has a newer one of its key.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        request = f"the cleanup policy of {listed(names)}"
        futures = self._client.admin.describe_configs(
            [ConfigResource(ConfigResource.Type.TOPIC, name) for name in sorted(names)],
            request_timeout=self._client.timeout_s,
        )
        found = set()
        for resource, answer in self._client.answers(futures, request).items():
            if isinstance(answer, KafkaError):
                raise self._client.failure(answer, request)
            if "compact" in answer["cleanup.policy"].value:
                found.add(resource.name)
        return found

    # --- where partitions begin and end ---

    def beginning_offsets(self, topics: Mapping[str, Topic]) -> Offsets:
        """The first offset that Kafka still holds, of each partition; one request a broker.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        return list_offsets(self._client, topics, OffsetSpec.earliest(), self._isolation)  # type: ignore[no-untyped-call]

    def end_offsets(self, topics: Mapping[str, Topic], isolation: Isolation | None = None) -> Offsets:
        """The offset after the last readable record, of each partition; one request a broker.

        Args:
            topics: What ``topics`` returned.
            isolation: ``read_committed`` ends before the first open transaction (the last stable offset), as
                Spark does; ``read_uncommitted`` ends at the high watermark. The cluster's ``isolation.level``
                unless given, and that is ``read_committed`` unless set.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        return list_offsets(self._client, topics, OffsetSpec.latest(), isolation or self._isolation)  # type: ignore[no-untyped-call]

    def offsets_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets:
        """The first offset at or after ``timestamp_ms``, of each partition; its end if there is none.

        A record that arrives meanwhile is behind the offset: the ends are asked for first.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        ends = self.end_offsets(topics)
        return completed(self.first_at(topics, timestamp_ms), ends)

    def first_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets:
        """As ``offsets_at``, of those partitions that have such an offset."""
        found = list_offsets(self._client, topics, OffsetSpec.for_timestamp(max(0, timestamp_ms)), self._isolation)
        return {name: {part: at for part, at in parts.items() if at >= 0} for name, parts in found.items()}

    def records(self, windows: Sequence[Window], *, headers: bool = False) -> Iterator[Record]:
        """The records of ``windows``, one window a partition; of each partition in the order of their offsets.

        Args:
            windows: What is read.
            headers: Whether records say that a header has the id of a schema.

        Raises:
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker does not let this client read them.
        """
        return read_windows(self._client, self._isolation, windows, headers=headers)

    def weight(self, ranges: Ranges) -> None:
        """None: a broker does not report it."""

    # --- consumer groups ---

    def committed(self, group: str, topics: Mapping[str, Topic], *, flow: str) -> Offsets:
        """The offsets that a consumer group has committed; partitions without one are at their beginning.

        Args:
            group: The group. It is not joined and may be at work meanwhile.
            topics: What ``topics`` returned.
            flow: Named in errors.

        Raises:
            GroupWithoutOffsets: The group has committed nothing for any of these partitions.
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        found = group_offsets(self._client, group, list(partitions_of(topics)))
        if all(offset < 0 for _topic, _partition, offset in flat_offsets(found)):
            raise GroupWithoutOffsets(flow=flow, group=group, topic=", ".join(topics))
        return completed(found, self.beginning_offsets(topics))

    def commit(self, group: str, offsets: Offsets) -> GroupCommit:
        """Commits progress to a consumer group, for Kafka's own lag tools; never raises a Kafka error.

        Guarantees:
            The group is not joined, and members at work in it lose nothing: Kafka refuses the commit while
            the group has any. Run twice: the group has the same offsets. It is a copy for others to see: the
            ledger is the truth, so a commit that fails is logged and reported, and no reason to stop.
        """
        return commit_offsets(self._client, group, offsets)

    # --- from the words of the flow to offsets ---

    def resolve_starting(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete first offset for every partition of ``topics``, as ``flow.starting_offsets`` says.

        Per-partition offsets may leave partitions out: these start at their earliest, so that nothing is
        lost. An offset may lie anywhere from the beginning to the end of what can be read by now.

        Raises:
            SourceNotRead: Offsets are given for a topic or partition that the flow does not read.
            PartitionMissing: Offsets are given for a partition that the topic does not have.
            OffsetsOutOfRange: A given or committed offset is not, or no longer, in Kafka; it is never moved.
            GroupWithoutOffsets: The group to take over has committed nothing.
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        start = flow.starting_offsets
        if start.kind == "latest":
            return self.end_offsets(topics)
        if start.timestamp is not None:
            return self.offsets_at(topics, _milliseconds(start.timestamp))
        first = self.beginning_offsets(topics)
        if start.kind == "earliest":
            return first
        if start.group is None:
            return given_start(flow, topics, first, self.end_offsets(topics))
        wanted = self.committed(start.group, topics, flow=flow.name)
        setting, fix = f"starting_offsets {start.text()}", "starting_offsets: earliest"
        check_range(flow.name, setting, wanted, first, self.end_offsets(topics), fix)
        return completed(wanted, first)

    def resolve_ending(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete end (exclusive) for every partition of ``topics``, as ``flow.ending_offsets`` says.

        Without ``ending_offsets``, and for partitions that they leave out, it is the end as of now. A
        timestamp ends before the first record at or after it.

        Raises:
            SourceNotRead: Offsets are given for a topic or partition that the flow does not read.
            PartitionMissing: Offsets are given for a partition that the topic does not have.
            OffsetsOutOfRange: A given offset is before the beginning, or behind what can be read by now.
            BrokerUnreachable: No answer in time.
            KafkaRefused: The broker refuses the request of this client.
        """
        ending = flow.ending_offsets
        if ending is not None and ending.timestamp is not None:
            return self.offsets_at(topics, _milliseconds(ending.timestamp))
        last = self.end_offsets(topics)
        if ending is None or ending.kind == "latest":
            return last
        return given_end(flow, ending, topics, self.beginning_offsets(topics), last)

    # --- inside ---

    def _matching(self, flow: str, pattern: str) -> dict[str, Topic]:
        try:
            whole = re.compile(pattern)
        except re.error as error:
            raise TopicPatternInvalid(flow=flow, pattern=pattern, detail=str(error)) from None
        found = self.describe([name for name in self._client.all_names() if whole.fullmatch(name)])
        if not found:
            raise TopicPatternEmpty(flow=flow, pattern=pattern, fix=self._fix_of_pattern())
        return found

    def _fix(self, name: str) -> str:
        known = [topic for topic in self._client.all_names() if not topic.startswith("__")]
        hint = did_you_mean(name, known)
        if hint.startswith("did you mean"):
            return hint
        create = f"rivermouth topics create {name}"
        return f"{create}; or read one that is there: {', '.join(known)}" if 0 < len(known) <= HINTED_TOPICS else create

    def _fix_of_pattern(self) -> str:
        known = sorted(topic for topic in self._client.all_names() if not topic.startswith("__"))
        more = ", ..." if len(known) > HINTED_TOPICS else ""
        listed = f"write one that matches a topic of the broker: {', '.join(known[:HINTED_TOPICS])}{more}"
        return listed if known else "rivermouth dev produce TOPIC FILE"


def spark_pattern(topic_pattern: str) -> str:
    """The value of Spark's ``subscribePattern`` that takes the same topics as ``Kafka.topics``.

    Spark searches the pattern in a name instead of matching the whole name, so it is tied to both ends.
    """
    return rf"\A(?:{topic_pattern})\z"


def _assigned(flow: Flow, topic: Topic) -> Topic:
    partitions = tuple(sorted(set(flow.assign[topic.name])))
    for partition in partitions:
        if partition not in topic.partitions:
            raise PartitionMissing(flow=flow.name, topic=topic.name, partition=partition, count=len(topic.partitions))
    return replace(topic, partitions=partitions)


def _notation(topic_id: Uuid) -> str | None:
    # librdkafka writes ids in plain base64, Kafka's own tools in the alphabet for addresses.
    text = str(topic_id).rstrip("=").translate(str.maketrans("+/", "-_"))
    return None if text == _NO_ID else text


def _milliseconds(timestamp: dt.datetime) -> int:
    since_epoch = timestamp - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    # Rounded up: a record in the millisecond before is before the timestamp.
    return -(-(since_epoch // dt.timedelta(microseconds=1)) // 1000)
