"""What a flow is opened with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.table_shape import TableShape
    from rivermouth.ports.sources.protocols import OffsetSource, RecordSource
    from rivermouth.spec import Flow


class OpenSource(NamedTuple):
    """What a flow reads, opened.

    Attributes:
        kafka: What there is to read.
        records: The same as Spark reads it.
    """

    kafka: OffsetSource
    records: RecordSource


@dataclass(frozen=True, slots=True)
class FlowInputs:
    """A flow with its schema, and what was found out for it.

    Attributes:
        spark: The flow's session.
        flow: The flow.
        places: Where its things lie.
        source: What it reads.
        topics: The topics of that.
        shape: What its table is to look like.
    """

    spark: SparkSession
    flow: Flow
    places: FlowPlaces
    source: OpenSource
    topics: Mapping[str, Topic]
    shape: TableShape
