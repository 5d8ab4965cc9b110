"""What an AUTO CDC flow is told."""

from __future__ import annotations

from typing import Protocol


class CdcSettings(Protocol):
    """What an AUTO CDC flow is told; see ``pipelines.spec.AutoCdc``."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of key columns."""

    @property
    def sequence_by(self) -> str | None:
        """SQL of the order."""

    @property
    def apply_as_deletes(self) -> str | None:
        """SQL: whether a change deletes."""

    @property
    def apply_as_truncates(self) -> str | None:
        """SQL: whether a change deletes all keys before it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The target's columns."""

    @property
    def except_columns(self) -> tuple[str, ...]:
        """Columns that the target does not have."""

    @property
    def scd_type(self) -> int:
        """1 or 2."""

    @property
    def track_history_columns(self) -> tuple[str, ...]:
        """A version begins where one of these changes."""

    @property
    def track_history_except_columns(self) -> tuple[str, ...]:
        """A version begins where one changes that is none of these."""

    @property
    def ignore_null_updates(self) -> bool:
        """Whether a null keeps the value."""

    @property
    def ignore_null_updates_columns(self) -> tuple[str, ...]:
        """The same for these."""

    @property
    def ignore_null_updates_except_columns(self) -> tuple[str, ...]:
        """The same for all but these."""

    @property
    def columns_to_update(self) -> str | None:
        """The column that lists what a change brings."""
