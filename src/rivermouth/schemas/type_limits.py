"""Whether a value fits a column's type: the one table of rules for Python, and for the SQL that Python writes.

``rivermouth.types.Limits`` in Spark's JVM says the same; ``tests/rows/test_type_limits.py`` holds both to one table of
cases. How a value is written (which texts are numbers or times) is a matter of each format.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # status, which needs the bounds of times, starts without Spark
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

# --- whole numbers ---

_WHOLE_BITS: Final = {"ByteType": 8, "ShortType": 16, "IntegerType": 32, "LongType": 64}
"""Bits of the types of whole numbers, the sign's included."""


def whole_range(declared: type[T.DataType]) -> tuple[int, int]:
    """The least and the greatest number of a type of whole numbers."""
    bits = _WHOLE_BITS[declared.__name__] - 1
    return -(1 << bits), (1 << bits) - 1


def is_whole(number: int, declared: type[T.DataType]) -> bool:
    """Whether a type of whole numbers holds a number."""
    least, greatest = whole_range(declared)
    return least <= number <= greatest


# --- decimals ---

MAX_DIGITS: Final = 38
"""Digits of the widest decimal."""


def as_decimal(number: Decimal, declared: T.DecimalType) -> Decimal | None:
    """The number, without zeros at its end, if a decimal holds it to its last digit; else None."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):  # not finite
        return None
    end = len(digits)
    while end > 1 and digits[end - 1] == 0:
        end -= 1
    digits, exponent = digits[:end], exponent + len(digits) - end
    if digits == (0,):
        return Decimal(0)
    fits = -exponent <= declared.scale and end + exponent <= declared.precision - declared.scale
    return Decimal((sign, digits, exponent)) if fits else None


# --- floating-point numbers ---

_BEYOND_FLOAT: Final = 3.4028235677973366e38
"""The least double that no finite float is nearest to."""
LARGEST_SAFE: Final = 1 << 53
"""A double is exactly each whole number up to this one."""


def is_in_float_range(number: float) -> bool:
    """Whether the nearest float of a number is finite."""
    return abs(number) < _BEYOND_FLOAT


def is_float(number: float) -> bool:
    """Whether a float is a number to its last digit; NaN and the infinities are floats."""
    if not math.isfinite(number):
        return True
    return is_in_float_range(number) and bool(struct.unpack("<f", struct.pack("<f", number))[0] == number)


def is_double(text: str) -> bool:
    """Whether a double is a number of JSON: the very same, or the one that is written as its shortest text."""
    nearest = float(text)
    if math.isinf(nearest):
        return False
    try:
        sent = Decimal(text)
    except InvalidOperation:
        # Of an exponent without end only a zero is what it is.
        return not re.search("[1-9]", re.split("[eE]", text)[0])
    return sent == Decimal(repr(nearest)) or sent == Decimal(nearest)


# --- dates and times: the years 1 to 9999, the range that all readers of a Delta table can read ---

FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
"""Days since 1970 of 0001-01-01 and of 9999-12-31."""
DAY_US: Final = 86_400_000_000
FIRST_US: Final = FIRST_DAY * DAY_US
LAST_US: Final = (LAST_DAY + 1) * DAY_US - 1
"""Microseconds since 1970 of 0001-01-01T00:00:00Z and of 9999-12-31T23:59:59.999999Z."""

_ENDS: Final = {
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
    # Whichever time zone the session has.
    "timestamp": (f"timestamp_micros({FIRST_US})", f"timestamp_micros({LAST_US})"),
}
_LESS_THAN_MICROS: Final = re.compile(r"[.][0-9]{6}0*[1-9]")


def within(done: str, declared: str = "timestamp") -> str:
    """SQL: whether a date, timestamp_ntz or timestamp, as ``declared`` says, is within the bound; null for null."""
    first, last = _ENDS[declared]
    return f"{done} BETWEEN {first} AND {last}"


def time_range(unit_us: int) -> tuple[int, int]:
    """The least and the greatest number of units of ``unit_us`` microseconds since 1970 within the bound."""
    return -(-FIRST_US // unit_us), LAST_US // unit_us


def is_micros(text: str) -> bool:
    """Whether the text of a time says nothing that is less than a microsecond."""
    found = _LESS_THAN_MICROS.search(text)
    return found is None or found.start() != text.find(".")


# --- texts ---


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8: no half of a character (a surrogate without its pair) is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
