"""Which records of a topic stand for all of it: windows spread over partitions and time. Pure, over offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.offset_ranges import flat, size

if TYPE_CHECKING:
    from rivermouth.domain.ledger.offset_ranges import Ranges

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
    """A record as it is in Kafka, headers left out.

    Attributes:
        topic: Its topic.
        partition: Its partition.
        offset: Its offset.
        key: Its key.
        value: Its value.
        id_in_header: Whether a header has the id of the value's schema; False where nobody asked for headers.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    id_in_header: bool = False


def whole(ranges: Ranges) -> list[list[Window]]:
    """One round with all records."""
    return [[Window(topic, part, start, end, end - start) for topic, part, start, end in flat(ranges) if end > start]]


def spread(ranges: Ranges, records: int) -> list[list[Window]]:
    """Windows with about ``records`` records in all, in rounds of one window a partition.

    Each partition has as many as it has a part in the offsets, at least one. Its windows lie side by side, from its
    beginning to its end: offsets without a record, compacted ones for example, use nothing of the sample up. The
    last window begins so late that its records are the newest, if there is one at each offset.
    """
    total = size(ranges)
    if total <= records:
        return whole(ranges)
    rounds: list[list[Window]] = [[] for _ in range(WINDOWS)]
    for topic, partition, start, end in flat(ranges):
        if end <= start:
            continue
        offsets = end - start
        wanted = min(offsets, max(1, round(records * offsets / total)))
        windows = min(WINDOWS, wanted)
        # The records of the windows before one, and its part of the offsets that nobody wants.
        taken = [wanted * number // windows for number in range(windows + 1)]
        begins = [start + taken[each] + (offsets - wanted) * each // max(1, windows - 1) for each in range(windows)]
        for number, (begin, until) in enumerate(zip(begins, [*begins[1:], end], strict=True)):
            place = number * _STRIDE % WINDOWS
            rounds[place].append(Window(topic, partition, begin, until, taken[number + 1] - taken[number]))
    return [part for part in rounds if part]
