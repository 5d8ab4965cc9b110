"""How the changes of a batch meet the rows of a keyed table, and what a MERGE came to."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BROADCAST_CHANGES: Final = 200_000
"""Up to this number of changes, each task gets all changes, and the table is not sorted for them."""
BROADCAST_BYTES: Final = 64 << 20
"""The same for their size in bytes: the driver collects what it sends, and each worker keeps it in memory."""

Join = Literal["broadcast", "shuffle"]


@dataclass(frozen=True, slots=True)
class Way:
    """How changes and rows of one key are brought together.

    Attributes:
        join: ``broadcast``: each task has all changes. ``shuffle``: changes and rows are sorted by their key, on disk
            where memory is too small.
        reason: Why, in words.
    """

    join: Join
    reason: str


def way(changes: int, held_bytes: int | None) -> Way:
    """How the changes are joined with the table's rows, by their number and size; None if the size is not known."""
    if changes > BROADCAST_CHANGES:
        return Way("shuffle", f"{changes:,} changes are more than {BROADCAST_CHANGES:,}")
    if held_bytes is not None and held_bytes > BROADCAST_BYTES:
        return Way("shuffle", f"changes of {held_bytes:,} bytes are more than {BROADCAST_BYTES:,}")
    return Way("broadcast", "1 change is few" if changes == 1 else f"{changes:,} changes are few")


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """What of a table a merge of few changes had to read.

    Attributes:
        files: Files that may have held a row of the changes, by their statistics.
        bytes: Their size.
        all_files: How many files the table had.
        by_each: Whether files were skipped by each key of the changes, and not by the least and the greatest alone.
    """

    files: int
    bytes: int
    all_files: int
    by_each: bool


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What the MERGE of one batch came to, and why it was done as it was. Sizes are bytes.

    Attributes:
        changes: Changes that were held against the table: at most one a key, or one a version.
        held_bytes: What these, and what they were made of, took while they were kept in memory or on disk; None
            where Spark does not report it.
        join: How they met the table's rows: ``broadcast`` or ``shuffle``.
        reason: Why so.
        files_read: Files that may have held a row of the changes, by their statistics, each read once; None if Delta's
            MERGE read them, three times.
        bytes_read: Their size; None as ``files_read``.
        all_files: How many files the table had; None as ``files_read``.
        skipped_by: The key columns by whose values in the changes files were skipped.
        skipped_by_each: Whether by each of these values; else by the least and the greatest.
        inserted: Rows that are new.
        updated: Rows that became others.
        deleted: Rows that went.
        copied: Rows that stayed as they were in a file that was rewritten.
        files_added: Files written.
        files_removed: Files that are the table's no more.
        vectors: Files with rows that were marked as deleted in a deletion vector, and which were not rewritten.
        bytes_added: Size of the files written.
        bytes_removed: Size of the files removed.
        task_peak_bytes: Execution memory of the task that had the most, among those that made the changes and those
            that merged them; None where Spark does not report it.
        spilled_bytes: What these tasks wrote to the workers' disks because memory was too small; None where Spark does
            not report it.
    """

    changes: int
    held_bytes: int | None
    join: Join
    reason: str
    files_read: int | None
    bytes_read: int | None
    all_files: int | None
    skipped_by: tuple[str, ...]
    skipped_by_each: bool
    inserted: int
    updated: int
    deleted: int
    copied: int
    files_added: int
    files_removed: int
    vectors: int
    bytes_added: int
    bytes_removed: int
    task_peak_bytes: int | None
    spilled_bytes: int | None

    @classmethod
    def from_json(cls, body: Mapping[str, Any] | None) -> Self | None:
        """As a ledger's side file keeps it; None for what an older version kept."""
        if body is None or {*body} != {each.name for each in fields(cls)}:
            return None
        return cls(**{**body, "skipped_by": tuple(body["skipped_by"])})


@dataclass(frozen=True, slots=True)
class MergeNeeds:
    """The changes of a merge and the memory that they took, as ``MergeReport`` has them."""

    changes: int
    held_bytes: int | None
    task_peak_bytes: int | None = None
    spilled_bytes: int | None = None


def report(
    metrics: Mapping[str, int],
    chosen: Way,
    looked: ReadFiles | None,
    needs: MergeNeeds,
    skipped_by: Sequence[str],
) -> MergeReport:
    """The report of a MERGE by the metrics of its commit.

    Args:
        metrics: Delta's ``operationMetrics`` (https://docs.delta.io/latest/delta-utility.html).
        chosen: How changes and rows met.
        looked: What was read, once; None if Delta's MERGE read it.
        needs: How many changes there were, and the memory that they took.
        skipped_by: As in the report.
    """

    def told(*names: str) -> int:
        return sum(metrics.get(f"numTarget{name}", 0) for name in names)

    return MergeReport(
        changes=needs.changes,
        held_bytes=needs.held_bytes,
        join=chosen.join,
        reason=chosen.reason,
        files_read=looked.files if looked else None,
        bytes_read=looked.bytes if looked else None,
        all_files=looked.all_files if looked else None,
        skipped_by=tuple(skipped_by),
        skipped_by_each=bool(looked and looked.by_each),
        inserted=told("RowsInserted"),
        updated=told("RowsUpdated"),
        deleted=told("RowsDeleted"),
        copied=told("RowsCopied"),
        files_added=told("FilesAdded"),
        files_removed=told("FilesRemoved"),
        vectors=told("DeletionVectorsAdded", "DeletionVectorsUpdated"),
        bytes_added=told("BytesAdded"),
        bytes_removed=told("BytesRemoved"),
        task_peak_bytes=needs.task_peak_bytes,
        spilled_bytes=needs.spilled_bytes,
    )
