"""Data that is gone: what Kafka lacks of what the ledger expects, and what may be decided about it. Pure values.

A flow stops where its topics no longer hold what its ledger expects. A decision says how it goes on, and is an
entry of the ledger like a batch: from then on the next offsets are the decided ones.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rivermouth.errors import (
    DecisionRefused,
    OffsetsBeyondEnd,
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    TopicRecreated,
)
from rivermouth.rows import ledger
from rivermouth.rows.ledger import Counts, Decision, Entry, Offsets, Ranges

EARLIEST: Final = -2
BY_SETTING: Final = "on_data_loss"
MAX_AUTOMATIC: Final = 100
"""So many automatic decisions are kept one by one; of older ones the sum remains."""


@dataclass(frozen=True, slots=True)
class Found:
    """What Kafka holds of a flow's topics.

    Attributes:
        ids: Kafka's UUID by topic; None where the service has none.
        first: The first offset of each partition.
        end: Where each partition ends.
        whole: Whether these are all partitions of the topics, and not only assigned ones.
    """

    ids: Mapping[str, str | None]
    first: Offsets
    end: Offsets
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """What somebody wants to decide.

    Attributes:
        losses: Ranges that are gone and shall be called lost.
        epochs: Topics that were made anew and shall be read from their beginning.
        rewinds: Where partitions shall be read from again; ``EARLIEST`` for the first offset that Kafka holds.
        who: User and host.
        at: When, as ISO 8601 in UTC.
        why: The reason.
        mark: A random mark, so that one command is recorded once.
    """

    losses: Ranges = field(default_factory=dict)
    epochs: tuple[str, ...] = ()
    rewinds: Offsets = field(default_factory=dict)
    who: str = ""
    at: str = ""
    why: str = ""
    mark: str = ""

    def __bool__(self) -> bool:
        return bool(self.losses or self.epochs or self.rewinds)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a decision makes of the newest entry.

    Attributes:
        next_offsets: Where the flow goes on.
        topic_ids: Kafka's UUIDs from then on.
        decisions: What is recorded, in order.
        fresh: By topic, the partitions of which a new epoch begins.
        unread: Offsets that were not read and are lost.
        unsettled: What of the newest entry's own batch can no longer be read.
        again: What will be read again in the same epoch; the table must not have it.
    """

    next_offsets: Offsets
    topic_ids: Mapping[str, str | None]
    decisions: tuple[Decision, ...]
    fresh: Mapping[str, frozenset[int]]
    unread: Ranges
    unsettled: Ranges
    again: Ranges

    def entry_after(self, entry: Entry, counts: Counts) -> Entry:
        """The entry that records it.

        Args:
            entry: The newest one.
            counts: The counts of its own batch, known by now.
        """
        number = entry.number + 1
        begun = {
            topic: {**(known := entry.epochs.get(topic, {})), **{p: (*known.get(p, ()), number) for p in sorted(parts)}}
            for topic, parts in self.fresh.items()
        }
        return replace(
            entry,
            number=number,
            kind="decision",
            next_offsets=self.next_offsets,
            settled=self.next_offsets,
            topic_ids={**entry.topic_ids, **self.topic_ids},
            # Known with the commit itself, so they need not wait for the entry after it.
            totals=entry.totals + counts + Counts(lost=ledger.size(self.unread)),
            attempt=uuid.uuid4().hex,
            epochs={**entry.epochs, **begun},
            decisions=_bounded((*entry.decisions, *(replace(each, entry=number) for each in self.decisions))),
        )


# --- what is gone ------------------------------------------------------------------------------------


def gone(needed: Offsets, first: Offsets) -> Ranges:
    """The offsets that are needed and lie before the first one that Kafka holds."""
    known = {topic: {p: o for p, o in first.get(topic, {}).items() if p in parts} for topic, parts in needed.items()}
    return ledger.between(needed, known)


