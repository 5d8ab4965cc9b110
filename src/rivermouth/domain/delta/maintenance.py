"""When a table is looked after, and what it came to: pure rules and values.

What is kept of each run is a file whose name says when it was and what was done, so that what is due next is told
by a folder's names alone.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal

Operation = Literal["optimize", "vacuum"]

LEAST_RETAIN_S: Final = 168 * 3600.0
"""VACUUM keeps at least so much without an explicit word: a writer or reader may take that long."""

KEPT_REPORTS: Final = 100
ENTRY_AGE_S: Final = 86400.0
"""An entry older than this is written once more by maintenance, before the log that holds it is cleaned."""

_NAME: Final = re.compile(r"^(\d{8}T\d{6}\.\d{3}Z)-(optimize|vacuum)-[0-9a-f]{8}\.json$")
_TIME: Final = "%Y%m%dT%H%M%S.%f"


@dataclass(frozen=True, slots=True)
class Figures:
    """What a table consists of. Sizes are bytes.

    Attributes:
        version: Its version.
        files: Data files.
        live_bytes: Of its data files and their deletion vectors.
        stored_bytes: Of all files in its folder, without the log.
    """

    version: int
    files: int
    live_bytes: int
    stored_bytes: int

    @property
    def average_file_bytes(self) -> int:
        """Of a data file."""
        return round(self.live_bytes / self.files) if self.files else 0


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What a run of OPTIMIZE or VACUUM came to.

    Attributes:
        table: ``schema.table``.
        operation: Which of the two.
        at: When it began, as ISO 8601 in UTC.
        before: What the table consisted of.
        after: What it consists of; as ``before`` where nothing was done.
        duration_s: How long it took, in seconds.
        unreadable: The versions that VACUUM takes away, as [first, last].
        retain_s: For how long VACUUM kept what older versions need.
        dry_run: Whether nothing was done: ``after`` is what would be.
        error: Why it failed; None if it did not.
    """

    table: str
    operation: Operation
    at: str
    before: Figures
    after: Figures
    duration_s: float
    unreadable: tuple[tuple[int, int], ...] = ()
    retain_s: float | None = None
    dry_run: bool = False
    error: str | None = None

    @property
    def saved_bytes(self) -> int:
        """How many bytes fewer are on storage; below 0 where there are more."""
        return self.before.stored_bytes - self.after.stored_bytes

    @property
    def saved_percent(self) -> float:
        """The same in per cent of what was on storage before."""
        return percent(self.saved_bytes, self.before.stored_bytes)

    def to_json(self) -> str:
        """The report as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> MaintenanceReport:
        """The report that ``to_json`` wrote.

        Raises:
            ValueError, KeyError, TypeError: It is none.
        """
        body = json.loads(text)
        return cls(
            **{
                **body,
                "before": Figures(**body["before"]),
                "after": Figures(**body["after"]),
                "unreadable": tuple((first, last) for first, last in body["unreadable"]),
            }
        )


def percent(part: int, whole: int) -> float:
    """``part`` of ``whole`` in per cent; 0 of nothing."""
    return round(100 * part / whole, 1) if whole else 0.0


def failed(report: MaintenanceReport, error: str) -> MaintenanceReport:
    """The same, with why it failed."""
    return replace(report, error=error)


def report_name(operation: Operation, at: float) -> str:
    """The name of the file in which a run of that time is kept, in seconds since the epoch."""
    when = dt.datetime.fromtimestamp(at, dt.UTC).strftime(_TIME)[:-3]
    return f"{when}Z-{operation}-{uuid.uuid4().hex[:8]}.json"


def last_run(names: Iterable[str], operation: Operation, now: float) -> float | None:
    """When the newest of the kept runs of an operation began; None if there is none.

    A time that has not come yet, by another machine's clock, says nothing.
    """
    matches = [match for name in names if (match := _NAME.match(name)) and match[2] == operation]
    times = [dt.datetime.fromisoformat(match[1]).timestamp() for match in matches]
    return max((time for time in times if time <= now), default=None)


def next_due(last: float | None, every_s: float) -> float:
    """When an operation is due next: at once where it never ran."""
    return 0.0 if last is None else last + every_s


def outdated(names: Iterable[str]) -> list[str]:
    """The kept runs that can be deleted: those older than the newest ``KEPT_REPORTS`` of their operation."""
    found = []
    for operation in ("optimize", "vacuum"):
        mine = sorted(name for name in names if (match := _NAME.match(name)) and match[2] == operation)
        found += mine[:-KEPT_REPORTS]
    return found


def whole_hours(retain_s: float) -> int:
    """A retention as VACUUM takes it; it would round half an hour down to none."""
    return -int(-retain_s // 3600)
