"""The ledger of a table that is rebuilt from the table that its flow reads. Pure values."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.ledger import Counts, Decision, Entry
from rivermouth.domain.ledger.offset_ranges import Offsets


@dataclass(frozen=True, slots=True)
class Rebuild:
    """The request to empty a table and fill it again.

    Attributes:
        who: User and host.
        at: When, as ISO 8601 in UTC.
        why: The reason.
        mark: A random mark of this one command.
    """

    who: str = ""
    at: str = ""
    why: str = ""
    mark: str = ""


def entry_after(
    entry: Entry, begins: Offsets, topic_ids: Mapping[str, str | None], counts: Counts, wanted: Rebuild
) -> Entry:
    """The entry of the commit that empties the table.

    Args:
        entry: The newest one.
        begins: Where the source begins, of each partition: from there it is read again.
        topic_ids: Kafka's UUIDs, as the source knows them.
        counts: The counts of the newest entry's own batch, known by now.
        wanted: Who wants it, and why.
    """
    number = entry.number + 1
    decisions = tuple(
        Decision(
            kind="rebuild",
            entry=number,
            topic=topic,
            moves={p: (entry.next_offsets.get(topic, {}).get(p, start), start) for p, start in sorted(parts.items())},
            topic_id=topic_ids.get(topic),
            who=wanted.who,
            at=wanted.at,
            why=wanted.why,
            mark=wanted.mark,
        )
        for topic, parts in sorted(begins.items())
    )
    start = offset_ranges.filled(begins, entry.next_offsets)
    return replace(
        entry,
        number=number,
        kind="decision",
        next_offsets=start,
        settled=start,
        topic_ids={**entry.topic_ids, **topic_ids},
        totals=entry.totals + counts,
        attempt=uuid.uuid4().hex,
        erases=0,
        decisions=(*entry.decisions, *decisions),
        begins=offset_ranges.filled(begins, entry.begins),
    )