def problem(flow: str, entry: Entry, needed: Offsets, found: Found) -> RivermouthError | None:
    """Why the flow cannot go on, as an error whose hint is the command that decides; None if it can.

    Args:
        flow: The flow's name.
        entry: Its newest entry.
        needed: From where it has to read: its next offsets, or the settled ones of a batch that is not settled.
        found: What Kafka holds.
    """
    for topic, topic_id in found.ids.items():
        if _is_another(entry, found, topic):
            return TopicRecreated(flow=flow, topic=topic, found=topic_id, expected=entry.topic_ids[topic])
        missing = _missing(entry, found, topic)
        if missing:
            there = len(found.first.get(topic, {}))
            return PartitionsFewer(flow=flow, topic=topic, found=there, expected=there + len(missing))
    for topic, partition, start, end in _beyond(entry.next_offsets, found):
        return OffsetsBeyondEnd(flow=flow, topic=topic, partition=partition, next_offset=start, end=end)
    lacking = gone({topic: needed[topic] for topic in found.ids if topic in needed}, found.first)
    for topic, partition, start, end in ledger.flat(lacking):
        options = " ".join(f"--accept-loss {part}" for part in _texts(lacking))
        return OffsetsExpired(flow=flow, topic=topic, partition=partition, start=start, end=end, options=options)
    return None


def by_setting(entry: Entry, needed: Offsets, found: Found, *, at: str) -> Wanted:
    """What ``on_data_loss: record`` decides: new epochs of topics made anew, losses of what is gone elsewhere."""
    fresh = tuple(topic for topic in found.ids if _is_another(entry, found, topic) or _missing(entry, found, topic))
    rest = {topic: parts for topic, parts in needed.items() if topic in found.ids and topic not in fresh}
    return Wanted(losses=gone(rest, found.first), epochs=fresh, who=BY_SETTING, at=at, why="record")


# --- what may be decided -----------------------------------------------------------------------------


def rule(
    flow: str, entry: Entry, needed: Offsets, found: Found, wanted: Wanted, *, void: bool = False
) -> Ruling | None:
    """What ``wanted`` makes of ``entry``; None if all of it was recorded before.

    Args:
        flow: The flow's name.
        entry: Its newest entry.
        needed: As for ``problem``.
        found: What Kafka holds.
        wanted: The decision.
        void: Whether others changed the table's data after the entry: a rewind then says that it is fine as it is,
            also one that moves nothing.

    Raises:
        DecisionRefused: It does not fit what is gone.
    """
    if wanted.mark and any(each.mark == wanted.mark for each in entry.decisions):
        return None
    ruler = _Ruler(flow, entry, needed, found, wanted)
    for topic in wanted.epochs:
        ruler.begin(topic)
    for topic, partition, start, end in ledger.flat(wanted.losses):
        ruler.lose(topic, partition, start, end)
    for topic, parts in wanted.rewinds.items():
        for partition, offset in sorted(parts.items()):
            ruler.rewind(topic, partition, offset, void=void)
    if not ruler.decisions:
        return None
    left = ruler.left()
    if left is not None:
        raise left
    return Ruling(
        next_offsets=ruler.next_offsets,
        topic_ids=ruler.topic_ids,
        decisions=tuple(ruler.decisions),
        fresh={topic: frozenset(parts) for topic, parts in ruler.fresh.items()},
        unread=ruler.unread,
        unsettled=_within(entry.unsettled, ruler.unreadable),
        again=ruler.again,
    )


