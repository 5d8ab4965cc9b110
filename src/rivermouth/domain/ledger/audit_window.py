"""Which part of a ledger an audit can hold against Kafka, and what must be found in it. Pure values, no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.ledger import Counts, Entry
from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges


@dataclass(frozen=True, slots=True)
class Window:
    """The batches of a ledger after one of its entries, up to the newest whose dead letters are complete.

    Attributes:
        since: Number of the entry after which it begins.
        until: Number of the last entry in it.
        ranges: The offsets of its batches.
        counts: What the ledger counted of them.
        before: Offsets of the batches before it, as far as the entries and this epoch of the topics tell.
    """

    since: int
    until: int
    ranges: Ranges
    counts: Counts
    before: Ranges


@dataclass(frozen=True, slots=True)
class Tally:
    """What was found in a window, in records; each is counted by its topic, partition and offset.

    Of a flow that explodes its records all but ``visible`` is counted in rows: a record that has no element, or was
    refused as a whole, is one.

    Attributes:
        visible: Kafka holds them and shows them to a reader of committed records.
        in_table: Of these, in the table.
        in_dead_letters: Of these, in the dead letters.
        in_neither: Of these, in neither, and not erased.
        doubled: In the table or the dead letters more than once, or in both.
        not_in_kafka: In the table or the dead letters, and not visible in Kafka.
        erased: Visible, in neither, and known as erased.
        back: Known as erased, and in the table or the dead letters again.
    """

    visible: int = 0
    in_table: int = 0
    in_dead_letters: int = 0
    in_neither: int = 0
    doubled: int = 0
    not_in_kafka: int = 0
    erased: int = 0
    back: int = 0


def window(entries: Sequence[Entry], counts: Counts | None, first: Offsets) -> Window:
    """The longest window that Kafka still holds whole and in which nothing was decided.

    Args:
        entries: Of the ledger, oldest first, without gaps; the last is the newest.
        counts: Of the newest entry's own batch; None while they are not known: the window then ends before it.
        first: The first offset of each partition that Kafka holds.
    """
    newest = entries[-1]
    end = newest.next_offsets if counts is not None else newest.settled
    totals = newest.totals + counts if counts is not None else newest.totals
    at = len(entries) - 1
    for index, entry in enumerate(entries):
        if entry.number >= newest.decided and not _behind(starts(entries[index:]), first):
            at = index
            break
    begins = starts(entries[at:])
    already = entries[at + 1].totals if at + 1 < len(entries) else totals
    return Window(
        since=entries[at].number,
        until=newest.number if counts is not None else newest.number - 1,
        ranges=offset_ranges.between(begins, end),
        counts=totals - already,
        before=offset_ranges.between(starts(entries), begins),
    )


def whole(window: Window, newest: Entry) -> bool:
    """Whether Kafka holds all records that the table was made of, up to the window's end."""
    begins = {(topic, p): start for topic, parts in window.ranges.items() for p, (start, _) in parts.items()}
    read = ((topic, p) for topic, parts in newest.next_offsets.items() for p, offset in parts.items() if offset)
    return not newest.epochs and not window.before and all(begins.get(each) == 0 for each in read)


def findings(found: Tally, counts: Counts, *, compacted: bool, place: str = "Kafka") -> tuple[str, ...]:
    """What is wrong, in words; empty where every record is in exactly one place and the counts say so.

    Args:
        found: What was found.
        counts: What the ledger counted.
        compacted: Whether Kafka may have taken records away from between others since they were read.
        place: Kafka, or the table that is read instead of it.
    """
    problems = []
    if found.doubled:
        problems.append(f"there more than once: {_records(found.doubled)}")
    if found.not_in_kafka and not compacted:
        problems.append(f"there, and not shown by {place}: {_records(found.not_in_kafka)}")
    if found.back:
        problems.append(f"erased, and there again: {_records(found.back)}")
    if found.erased > counts.erased:
        problems.append(f"erased: {_records(found.erased)}; the ledger counted {counts.erased:,}")
    if found.in_neither > counts.dropped or (found.in_neither < counts.dropped and not compacted):
        problems.append(
            f"in neither table: {_records(found.in_neither)}; the ledger counted {counts.dropped:,} dropped"
        )
    if found.visible > counts.consumed or (found.visible < counts.consumed and not compacted):
        problems.append(f"shown by {place}: {_records(found.visible)}; the ledger counted {counts.consumed:,}")
    return tuple(problems)


def _records(number: int) -> str:
    return f"{number:,} record{'' if number == 1 else 's'}"


def starts(entries: Sequence[Entry]) -> Offsets:
    """The offset of each partition after the first entry; for a later partition, where its first batch began."""
    known: Offsets = {topic: dict(parts) for topic, parts in entries[0].next_offsets.items()}
    for entry in entries[1:]:
        for topic, parts in entry.settled.items():
            for partition, offset in parts.items():
                known.setdefault(topic, {}).setdefault(partition, offset)
    return known


def _behind(begins: Mapping[str, Mapping[int, int]], first: Offsets) -> bool:
    return any(
        offset < first.get(topic, {}).get(partition, offset)
        for topic, parts in begins.items()
        for partition, offset in parts.items()
    )
