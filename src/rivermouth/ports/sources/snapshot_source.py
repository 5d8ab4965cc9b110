"""Snapshots that are no messages in the place of Kafka: a topic of one partition, whose offsets are their versions."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Self

from rivermouth.domain.kafka.kafka_offsets import given_end, given_start
from rivermouth.domain.kafka.source_topics import GroupCommit, Topic
from rivermouth.domain.ledger.offset_ranges import flat
from rivermouth.domain.ledger.sampling import Record
from rivermouth.ports.sources.snapshot_feeds import Feed, Files, TableVersions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.source_topics import Isolation
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.sampling import Window
    from rivermouth.domain.project.snapshot_location import SnapshotPlace
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

_EMPTY = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary"


class SnapshotSource:
    """Snapshots as Kafka's records. Implements ``OffsetSource`` and ``RecordSource``.

    Args:
        place: Where they lie.
        files: Lists and reads small files there.
        reader: Name of the flow that reads them, for errors.
        spark: Any session; without one only versions can be read.
    """

    def __init__(
        self, place: SnapshotPlace, files: LakeFiles, *, reader: str, spark: SparkSession | None = None
    ) -> None:
        self._place = place
        self._feed: Feed = (TableVersions if place.is_table else Files)(place, files, reader)
        self._spark = spark

    # --- what there is to read ---

    def topics(self, flow: Flow) -> dict[str, Topic]:  # noqa: ARG002 - there is one
        """The one topic.

        Raises:
            SnapshotSourceUnfit: There is no such table.
        """
        return self._known()

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """The one topic, if it is asked for."""
        return {name: topic for name, topic in self._known().items() if name in names}

    def compacted(self, names: Collection[str]) -> set[str]:
        """All: not every version is a snapshot."""
        return {*names}

    def beginning_offsets(self, topics: Mapping[str, Topic]) -> Offsets:
        """The first version."""
        return {name: {0: self._feed.beginning()} for name in topics}

    def end_offsets(self, topics: Mapping[str, Topic], isolation: Isolation | None = None) -> Offsets:
        """The offset after the last version that is there; with ``read_uncommitted`` there is no end.

        A version that is no snapshot counts, as a marker of a transaction in Kafka does: a batch may hold no record.
        """
        if isolation == "read_uncommitted":
            return {name: {0: 2**63 - 1} for name in topics}
        return {name: {0: self._feed.end()} for name in topics}

    def offsets_at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets | None:  # noqa: ARG002
        """None: versions are not looked for by time."""
        return None

    def resolve_starting(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """The first version to read; with ``latest`` the newest one that is there.

        Raises:
            SourceNotRead, PartitionMissing, OffsetsOutOfRange: Given offsets are none of these.
        """
        first, end = self.beginning_offsets(topics), self.end_offsets(topics)
        if flow.starting_offsets.kind == "latest":
            versions = self._feed.versions()
            return {name: {0: versions[-1] if versions else self._feed.beginning()} for name in topics}
        return first if flow.starting_offsets.kind == "earliest" else given_start(flow, topics, first, end)

    def resolve_ending(self, flow: Flow, topics: Mapping[str, Topic]) -> Offsets:
        """The version to end before; raises as ``resolve_starting``."""
        ending, last = flow.ending_offsets, self.end_offsets(topics)
        if ending is None or ending.kind == "latest":
            return last
        return given_end(flow, ending, topics, self.beginning_offsets(topics), last)

    def records(self, windows: Sequence[Window], *, headers: bool = False) -> Iterator[Record]:  # noqa: ARG002 - none
        """The snapshots of ``windows``, in their order."""
        if self._spark is None:
            return
        for each in windows:
            rows = self.batch(self._spark, {each.topic: {each.partition: (each.start, each.end)}})
            for row in rows.orderBy("offset").limit(each.records).toLocalIterator():
                yield Record(row.topic, row.partition, row.offset, None, bytes(row.value))

    def weight(self, ranges: Ranges) -> tuple[int, int] | None:  # noqa: ARG002 - they would have to be read for it
        """None."""
        return None

    def commit(self, group: str, offsets: Offsets) -> GroupCommit:  # noqa: ARG002 - nothing is committed
        """Commits nothing: no cluster is asked."""
        return GroupCommit(group, committed=False, detail="the flow reads snapshots")

    def _known(self) -> dict[str, Topic]:
        return {self._place.topic: Topic(self._place.topic, self._feed.identity(), (0,))}

    # --- the same as Spark reads it ---

    def with_headers(self, *, headers: bool) -> Self:  # noqa: ARG002 - there are none
        """Itself."""
        return self

    def with_new_consumers(self) -> Self:
        """Itself."""
        return self

    def batch(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The snapshots of ``ranges`` in the columns of Spark's Kafka source, a task each.

        Raises:
            SnapshotSourceUnfit: One is too large, or is gone.
        """
        spans = [(start, end) for topic, _, start, end in flat(ranges) if topic == self._place.topic]
        wanted = [each for each in self._feed.versions() if any(start <= each < end for start, end in spans)]
        topic = self._place.topic.replace("'", "")
        frames = [
            self._feed.frame(spark, version).selectExpr(
                f"'{topic}' AS topic",
                "0 AS partition",
                f"CAST({version} AS BIGINT) AS offset",
                "timestamp",
                "0 AS timestampType",
                "CAST(NULL AS BINARY) AS key",
                "value",
            )
            for version in wanted
        ]
        return reduce(lambda one, other: one.unionAll(other), frames) if frames else spark.createDataFrame([], _EMPTY)
