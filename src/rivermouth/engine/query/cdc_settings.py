"""The settings of an AUTO CDC flow, and the columns that its target has by them."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.schemas.column_types import nullable, nullable_columns


class CdcSettings(Protocol):
    """The settings of an AUTO CDC flow; see ``pipelines.spec.AutoCdc``."""

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


def _payload(columns: T.StructType, cdc: CdcSettings) -> T.StructType:
    """The columns of the changes that the target has, in the order of the changes."""
    wanted = {name.lower() for name in cdc.columns}
    unwanted = {name.lower() for name in cdc.except_columns}
    if cdc.columns_to_update:
        unwanted.add(cdc.columns_to_update.lower())
    fields = [
        each for each in columns if (not wanted or each.name.lower() in wanted) and each.name.lower() not in unwanted
    ]
    return nullable_columns(T.StructType(fields))


def target_columns(columns: T.StructType, cdc: CdcSettings, sequence: T.DataType) -> T.StructType:
    """The columns of the target: with every version of a key also ``__START_AT`` and ``__END_AT``."""
    found = _payload(columns, cdc)
    if cdc.scd_type == 1:
        return found
    span = (T.StructField(name, nullable(sequence)) for name in (names.START_AT, names.END_AT))
    return T.StructType([*(each for each in found if each.name not in (names.START_AT, names.END_AT)), *span])
