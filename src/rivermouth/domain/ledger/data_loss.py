"""Data that is gone: what Kafka lacks of what the ledger expects, and the command that decides it. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.ledger import EARLIEST, Entry
from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
from rivermouth.errors import OffsetsBeyondEnd, OffsetsExpired, PartitionsFewer, TopicRecreated

if TYPE_CHECKING:
    from rivermouth.errors import RivermouthError

Value = TypeVar("Value")
_TOLD: Final = 8


@dataclass(frozen=True, slots=True)
class KafkaState:
    """What Kafka holds of a flow's topics.

    Attributes:
        ids: Kafka's UUID by topic; None where the service has none.
        first: The first offset of each partition.
        end: Where each partition ends, records of open transactions included: only a log that was cut ends earlier
            than it did before.
        whole: Whether these are all partitions of the topics, and not only assigned ones.
        place: Kafka, or the table that is read instead of it, for messages.
    """

    ids: Mapping[str, str | None]
    first: Offsets
    end: Offsets
    whole: bool = True
    place: str = "Kafka"


@dataclass(frozen=True, slots=True)
class LossDecision:
    """What somebody wants to decide.

    Attributes:
        losses: Ranges that are gone and are to be recorded as lost.
        epochs: Topics that were created again and are to be read from their beginning.
        rewinds: Offsets from which partitions are to be read again; ``EARLIEST`` for the first offset that Kafka holds.
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

    @property
    def options(self) -> str:
        """As the options of ``rivermouth run``."""
        losses = (f"--accept-loss {range_text(*part)}" for part in offset_ranges.flat(self.losses))
        epochs = (f"--new-epoch {topic}" for topic in sorted(self.epochs))
        rewinds = (
            f"--rewind {rewind_text(topic, partition, offset)}"
            for topic, parts in sorted(self.rewinds.items())
            for partition, offset in sorted(parts.items())
        )
        return " ".join((*epochs, *losses, *rewinds))

    def command(self, flow: str) -> str:
        """As the command that decides it."""
        return f'rivermouth run {flow} {self.options} --why "REASON"'

    def merged_with(self, other: LossDecision) -> LossDecision:
        """Both in one; ``other`` wins where they differ. A topic with a new epoch needs no other decision."""
        epochs = tuple(dict.fromkeys((*self.epochs, *other.epochs)))
        losses: Ranges = _both(self.losses, other.losses, epochs)
        return replace(self, epochs=epochs, losses=losses, rewinds=_both(self.rewinds, other.rewinds, epochs))


def deleted_ranges(needed: Offsets, first: Offsets) -> Ranges:
    """The offsets that are needed and lie before the first one that Kafka holds."""
    known = {topic: {p: o for p, o in first.get(topic, {}).items() if p in parts} for topic, parts in needed.items()}
    return offset_ranges.between(needed, known)


def with_added(entry: Entry, needed: Offsets, found: KafkaState) -> Offsets:
    """``needed``, and offset 0 of each partition that was added to a topic of the ledger since.

    Such a partition was empty before, so what it lacks was lost unread; Spark's own source does the same. For topics
    that are read in part it is unknown which of their partitions are new.
    """
    topics = entry.next_offsets.keys() & found.first.keys() if found.whole else ()
    added = {topic: dict.fromkeys(found.first[topic].keys() - entry.next_offsets[topic].keys(), 0) for topic in topics}
    return offset_ranges.filled(needed, added)


def undecided(entry: Entry, needed: Offsets, found: KafkaState) -> LossDecision:
    """All that keeps the flow from going on, as the one decision that settles it; empty where nothing does."""
    fresh = tuple(topic for topic in found.ids if is_another(entry, found, topic) or missing(entry, found, topic))
    whole = with_added(entry, needed, found)
    rest = {topic: parts for topic, parts in whole.items() if topic in found.ids and topic not in fresh}
    rewinds: Offsets = {}
    for topic, partition, _offset, end in beyond(entry.next_offsets, found):
        if topic not in fresh:
            rewinds.setdefault(topic, {})[partition] = end
    return LossDecision(losses=deleted_ranges(rest, found.first), epochs=fresh, rewinds=rewinds)


