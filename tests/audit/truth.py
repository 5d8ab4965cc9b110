"""What was visible: read by a plain consumer of committed records before Kafka can take anything away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, TopicPartition
from tests.crashes import oracle
from tests.crashes.oracle import Expected, Record

Key = tuple[str, int, int, int]
"""Topic, epoch, partition, offset: what identifies a record, also where a topic was created again."""


class Truth:
    """Every record that a reader of committed records has seen, and where it must be.

    Attributes:
        records: By key.
        places: What ``rule`` says of each.
        epochs: By topic, how often it was created again.
    """

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], rule: Callable[[Record], Expected]) -> None:
        self.records: dict[Key, Record] = {}
        self.places: dict[Key, Expected] = {}
        self.epochs = dict.fromkeys(topics, 0)
        self._rule = rule
        self._next: dict[tuple[str, int], int] = {}
        self._servers = bootstrap_servers

    def catch_up(self) -> None:
        """Reads what became visible since."""
        with oracle.committed_reader(self._servers) as consumer:
            for record in oracle.to_the_end(consumer, self._parts(consumer)):
                key = (record.topic, self.epochs[record.topic], record.partition, record.offset)
                self.records[key] = record
                self.places[key] = self._rule(record)
                self._next[record.topic, record.partition] = record.offset + 1

    def begin_anew(self, topic: str) -> None:
        """The topic was deleted and made again."""
        self.epochs[topic] += 1
        self._next = {at: offset for at, offset in self._next.items() if at[0] != topic}

    def forget(self, topic: str) -> None:
        """The topic was deleted before anybody had read it."""
        self.records = {key: record for key, record in self.records.items() if key[0] != topic}
        self.places = {key: place for key, place in self.places.items() if key[0] != topic}
        self._next = {at: offset for at, offset in self._next.items() if at[0] != topic}

    def superseded(self, topic: str) -> set[Key]:
        """Records of a compacted topic that Kafka may have taken away: newer ones of their keys followed."""
        last: dict[tuple[int, int, bytes | None], int] = {}
        mine = [key for key in self.records if key[0] == topic]
        for key in mine:
            _topic, epoch, partition, offset = key
            of_key = epoch, partition, self.records[key].key
            last[of_key] = max(offset, last.get(of_key, -1))
        return {key for key in mine if key[3] < last[key[1], key[2], self.records[key].key]}

    def _parts(self, consumer: Consumer) -> list[TopicPartition]:
        parts = []
        for topic in self.epochs:
            for partition in oracle.partitions(consumer, topic):
                part = TopicPartition(topic, partition)
                first, _end = consumer.get_watermark_offsets(part, timeout=10)
                part.offset = max(first, self._next.get((topic, partition), 0))
                parts.append(part)
        return parts
