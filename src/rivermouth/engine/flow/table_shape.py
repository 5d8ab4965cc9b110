"""The shape of a flow's table, and the changes that its declaration asks of it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True)
class TableShape:
    """The columns that a flow writes.

    Attributes:
        payload: Names of the payload columns.
        columns: All columns of the table, derived ones last.
        partition_by: Names of the partition columns.
    """

    payload: list[str]
    columns: StructType
    partition_by: list[str]


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What a declared schema asks of a table that was made with an older one.

    Attributes:
        added: Columns that the table does not have yet.
        widened: Columns whose type becomes one that holds every value of the old one.
    """

    added: list[StructField]
    widened: list[StructField]

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)

    def __str__(self) -> str:
        added = [f"adds column {field.name} {field.dataType.simpleString()}" for field in self.added]
        return ", ".join([*added, *(f"widens {f.name} to {f.dataType.simpleString()}" for f in self.widened)])
