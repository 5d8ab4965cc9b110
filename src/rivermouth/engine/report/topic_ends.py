"""How far the queries of a pipeline are behind the topics that they read: their ledgers held against Kafka's ends."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from rivermouth.domain.query.kafka_size import is_kafka
from rivermouth.domain.query.query_entry import read_json
from rivermouth.engine.report.asked_cluster import AskedCluster, partition_statuses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rivermouth.domain.kafka.read_topics import ReadTopics
    from rivermouth.domain.kafka.source_topics import Isolation
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.report.flow_status import PartitionStatus
    from rivermouth.ports.kafka.kafka_cluster import Kafka


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where partitions begin and end; without those that nobody knows."""

    first: Offsets = field(default_factory=dict)
    ends: Offsets = field(default_factory=dict)


class TopicEnds:
    """Asks clusters where topics end; each topic once, whatever the number of queries that read it.

    Args:
        topics: What the pipeline's queries read.
        bootstrap_servers: The project's cluster.
        options: Its client options, resolved.
        timeout_s: Bound on each answer. A cluster that missed it once is not asked again.
    """

    def __init__(
        self, topics: Sequence[ReadTopics], bootstrap_servers: str, options: Mapping[str, str], timeout_s: float
    ) -> None:
        self._topics = topics
        self._bootstrap_servers = bootstrap_servers
        self._options = options
        self._timeout_s = timeout_s
        self._clusters: dict[str, AskedCluster] = {}
        self._known: dict[tuple[str, ReadTopics], _Bounds] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def partitions(self, entry: QueryEntry) -> tuple[PartitionStatus, ...]:
        """Where a query is in each partition that it reads, behind the batch of an entry.

        Topics that a pattern finds since are not among them; the next batch knows them.

        Raises:
            BrokerUnreachable: A cluster does not answer.
            RivermouthError: It does not let this client see the topics.
        """
        position = _position(entry)
        first, ends = dict[str, dict[int, int]](), dict[str, dict[int, int]]()
        for topic in position:
            bounds = self._bounds(topic)
            first[topic] = dict(bounds.first.get(topic, {}))
            ends[topic] = dict(bounds.ends.get(topic, {}))
        return partition_statuses(_with_new_partitions(position, first, ends), ends, None)

    def unasked(self, entry: QueryEntry) -> tuple[PartitionStatus, ...]:
        """The same without the ends."""
        return partition_statuses(_position(entry), {}, None)

    def _bounds(self, topic: str) -> _Bounds:
        source = next((each for each in self._topics if each.known and each.has(topic)), None)
        if source is None:
            return _Bounds()
        if (topic, source) not in self._known:
            cluster = self._cluster(source.servers)
            self._known[topic, source] = cluster.ask(lambda kafka: _asked(kafka, topic, source))
        return self._known[topic, source]

    def _cluster(self, servers: str) -> AskedCluster:
        if servers not in self._clusters:
            options = {} if servers else self._options
            found = AskedCluster(servers or self._bootstrap_servers, options, self._timeout_s)
            self._clusters[servers] = self._opened.enter_context(found)
        return self._clusters[servers]


def _asked(kafka: Kafka, topic: str, source: ReadTopics) -> _Bounds:
    topics = kafka.describe([topic])
    isolation: Isolation = "read_committed" if source.isolation == "read_committed" else "read_uncommitted"
    first = {} if source.assign else kafka.beginning_offsets(topics)
    return _Bounds(first, kafka.end_offsets(topics, isolation))


def _position(entry: QueryEntry) -> dict[str, dict[int, int]]:
    """The first offsets that no batch has read; the least of several sources."""
    found: dict[str, dict[int, int]] = {}
    sources: list[Mapping[str, Mapping[str, int]]] = [each for each in read_json(entry.offsets) if is_kafka(each)]
    for source in sources:
        for topic, partitions in source.items():
            known = found.setdefault(topic, {})
            for number, offset in partitions.items():
                known[int(number)] = min(offset, known.get(int(number), offset))
    return found


def _with_new_partitions(
    position: Mapping[str, Mapping[int, int]], first: Mapping[str, dict[int, int]], ends: Mapping[str, dict[int, int]]
) -> dict[str, dict[int, int]]:
    """The same, with partitions that are new, which begin at their first offset.

    A topic that ends before the position is another one of the same name: of it, nothing is known, and its end is
    taken out of ``ends``.
    """
    found = {}
    for topic, partitions in position.items():
        found[topic] = {**first[topic], **partitions}
        if any(ends[topic].get(number, offset) < offset for number, offset in partitions.items()):
            ends[topic].clear()
    return found
