"""Taking over a table that another program wrote: where its ledger begins. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.ledger import Decision, Entry, first_entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.domain.ledger.data_loss import KafkaState
    from rivermouth.domain.ledger.offset_ranges import Offsets

TABLE: Final = "table"


@dataclass(frozen=True, slots=True)
class Adoption:
    """The wish to take a table over.

    Attributes:
        source: What says how far the table was read: the location of the checkpoint of the Structured Streaming query
            that wrote it, or ``table`` for its own columns of coordinates.
        who: User and host.
        at: When, as ISO 8601 in UTC.
    """

    source: str
    who: str
    at: str


def by_checkpoint(read: Offsets, found: KafkaState, *, pattern: bool) -> Offsets | str:
    """Where the flow begins after a query that had read up to ``read``; or the reason why this is unknown.

    Args:
        read: The query's end offsets.
        found: What Kafka holds of the flow's topics.
        pattern: Whether the flow names its topics by a pattern: then some may have come or gone since.
    """
    if not pattern:
        for topic in sorted(found.first.keys() - read.keys()):
            return f"its query did not read topic {topic}"
        for topic in sorted(read.keys() - found.first.keys()):
            return f"its query also read topic {topic}, which the flow does not"
    known = {topic: parts for topic, parts in read.items() if topic in found.first}
    # A partition that the query had not seen yet is read whole. A topic is none of the ledger's yet.
    return _held(known, {topic: dict.fromkeys(found.first[topic], 0) for topic in known}, found)


def by_rows(last: Offsets, found: KafkaState) -> Offsets | str:
    """Where the flow begins behind the rows that are there: after the last one, or where Kafka begins.

    Args:
        last: The greatest offset in the table, of each partition that has rows.
        found: As above.
    """
    for topic in sorted(last.keys() - found.first.keys()):
        return f"it has rows of topic {topic}, which the flow does not read"
    return _held({topic: {p: end + 1 for p, end in parts.items()} for topic, parts in last.items()}, found.first, found)


def _held(read: Offsets, else_at: Offsets, found: KafkaState) -> Offsets | str:
    """``read``, and ``else_at`` for partitions that it lacks; or what of it Kafka cannot hold."""
    for topic, parts in sorted(read.items()):
        for partition, offset in sorted(parts.items()):
            end = found.end[topic].get(partition)
            if end is None and found.whole:
                return f"it was read from partition {partition} of topic {topic}, which is not there"
            if end is not None and offset > end:
                return f"{topic}-{partition} was read up to {offset}, and ends at {end}: is it another topic by now?"
    return {
        topic: {p: read.get(topic, {}).get(p, start) for p, start in parts.items()} for topic, parts in else_at.items()
    }


def entry_zero(
    flow: str,
    start: Offsets,
    topic_ids: Mapping[str, str | None],
    adoption: Adoption,
    *,
    basis: str,
    starting_offsets: str,
) -> Entry:
    """Entry 0 of an adopted table, with the adoption among its decisions, where ``status`` shows it for ever.

    Args:
        flow: The flow's name.
        start: The first offset of every partition that the table does not have.
        topic_ids: Kafka's UUIDs.
        adoption: Who took it over, and when.
        basis: From what ``start`` was read, in words.
        starting_offsets: What the user wrote; it has no effect.
    """
    entry = first_entry(flow, start, topic_ids, starting_offsets=starting_offsets)
    decisions = tuple(
        Decision(
            kind="adopt",
            entry=0,
            topic=topic,
            moves={p: (offset, offset) for p, offset in parts.items()},
            topic_id=topic_ids.get(topic),
            who=adoption.who,
            at=adoption.at,
            why=basis,
        )
        for topic, parts in sorted(start.items())
    )
    return replace(entry, decisions=decisions)
