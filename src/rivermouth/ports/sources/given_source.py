"""Records that a test gives in the place of Kafka: topics that end where the records end."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from rivermouth.decoding.registry import schema_headers
from rivermouth.domain.kafka.source_topics import GroupCommit, Topic
from rivermouth.domain.ledger.offset_ranges import flat
from rivermouth.domain.ledger.sampling import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.source_topics import Isolation
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.sampling import Window
    from rivermouth.domain.project.sample_records import Placed
    from rivermouth.spec import Flow

COLUMNS: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>"
)
"""Of Spark's Kafka source, with headers."""


def source_row(record: Placed) -> tuple[Any, ...]:
    """A record in the columns of Spark's Kafka source."""
    place = (record.topic, record.partition, record.offset)
    return (*place, record.timestamp, 0, record.key, record.value, list(record.headers) or None)


class GivenSource:
    """Records in memory, read as Kafka's are. Implements ``OffsetSource`` and ``RecordSource``.

    Args:
        records: With coordinates; more may be added between two runs.
        topics: Names of topics that exist, also without a record.
        headers: Whether frames have the records' headers.
    """

    def __init__(self, records: list[Placed], topics: Sequence[str] = (), *, headers: bool = True) -> None:
        self._records = records
        self._topics = topics
        self._headers = headers

    # --- what there is to read ---

    def topics(self, flow: Flow) -> dict[str, Topic]:
        """The topics that ``flow`` reads, by name, sorted, with the partitions that it reads."""
        known = self._known()
        if flow.assign:
            parts = {name: tuple(sorted(set(flow.assign[name]))) for name in known if name in flow.assign}
            return {name: replace(known[name], partitions=each) for name, each in parts.items()}
        if flow.topic_pattern is not None:
            return {name: topic for name, topic in known.items() if re.fullmatch(flow.topic_pattern, name)}
        return {name: topic for name, topic in known.items() if name in flow.topics}

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of these topics that there are."""
        return {name: topic for name, topic in self._known().items() if name in names}

    def compacted(self, names: Collection[str]) -> set[str]:
        """All: the offsets of given records may have gaps."""
        return {*names}

    def beginning_offsets(self, topics: Mapping[str, Topic]) -> Offsets:
        """The first offset of each partition."""
        return self._offsets(topics, min, 0)

    def end_offsets(self, topics: Mapping[str, Topic], isolation: Isolation | None = None) -> Offsets:  # noqa: ARG002
        """The offset behind the last record of each partition."""
        return self._offsets(topics, max, 1)

    def offsets_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets | None:
        """The first offset at or after a time."""
        ends = self.end_offsets(topics)
        for each in sorted(self._records, key=lambda record: -record.offset):
            if each.topic in topics and each.timestamp.timestamp() * 1000 >= timestamp_ms:
                ends[each.topic][each.partition] = each.offset
        return ends

    def resolve_starting(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:  # noqa: ARG002 - all are read
        """The first record of each partition."""
        return self.beginning_offsets(topics)

    def resolve_ending(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:  # noqa: ARG002 - all are read
        """Behind the last record of each partition."""
        return self.end_offsets(topics)

    def records(self, windows: Sequence[Window], *, headers: bool = False) -> Iterator[Record]:
        """The records of ``windows``, in the order of their offsets."""
        for window in windows:
            found = self._within({window.topic: {window.partition: (window.start, window.end)}})
            for each in sorted(found, key=lambda record: record.offset)[: window.records]:
                in_header = headers and schema_headers.has_id(each.headers)
                yield Record(each.topic, each.partition, each.offset, each.key, each.value, in_header)

    def weight(self, ranges: Ranges) -> tuple[int, int] | None:
        """Records of ``ranges`` and the bytes of their keys and values."""
        found = self._within(ranges)
        return len(found), sum(len(each.key or b"") + len(each.value or b"") for each in found)

    def commit(self, group: str, offsets: Offsets) -> GroupCommit:  # noqa: ARG002 - there is no cluster
        """Commits nothing: there is no cluster."""
        return GroupCommit(group, committed=False, detail="the flow reads the records of a test")

    def _known(self) -> dict[str, Topic]:
        parts: dict[str, set[int]] = defaultdict(set)
        for name in self._topics:
            parts[name] = {0}
        for each in self._records:
            parts[each.topic].add(each.partition)
        return {name: Topic(name, f"given-{name}", tuple(sorted(parts[name]))) for name in sorted(parts)}

    def _offsets(self, topics: Mapping[str, Topic], pick: Any, behind: int) -> Offsets:
        found: dict[tuple[str, int], list[int]] = defaultdict(list)
        for each in self._records:
            found[each.topic, each.partition].append(each.offset)
        return {
            name: {part: pick(known) + behind if (known := found[name, part]) else 0 for part in topic.partitions}
            for name, topic in topics.items()
        }

    def _within(self, ranges: Ranges) -> list[Placed]:
        spans = {(topic, part): (start, end) for topic, part, start, end in flat(ranges)}
        return [
            each
            for each in self._records
            if (span := spans.get((each.topic, each.partition))) is not None and span[0] <= each.offset < span[1]
        ]

    # --- the same as Spark reads it ---

    def with_headers(self, *, headers: bool) -> Self:
        """The same records, with or without headers."""
        return type(self)(self._records, self._topics, headers=headers)

    def with_new_consumers(self) -> Self:
        """Itself."""
        return self

    def batch(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The records of ``ranges`` in the columns of Spark's Kafka source."""
        found = spark.createDataFrame([source_row(each) for each in self._within(ranges)], COLUMNS)
        return found if self._headers else found.drop("headers")
