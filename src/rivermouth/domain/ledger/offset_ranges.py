"""Offsets and ranges of offsets, by topic and partition: plain arithmetic."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

Offsets = dict[str, dict[int, int]]
"""Topic to partition to an offset."""


Ranges = dict[str, dict[int, tuple[int, int]]]
"""Topic to partition to (start, end): start is in the range, end is not."""


def advanced(offsets: Offsets, ranges: Ranges) -> Offsets:
    """``offsets`` with the ends of ``ranges`` in their place; the ledger never goes back."""
    result = {topic: dict(partitions) for topic, partitions in offsets.items()}
    for topic, partition, _start, end in flat(ranges):
        known = result.setdefault(topic, {})
        known[partition] = max(end, known.get(partition, end))
    return result


def between(start: Offsets, end: Offsets) -> Ranges:
    """The ranges from ``start`` to ``end``; a partition without start is left out, so are empty ranges."""
    result: Ranges = {}
    for topic, partitions in end.items():
        for partition, last in partitions.items():
            first = start.get(topic, {}).get(partition, last)
            if first < last:
                result.setdefault(topic, {})[partition] = (first, last)
    return result


def flat(ranges: Ranges) -> Iterator[tuple[str, int, int, int]]:
    """(topic, partition, start, end) of each range, in a fixed order."""
    for topic in sorted(ranges):
        for partition in sorted(ranges[topic]):
            yield (topic, partition, *ranges[topic][partition])


def size(ranges: Ranges) -> int:
    """How many offsets the ranges span; an upper bound of the records in them."""
    return sum(end - start for _topic, _partition, start, end in flat(ranges))


def ends(ranges: Ranges) -> Offsets:
    """The end of each range."""
    return {topic: {p: end for p, (_start, end) in parts.items()} for topic, parts in ranges.items()}


def starts(ranges: Ranges) -> Offsets:
    """The start of each range."""
    return {topic: {p: start for p, (start, _end) in parts.items()} for topic, parts in ranges.items()}


def limited(ranges: Ranges, max_offsets: int) -> Ranges:
    """``ranges`` cut to at most ``max_offsets`` offsets, each partition by its share of the backlog.

    Every partition that has offsets keeps at least one, so that none starves.
    """
    total = size(ranges)
    if total <= max_offsets:
        return ranges
    result: Ranges = {}
    for topic, partition, start, end in flat(ranges):
        share = max(1, (end - start) * max_offsets // total)
        result.setdefault(topic, {})[partition] = (start, min(end, start + share))
    return result


def halved(ranges: Ranges) -> tuple[Ranges, Ranges] | None:
    """``ranges`` in two parts, the earlier half of each partition first; None if there is but one offset."""
    total = size(ranges)
    if total <= 1:
        return None
    first = limited(ranges, total // 2)
    if first == ranges or size(first) >= total:
        topic, partition, start, end = next(flat(ranges))
        first = {topic: {partition: (start, end)}}
    return first, between(filled(ends(first), starts(ranges)), ends(ranges))


def filled(offsets: Offsets, defaults: Offsets) -> Offsets:
    """``offsets`` with those partitions of ``defaults`` that it lacks."""
    topics = {**defaults, **offsets}
    return {topic: {**defaults.get(topic, {}), **offsets.get(topic, {})} for topic in topics}


def within(offsets: Offsets, partitions: Mapping[str, Collection[int]]) -> Offsets:
    """Those of ``offsets`` that are of these partitions."""
    return {
        topic: {p: offset for p, offset in parts.items() if p in partitions[topic]}
        for topic, parts in offsets.items()
        if topic in partitions
    }


def without(ranges: Ranges, gone: Ranges) -> Ranges:
    """What is left of ``ranges`` once ``gone``, a beginning or an end of each that it names, is taken away."""
    rest: Ranges = {}
    for topic, partition, start, end in flat(ranges):
        low, high = gone.get(topic, {}).get(partition, (start, start))
        left = (high, end) if low <= start else (start, min(low, end))
        if left[0] < left[1]:
            rest.setdefault(topic, {})[partition] = left
    return rest


def text(ranges: Ranges) -> str:
    """``orders-0:5..9, orders-1:0..3`` (ends exclusive), for messages."""
    return ", ".join(f"{topic}-{partition}:{start}..{end}" for topic, partition, start, end in flat(ranges))
