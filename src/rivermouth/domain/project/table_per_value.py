"""One table's rows in many tables: a flow for each value of a partition column of its source. Pure values.

Rows whose value cannot be the name of a table, and nulls, belong to one more flow: the rest. The flow of a row depends
on the row alone, and not on the values that were found so far, so that a row never moves to another flow.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.domain.project.locations import name_of_topic
from rivermouth.spec import StartingOffsets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rivermouth.spec import Flow

REST: Final = "_rest"
"""The name for all values that cannot be the name of a table."""
# In Java's regular expressions it means the same.
_VALUE: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"


def is_routed(value: str) -> bool:
    """Whether there may be a flow of this value, or for the rest."""
    return value == REST or re.fullmatch(_VALUE, value) is not None


def found_of(values: Iterable[str | None]) -> tuple[str, ...]:
    """The values that have a flow, sorted; ``REST`` instead of all others."""
    return tuple(sorted({value if value is not None and re.fullmatch(_VALUE, value) else REST for value in values}))


def routed_child(family: Flow, value: str, *, is_late: bool = False) -> Flow:
    """The flow that carries the rows of one value into the value's own table.

    Args:
        family: The flow as it is written.
        value: One of those that ``found_of`` gave.
        is_late: Whether it appeared after the family was begun: then its rows are read from the beginning.
    """
    source, column = family.source, family.routed_by
    if source is None or column is None:
        msg = "only a flow over a table is split by what its rows hold"
        raise TypeError(msg)
    # The value of a partition, and so the condition, is text in the table's log: no file of another value is read.
    text = f"CAST({names.quoted(column)} AS STRING)"
    mine = f"NOT coalesce({text} RLIKE r'\\A{_VALUE}\\z', false)" if value == REST else f"{text} = '{value}'"
    table = family.table.name.replace(f"{{{column}}}", name_of_topic(value))
    return family.model_copy(
        update={
            "name": f"{family.name}.{value}",
            "source": source.model_copy(update={"where": f"({source.where}) AND {mine}" if source.where else mine}),
            "table": family.table.model_copy(update={"name": table}),
            "starting_offsets": StartingOffsets(kind="earliest") if is_late else family.starting_offsets,
            "previously": f"{family.previously}.{value}" if family.previously else None,
        }
    )
