"""What is said of a value that has none of the declared columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

REASON: Final = "NO_DECLARED_FIELD"


MAX_NAME: Final = 100
"""How many characters of a field's name a message shows at most."""


def verdict(declared: Sequence[str], there: Iterable[str]) -> tuple[str | None, str]:
    """What is said of a value that has none of the declared columns: a column or None, and a sentence.

    Args:
        declared: The names that the columns have in values, in order.
        there: The names of the value's fields.
    """
    text, fields = "the value has none of the declared columns", list(there)
    for column in declared:
        told = spelling(column, fields)
        if told:
            return column, text + told
    if {*fields} == {"schema", "payload"}:
        return None, f"{text}: the format connect_json reads rows in schema and payload"
    return None, text


def spelling(column: str, there: Iterable[str]) -> str:
    """What is said of a column whose name differs in case alone from a field that is there; empty if there is none."""
    for field in there:
        if field != column and field.casefold() == column.casefold():
            return (
                f"; column {_shown(column)} differs in case from field {_shown(field)}: declare it as {_shown(field)}"
            )
    return ""


def _shown(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}..."
