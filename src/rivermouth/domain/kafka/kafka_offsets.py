"""From the offsets that a user writes to the offsets that Kafka has: pure, over plain vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.ledger import EARLIEST
from rivermouth.errors import OffsetsOutOfRange, PartitionMissing, SourceNotRead
from rivermouth.names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rivermouth.domain.kafka.source_topics import Topic
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.spec import EndingOffsets, Flow

LATEST: Final = -1


def flat_offsets(offsets: Offsets) -> Iterator[tuple[str, int, int]]:
    """(topic, partition, offset) of each partition, in a fixed order."""
    for topic in sorted(offsets):
        for partition in sorted(offsets[topic]):
            yield topic, partition, offsets[topic][partition]


def completed(offsets: Offsets, rest: Offsets) -> Offsets:
    """``offsets``, and where they name no offset (none at all, or a negative one) that of ``rest``."""
    result = {topic: dict(partitions) for topic, partitions in rest.items()}
    for topic, partition, offset in flat_offsets(offsets):
        if offset >= 0:
            result.setdefault(topic, {})[partition] = offset
    return result


def symbols_resolved(offsets: Offsets, symbols: Mapping[int, Offsets]) -> Offsets:
    """``offsets`` with -2 (earliest) and -1 (latest) replaced; a symbol that ``symbols`` lacks stays."""
    result: Offsets = {}
    for topic, partition, offset in flat_offsets(offsets):
        found = symbols[offset][topic][partition] if offset in symbols else offset
        result.setdefault(topic, {})[partition] = found
    return result


def given_start(flow: Flow, topics: Mapping[str, Topic], first: Offsets, end: Offsets) -> Offsets:
    """The first offset of every partition, where ``starting_offsets`` gives them one by one.

    Args:
        flow: The flow.
        topics: What it reads.
        first: The first offset that is held, of each partition; those that are left out start there.
        end: Where each partition ends.

    Raises:
        SourceNotRead: Offsets are given for a topic or partition that the flow does not read.
        PartitionMissing: Offsets are given for a partition that the topic does not have.
        OffsetsOutOfRange: A given offset is not held, or not yet.
    """
    setting, fix = "starting_offsets", "starting_offsets: {{topic}: {{partition}: -2}}"
    check_read(flow, setting, flow.starting_offsets.offsets, topics)
    wanted = symbols_resolved(flow.starting_offsets.offsets, {EARLIEST: first, LATEST: end})
    check_range(flow.name, setting, wanted, first, end, fix)
    return completed(wanted, first)


def given_end(flow: Flow, ending: EndingOffsets, topics: Mapping[str, Topic], first: Offsets, end: Offsets) -> Offsets:
    """The end of every partition, where ``ending_offsets`` gives them one by one; otherwise as ``given_start``."""
    setting, fix = "ending_offsets", "ending_offsets: {{topic}: {{partition}: -1}}"
    check_read(flow, setting, ending.offsets, topics)
    wanted = symbols_resolved(ending.offsets, {LATEST: end})
    check_range(flow.name, setting, wanted, first, end, fix)
    return completed(wanted, end)


def check_read(flow: Flow, setting: str, offsets: Offsets, topics: Mapping[str, Topic]) -> None:
    """Sees to it that ``offsets`` name only what the flow reads.

    Raises:
        SourceNotRead: A topic, or a partition of an ``assign``, that the flow does not read.
        PartitionMissing: A partition that the topic does not have.
    """
    for topic, partition, _offset in flat_offsets(offsets):
        if topic not in topics:
            fix = did_you_mean(topic, topics)
            raise SourceNotRead(flow=flow.name, setting=setting, source=f"topic {topic!r}", fix=fix)
        known = topics[topic].partitions
        if partition not in known and flow.assign:
            source = f"partition {partition} of topic {topic!r}"
            fix = f"assign: {{{topic}: {sorted([*known, partition])}}}"
            raise SourceNotRead(flow=flow.name, setting=setting, source=source, fix=fix)
        if partition not in known:
            raise PartitionMissing(flow=flow.name, topic=topic, partition=partition, count=len(known))


def check_range(flow: str, setting: str, offsets: Offsets, first: Offsets, end: Offsets, fix: str) -> None:
    """Sees to it that every offset lies from ``first`` to ``end`` (which is the next one to come).

    Args:
        flow: The flow's name.
        setting: Where the offsets were given.
        offsets: What is judged.
        first: The first offset that Kafka holds, of each partition.
        end: Where each partition ends.
        fix: The hint; ``{topic}`` and ``{partition}`` in it are filled in.

    Raises:
        OffsetsOutOfRange: One does not; offsets are never moved silently.
    """
    for topic, partition, offset in flat_offsets(offsets):
        low, high = first[topic][partition], end[topic][partition]
        if not low <= offset <= high:
            hint = fix.replace("{topic}", topic).replace("{partition}", str(partition))
            raise OffsetsOutOfRange(
                flow=flow,
                setting=setting,
                topic=topic,
                partition=partition,
                offset=offset,
                first=low,
                end=high,
                fix=hint,
            )
