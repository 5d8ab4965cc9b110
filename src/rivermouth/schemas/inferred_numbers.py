"""Bounds of the numbers at one path, and the type that holds each of them without losing a digit."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.schemas.column_types import EXACT_IN_DOUBLE
from rivermouth.schemas.type_limits import LARGEST_SAFE, MAX_DIGITS, is_double, is_whole


@dataclass(slots=True)
class NumberBounds:
    """What is known of some numbers; a new one knows of none.

    Attributes:
        fractions: Whether there was one with a point or an exponent.
        beyond_bigint: Whether a whole number needs more than 64 bits.
        largest: The greatest whole number, without its sign.
        before: The most digits before a point.
        scale: The most digits behind one.
        exponents: Whether one with an exponent is not, digit by digit, what a double holds.
        inexact_fractions: Whether a double would lose a digit of a fraction.
        inexact_integers: Whether a double would lose a digit of a whole number.
    """

    fractions: bool = False
    beyond_bigint: bool = False
    largest: int = 0
    before: int = 0
    scale: int = 0
    exponents: bool = False
    inexact_fractions: bool = False
    inexact_integers: bool = False

    def add(self, value: int | str) -> None:
        """Takes one number in: whole ones as they are, others as their text."""
        if isinstance(value, int):
            self._add_integer(value)
            return
        self.fractions = True
        whole, _, behind = value.partition(".")
        if "e" in value or "E" in value:
            self.exponents = True
            self.inexact_fractions |= not is_double(value)
            return
        self.before = max(self.before, len(whole.lstrip("-")))
        self.scale = max(self.scale, len(behind))
        if len(value) > EXACT_IN_DOUBLE:
            self.inexact_fractions |= not is_double(value)

    def _add_integer(self, value: int) -> None:
        size = abs(value)
        self.largest = max(self.largest, size)
        if size > LARGEST_SAFE:
            self.beyond_bigint |= not is_whole(value, T.LongType)
            self.inexact_integers |= not is_double(str(value))

    def merged(self, other: NumberBounds) -> NumberBounds:
        """The bounds of both."""
        return NumberBounds(
            *(
                max(mine, theirs) if type(mine) is int else mine or theirs
                for mine, theirs in zip(astuple(self), astuple(other), strict=True)
            )
        )

    def described(self) -> Any:
        """As plain values."""
        return astuple(self)

    @property
    def data_type(self) -> T.DataType:
        """The narrowest of bigint, double, decimal and string that keeps every digit."""
        if not self.fractions and not self.beyond_bigint:
            return T.LongType()
        if self.fractions and not (self.inexact_fractions or self.inexact_integers):
            return T.DoubleType()
        if self.scale <= MAX_DIGITS and self.fit_into(T.DecimalType(MAX_DIGITS, self.scale)):
            return T.DecimalType(MAX_DIGITS, self.scale)
        return T.StringType()

    def fit_into(self, decimal: T.DecimalType) -> bool:
        """Whether a decimal holds each of these numbers."""
        # The decoder reads numbers with exponents as doubles, which a decimal then cannot trust.
        whole_digits = max(self.before, len(str(self.largest)))
        return not self.exponents and whole_digits <= decimal.precision - decimal.scale and self.scale <= decimal.scale
