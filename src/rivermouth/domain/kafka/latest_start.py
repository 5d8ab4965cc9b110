"""Where ``starting_offsets: latest`` lay when a run began, kept until the flow's table is made. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivermouth.domain.kafka.kafka_offsets import completed

if TYPE_CHECKING:
    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Offsets


@dataclass(frozen=True, slots=True)
class LatestStart:
    """The ends of a flow's topics before its schema was inferred.

    All records after them are written, also those from which the schema is inferred.

    Attributes:
        topics: The topics, by name.
        ends: The offset after the last record of each partition.
    """

    topics: Mapping[str, Topic]
    ends: Offsets

    def offsets(self, topics: Mapping[str, Topic], first: Offsets) -> Offsets:
        """The first offset of every partition.

        Args:
            topics: The topics of now. Topics and partitions that were made since then start at their first offset.
            first: The first offset of each partition of these.
        """
        same = {name for name, topic in topics.items() if name in self.topics and self.topics[name].id == topic.id}
        return completed({name: ends for name, ends in self.ends.items() if name in same}, first)
