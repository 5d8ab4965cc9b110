"""Epochs of a partition: since when the same offsets are other records. Frames in, columns out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

if TYPE_CHECKING:
    from pyspark.sql import Column

    from rivermouth.domain.ledger.ledger import Entry


def epoch_now(entry: Entry, topic: Column, partition: Column) -> Column:
    """The epoch of records that are read now, an int counted from 0."""
    return looked_up({f"{name}-{p}": len(entries) for (name, p), entries in entry.begun.items()}, topic, partition)


def epoch_then(entry: Entry, topic: Column, partition: Column, batch: Column) -> Column:
    """The epoch in which the batch of that ledger entry was read."""
    last = max((len(entries) for entries in entry.begun.values()), default=0)
    parts = []
    for index in range(last):
        begun = {f"{name}-{p}": entries[index] for (name, p), entries in entry.begun.items() if len(entries) > index}
        start = looked_up(begun, topic, partition, missing=None)
        parts.append(F.when(batch >= start, 1).otherwise(0))
    return reduce(add, parts, F.lit(0)).cast("int")


def looked_up(values: Mapping[str, int], topic: Column, partition: Column, missing: int | None = 0) -> Column:
    """What ``values`` has for a topic and partition, by ``topic-partition``; else ``missing``."""
    if not values:
        return F.lit(missing).cast("int")
    pairs = [part for key, value in sorted(values.items()) for part in (F.lit(key), F.lit(value))]
    # A partition's number is the last part, so no two partitions have one key.
    found = F.element_at(F.create_map(*pairs), F.concat(topic, F.lit("-"), partition.cast("string")))
    return found if missing is None else F.coalesce(found, F.lit(missing))
