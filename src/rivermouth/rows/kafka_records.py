"""Rows as records of Kafka: the columns that a producer takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS: Final = "array<struct<key:string,value:binary>>"
ID_HEADER: Final = "rivermouth-id"
"""Of records that may come twice: the same for each copy of a record."""
_BATCH_DIGITS: Final = 16
KEYLESS: Final = (
    "its rows have no key: Kafka spreads them over the partitions, one may get more than others, and rows of one thing "
    "are not in order"
)


def records(frame: DataFrame, topic: str | None) -> DataFrame:
    """Rows as ``topic``, ``partition``, ``key``, ``value`` and ``headers``; those that they lack are null.

    Args:
        frame: With a column ``value``; others than these five are left out.
        topic: Of all records; it wins over the column.
    """
    there = set(frame.columns)

    def column(name: str, kind: str) -> Column:
        found = F.col(name) if name in there else F.lit(None)
        return found.cast(kind).alias(name)

    return frame.select(
        column("topic", "string") if topic is None else F.lit(topic).alias("topic"),
        column("partition", "int"),
        column("key", "binary"),
        column("value", "binary"),
        column("headers", HEADERS),
    )


def with_ids(rows: DataFrame, batch: str, *, ordered: bool) -> DataFrame:
    """Records with the header ``rivermouth-id``, which is the same when their batch is written again.

    Args:
        rows: As ``records`` returns them.
        batch: Names the batch: the same when it comes again, and of no other batch.
        ordered: Whether the rows of a batch come in the same order again. If so, two equal records have two ids.
    """
    if ordered:
        # The place in the batch says which record it is. The hash counts if the order is not what was expected.
        first = F.substring(F.md5(F.lit(batch)), 1, _BATCH_DIGITS)
        place = F.hex(F.monotonically_increasing_id())
        text = F.concat_ws("-", first, place, F.hex(F.xxhash64("topic", "key", "value")))
    else:
        content = [F.coalesce(F.md5(name), F.lit("-")) for name in ("key", "value")]
        text = F.md5(F.concat_ws("/", F.lit(batch), "topic", *content))
    header = F.struct(F.lit(ID_HEADER).alias("key"), text.cast("binary").alias("value"))
    own = F.array(header).cast(HEADERS)
    return rows.withColumn("headers", F.concat(F.coalesce("headers", F.array().cast(HEADERS)), own))
