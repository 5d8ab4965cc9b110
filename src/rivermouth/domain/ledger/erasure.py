"""What somebody wants erased, and what became of it: pure values.

A condition may hold what is to be forgotten, an address for example. So it is never kept: only its hash is.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """Which rows and dead letters of one table shall be erased.

    Attributes:
        where: SQL over the table's columns; None for no row.
        dead_letters: SQL over the columns of its dead letters; None for those of the rows' keys alone.
        who: User and host.
        at: When, as ISO 8601 in UTC.
        why: The reason.
        mark: A random mark, so that one command is done once.
    """

    where: str | None = None
    dead_letters: str | None = None
    who: str = ""
    at: str = ""
    why: str = ""
    mark: str = ""

    def to_json(self) -> dict[str, str | None]:
        """The parts as JSON values: conditions too, so this must not stay."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: dict[str, str | None]) -> Self:
        """The request that ``to_json`` made.

        Raises:
            TypeError: It is none.
        """
        return cls(**body)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What an erasure came to; it is kept in the lake's state.

    Attributes:
        flow: The flow.
        table: ``schema.table``.
        mark: The request's.
        at: When, as ISO 8601 in UTC.
        who: User and host.
        why: The reason.
        where_sha256: Of the condition on rows, in hexadecimal digits; None without one.
        dead_letters_sha256: Of the condition on dead letters; None without one.
        rows: Rows that went from the table.
        dead_letters: Dead letters that went.
        remembered: Rows that went from the memory of a keyed table, for which their keys were deleted before.
        shared: Kafka keys of rows that went that rows which stay have too: dead letters of these were not looked for.
        unjudged: Dead letters that stay because no Kafka key shows whose they are; 0 if there is a condition on dead
            letters.
        records: Records that are recorded as erased: their coordinates are kept, so that nothing brings them back.
        in_part: Records with other changes that stay: only their changes to erased rows are recorded as erased.
        entry: Number of the ledger entry; None if nothing was erased.
        last_version: The newest version of the table that still shows the rows; None if nothing was erased.
        vacuum_from: From when on VACUUM deletes the files of older versions, with the retention that it has by default.
        done: Whether all of it is done.
        dry_run: Whether nothing was to be done.
    """

    flow: str
    table: str
    mark: str = ""
    at: str = ""
    who: str = ""
    why: str = ""
    where_sha256: str | None = None
    dead_letters_sha256: str | None = None
    rows: int = 0
    dead_letters: int = 0
    remembered: int = 0
    shared: int = 0
    unjudged: int = 0
    records: int = 0
    in_part: int = 0
    entry: int | None = None
    last_version: int | None = None
    vacuum_from: str | None = None
    done: bool = False
    dry_run: bool = False

    @property
    def found(self) -> bool:
        """Whether there is anything to erase, or was."""
        return bool(self.rows or self.dead_letters or self.remembered)

    def to_json(self) -> str:
        """The report as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The report that ``to_json`` wrote.

        Raises:
            ValueError, TypeError: It is none.
        """
        return cls(**json.loads(text))


def sha256(condition: str | None) -> str | None:
    """The hash of a condition, as ``printf %s CONDITION | sha256sum`` prints it."""
    return None if condition is None else hashlib.sha256(condition.encode()).hexdigest()


def after(at: str, seconds: float) -> str:
    """The time ``seconds`` after ``at``, as ISO 8601 in UTC."""
    return (dt.datetime.fromisoformat(at) + dt.timedelta(seconds=seconds)).isoformat(timespec="seconds")
