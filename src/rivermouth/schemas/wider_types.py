"""Whether a column takes values of another type, and the wider type of numbers that Delta can change it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.schemas.inferred_numbers import NumberBounds
from rivermouth.schemas.type_limits import MAX_DIGITS, whole_range
from rivermouth.schemas.type_widening import WHOLE_DIGITS, widens

Numbers = Mapping[tuple[str, ...], NumberBounds]
"""Bounds of the numbers at each path: as ``Inferred.numbers``."""
_BIGINT: Final = (19, 0)
"""Digits of the widest whole number of 64 bits, as precision and scale."""
_FLOAT_DIGITS: Final = 38
"""A number with fewer digits before the point is within a float's range."""


def wider_number(mine: T.DataType, bounds: NumberBounds) -> T.DataType | None:
    """The first type of numbers that Delta can change a column to and that takes the numbers; None if none does."""
    candidates: list[tuple[T.DataType, Callable[[], bool]]] = [
        (T.LongType(), lambda: not bounds.fractions and not bounds.beyond_bigint),
        (T.DoubleType(), lambda: bounds.fractions and not (bounds.inexact_fractions or bounds.inexact_integers)),
    ]
    decimal = _decimal(mine, bounds)
    if decimal is not None:
        candidates.append((decimal, lambda: bounds.fit_into(decimal)))
    return next((each for each, holds in candidates if widens(mine, each) and holds()), None)


def _decimal(mine: T.DataType, bounds: NumberBounds) -> T.DecimalType | None:
    """The least decimal with the digits of the column and of the numbers."""
    scale, whole = bounds.scale, max(bounds.before, len(str(bounds.largest)))
    if isinstance(mine, T.DecimalType):
        scale, whole = max(scale, mine.scale), max(whole, mine.precision - mine.scale)
    elif mine.simpleString() in WHOLE_DIGITS:
        whole = max(whole, WHOLE_DIGITS[mine.simpleString()])
    else:
        return None
    return T.DecimalType(whole + scale, scale) if whole + scale <= MAX_DIGITS else None


def takes(kept: T.DataType, found: T.DataType, numbers: Numbers, path: tuple[str, ...]) -> bool:
    """Whether a column of the kept type takes every value for which the other type was inferred.

    Args:
        kept: The kept type.
        found: The inferred type.
        numbers: Bounds of the numbers, as far as they are known; else their type is all that is known of them.
        path: Where the values are, as in ``numbers``.
    """
    match kept, found:
        case (_, T.NullType()):
            return True
        case (T.StringType() | T.VariantType(), _):
            return True
        case (T.StructType(), T.StructType()):
            mine = {each.name: each.dataType for each in kept.fields}
            return all(
                each.name in mine and takes(mine[each.name], each.dataType, numbers, (*path, each.name))
                for each in found.fields
            )
        case (T.MapType(), T.StructType()):
            return all(takes(kept.valueType, each.dataType, numbers, (*path, each.name)) for each in found.fields)
        case (T.MapType(), T.MapType()):
            return takes(kept.valueType, found.valueType, numbers, (*path, "{}"))
        case (T.ArrayType(), T.ArrayType()):
            return takes(kept.elementType, found.elementType, numbers, (*path, "[]"))
    same = kept == found or (isinstance(kept, T.TimestampNTZType) and isinstance(found, T.DateType))
    return same or _takes_numbers(kept, found, numbers.get(path))


def _takes_numbers(kept: T.DataType, found: T.DataType, bounds: NumberBounds | None) -> bool:
    match kept, found:
        case (T.DecimalType(), T.LongType() | T.DecimalType() | T.DoubleType()) if bounds is not None:
            return bounds.fit_into(kept)
        case (T.DecimalType(), T.LongType() | T.DecimalType()):
            precision, scale = (found.precision, found.scale) if isinstance(found, T.DecimalType) else _BIGINT
            return kept.scale >= scale and kept.precision - kept.scale >= precision - scale
        case (T.ByteType() | T.ShortType() | T.IntegerType(), T.LongType()) if bounds is not None:
            return bounds.largest <= whole_range(type(kept))[1]
        case (T.FloatType(), T.LongType() | T.DoubleType()) if bounds is not None:
            # Of a number with an exponent the size is not known.
            return not bounds.exponents and max(bounds.before, len(str(bounds.largest))) < _FLOAT_DIGITS
        case (T.DoubleType(), T.LongType()):
            return bounds is None or not bounds.inexact_integers
    return False
