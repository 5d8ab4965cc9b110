"""Formats whose values have their fields by name: what becomes of a value that has none of the declared columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from rivermouth.rows.declared import DeclaredFormat

REASON: Final = "NO_DECLARED_FIELD"
MAX_NAME: Final = 100
"""So many characters of a field's name are shown in a message."""


class NamedFields(DeclaredFormat):
    """Base of the formats with a declared schema whose values have their fields by name.

    Attributes:
        no_declared_field: What happens to a record that has none of the declared columns, not even as null. It is
            mostly a record of another kind, or the schema spells the names in another way. ``dead_letter`` refuses it
            (``NO_DECLARED_FIELD``), ``keep`` writes a row whose payload columns are null.
    """

    no_declared_field: Literal["dead_letter", "keep"] = "dead_letter"

    @property
    def needs_declared_field(self) -> bool:
        """Whether a value that has none of the declared columns is refused."""
        return self.no_declared_field == "dead_letter"


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