class _Ruler:
    """One decision in the making, wish by wish."""

    def __init__(self, flow: str, entry: Entry, needed: Offsets, found: Found, wanted: Wanted) -> None:
        self._flow, self._entry, self._needed, self._found, self._wanted = flow, entry, needed, found, wanted
        self.next_offsets: Offsets = {topic: dict(parts) for topic, parts in entry.next_offsets.items()}
        self.decisions: list[Decision] = []
        self.topic_ids: dict[str, str | None] = {}
        self.fresh: dict[str, set[int]] = {}
        self.unread: Ranges = {}
        self.unreadable: Ranges = {}
        self.again: Ranges = {}

    def begin(self, topic: str) -> None:
        """A new epoch of a topic, from its beginning."""
        option = f"--new-epoch {topic}"
        self._check_read(option, topic)
        topic_id, expected = self._found.ids[topic], self._entry.topic_ids.get(topic)
        before, first = self._entry.next_offsets.get(topic, {}), self._found.first[topic]
        same = bool(topic_id) and topic_id == expected
        if (same or self._stands_at(before, first)) and self._has_begun(topic, topic_id):
            return
        if same and not _missing(self._entry, self._found, topic):
            detail = f"{topic} is the topic that the ledger knows, with the id {topic_id}"
            raise self._refused(option, detail, f"rivermouth plan {self._flow}")
        self.fresh[topic] = {*before, *first}
        self.topic_ids[topic] = topic_id
        self.next_offsets[topic] = dict(first)
        self.unreadable[topic] = {p: (0, offset) for p, offset in before.items()}
        self._record("new_epoch", topic, {p: (before.get(p, offset), offset) for p, offset in first.items()})

    def lose(self, topic: str, partition: int, start: int, end: int) -> None:
        """Exactly what is gone, called lost."""
        option = f"--accept-loss {_text(topic, partition, start, end)}"
        self._check_read(option, topic, partition)
        lacking = gone({topic: self._needed.get(topic, {})}, self._found.first).get(topic, {}).get(partition)
        if lacking != (start, end):
            if self._was_lost(topic, partition, start, end):
                return
            if lacking is None:
                detail, fix = f"nothing of {topic}-{partition} is gone", f"rivermouth run {self._flow}"
            else:
                text = _text(topic, partition, *lacking)
                detail = f"what is gone is {text}"
                fix = f'rivermouth run {self._flow} --accept-loss {text} --why "REASON"'
            raise self._refused(option, detail, fix)
        known = self.next_offsets[topic][partition]
        self.next_offsets[topic][partition] = max(known, end)
        self.unreadable.setdefault(topic, {})[partition] = (start, end)
        if end > known:
            self.unread.setdefault(topic, {})[partition] = (max(start, known), end)
        self._record("accept_loss", topic, {partition: (start, end)})

    def rewind(self, topic: str, partition: int, offset: int, *, void: bool) -> None:
        """Back to an offset; a log that was cut starts a new epoch there."""
        shown = "earliest" if offset == EARLIEST else offset
        option = f"--rewind {topic}-{partition}:{shown}"
        self._check_read(option, topic, partition)
        first, end = self._found.first[topic][partition], self._found.end[topic][partition]
        known = self._entry.next_offsets.get(topic, {}).get(partition)
        target = first if offset == EARLIEST else offset
        if known is None or (target == known and not void):
            return
        if target > end:
            detail = f"{topic}-{partition} ends at {end}, before the ledger's {known}"
            raise self._refused(option, detail, self._rewound(topic, partition, end))
        if target > known:
            detail = f"the ledger stands at {known}, and a rewind goes back"
            raise self._refused(option, detail, f"rivermouth plan {self._flow}")
        if target < first:
            detail = f"Kafka holds {topic}-{partition} from {first} on"
            raise self._refused(option, detail, self._rewound(topic, partition, first))
        self.next_offsets[topic][partition] = target
        if known > end:
            # What comes at these offsets from now on are other records than those that the table has.
            self.fresh.setdefault(topic, set()).add(partition)
            self.unreadable.setdefault(topic, {})[partition] = (target, known)
        elif target < known:
            self.again.setdefault(topic, {})[partition] = (target, known)
        self._record("rewind", topic, {partition: (known, target)})

    def left(self) -> RivermouthError | None:
        """What would stop the flow all the same: a decision is whole, or nothing of it is recorded."""
        ids = {**self._entry.topic_ids, **self.topic_ids}
        after = replace(self._entry, next_offsets=self.next_offsets, topic_ids=ids)
        needed = {topic: dict(parts) for topic, parts in self._needed.items()}
        for decision in self.decisions:
            decided = needed.setdefault(decision.topic, {})
            if decision.kind == "new_epoch":
                decided.clear()
            decided.update({p: self.next_offsets[decision.topic][p] for p in decision.moves})
        return problem(self._flow, after, needed, self._found)

    def _record(self, kind: str, topic: str, moves: Mapping[int, tuple[int, int]]) -> None:
        wanted = self._wanted
        self.decisions.append(
            Decision(
                kind=kind,  # type: ignore[arg-type]
                entry=self._entry.number + 1,
                topic=topic,
                moves=moves,
                topic_id=self._found.ids[topic],
                who=wanted.who,
                at=wanted.at,
                why=wanted.why,
                mark=wanted.mark,
            )
        )

    def _was_lost(self, topic: str, partition: int, start: int, end: int) -> bool:
        moves = [each.moves for each in self._entry.decisions if (each.kind, each.topic) == ("accept_loss", topic)]
        return any(each.get(partition) == (start, end) for each in moves)

    def _has_begun(self, topic: str, topic_id: str | None) -> bool:
        begun = [each for each in self._entry.decisions if (each.kind, each.topic) == ("new_epoch", topic)]
        return bool(begun) and begun[-1].topic_id == topic_id

    @staticmethod
    def _stands_at(before: Mapping[int, int], first: Mapping[int, int]) -> bool:
        return dict(before) == dict(first)

    def _check_read(self, option: str, topic: str, partition: int | None = None) -> None:
        if topic not in self._found.ids:
            detail = f"the flow does not read topic {topic}"
        elif partition is not None and partition not in self._found.first[topic]:
            detail = f"the flow does not read partition {partition} of topic {topic}"
        elif partition is not None and _is_another(self._entry, self._found, topic):
            again = f'rivermouth run {self._flow} --new-epoch {topic} --why "REASON"'
            raise self._refused(option, f"topic {topic} was deleted and created again", again)
        else:
            return
        raise self._refused(option, detail, f"rivermouth plan {self._flow}")

    def _rewound(self, topic: str, partition: int, offset: int) -> str:
        return f'rivermouth run {self._flow} --rewind {topic}-{partition}:{offset} --why "REASON"'

    def _refused(self, option: str, detail: str, fix: str) -> DecisionRefused:
        return DecisionRefused(flow=self._flow, option=option, detail=detail, fix=fix)


