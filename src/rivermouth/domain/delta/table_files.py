"""What lies in a Delta table's folder, and what of it a version needs. Pure values.

Paths are relative to the table's folder, as they are on storage; times are seconds since the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

MIB: Final = 1024**2
TARGET_BYTES: Final = 1024 * MIB
"""OPTIMIZE makes files of up to this size, and leaves larger ones alone."""

PURGED_RATIO: Final = 0.05
"""OPTIMIZE also rewrites a file of whose rows more than this part is marked as deleted."""

SMALL_BYTES: Final = 128 * MIB
MANY_FILES: Final = 10
FAR_ABOVE: Final = 2.0
"""Storage is far above the live bytes if it holds more than this multiple of them."""

_EDGES: Final = ((MIB, "under 1 MiB"), (16 * MIB, "1 to 16 MiB"), (128 * MIB, "16 to 128 MiB"))
_LAST: Final = ((TARGET_BYTES, "128 MiB to 1 GiB"), (None, "1 GiB and more"))


_UNITS_S: Final = {"week": 604800.0, "day": 86400.0, "hour": 3600.0, "minute": 60.0, "second": 1.0}
_INTERVAL_PART: Final = re.compile(rf"(\d+)\s*({'|'.join(_UNITS_S)})s?\b")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data file that a version of a table has.

    Attributes:
        path: Where it lies.
        bytes: Its size.
        rows: Rows in it, deleted ones too; None where its writer did not count them.
        deleted_rows: Those that a deletion vector marks.
        partition: Its partition's values as one text.
        vector: The file of its deletion vector; None if it has none, or a short one that is stored in the log.
        vector_bytes: Of its own deletion vector; one file may hold several.
    """

    path: str
    bytes: int
    rows: int | None = None
    deleted_rows: int = 0
    partition: str = ""
    vector: str | None = None
    vector_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Removal:
    """A data file that a version no longer has.

    Attributes:
        path: Where it lay.
        deleted_at: When it was removed.
        vector: The file of the deletion vector that it had.
        added_in: The version that added it; None where the log tells no more.
        removed_in: The version that removed it; None where only a checkpoint tells of it.
    """

    path: str
    deleted_at: float
    vector: str | None = None
    added_in: int | None = None
    removed_in: int | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that lies in a table's folder, outside of its log.

    Attributes:
        path: Where.
        bytes: Its size.
        modified_at: When it was written.
    """

    path: str
    bytes: int
    modified_at: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's newest version.

    Attributes:
        version: Its number.
        operation: Delta's name for what made it; None where the log tells no more.
        committed_at: When; None likewise.
        files: What it has.
        removals: What older versions had, as far as the log still says.
        columns: Names of its columns.
        partition_by: Names of its partition columns.
        cluster_by: Names of its clustering columns.
        properties: Its table properties.
        physical_names: Its columns' names in files and log, by their own, where these differ.
    """

    version: int
    operation: str | None = None
    committed_at: float | None = None
    files: tuple[DataFile, ...] = ()
    removals: tuple[Removal, ...] = ()
    columns: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    physical_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def live_bytes(self) -> int:
        """Size of its data files and deletion vectors."""
        return sum(each.bytes + each.vector_bytes for each in self.files)

    @property
    def rows(self) -> int | None:
        """Its rows; None where a file's writer did not count them."""
        if any(each.rows is None for each in self.files):
            return None
        return sum((each.rows or 0) - each.deleted_rows for each in self.files)


@dataclass(frozen=True, slots=True)
class SizeClass:
    """One bar of a histogram.

    Attributes:
        size: The class in words.
        files: How many files are in it.
        bytes: Their size together.
    """

    size: str
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """What OPTIMIZE would do.

    Attributes:
        files: How many files it would take.
        into: How many it would make of them, about.
        deleted_rows: Rows marked as deleted that it would leave out.
    """

    files: int
    into: int
    deleted_rows: int


def histogram(files: Iterable[DataFile]) -> tuple[SizeClass, ...]:
    """The files by size, the smallest first; all classes, also empty ones."""
    sizes = [each.bytes for each in files]
    found, least = [], 0
    for edge, words in (*_EDGES, *_LAST):
        inside = [size for size in sizes if size >= least and (edge is None or size < edge)]
        found.append(SizeClass(words, len(inside), sum(inside)))
        least = edge or least
    return tuple(found)


