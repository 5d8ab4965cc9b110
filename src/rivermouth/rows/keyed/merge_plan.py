"""What a MERGE does with the rows of a keyed table: expressions, without Spark's work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

    from rivermouth.rows.keyed.key_ranges import Ranges


@dataclass(frozen=True, slots=True)
class Merge:
    """What becomes of a table's rows ``t`` and of changes ``s``; every part is an expression over the two.

    Attributes:
        on: When a change is about a row.
        ranges: Between which values all such rows lie, by column of ``t``: files that have none such are skipped.
        delete: When such a row goes.
        update: When such a row becomes the change's.
        insert: When a change that is about no row becomes one.
        values: What a column is set to, by its quoted name; over ``s`` alone.
        sweep: When a row that no change is about goes too; None if never.
    """

    on: Column
    ranges: Ranges
    delete: str
    update: str
    insert: str
    values: Mapping[str, str]
    sweep: Column | None = None
