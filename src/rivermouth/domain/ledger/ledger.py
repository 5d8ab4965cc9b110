"""The ledger: what a table's commits say about the offsets that it holds. Pure values, no Spark.

Each commit of a flow carries one ``Entry`` in the same Delta commit as its rows. Its vector of next
offsets, one a topic and partition, is the truth about the flow's progress; checkpoints are caches of it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from operator import add, sub
from typing import Any, Final, Literal

from rivermouth.domain.ledger.offset_ranges import (
    Offsets,
    Ranges,
    advanced,
    between,
    filled,
    flat,
    starts,
)
from rivermouth.errors import LedgerGap, LedgerTooNew, LedgerUnreadable

FORMAT: Final = 4

EARLIEST: Final = -2
"""In place of an offset: the first one that Kafka holds. The number is Kafka's own."""

MANY_DEAD_LETTERS: Final = 0.1
"""The share of dead letters among the records above which people are warned."""


def beginnings(known: Offsets, partitions: Mapping[str, Collection[int]]) -> Offsets:
    """Where each of these partitions begins; those that are not known begin at their earliest."""
    return {topic: {p: known.get(topic, {}).get(p, EARLIEST) for p in parts} for topic, parts in partitions.items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """Where the records of one or more batches went: ``consumed`` and ``exploded`` are the sum of the next four.

    Attributes:
        consumed: Records read.
        exploded: Rows that records were exploded into, beyond one each: a record with five elements counts four. What
            follows is counted in rows then; a record without elements, or refused as a whole, is one.
        written: Rows appended to the table; records that only raised a warning are among them.
        merged: Rows merged into a keyed table.
        dropped: Records dropped by an expectation or as null values.
        dead_lettered: Records in the dead letters.
        null_values: Those of ``dropped`` whose value was null.
        no_elements: Those of ``dropped`` that had no element to be exploded into.
        expectations: Failures by the name of the expectation.
        undeclared_fields: Fields outside the declared schema, counted on a sample of the records.
        replayed: Rows that a replay brought from the dead letters; they were consumed before.
        lost: Offsets that were gone before they were read or settled, and called lost by a decision; an upper bound
            of the records. They were not consumed.
        erased: Records that were forgotten: what they had come to was deleted from the table or the dead letters. They
            were counted above before.
    """

    consumed: int = 0
    exploded: int = 0
    written: int = 0
    merged: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    null_values: int = 0
    no_elements: int = 0
    expectations: Mapping[str, int] = field(default_factory=dict)
    undeclared_fields: int = 0
    replayed: int = 0
    lost: int = 0
    erased: int = 0

    @property
    def adds_up(self) -> bool:
        """Whether every consumed record, or each of its rows, went to exactly one place."""
        return self.consumed + self.exploded == self.written + self.merged + self.dropped + self.dead_lettered

    def __add__(self, other: Counts) -> Counts:
        return self._with(other, add)

    def __sub__(self, earlier: Counts) -> Counts:
        """What was counted after ``earlier``; these counts include those of ``earlier``."""
        return self._with(earlier, sub)

    def _with(self, other: Counts, do: Callable[[int, int], int]) -> Counts:
        names = {**self.expectations, **other.expectations}
        return Counts(
            expectations={
                name: do(self.expectations.get(name, 0), other.expectations.get(name, 0)) for name in sorted(names)
            },
            **{
                name: do(getattr(self, name), getattr(other, name))
                for name in self.__dataclass_fields__
                if name != "expectations"
            },
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about data that is gone; every later entry has it.

    Attributes:
        kind: accept_loss, new_epoch or rewind; adopt where the flow took the table over from another program; rebuild
            where the table was emptied to be rebuilt from the table that the flow reads.
        entry: Number of the entry that recorded it.
        topic: The topic.
        moves: By partition, the offset before and the offset after the decision. What is between them was lost
            (accept_loss), is read again (rewind, rebuild) or belongs to another incarnation of the topic (new_epoch).
            For adopt both are where it begins.
        topic_id: Kafka's UUID of the topic from then on.
        who: User and host; ``on_data_loss`` where the flow's own setting decided.
        at: When, as ISO 8601 in UTC.
        why: The reason that was given.
        mark: A random mark, so that one command is recorded once.
    """

    kind: Literal["accept_loss", "new_epoch", "rewind", "adopt", "rebuild"]
    entry: int
    topic: str
    moves: Mapping[int, tuple[int, int]]
    topic_id: str | None = None
    who: str = ""
    at: str = ""
    why: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One ledger entry; it is in the ``userMetadata`` of the commit that it describes.

    Attributes:
        flow: The flow that wrote it: its name is its identity.
        number: k, counted from 0 (the CREATE TABLE commit) without gaps.
        kind: What the commit was.
        next_offsets: The first offset of each topic and partition that the table does not have.
        settled: Up to where the dead letters are known to be complete; at most ``next_offsets``.
        topic_ids: Kafka's UUID by topic; None where the service has none.
        totals: Sum of the counts of all entries before this one.
        attempt: A random mark, so that a writer can tell its own commit from another's.
        starting_offsets: What the user had written when the table was made; it has no effect any more.
        epochs: By topic and partition, the numbers of the entries with which a new epoch of it began: the same
            offsets are other records since then. A partition in its first epoch is not named.
        decisions: What was decided about data that is gone, oldest first.
        begins: The first offset of each topic and partition for which the table accounts: what is from there to
            ``next_offsets`` was written, dropped, dead-lettered or lost. Not known where the first entries had an older
            format.
        lookups: The versions of the tables in which the flow looked up columns for the last batch, by their names.
        erases: How many records the commit erased, of the kind ``forget``; 0 where that was not kept in the entry.
    """

    flow: str
    number: int
    kind: Literal["create", "batch", "replay", "maintenance", "decision", "forget"]
    next_offsets: Offsets
    settled: Offsets
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    totals: Counts = Counts()
    attempt: str = ""
    starting_offsets: str = ""
    epochs: Mapping[str, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)
    decisions: tuple[Decision, ...] = ()
    begins: Offsets = field(default_factory=dict)
    erases: int = 0
    lookups: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> str:
        """The entry as one line of JSON, keys in a fixed order."""
        topics = {
            topic: {
                "id": self.topic_ids.get(topic),
                "next": {str(partition): offset for partition, offset in sorted(partitions.items())},
                "settled": {str(p): offset for p, offset in sorted(self.settled.get(topic, {}).items())},
                "epochs": {str(p): list(begun) for p, begun in sorted(self.epochs.get(topic, {}).items())},
                "begins": {str(p): offset for p, offset in sorted(self.begins.get(topic, {}).items())},
            }
            for topic, partitions in sorted(self.next_offsets.items())
        }
        body = {
            "rivermouth": FORMAT,
            "flow": self.flow,
            "entry": self.number,
            "kind": self.kind,
            "topics": topics,
            "totals": asdict(self.totals),
            "attempt": self.attempt,
            "starting_offsets": self.starting_offsets,
            "decisions": [asdict(decision) for decision in self.decisions],
        }
        if self.erases:
            body["erases"] = self.erases
        if self.lookups:
            body["lookups"] = dict(self.lookups)
        return json.dumps(body, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, table: str, version: int) -> Entry | None:
        """The entry in a commit's ``userMetadata``; None where the text is none of ours.

        Raises:
            LedgerTooNew: A newer rivermouth wrote it.
            LedgerUnreadable: It is ours, and damaged.
        """
        body = _object(text)
        if body is None or "rivermouth" not in body:
            return None
        found = body["rivermouth"]
        if not isinstance(found, int) or found > FORMAT:
            raise LedgerTooNew(table=table, found=found, supported=FORMAT)
        try:
            topics = body["topics"]
            return cls(
                flow=body["flow"],
                number=int(body["entry"]),
                kind=body["kind"],
                next_offsets={topic: _offsets(part["next"]) for topic, part in topics.items()},
                settled={topic: _offsets(part["settled"]) for topic, part in topics.items()},
                topic_ids={topic: part["id"] for topic, part in topics.items()},
                totals=Counts(**body["totals"]),
                attempt=body["attempt"],
                starting_offsets=body["starting_offsets"],
                # Format 1 knew neither epochs nor decisions, format 2 neither beginnings nor erased records,
                # format 3 no records of several rows.
                epochs={topic: _epochs(part["epochs"]) for topic, part in topics.items() if part.get("epochs")},
                decisions=tuple(_decision(part) for part in body.get("decisions", ())),
                begins={topic: _offsets(part["begins"]) for topic, part in topics.items() if part.get("begins")},
                erases=int(body.get("erases", 0)),
                lookups={table: int(version) for table, version in body.get("lookups", {}).items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"{type(error).__name__} at {error}"
            raise LedgerUnreadable(table=table, version=version, detail=detail) from error

    def after_batch(self, ranges: Ranges, counts: Counts, topic_ids: Mapping[str, str | None]) -> Entry:
        """The entry of the batch that follows this one.

        Args:
            ranges: What the batch writes; partitions that are not named keep their offset.
            counts: The counts of this entry's own batch, known by now.
            topic_ids: Ids of the topics in ``ranges``.
        """
        return replace(
            self,
            number=self.number + 1,
            kind="batch",
            next_offsets=advanced(self.next_offsets, ranges),
            # A partition that is new with this batch is settled up to where the batch begins.
            settled=filled(self.next_offsets, starts(ranges)),
            topic_ids={**self.topic_ids, **topic_ids},
            totals=self.totals + counts,
            attempt=uuid.uuid4().hex,
            erases=0,
            begins=filled(self.begins, _added(starts(ranges), self.next_offsets)),
        )

    def successor(self, kind: Literal["replay", "maintenance", "forget"], counts: Counts, *, erases: int = 0) -> Entry:
        """The entry of a commit that moves no offset; ``counts`` are those of this entry's own batch."""
        return replace(
            self,
            number=self.number + 1,
            kind=kind,
            settled=self.next_offsets,
            totals=self.totals + counts,
            attempt=uuid.uuid4().hex,
            erases=erases,
        )

    @property
    def begun(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """``epochs`` by (topic, partition)."""
        return {(topic, p): entries for topic, parts in self.epochs.items() for p, entries in parts.items()}

    @property
    def decided(self) -> int:
        """Number of the entry that recorded the last decision; 0 without one."""
        return max((decision.entry for decision in self.decisions), default=0)

    @property
    def unsettled(self) -> Ranges:
        """The ranges whose dead letters this entry does not yet call complete."""
        return between(self.settled, self.next_offsets)


def first_entry(
    flow: str, start: Offsets, topic_ids: Mapping[str, str | None], *, starting_offsets: str = "earliest"
) -> Entry:
    """Entry 0: the resolved starting offsets, before any record.

    Args:
        flow: The flow's name.
        start: The first offset of every partition.
        topic_ids: Kafka's UUIDs.
        starting_offsets: What the user wrote, from which ``start`` was resolved.
    """
    return Entry(
        flow=flow,
        number=0,
        kind="create",
        next_offsets=start,
        settled=start,
        topic_ids=topic_ids,
        attempt=uuid.uuid4().hex,
        starting_offsets=starting_offsets,
        begins=start,
    )


def remaining_ranges(flow: str, next_offsets: Offsets, planned: Ranges) -> Ranges:
    """What of the planned ranges is still to be written.

    Each partition for itself: equal is written, contained is skipped, an overlap leaves its rest. A partition
    that the ledger does not know is new and written whole.

    Returns:
        The ranges to write, without empty ones; nothing at all if the batch was written before.

    Raises:
        LedgerGap: A planned range begins after the offset that the ledger expects.
    """
    rest: Ranges = {}
    for topic, partition, start, end in flat(planned):
        expected = next_offsets.get(topic, {}).get(partition, start)
        if start > expected:
            raise LedgerGap(flow=flow, topic=topic, partition=partition, start=expected, end=start)
        if end > expected:
            rest.setdefault(topic, {})[partition] = (expected, end)
    return rest


def _added(offsets: Offsets, known: Offsets) -> Offsets:
    """``offsets`` of the partitions that ``known`` does not name."""
    rest = {t: {p: o for p, o in parts.items() if p not in known.get(t, {})} for t, parts in offsets.items()}
    return {topic: parts for topic, parts in rest.items() if parts}


def _object(body: str) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _decision(body: Mapping[str, Any]) -> Decision:
    moves = {int(partition): (int(start), int(end)) for partition, (start, end) in body["moves"].items()}
    return Decision(**{**body, "moves": moves})


def _epochs(part: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(entries) for partition, entries in part.items()}


def _offsets(part: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): int(offset) for partition, offset in part.items()}
