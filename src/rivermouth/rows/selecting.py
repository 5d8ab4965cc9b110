"""The columns that a flow's ``select`` makes of what its format reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow

# All columns that the format reads, or all but some of them; those of the way stand beside them.
_ALL: Final = re.compile(r"^\s*\*")


def is_star(expression: str) -> bool:
    """Whether it stands for all columns that the format reads, or all but some."""
    return _ALL.match(expression) is not None


def select(rows: DataFrame, flow: Flow, beside: Collection[str]) -> DataFrame:
    """``rows`` with the columns of ``flow.select`` in the place of those that the format reads; all, if it has none.

    Args:
        rows: Has ``__data``, and its fields and the metadata columns as columns.
        flow: Says what is selected.
        beside: Further columns that stay.
    """
    if not flow.select:
        return rows
    selected = (_ALL.sub(f"{names.DATA}.*", each) for each in flow.select)
    return rows.selectExpr(*selected, *map(names.quoted, beside))
