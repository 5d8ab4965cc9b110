"""What a decision makes of the ledger's newest entry, worked out wish by wish. Pure values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.data_loss import (
    KafkaState,
    LossDecision,
    deleted_ranges,
    is_another,
    missing,
    problem,
    range_text,
    rewind_text,
    undecided,
    with_added,
)
from rivermouth.domain.ledger.ledger import EARLIEST, Counts, Decision, Entry
from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
from rivermouth.errors import DecisionRefused, RivermouthError

BY_SETTING: Final = "on_data_loss"
MAX_AUTOMATIC: Final = 100
"""The number of automatic decisions that are kept one by one, in addition to all those of the newest entry.

Of older ones only the sum in the totals remains.
"""


@dataclass(frozen=True, slots=True)
class LossDecisionResult:
    """What a decision makes of the newest entry.

    Attributes:
        next_offsets: Where the flow goes on.
        topic_ids: Kafka's UUIDs from then on.
        decisions: What is recorded, in order.
        fresh: By topic, the partitions that begin a new epoch.
        unread: Offsets that were not read and are lost.
        unsettled: What of the newest entry's own batch can no longer be read.
        again: What will be read again in the same epoch; the table must not have it.
        suspect: What will be read in another epoch than before, of a log that was cut: before the cut these are the
            same records, and the table must not have them.
    """

    next_offsets: Offsets
    topic_ids: Mapping[str, str | None]
    decisions: tuple[Decision, ...]
    fresh: Mapping[str, frozenset[int]]
    unread: Ranges
    unsettled: Ranges
    again: Ranges
    suspect: Ranges

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
            totals=entry.totals + counts + Counts(lost=offset_ranges.size(self.unread)),
            attempt=uuid.uuid4().hex,
            erases=0,
            epochs={**entry.epochs, **begun},
            begins=self._begins(entry),
            decisions=_bounded((*entry.decisions, *(replace(each, entry=number) for each in self.decisions)), number),
        )

    def _begins(self, entry: Entry) -> Offsets:
        """For what the table is answerable from then on: in a new epoch from its start, after a rewind from there."""
        result: Offsets = {topic: dict(parts) for topic, parts in entry.begins.items()}
        lost = offset_ranges.starts(self.unread)
        for topic, parts in self.next_offsets.items():
            known = result.setdefault(topic, {})
            for partition, offset in parts.items():
                if partition in self.fresh.get(topic, ()):
                    known[partition] = offset
                elif partition in known:
                    known[partition] = min(offset, known[partition])
                elif partition not in entry.next_offsets.get(topic, {}):
                    known[partition] = lost.get(topic, {}).get(partition, offset)
        return {topic: parts for topic, parts in result.items() if parts}


class LossDecisionBuilder:
    """One decision in the making, wish by wish."""

    def __init__(self, flow: str, entry: Entry, needed: Offsets, found: KafkaState, wanted: LossDecision) -> None:
        self._flow, self._entry, self._found, self._wanted = flow, entry, found, wanted
        self._needed = with_added(entry, needed, found)
        self.next_offsets: Offsets = {topic: dict(parts) for topic, parts in entry.next_offsets.items()}
        self.decisions: list[Decision] = []
        self.topic_ids: dict[str, str | None] = {}
        self.fresh: dict[str, set[int]] = {}
        self.unread: Ranges = {}
        self.unreadable: Ranges = {}
        self.again: Ranges = {}
        self.suspect: Ranges = {}

    def begin(self, topic: str) -> None:
        """A new epoch of a topic, from its beginning."""
        option = f"--new-epoch {topic}"
        self._check_read(option, topic)
        topic_id, expected = self._found.ids[topic], self._entry.topic_ids.get(topic)
        before, first = self._entry.next_offsets.get(topic, {}), self._found.first[topic]
        same = bool(topic_id) and topic_id == expected
        if (same or dict(before) == dict(first)) and self._has_begun(topic, topic_id):
            return
        if same and not missing(self._entry, self._found, topic):
            detail = f"{topic} is the topic that the ledger knows, with the id {topic_id}"
            raise self._refused(option, detail, f"rivermouth plan {self._flow}")
        self.fresh[topic] = {*before, *first}
        self.topic_ids[topic] = topic_id
        self.next_offsets[topic] = dict(first)
        self.unreadable[topic] = {p: (0, offset) for p, offset in before.items()}
        self._record("new_epoch", topic, {p: (before.get(p, offset), offset) for p, offset in first.items()})

    def lose(self, topic: str, partition: int, start: int, end: int) -> None:
        """Exactly what is gone, called lost."""
        option = f"--accept-loss {range_text(topic, partition, start, end)}"
        self._check_read(option, topic, partition)
        lacking = deleted_ranges({topic: self._needed.get(topic, {})}, self._found.first).get(topic, {}).get(partition)
        if lacking != (start, end):
            if self._was_lost(topic, partition, start, end):
                return
            if lacking is None:
                detail, rest = f"nothing of {topic}-{partition} is gone", self._undecided()
                fix = rest.command(self._flow) if rest else f"rivermouth run {self._flow}"
            else:
                detail = f"what is gone is {range_text(topic, partition, *lacking)}"
                fix = self._instead(losses={topic: {partition: lacking}})
            raise self._refused(option, detail, fix)
        known = self.next_offsets[topic].get(partition, start)
        self.next_offsets[topic][partition] = max(known, end)
        self.unreadable.setdefault(topic, {})[partition] = (start, end)
        if end > known:
            self.unread.setdefault(topic, {})[partition] = (max(start, known), end)
        self._record("accept_loss", topic, {partition: (start, end)})

    def rewind(self, topic: str, partition: int, offset: int, *, void: bool) -> None:
        """Back to an offset; a log that was cut starts a new epoch there."""
        option = f"--rewind {rewind_text(topic, partition, offset)}"
        self._check_read(option, topic, partition)
        first, end = self._found.first[topic][partition], self._found.end[topic][partition]
        known = self.next_offsets.get(topic, {}).get(partition)
        target = first if offset == EARLIEST else offset
        if known is None or (target == known and not void):
            return
        nearest = min(max(target, first), max(known, first), end)
        adopted = self._adopted_at(topic, partition)
        if target < adopted:
            detail = f"the table was taken over at {adopted}, and it is not known which earlier records it has"
            nearest = max(adopted, first)
        elif target > end < known:
            detail = f"{topic}-{partition} ends at {end}, before the ledger's {known}"
        elif target < first:
            detail = f"Kafka holds {topic}-{partition} from {first} on"
        elif target > known:
            detail = f"the ledger is at {known}, and a rewind goes back"
        else:
            self._go_back(topic, partition, target, known, end)
            return
        fix = self._instead(rewinds={topic: {partition: nearest}})
        if target > known and not (void or self._undecided()):
            fix = f"rivermouth plan {self._flow}"
        raise self._refused(option, detail, fix)

    def _go_back(self, topic: str, partition: int, target: int, known: int, end: int) -> None:
        self.next_offsets[topic][partition] = target
        cut = self._cut_at(topic, partition)
        same, other = (max(target, cut), known), (target, min(cut, known))
        if known > end:
            # What comes at these offsets from now on are other records than those that the table has, as far as
            # somebody wrote them since: of those before the end nobody has said so.
            self.fresh.setdefault(topic, set()).add(partition)
            lost = self.unreadable.get(topic, {}).get(partition, (target, known))
            self.unreadable.setdefault(topic, {})[partition] = (min(lost[0], target), known)
            same, other = (target, target), (target, end)
        if same[0] < same[1]:
            self.again.setdefault(topic, {})[partition] = same
        if other[0] < other[1]:
            self.suspect.setdefault(topic, {})[partition] = other
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
        return problem(self._flow, after, needed, self._found, self._wanted)

    def _record(self, kind: str, topic: str, moves: Mapping[int, tuple[int, int]]) -> None:
        wanted, last = self._wanted, self.decisions[-1] if self.decisions else None
        if last is not None and (last.kind, last.topic, kind) == ("accept_loss", topic, "accept_loss"):
            moves = {**last.moves, **moves}
            self.decisions.pop()
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

    def _cut_at(self, topic: str, partition: int) -> int:
        """Where the log was cut with which the epoch of now began; 0 where it began otherwise.

        Before that offset Kafka may still hold records that the table has from an earlier epoch.
        """
        begun = self._entry.epochs.get(topic, {}).get(partition, (0,))[-1]
        for decision in self._entry.decisions:
            if (decision.entry, decision.kind, decision.topic) == (begun, "rewind", topic):
                moved = decision.moves.get(partition)
                if moved is not None:
                    return moved[1]
        return 0

    def _adopted_at(self, topic: str, partition: int) -> int:
        """Where the flow began in a table that it took over, while its records are still those of that time; or 0."""
        if self._entry.epochs.get(topic, {}).get(partition):
            return 0
        moves = [each.moves for each in self._entry.decisions if (each.kind, each.topic) == ("adopt", topic)]
        return max((each[partition][0] for each in moves if partition in each), default=0)

    def _check_read(self, option: str, topic: str, partition: int | None = None) -> None:
        if topic not in self._found.ids:
            raise self._refused(option, f"the flow does not read topic {topic}", self._readable())
        if partition is not None and partition not in self._found.first[topic]:
            detail = f"the flow does not read partition {partition} of topic {topic}"
            raise self._refused(option, detail, self._readable())
        if partition is not None and is_another(self._entry, self._found, topic):
            fix = self._instead(epochs=(topic,))
            raise self._refused(option, f"topic {topic} was deleted and created again", fix)

    def _undecided(self) -> LossDecision:
        return undecided(self._entry, self._needed, self._found)

    def _instead(self, **right: Any) -> str:
        """The command that was wanted, with what it lacked and with ``right`` in the place of what was wrong."""
        return self._undecided().merged_with(self._wanted).merged_with(LossDecision(**right)).command(self._flow)

    def _readable(self) -> str:
        """The command that was wanted, as far as it is about what the flow reads, with what it lacked."""
        first = self._found.first
        losses, rewinds = (
            {t: {p: parts[p] for p in parts if p in first[t]} for t, parts in each.items() if t in first}
            for each in (self._wanted.losses, self._wanted.rewinds)
        )
        epochs = tuple(topic for topic in self._wanted.epochs if topic in first)
        rest = self._undecided().merged_with(LossDecision(losses, epochs, rewinds))  # type: ignore[arg-type]
        return rest.command(self._flow) if rest.options else f"rivermouth plan {self._flow}"

    def _refused(self, option: str, detail: str, fix: str) -> DecisionRefused:
        return DecisionRefused(flow=self._flow, option=option, detail=detail, fix=fix)


def _bounded(decisions: tuple[Decision, ...], newest: int) -> tuple[Decision, ...]:
    automatic = [each for each in decisions if each.who == BY_SETTING]
    dropped = [each for each in automatic[:-MAX_AUTOMATIC] if each.entry != newest]
    return tuple(each for each in decisions if each not in dropped)
