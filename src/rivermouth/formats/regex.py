"""Lines that a regular expression takes apart: its named groups are the columns, or the value is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from rivermouth.decoding.declared.declared import names_as_declared
from rivermouth.decoding.text import java_pattern
from rivermouth.decoding.text.java_pattern import PatternRefused
from rivermouth.decoding.text.line_format import LineFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Regex(LineFormat):
    """Text that a regular expression matches as a whole; its named groups are the columns of the schema.

    Attributes:
        type: ``regex``.
        pattern: A regular expression of Java with a group ``(?<name>...)`` for each column, and no other named one. A
            group that takes no part in the match is null.
        max_reads: How many characters a match may read, in addition to ten for each character of the value. What
            takes more is refused: some patterns try without end.
    """

    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, examples=["(?<id>[0-9]+) (?<text>.*)"])
    max_reads: int = Field(default=100_000, ge=1_000, le=1_000_000_000)

    @field_validator("pattern")
    @classmethod
    def _readable(cls, value: str, info: ValidationInfo) -> str:
        """What can be said of it before there is a Java; ``columns`` says the rest."""
        found = java_pattern.groups(value)
        columns = names_as_declared(info.data.get("declared"))
        wrong = None if found is None or columns is None else java_pattern.misfit(found, columns)
        if wrong is not None:
            raise ValueError(wrong)
        return value

    def splitter(self, columns: Sequence[str]) -> tuple[Any, ...]:
        """The class that matches values."""
        return ("values.Regex", self.pattern, list(columns), self.max_reads)

    def check_splitter(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Compiles the pattern.

        Raises:
            PatternRefused: Java does not take it, or its groups are not the columns; the text says why.
        """
        try:
            super().check_splitter(spark, columns)
        except ValueError as error:
            raise PatternRefused(str(error)) from None


KIND = Regex
