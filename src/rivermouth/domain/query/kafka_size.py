"""How many records of Kafka a batch of a query reads, by the offsets that Spark wrote. Pure."""

from __future__ import annotations

from typing import Any

from rivermouth.domain.query.query_entry import read_json


def kafka_size(before: tuple[str, ...], offsets: tuple[str, ...]) -> tuple[int, int] | None:
    """Offsets and partitions between two lines of offsets.

    Args:
        before: Those of the batch before.
        offsets: Those of the batch.

    Returns:
        None where a source is not Kafka, or where one begins in this batch.
    """
    sources = read_json(offsets)
    known = read_json(before) if before else []
    if not sources or len(known) != len(sources):
        return None
    records = partitions = 0
    for old, new in zip(known, sources, strict=True):
        if not is_kafka(old) or not is_kafka(new):
            return None
        for topic, ends in new.items():
            for partition, end in ends.items():
                start = old.get(topic, {}).get(partition)
                if start is None:
                    return None
                records, partitions = records + max(0, end - start), partitions + 1
    return records, partitions


def is_kafka(source: Any) -> bool:
    """Whether it is ``{topic: {partition: offset}}``."""
    return (
        isinstance(source, dict)
        and bool(source)
        and all(
            isinstance(parts, dict)
            and all(name.isdecimal() and isinstance(offset, int) for name, offset in parts.items())
            for parts in source.values()
        )
    )
