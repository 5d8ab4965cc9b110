"""Records whose timestamps Spark's Kafka source fails at, read by a class of ours.

Spark counts microseconds, Kafka milliseconds: a producer that wrote nanoseconds sent a timestamp that overflows, and
Spark's reader ends the job (``KAFKA_MALFORMED_RECORD_TIMESTAMP``) whenever it comes to the record.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import jvm
from rivermouth.domain.ledger.offset_ranges import flat
from rivermouth.ports.internals.prepared_plan import planned

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.ledger.offset_ranges import Ranges

# A day before the largest that fits: Spark shifts them by hours.
OVERFLOW_MS: Final = (2**63 - 1) // 1000 - 86_400_000
"""Timestamps from here on may overflow when Spark reads them."""
# All of them are in memory at once.
_AT_ONCE: Final = 200
_CLASS: Final = "kafka.Records"


def frame(spark: SparkSession, options: Mapping[str, str], ranges: Ranges, tasks: int | None = None) -> DataFrame:
    """The records of ``ranges`` in the columns of Spark's Kafka source with headers; nothing is read yet.

    A timestamp that overflows becomes the largest that Spark has.

    Args:
        spark: Any session.
        options: Of Kafka's Java client.
        ranges: What to read; not empty.
        tasks: In how many parts each partition is read, if it is given.
    """
    client = jvm(spark).java.util.HashMap()
    for name, value in options.items():
        client.put(name, value)
    records = jvm_classes.made(spark, _CLASS, client)
    places = functools.reduce(
        lambda one, other: one.union(other), (_places(spark, *part, tasks) for part in flat(ranges))
    )
    found = places.select(ClassicColumn(records.of("place")).alias("records"))
    return planned(found.select(F.inline("records")))


def _places(spark: SparkSession, topic: str, partition: int, start: int, end: int, tasks: int | None) -> DataFrame:
    """A row for each part of a partition that is read at once."""
    count = -(-(end - start) // _AT_ONCE)
    first, last = f"{start} + id * {_AT_ONCE}", f"least({start} + (id + 1) * {_AT_ONCE}, {end})"
    place = f"concat_ws(':', {partition}, {first}, {last}, {names.literal(topic)}) AS place"
    return spark.range(0, count, 1, min(count, tasks or 1)).selectExpr(place)
