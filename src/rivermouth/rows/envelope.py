"""The envelope: a Kafka record with its coordinates, before and after its value became columns."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.ledger import Ranges, flat
from rivermouth.rows.utf8 import is_utf8

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.spec import Flow

_SOURCE_COLUMNS = {
    "topic": names.TOPIC,
    "partition": names.PARTITION,
    "offset": names.OFFSET,
    "timestamp": names.TIMESTAMP,
    "timestampType": names.TIMESTAMP_TYPE,
    "headers": names.HEADERS,
    "key": names.KEY,
    "value": names.VALUE,
}


def read(batch: DataFrame, within: Ranges | None = None) -> DataFrame:
    """The records of a frame of Spark's Kafka source as envelope rows.

    Args:
        batch: The columns of the Kafka source; ``headers`` may be missing.
        within: Keep only these offsets; None keeps all.

    Returns:
        The columns ``names.ENVELOPE``: ``__topic`` string, ``__partition`` int, ``__offset`` bigint,
        ``__timestamp`` timestamp, ``__timestamp_type`` int, ``__headers`` array of (key, value) or null,
        ``__key`` and ``__value`` binary.
    """
    no_headers = F.lit(None).cast("array<struct<key:string,value:binary>>")
    columns = [F.col(source) if source in batch.columns else no_headers.alias(source) for source in _SOURCE_COLUMNS]
    rows = batch.select(
        *(column.alias(target) for column, target in zip(columns, _SOURCE_COLUMNS.values(), strict=True))
    )
    return rows if within is None else rows.where(inside(within))


def decode(rows: DataFrame, flow: Flow) -> DataFrame:
    """Values to columns by the flow's format; keys are checked where they become text.

    Returns:
        ``rows`` with ``__data`` (struct of the payload), ``__decoded`` (boolean, never null; true for a null
        value) and ``__key_valid`` (boolean, never null).
    """
    decoded = flow.format.decode(rows)
    if not (flow.key_as_text and "kafka_key" in flow.metadata_columns):
        return decoded.withColumn(names.KEY_VALID, F.lit(True))
    valid = F.expr(f"coalesce({is_utf8(names.KEY)}, true)")
    return decoded.withColumn(names.KEY_VALID, valid)


def inside(ranges: Ranges) -> Column:
    """Whether a row with ``__topic``, ``__partition`` and ``__offset`` lies in one of ``ranges``."""
    parts = [
        (F.col(names.TOPIC) == topic)
        & (F.col(names.PARTITION) == partition)
        & (F.col(names.OFFSET) >= start)
        & (F.col(names.OFFSET) < end)
        for topic, partition, start, end in flat(ranges)
    ]
    return reduce(or_, parts, F.lit(False))
