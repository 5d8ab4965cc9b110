"""What a flow reads, opened for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rivermouth.ports.fencing import check_same_place
from rivermouth.ports.kafka import Kafka
from rivermouth.ports.kafka_source import KafkaSource
from rivermouth.ports.storage import PlacedFiles
from rivermouth.ports.table_source import TableSource
from rivermouth.rows.kafka_options import java_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.orders import FlowOrder
    from rivermouth.ports.sources import Records, Topics
    from rivermouth.spec import Flow


@contextmanager
def reading(
    spark: SparkSession, order: FlowOrder, options: Mapping[str, str] | None = None
) -> Iterator[tuple[Topics, Records]]:
    """What the flow reads, to be looked at and as Spark reads it, while the block lasts.

    Args:
        spark: Any session.
        order: The flow.
        options: Client options instead of the order's.
    """
    if order.source is not None:
        check_same_place(spark, order.source.places)
        table = TableSource(order.source, PlacedFiles(spark), reader=order.flow.name, spark=spark)
        yield table, table
        return
    options = order.options if options is None else options
    with Kafka(order.bootstrap_servers, options) as kafka:
        yield kafka, source_of(order.flow, order.bootstrap_servers, options)


def source_of(flow: Flow, bootstrap_servers: str, options: Mapping[str, str]) -> KafkaSource:
    """The flow's cluster as Spark reads it; options are resolved and judged."""
    return KafkaSource(
        bootstrap_servers=bootstrap_servers,
        options=java_options(options),
        # A source without headers is faster: Spark cannot leave a column of Kafka unread.
        headers="kafka_headers" in flow.metadata_columns or flow.value_format.reads_headers,
        min_partitions=flow.trigger.min_partitions,
    )
