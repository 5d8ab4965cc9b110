"""What a flow reads, opened for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rivermouth.ports.kafka import Kafka
from rivermouth.ports.kafka_source import KafkaSource
from rivermouth.rows.kafka_options import java_options

if TYPE_CHECKING:
    from rivermouth.engine.supervisor import FlowOrder
    from rivermouth.ports.sources import Records, Topics
    from rivermouth.spec import Flow


@contextmanager
def reading(order: FlowOrder, options: Mapping[str, str] | None = None) -> Iterator[tuple[Topics, Records]]:
    """What the flow reads, to be looked at and as Spark reads it, while the block lasts.

    Args:
        order: The flow.
        options: Client options instead of the order's.
    """
    options = order.options if options is None else options
    with Kafka(order.bootstrap_servers, options) as kafka:
        yield kafka, source_of(order.flow, order.bootstrap_servers, options)


def source_of(flow: Flow, bootstrap_servers: str, options: Mapping[str, str]) -> KafkaSource:
    """The flow's cluster as Spark reads it; options are resolved and judged."""
    return KafkaSource(
        bootstrap_servers=bootstrap_servers,
        options=java_options(options),
        # A source without headers is faster: Spark cannot leave a column of Kafka unread.
        headers="kafka_headers" in flow.metadata_columns,
        min_partitions=flow.trigger.min_partitions,
    )
