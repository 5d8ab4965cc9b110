"""Lines that a regular expression takes apart: its named groups are the columns, or the value is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from rivermouth.rows.line_format import LineFormat


class Regex(LineFormat):
    """Text that a regular expression matches as a whole; its named groups are the columns of the schema.

    Attributes:
        type: ``regex``.
        pattern: A regular expression of Java with a group ``(?<name>...)`` for each column, and no other named one. A
            group that takes no part in the match is null.
        max_reads: How often a match may look at characters of a value, beside ten times for each that it has. What
            takes more is refused: some patterns try without end.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1)
    max_reads: int = Field(default=100_000, ge=1_000, le=1_000_000_000)

    def splitter(self, columns: Sequence[str]) -> tuple[Any, ...]:
        """The class that matches values."""
        return ("values.Regex", self.pattern, list(columns), self.max_reads)


KIND = Regex
