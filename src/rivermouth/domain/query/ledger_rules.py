"""What the entries of one flow in a table must have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rivermouth.domain.query.query_entry import NO_COUNTS, read_json

if TYPE_CHECKING:
    from rivermouth.domain.query.query_entry import QueryEntry


def broken_rules(entries: Sequence[QueryEntry]) -> Iterator[str]:
    """The rules that the ledger of a flow does not keep, a sentence each.

    Args:
        entries: Those that follow each other in the log, the oldest first.
    """
    for entry in entries:
        counts = entry.counts
        if counts.read != counts.written + counts.dropped + counts.dead_lettered:
            yield (
                f"entry {entry.number} of {entry.flow}: {counts.read:,} read, but {counts.written:,} written, "
                f"{counts.dropped:,} dropped and {counts.dead_lettered:,} dead-lettered"
            )
    for before, entry in pairwise(entries):
        if entry.number != before.number + 1:
            yield f"entry {entry.number} of {entry.flow} follows entry {before.number}"
        elif entry.kind in ("batch", "refresh", "cleared"):
            begins = entry.kind == "cleared" or (entry.kind == "refresh" and entry.refreshed in ("", "full"))
            totals = NO_COUNTS if begins else before.totals
            if entry.totals != totals + entry.counts:
                yield f"entry {entry.number} of {entry.flow}: its totals are not those before and its counts"
        if entry.kind == before.kind == "batch":
            yield from _read_twice(before, entry)


def _read_twice(before: QueryEntry, entry: QueryEntry) -> Iterator[str]:
    """Kafka's partitions whose offsets go back from one batch to the next: their records are read twice."""
    for old, new in zip(read_json(before.offsets), read_json(entry.offsets), strict=False):
        for topic, partition, offset in _kafka_offsets(new):
            was = _partitions(old, topic).get(partition)
            if isinstance(was, int) and offset < was:
                yield f"entry {entry.number} of {entry.flow}: {topic}-{partition} goes back from {was:,} to {offset:,}"


def _kafka_offsets(source: Any) -> Iterator[tuple[str, str, int]]:
    """Topic, partition and offset, where that is what the source keeps."""
    if isinstance(source, dict):
        for topic in source:
            for partition, offset in _partitions(source, topic).items():
                if partition.isdecimal() and isinstance(offset, int):
                    yield topic, partition, offset


def _partitions(source: Any, topic: str) -> Mapping[str, Any]:
    found = source.get(topic) if isinstance(source, dict) else None
    return found if isinstance(found, dict) else {}