def compaction(files: Iterable[DataFile]) -> Compaction:
    """What OPTIMIZE would do with these files; partitions are looked at one by one, as OPTIMIZE does."""
    by_partition: dict[str, list[DataFile]] = {}
    for each in files:
        if each.bytes < TARGET_BYTES or _is_worn(each):
            by_partition.setdefault(each.partition, []).append(each)
    taken, into = [], 0
    for group in by_partition.values():
        # One file alone stays as it is, unless many of its rows are deleted.
        if len(group) > 1 or _is_worn(group[0]):
            taken += group
            into += -(-sum(each.bytes for each in group) // TARGET_BYTES)
    return Compaction(len(taken), into, sum(each.deleted_rows for each in taken))


def _is_worn(file: DataFile) -> bool:
    return bool(file.rows) and file.deleted_rows > PURGED_RATIO * (file.rows or 0)


def unneeded(snapshot: Snapshot, stored: Iterable[StoredFile], *, before: float) -> list[StoredFile]:
    """The stored files that VACUUM deletes if it keeps what was removed after ``before``.

    These are files that were written before that time, and that neither the newest version has nor one that was
    changed since then.
    """
    needed = {path for each in snapshot.files for path in (each.path, each.vector)}
    needed |= {path for each in snapshot.removals if each.deleted_at >= before for path in (each.path, each.vector)}
    return [each for each in stored if each.modified_at < before and each.path not in needed]


def unreadable(
    removals: Iterable[Removal], deleted: Collection[str], stored: Collection[str], oldest: int
) -> tuple[tuple[int, int], ...]:
    """The versions that can be read now, but not after ``deleted`` is deleted, as (first, last).

    Args:
        removals: Every file that a version removed, with the versions.
        deleted: Paths of the files to delete.
        stored: Paths of all files that exist now.
        oldest: The first version that the log still describes.
    """
    going: set[int] = set()
    gone: set[int] = set()
    for each in removals:
        if each.removed_in is None:
            continue
        versions = range(max(oldest, each.added_in if each.added_in is not None else oldest), each.removed_in)
        paths = [path for path in (each.path, each.vector) if path is not None]
        if any(path not in stored for path in paths):
            gone.update(versions)
        elif any(path in deleted for path in paths):
            going.update(versions)
    return spans(going - gone)


def spans(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as (first, last) of each run of neighbours."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def spans_text(found: Sequence[tuple[int, int]]) -> str:
    """``0 to 4, 7``; ``none`` where there are none."""
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in found) or "none"


def bytes_text(number: int) -> str:
    """``12 B``, ``1.5 KiB``, ``-3.0 GiB``."""
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(size) >= 1024 and len(units) > 1:  # noqa: PLR2004 - what the units are made of
        size /= 1024
        units.pop(0)
    return f"{number} B" if units[0] == "B" else f"{size:,.1f} {units[0]}"


def advice(
    table: str, snapshot: Snapshot, stored_bytes: int, *, free_now: int, free_later: int, retain: str
) -> tuple[str, ...]:
    """What would help the table, a sentence each with the command where there is one; empty if nothing would.

    Args:
        table: Its name.
        snapshot: Its newest version.
        stored_bytes: Size of all that lies in its folder, without the log.
        free_now: Of that, what VACUUM would delete now.
        free_later: What it would delete once ``retain`` is over.
        retain: How long VACUUM keeps files by default, in words.
    """
    found = []
    would, files = compaction(snapshot.files), len(snapshot.files)
    average = snapshot.live_bytes / files if files else 0
    if would.files - would.into >= MANY_FILES and average < SMALL_BYTES:
        found.append(f"many small files: rivermouth tables optimize {table} would make about {would.into} of {files}")
    rows = sum(each.rows or 0 for each in snapshot.files)
    if would.deleted_rows > PURGED_RATIO * rows:
        found.append(
            f"{would.deleted_rows:,} rows are only marked as deleted: rivermouth tables optimize {table} would write "
            "their files without them"
        )
    partitions = len({each.partition for each in snapshot.files})
    if snapshot.partition_by and partitions >= MANY_FILES and snapshot.live_bytes / partitions < MIB:
        found.append(
            f"{partitions} partitions of {bytes_text(snapshot.live_bytes // partitions)} on average: for a new table, "
            "cluster_by instead of partition_by"
        )
    if stored_bytes > FAR_ABOVE * snapshot.live_bytes and free_now + free_later > 0:
        live = snapshot.live_bytes
        times = f"{stored_bytes / live:,.1f} times the live bytes" if live else "and no byte of it is live"
        found.append(
            f"storage holds {bytes_text(stored_bytes)}, {times}: rivermouth tables vacuum {table} would free "
            f"{bytes_text(free_now)} now, and {bytes_text(free_later)} when {retain} are over"
        )
    return tuple(found)


def interval_s(text: str) -> float | None:
    """``interval 7 days`` as seconds, as table properties say it; None where it is not one of the plain forms."""
    parts = [(float(number), _UNITS_S[unit]) for number, unit in _INTERVAL_PART.findall(text.lower())]
    rest = _INTERVAL_PART.sub("", text.lower()).replace("interval", "").strip()
    return sum(number * unit for number, unit in parts) if parts and not rest else None
