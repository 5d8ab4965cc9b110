"""Formats whose values have their fields by name: what becomes of a value that has none of the declared columns."""

from __future__ import annotations

from typing import Literal

from rivermouth.decoding.declared.declared import DeclaredFormat


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
