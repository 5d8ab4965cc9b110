"""Records that a test gives, with coordinates that go on from one call to the next."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from rivermouth.domain.project.sample_records import Placed, Record, placed


class GivenRecords:
    """All records of a test so far."""

    def __init__(self) -> None:
        self.all: list[Placed] = []
        self.topics: list[str] = []
        self._next: dict[tuple[str, int], int] = {}

    def add(self, records: Iterable[Any], topic: str, now: dt.datetime | None = None) -> list[Placed]:
        """Adds records, or their values; those without an offset come behind those of their partition.

        Args:
            records: ``Record``s or values: a dict is sent as a JSON document, text as UTF-8, None as a tombstone.
            topic: Of those that name none.
            now: The timestamp of those that have none; None for the time of the call.

        Raises:
            ArgumentInvalid: One is no record.
        """
        if topic not in self.topics:
            self.topics.append(topic)
        wanted = []
        for each in records:
            record = each if isinstance(each, Record) else Record(each)
            at = (record.topic or topic, record.partition)
            if record.offset is None:
                record = replace(record, offset=self._next.get(at, 0))
            if isinstance(record.offset, int):
                self._next[at] = max(self._next.get(at, 0), record.offset + 1)
            wanted.append(record)
        found = placed(wanted, topic, now or dt.datetime.now(dt.UTC))
        self.all += found
        return found
