"""Which records of a topic stand for all of it: windows spread over partitions and time. Pure, over offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rivermouth.rows.ledger import Ranges

SAMPLE_RECORDS: Final = 50_000
"""Enough to meet a field that one record in a thousand has."""
SAMPLE_BYTES: Final = 256 << 20
"""A sample ends here, however few records it has by then."""
WINDOWS: Final = 32
"""Windows of a partition, at most."""
# Of 32 windows every 13th: wherever a sample is cut off, it is spread over all of the time.
_STRIDE: Final = 13


@dataclass(frozen=True, slots=True)
class Window:
    """Some records of a partition.

    Attributes:
        topic: The topic.
        partition: The partition.
        start: First offset.
        end: The offset after the last that may be read.
        records: No more than that are read.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it is in Kafka, headers left out."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def whole(ranges: Ranges) -> list[list[Window]]:
    """One round with all records."""
    return [[Window(topic, part, start, end, end - start) for topic, part, start, end in _flat(ranges)]]


def spread(ranges: Ranges, records: int) -> list[list[Window]]:
    """Windows with about ``records`` records in all, in rounds of one window a partition.

    Each partition has as many as it has a part in the offsets, at least one. The first window of a partition begins
    at its beginning, the last ends at its end.
    """
    flat = list(_flat(ranges))
    total = sum(end - start for _, _, start, end in flat)
    if total <= records:
        return whole(ranges)
    rounds: list[list[Window]] = [[] for _ in range(WINDOWS)]
    for topic, partition, start, end in flat:
        size = end - start
        wanted = min(size, max(1, round(records * size / total)))
        windows = min(WINDOWS, wanted)
        each = -(-wanted // windows)
        last = max(start, end - each)
        for number in range(windows):
            begin = start + (last - start) * number // max(1, windows - 1) if windows > 1 else last
            place = number * _STRIDE % WINDOWS
            rounds[place].append(Window(topic, partition, begin, min(end, begin + each), each))
    return [part for part in rounds if part]


def _flat(ranges: Ranges) -> Iterable[tuple[str, int, int, int]]:
    for topic in sorted(ranges):
        for partition, (start, end) in sorted(ranges[topic].items()):
            if end > start:
                yield topic, partition, start, end