def problem(
    flow: str, entry: Entry, needed: Offsets, found: KafkaState, wanted: LossDecision | None = None
) -> RivermouthError | None:
    """Why the flow cannot go on, as an error whose hint is the command that decides all of it; None if it can.

    Args:
        flow: The flow's name.
        entry: Its newest entry.
        needed: From where it has to read: its next offsets, or the settled ones of a batch that is not settled.
        found: What Kafka holds.
        wanted: What is being decided at the same time and was not recorded yet; the hint names it too.
    """
    lacking = undecided(entry, needed, found)
    if not lacking:
        return None
    options = (wanted or LossDecision()).merged_with(lacking).options
    for topic in lacking.epochs:
        return _made_anew(flow, entry, found, topic, options)
    for topic, p, start, end in beyond(entry.next_offsets, found):
        return OffsetsBeyondEnd(flow=flow, topic=topic, partition=p, next_offset=start, end=end, options=options)
    topic, p, start, end = next(offset_ranges.flat(lacking.losses))
    return OffsetsExpired(
        flow=flow,
        topic=topic,
        partition=p,
        start=start,
        end=end,
        place=found.place,
        gone=offset_ranges.size(lacking.losses),
        options=options,
    )


def _made_anew(flow: str, entry: Entry, found: KafkaState, topic: str, options: str) -> RivermouthError:
    there = found.first.get(topic, {})
    another = is_another(entry, found, topic)
    kind = TopicRecreated if another else PartitionsFewer
    return kind(
        flow=flow,
        topic=topic,
        found=found.ids[topic] if another else len(there),
        expected=entry.topic_ids[topic] if another else len(there) + len(missing(entry, found, topic)),
        stands=_stands(topic, entry.next_offsets.get(topic, {})),
        held=offset_ranges.size(offset_ranges.between({topic: there}, {topic: found.end.get(topic, {})})),
        options=options,
    )


def is_another(entry: Entry, found: KafkaState, topic: str) -> bool:
    """Whether a topic of the same name is another one than the ledger knows."""
    topic_id, expected = found.ids[topic], entry.topic_ids.get(topic)
    return bool(topic_id) and bool(expected) and topic_id != expected


def missing(entry: Entry, found: KafkaState, topic: str) -> list[int]:
    """Partitions that the ledger knows and the topic lacks: Kafka never takes one away."""
    if not found.whole:
        return []
    return sorted(set(entry.next_offsets.get(topic, {})) - set(found.first.get(topic, {})))


def beyond(offsets: Offsets, found: KafkaState) -> Iterator[tuple[str, int, int, int]]:
    """(topic, partition, next offset, end) where the topic ends before the ledger."""
    for topic in found.ids:
        for partition, offset in sorted(offsets.get(topic, {}).items()):
            end = found.end.get(topic, {}).get(partition)
            if end is not None and offset > end:
                yield topic, partition, offset, end


def range_text(topic: str, partition: int, start: int, end: int) -> str:
    """``orders-0:5-9`` (end exclusive), as ``--accept-loss`` takes it."""
    return f"{topic}-{partition}:{start}-{end}"


def rewind_text(topic: str, partition: int, offset: int) -> str:
    """``orders-0:5`` or ``orders-0:earliest``, as ``--rewind`` takes it."""
    return f"{topic}-{partition}:{'earliest' if offset == EARLIEST else offset}"


def _stands(topic: str, offsets: Mapping[int, int]) -> str:
    """``orders-0:5, orders-1:7``, of a few partitions."""
    told = [f"{topic}-{partition}:{offset}" for partition, offset in sorted(offsets.items())[:_TOLD]]
    more = [f"{len(offsets) - _TOLD} more"] if len(offsets) > _TOLD else []
    return ", ".join((*told, *more)) or "no offset"


def _both(
    first: Mapping[str, Mapping[int, Value]], second: Mapping[str, Mapping[int, Value]], without: tuple[str, ...]
) -> dict[str, dict[int, Value]]:
    topics = (topic for topic in {**first, **second} if topic not in without)
    return {topic: {**first.get(topic, {}), **second.get(topic, {})} for topic in topics}
