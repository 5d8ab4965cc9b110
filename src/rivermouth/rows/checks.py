"""Expectations: each condition becomes a boolean column that says whether it failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.spec import Expectation


def check(rows: DataFrame, expectations: Sequence[Expectation]) -> DataFrame:
    """Adds ``__failed_<i>`` (boolean, never null) for the i-th expectation.

    A condition counts as met only if it is TRUE; NULL fails. Rows without a decoded value are not judged:
    they fail nothing.
    """
    judged = judgeable()
    return rows.withColumns(
        {
            failed_column(i): judged & ~F.coalesce(F.expr(each.condition), F.lit(False))
            for i, each in enumerate(expectations)
        }
    )


def judgeable() -> Column:
    """Whether a row has a decoded value that expectations can look at."""
    return F.col(names.DECODED) & F.col(names.KEY_VALID) & F.col(names.VALUE).isNotNull()


def failed_column(index: int) -> str:
    """The name of the column that says whether expectation ``index`` failed."""
    return f"{names.FAILED_PREFIX}{index}"
