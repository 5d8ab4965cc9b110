"""The columns that a flow's ``select`` makes of what its format reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.schemas.column_types import RESCUED
from rivermouth.spec.selection import STAR

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow


def is_rescued(expression: str) -> bool:
    """Whether it is the column of what is rescued, by its own name."""
    return names.folded(expression.strip().strip("`")) == RESCUED


def select(rows: DataFrame, flow: Flow, beside: Collection[str]) -> DataFrame:
    """``rows`` with the columns of ``flow.select`` in the place of those that the format reads; all, if it has none.

    Args:
        rows: Has ``__data``, and its fields and the metadata columns as columns.
        flow: Says what is selected; what it rescues comes after that, if it is not selected itself.
        beside: Further columns that stay.
    """
    if not flow.select:
        return rows
    selected = [STAR.sub(f"{names.DATA}.*", names.as_sql(each, rows.columns)) for each in flow.select]
    others = [*map(names.quoted, beside)]
    found = rows.selectExpr(*selected, *others)
    if flow.policies.rescues and RESCUED not in found.columns:
        return rows.selectExpr(*selected, names.quoted(RESCUED), *others)
    return found
