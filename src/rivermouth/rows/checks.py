"""Expectations: each condition becomes a boolean column that says whether it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.rows.columns import attempts
from rivermouth.spec.keyed import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rivermouth.spec import Expectation

JUDGEABLE: Final = f"{names.DECODED} AND {names.KEY_VALID} AND {names.VALUE} IS NOT NULL"
"""SQL: whether a record came far enough to be judged by expectations; never null."""

_BRINGS_A_ROW: Final = f"{names.PROBLEM} IS NULL AND NOT ({names.DELETE} OR {names.TRUNCATE})"

_TELLS_A_ROW: Final = f"coalesce({names.OPERATION} IN ('{names.INSERT}', '{names.READ}', '{names.UPDATE}'), false)"


def check(rows: DataFrame, expectations: Sequence[Expectation]) -> DataFrame:
    """Adds ``__failed_<i>`` (boolean, never null) for the i-th expectation.

    A condition counts as met only if it is TRUE; NULL fails, and so does one that throws. Rows without a decoded value
    are not judged: they fail nothing. Nor are deletions, which bring no more than a key. Nor is a change by a condition
    over a column that it leaves out: the value that the row keeps was judged when it came.
    """
    if not expectations:
        return rows
    judgeable = f"{JUDGEABLE} AND {_BRINGS_A_ROW}" if names.PROBLEM in rows.columns else JUDGEABLE
    if names.PARTITION_PROBLEM in rows.columns:
        judgeable += f" AND {names.PARTITION_PROBLEM} IS NULL"
    if names.OPERATION in rows.columns:
        judgeable += f" AND {_TELLS_A_ROW}"
    if names.VERDICT in rows.columns:
        judgeable += f" AND NOT {names.SKIPPED}"
    if names.POSITION in rows.columns:
        judgeable += f" AND {names.POSITION} >= 0"
    told = [judgeable] * len(expectations)
    if names.UNAVAILABLE in rows.columns:
        told = [f"{judgeable} AND {_has_all_of(each.condition)}" for each in expectations]
    failed = {
        failed_column(i): f"{judged} AND NOT {met(names.as_sql(each.condition, rows.columns))}"
        for i, (judged, each) in enumerate(zip(told, expectations, strict=True))
    }
    rows = rows.selectExpr("*", *(f"{sql} AS {name}" for name, sql in failed.items()))
    return attempts.instead(rows, failed, otherwise=True)


def _has_all_of(condition: str) -> str:
    """SQL, never null: whether a change leaves out no column that a condition names."""
    named = ", ".join(map(names.literal, sorted(words([condition]))))
    return f"NOT coalesce(exists({names.UNAVAILABLE}, u -> lower(u) IN ({named})), false)"


def met(condition: str) -> str:
    """SQL: whether a condition is TRUE; never null. The condition has lines of its own, as it may end in a comment."""
    return f"coalesce((\n{condition}\n), false)"


def failed_column(index: int) -> str:
    """The name of the column that says whether expectation ``index`` failed."""
    return f"{names.FAILED_PREFIX}{index}"
