"""A whole number of 4 bytes, as Kafka's IntegerSerializer writes it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pyspark.sql.types import DataType, IntegerType

from rivermouth.decoding.fixed_numbers import FixedNumber


class Int(FixedNumber):
    """One payload column ``value`` of type INT: 4 bytes, the most significant one first.

    Values of another length are refused for ``WRONG_LENGTH``.

    Attributes:
        type: ``int``.
    """

    type: Literal["int"] = "int"
    size: ClassVar[int] = 4
    kind: ClassVar[DataType] = IntegerType()


KIND = Int
