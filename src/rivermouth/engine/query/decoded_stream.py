"""Kafka records of a streaming query, decoded by the rules of flows: what is refused becomes dead letters.

The query goes on with the columns of the records that were decoded. How many were refused is counted in the same pass.
Only if there are any, the records of the batch are read again, and explained.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.engine.batch.pipeline import transform
from rivermouth.ports.internals.observed import ObservedStream
from rivermouth.ports.internals.query_plans import part_of_batch
from rivermouth.rows import dead_letter, envelope, routing, split_changes
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.spec import Flow

NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp")
"""The columns of records that are decoded; ``timestampType`` and ``headers`` may be there too."""
_OF_LETTERS: Final = tuple(
    name for name in dead_letter.COLUMNS.names if name.startswith("kafka_") or name in ("reason", "field", "message")
)


@dataclass(frozen=True, slots=True)
class DecodedStream:
    """Records that one query decodes.

    Attributes:
        alias: Of the records in the query.
        flow: How they are decoded.
        observed: Counts them.
        records: The columns of the records as the query has them before.
    """

    alias: str
    flow: Flow
    observed: ObservedStream
    records: StructType

    @property
    def counts(self) -> QueryCounts:
        """Of records that were not decoded, since ``reset``, once an action has processed them."""
        found = self.observed.get()
        dropped, refused = found["dropped"], found["dead_lettered"]
        return QueryCounts(read=dropped + refused, dropped=dropped, dead_lettered=refused)

    def letters(self, spark: SparkSession, query: StreamingQuery, entry: QueryEntry, target: str) -> DataFrame:
        """The dead letters of the batch that the query processes now.

        Returns:
            ``flow``, ``entry``, ``failed_expectations``, ``status``, ``dead_lettered_at``, ``replay``, as those of rows
            have them; ``reason``, ``field``, ``message``, and the record: the columns ``kafka_…`` of a flow's.
        """
        records = envelope.read(part_of_batch(spark, query, self.alias))
        routed = transform(records, self.flow)
        letters = dead_letter.dead_letters(routed, self.flow, target=target, entry=entry.number, topic_ids={})
        return letters.select(
            F.lit(entry.flow).alias("flow"),
            F.lit(entry.number).cast("bigint").alias("entry"),
            "failed_expectations",
            "status",
            "dead_lettered_at",
            F.lit(None).cast("bigint").alias("replay"),
            *_OF_LETTERS,
        )


def decoded_stream(frame: DataFrame, flow: Flow, columns: Sequence[str], alias: str) -> tuple[DataFrame, DecodedStream]:
    """The records that could be decoded, and their counter.

    Args:
        frame: A stream with the columns of Spark's Kafka source.
        flow: How they are decoded.
        columns: Those of its table.
        alias: Of the records in the query; no other decoding of the query has it.
    """
    routed = transform(envelope.read(frame.alias(alias)), flow)
    is_letter = f"{names.ROUTE} = '{routing.DEAD_LETTER}' AND {split_changes.once(flow)}"
    counting = {
        "dropped": Aggregate("count_if", f"{names.ROUTE} = '{routing.DROPPED}'"),
        "dead_lettered": Aggregate("count_if", is_letter),
    }
    observed = ObservedStream(routed, counting)
    rows = observed.rows.where(f"{names.ROUTE} = '{routing.TABLE}'").selectExpr(*map(names.quoted, columns))
    return rows, DecodedStream(alias, flow, observed, frame.schema)


def reset(decoded: Sequence[DecodedStream]) -> None:
    """Begins to count a batch."""
    for each in decoded:
        each.observed.reset()


def with_refused(counts: QueryCounts, decoded: Sequence[DecodedStream]) -> QueryCounts:
    """The counts of a batch with those of the records that were not decoded."""
    for each in decoded:
        refused = each.counts
        counts = replace(
            counts,
            read=counts.read + refused.read,
            dropped=counts.dropped + refused.dropped,
            dead_lettered=counts.dead_lettered + refused.dead_lettered,
        )
    return counts
