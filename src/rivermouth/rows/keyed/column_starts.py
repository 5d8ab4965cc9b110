"""Since when a flow reads a column that came later, or came again: what older records had in it nobody has read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.columns.epochs import looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets
    from rivermouth.rows.keyed.change_order import ChangeOrder


@dataclass(frozen=True, slots=True)
class Start:
    """Columns that the flow reads since it stood at one ledger entry.

    Attributes:
        columns: Their names in lower case.
        entry: The entry's number.
        offsets: Its next offsets.
    """

    columns: tuple[str, ...]
    entry: int
    offsets: Offsets

    def ends(self, newest: Entry) -> dict[str, int]:
        """By ``topic-partition`` of the epoch of now, the offset before which no record was read with them."""
        return {
            f"{topic}-{partition}": min([offset, *self._rewound(topic, partition, newest)])
            for topic, parts in self.offsets.items()
            for partition, offset in parts.items()
            # Of an epoch that began later all was read with them.
            if max(newest.begun.get((topic, partition), (0,))) <= self.entry
        }

    def _rewound(self, topic: str, partition: int, newest: Entry) -> Iterator[int]:
        for each in newest.decisions:
            again = each.kind in ("rewind", "rebuild") and each.entry > self.entry
            if again and each.topic == topic and partition in each.moves:
                yield min(each.moves[partition])


@dataclass(frozen=True, slots=True)
class ColumnStarts:
    """What a table says of columns that its flow has not read all the time; others it has.

    Attributes:
        without: Columns of the table that the flow does not read by now, in lower case.
        starts: Columns that it reads since a time.
    """

    without: tuple[str, ...] = ()
    starts: tuple[Start, ...] = ()

    def to_json(self) -> str:
        """The text for a table property."""
        starts = [{"columns": each.columns, "entry": each.entry, "offsets": each.offsets} for each in self.starts]
        return json.dumps({"without": self.without, "starts": starts}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """What ``to_json`` wrote; of a table without it nothing is known."""
        body: dict[str, Any] = json.loads(text or "{}")
        starts = tuple(
            Start(
                tuple(each["columns"]),
                each["entry"],
                {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in each["offsets"].items()},
            )
            for each in body.get("starts", ())
        )
        return cls(tuple(body.get("without", ())), starts)

    def now(self, read: Iterable[str], table: Iterable[str], left: Iterable[str], entry: Entry) -> Self:
        """The same for a flow whose newest entry is ``entry``.

        Args:
            read: The columns that it reads.
            table: The columns that the table has, but for those that are to be added.
            left: Those of the table that the flow does not read.
            entry: Its newest one.
        """
        there = {name.lower() for name in table}
        new = tuple(name.lower() for name in read if name.lower() not in there or name.lower() in self.without)
        kept = (
            Start(tuple(name for name in each.columns if name not in new), each.entry, each.offsets)
            for each in self.starts
        )
        starts = tuple(each for each in kept if each.columns)
        starts = (*starts, Start(new, entry.number, entry.next_offsets)) if new else starts
        return type(self)(tuple(sorted(name.lower() for name in left)), starts)


def unread(starts: ColumnStarts, order: ChangeOrder, entry: Entry) -> dict[str, Column]:
    """By column: whether a change of the epoch of now was read without it; never null. Others are not named.

    What a rewind or a rebuild reads again it reads with them.

    Args:
        starts: What the table says.
        order: The table's.
        entry: The newest one.
    """
    called = {name.lower(): name for name in order.partial}
    found: dict[str, Column] = {}
    for each in starts.starts:
        ends = each.ends(entry)
        if not ends:
            continue
        end = looked_up(ends, F.col(names.quoted(order.topic)), F.col(names.quoted(order.partition)))
        before = F.coalesce(F.col(names.quoted(order.offset)) < end, F.lit(False))
        found |= {called[name]: before for name in each.columns if name in called}
    return found
