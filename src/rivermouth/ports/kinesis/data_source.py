"""Kinesis as a data source of Spark, in Python: a batch is a range of sequence numbers of each shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rivermouth.domain.kinesis import aggregated
from rivermouth.domain.kinesis.options import KinesisOptions, read_options
from rivermouth.domain.kinesis.positions import ShardPosition, StreamPosition, from_body, range_start, to_body
from rivermouth.errors import KinesisDataLost
from rivermouth.ports.kinesis.batch_ends import BatchEnds
from rivermouth.ports.kinesis.failures import as_text
from rivermouth.ports.kinesis.kinesis_client import CallRefused, KinesisClient
from rivermouth.ports.kinesis.shards import begin_of, check_whole, describe, pages

NAME: Final = "rivermouth_kinesis"
COLUMNS: Final = (
    "partitionKey STRING, data BINARY, stream STRING, shardId STRING, sequenceNumber STRING, "
    "approximateArrivalTimestamp TIMESTAMP"
)
"""Those of Databricks' source."""

_SCHEMA: Final = pa.schema(
    [
        ("partitionKey", pa.string()),
        ("data", pa.binary()),
        ("stream", pa.string()),
        ("shardId", pa.string()),
        ("sequenceNumber", pa.string()),
        ("approximateArrivalTimestamp", pa.timestamp("us", tz="UTC")),
    ]
)
_ON_A_WORKER: Final = " on a machine of Spark's workers"


class KinesisSource(DataSource):
    """Streams of Kinesis. Its options are those of ``read_options``."""

    @classmethod
    def name(cls) -> str:
        """What Spark calls it."""
        return NAME

    def schema(self) -> str:
        """Its columns."""
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A reader."""
        return KinesisStreamReader(read_options(self.options))


@dataclass(frozen=True, slots=True)
class ShardRange:
    """What one task reads of a shard.

    Attributes:
        stream: The stream.
        position: Of the stream, for where it begins.
        shard: Id of the shard.
        start: Behind which record.
        end: Up to which record; all where the shard has ended there.
    """

    stream: str
    position: StreamPosition
    shard: str
    start: ShardPosition
    end: ShardPosition


class KinesisStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in one process, and reads their ranges in others.

    Guarantees:
        A range gives the same records each time, or fails.
    """

    def __init__(self, options: KinesisOptions) -> None:
        self._options = options
        self._ends: BatchEnds | None = None

    @property
    def _planner(self) -> BatchEnds:
        if self._ends is None:
            self._ends = BatchEnds(KinesisClient(self._options))
        return self._ends

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Records that come from now on are not read."""
        with as_text():
            self._planner.freeze()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a query begins."""
        with as_text():
            return to_body(self._planner.beginning())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        """The end of the next batch."""
        with as_text():
            before = from_body(start)
            end = self._planner.end(before)
            return start if end is before else to_body(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One for each shard that the batch reads."""
        before, after = from_body(start), from_body(end)
        return [
            InputPartition(
                ShardRange(name, StreamPosition(stream.created, stream.begin, stream.begun), shard, from_, to)
            )
            for name, stream in after.items()
            for shard, to in stream.shards.items()
            for from_ in [range_start(before, after, name, shard)]
            if (from_.after, from_.ended) != (to.after, to.ended)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        with as_text():
            yield from _rows(KinesisClient(self._options, _ON_A_WORKER), partition.value)


def _rows(client: KinesisClient, wanted: ShardRange) -> Iterator[pa.RecordBatch]:
    is_strict, last = client.options.fail_on_data_loss, wanted.start.after
    found = describe(client, wanted.stream)
    if is_strict:
        check_whole(client, found, wanted.shard, wanted.start)
    try:
        for records, is_last in _pages(client, wanted):
            if records:
                last = records[-1]["SequenceNumber"]
                yield _batch(wanted, records)
            if is_last:
                break
    except CallRefused as error:
        if not is_strict:
            return
        raise _lost(wanted, f"no longer knows its position ({error.code})") from None
    if is_strict and not wanted.end.ended and last != wanted.end.after:
        raise _lost(wanted, "no longer has the last record of a batch that was planned")


def _pages(client: KinesisClient, wanted: ShardRange) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """The records of the range, and whether no more of them can come."""
    end = None if wanted.end.ended else int(wanted.end.after)
    start = wanted.start
    try:
        found = pages(client, wanted.stream, wanted.shard, begin_of(wanted.position, start))
        page = next(found, None)
    except CallRefused:
        if client.options.fail_on_data_loss:
            raise
        found = pages(client, wanted.stream, wanted.shard, begin_of(wanted.position, ShardPosition()))
        page = next(found, None)
    while page is not None:
        records = [each for each in page.records if end is None or int(each["SequenceNumber"]) <= end]
        reached = end is not None and bool(page.records) and int(page.records[-1]["SequenceNumber"]) >= end
        yield records, reached or (end is not None and page.at_tip)
        page = next(found, None)


def _batch(wanted: ShardRange, records: list[dict[str, Any]]) -> pa.RecordBatch:
    rows = [
        (key, data, wanted.stream, wanted.shard, each["SequenceNumber"], each["ApproximateArrivalTimestamp"])
        for each in records
        for key, data in aggregated.parts(each["Data"]) or [(each["PartitionKey"], each["Data"])]
    ]
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, kind.type) for values, kind in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )


def _lost(wanted: ShardRange, detail: str) -> KinesisDataLost:
    return KinesisDataLost(source=f"kinesis {wanted.stream}", detail=f"shard {wanted.shard} {detail}")
