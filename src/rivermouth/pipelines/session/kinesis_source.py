"""Kinesis as a source of pipelines: what is asked of it before a query is run, and what a plan says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rivermouth.domain.kinesis.options import TRIM_HORIZON, KinesisOptions
from rivermouth.errors import KinesisSourceInvalid
from rivermouth.ports.kinesis.data_source import NAME, KinesisSource
from rivermouth.ports.kinesis.kinesis_client import KinesisClient
from rivermouth.ports.kinesis.shards import FoundStream, describe, retention_text, text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINESIS: Final = "kinesis"
SOURCE: Final = NAME


def looked_at(spark: SparkSession, options: KinesisOptions) -> tuple[str, ...]:
    """A sentence about each stream of a query; all of them can be read.

    Args:
        spark: Knows the data source afterwards.
        options: Of the query.

    Raises:
        KinesisClientMissing: boto3 is not installed.
        KinesisSourceUnreadable: A stream is missing, or Kinesis refuses.
        KinesisThrottled: There are too many calls.
    """
    client = KinesisClient(options)
    notes = tuple(_note(describe(client, name), options, client.now_ms) for name in options.streams)
    spark.dataSource.register(KinesisSource)
    return notes


def of_topics(records: DataFrame) -> DataFrame:
    """Records of Kafka, which a test gives, as records of Kinesis."""
    return records.selectExpr(
        "CAST(key AS STRING) AS partitionKey",
        "value AS data",
        "topic AS stream",
        "CONCAT('shardId-', LPAD(partition, 12, '0')) AS shardId",
        "CAST(offset AS STRING) AS sequenceNumber",
        "timestamp AS approximateArrivalTimestamp",
    )


def refuse_batch(options: Mapping[str, str]) -> KinesisSourceInvalid:
    """The error of a query that reads Kinesis as no stream."""
    streams = next((value for key, value in options.items() if key.lower() == "streamname"), "")
    fix = f"spark.readStream.format(\"kinesis\"), or STREAM read_kinesis(streamName => '{streams or 'orders'}')"
    return KinesisSourceInvalid(source=f"kinesis {streams}".strip(), detail="it is read as a stream only", fix=fix)


def _note(found: FoundStream, options: KinesisOptions, now_ms: int) -> str:
    shards = "1 open shard" if found.open_shards == 1 else f"{found.open_shards} open shards"
    kept = retention_text(found.retention_hours)
    note = f"kinesis {found.name}: {shards}, keeps records for {kept}; what is older is gone"
    if options.begin == TRIM_HORIZON or not isinstance(options.begin, int):
        return note
    oldest = now_ms - found.retention_ms
    return note if options.begin >= oldest else f"{note}, also what came from {text_of(options.begin)} on"
