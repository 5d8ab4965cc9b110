"""What became of the open dead letters of a table that were tried again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftRecords:
    """Open dead letters that a replay left out.

    Attributes:
        records: How many: records that were not decoded, or rows whose columns had other types.
        why: Why they cannot be replayed; empty of rows.
    """

    records: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """What became of a table's open dead letters: ``tried = replayed + remaining``.

    Attributes:
        table: The table, as the pipeline writes it.
        tried: How many were open and picked.
        replayed: How many are done with, or would be: rows that are in the table now, and records that were decoded.
        remaining: How many still fail: rows an expectation, and records the format.
        records: How many of the replayed ones are records.
        rows: How many rows these records brought into the table.
        dropped: How many of these records, or of their rows, a setting, the query or an expectation left out.
        dead_lettered: How many of their rows failed an expectation, and are new dead letters.
        left: Records that were not tried, and rows that the dead letters keep as JSON.
        dry_run: Whether nothing was written.
    """

    table: str
    tried: int
    replayed: int
    remaining: int
    records: int = 0
    rows: int = 0
    dropped: int = 0
    dead_lettered: int = 0
    left: tuple[LeftRecords, ...] = ()
    dry_run: bool = False
