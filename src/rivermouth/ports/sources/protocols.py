"""What a flow reads, as the engine sees it: a Kafka cluster, or a table in its place.

Offset vectors are ``{topic: {partition: offset}}`` with concrete offsets, as in the ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from rivermouth.domain.kafka.source_topics import Isolation, Topic

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.source_topics import GroupCommit
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.sampling import Record, Window
    from rivermouth.spec import Flow


class OffsetSource(Protocol):
    """What there is to read: topics, and where their partitions begin and end."""

    def topics(self, flow: Flow) -> dict[str, Topic]:
        """The topics that ``flow`` reads, by name, sorted."""

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """Those of these topics that exist, by name, sorted, whole."""

    def compacted(self, names: Collection[str]) -> set[str]:
        """Those of these topics from which a record may be taken away that has a newer one of its key."""

    def beginning_offsets(self, topics: Mapping[str, Topic]) -> Offsets:
        """The first offset that is still held, of each partition."""

    def end_offsets(self, topics: Mapping[str, Topic], isolation: Isolation | None = None) -> Offsets:
        """The offset after the last readable record, of each partition.

        With ``read_uncommitted`` that of the log itself: only a log that was cut ends before what was read of it.
        """

    def offsets_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets | None:
        """The first offset at or after a time, of each partition, its end if there is none; None if it is not known."""

    def resolve_starting(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete first offset for every partition of ``topics``, as ``flow.starting_offsets`` says."""

    def resolve_ending(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """A concrete end (exclusive) for every partition of ``topics``, as ``flow.ending_offsets`` says."""

    def records(self, windows: Sequence[Window], *, headers: bool = False) -> Iterator[Record]:
        """The records of ``windows``, one window a partition; of each partition in the order of their offsets.

        Args:
            windows: What is read.
            headers: Whether records say that a header has the id of a schema.
        """

    def weight(self, ranges: Ranges) -> tuple[int, int] | None:
        """Records of ``ranges`` and the bytes of their keys and values; None if they would have to be read for it."""

    def commit(self, group: str, offsets: Offsets) -> GroupCommit:
        """Commits progress to a consumer group; says what became of it."""


class RecordSource(Protocol):
    """The same as Spark reads it."""

    def batch(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The records of ``ranges`` in the columns of Spark's Kafka source; nothing is read yet."""

    def with_headers(self, *, headers: bool) -> Self:
        """The same, whose frames have the records' headers or need not have them."""

    def with_new_consumers(self) -> Self:
        """The same, with nothing in use that may have failed."""