def text(decision: Decision) -> str:
    """What was decided, in words."""
    if decision.kind == "new_epoch":
        return f"topic {decision.topic} is read from its beginning as another one"
    parts = sorted(decision.moves.items())
    if decision.kind == "rewind":
        moved = ", ".join(f"{decision.topic}-{p} from {before} back to {after}" for p, (before, after) in parts)
        return f"{moved}: read again from there"
    lost = ", ".join(f"offsets {start} to {end} (exclusive) of {decision.topic}-{p}" for p, (start, end) in parts)
    return f"{lost} are lost"


# --- inside ------------------------------------------------------------------------------------------


def _is_another(entry: Entry, found: Found, topic: str) -> bool:
    """Whether a topic of the same name is another one than the ledger knows."""
    topic_id, expected = found.ids[topic], entry.topic_ids.get(topic)
    return bool(topic_id) and bool(expected) and topic_id != expected


def _missing(entry: Entry, found: Found, topic: str) -> list[int]:
    """Partitions that the ledger knows and the topic lacks: Kafka never takes one away."""
    if not found.whole:
        return []
    return sorted(set(entry.next_offsets.get(topic, {})) - set(found.first.get(topic, {})))


def _beyond(offsets: Offsets, found: Found) -> Iterator[tuple[str, int, int, int]]:
    """(topic, partition, next offset, end) where the topic ends before the ledger."""
    for topic in found.ids:
        for partition, offset in sorted(offsets.get(topic, {}).items()):
            end = found.end.get(topic, {}).get(partition)
            if end is not None and offset > end:
                yield topic, partition, offset, end


def _within(ranges: Ranges, limits: Ranges) -> Ranges:
    """What of ``ranges`` lies within ``limits``."""
    result: Ranges = {}
    for topic, partition, start, end in ledger.flat(ranges):
        low, high = limits.get(topic, {}).get(partition, (end, end))
        if max(start, low) < min(end, high):
            result.setdefault(topic, {})[partition] = (max(start, low), min(end, high))
    return result


def _bounded(decisions: tuple[Decision, ...]) -> tuple[Decision, ...]:
    automatic = [each for each in decisions if each.who == BY_SETTING]
    dropped = automatic[:-MAX_AUTOMATIC]
    return tuple(each for each in decisions if each not in dropped)


def _texts(ranges: Ranges) -> Iterator[str]:
    return (_text(*part) for part in ledger.flat(ranges))


def _text(topic: str, partition: int, start: int, end: int) -> str:
    """``orders-0:5-9`` (end exclusive), as the options take it."""
    return f"{topic}-{partition}:{start}-{end}"
