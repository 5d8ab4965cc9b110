"""A whole number of 8 bytes, as Kafka's LongSerializer writes it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pyspark.sql.types import DataType, LongType

from rivermouth.decoding.fixed_numbers import FixedNumber


class Long(FixedNumber):
    """One payload column ``value`` of type BIGINT: 8 bytes, the most significant one first.

    Values of another length are refused for ``WRONG_LENGTH``.

    Attributes:
        type: ``long``.
    """

    type: Literal["long"] = "long"
    size: ClassVar[int] = 8
    kind: ClassVar[DataType] = LongType()


KIND = Long
