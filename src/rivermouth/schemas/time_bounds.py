"""The times that a table may hold: the years 1 to 9999, the range that all readers of a Delta table can read.

The same bound is in Spark's JVM in ``times.Bounds``.
"""

from __future__ import annotations

from typing import Final

FIRST_DAY: Final = -719_162
LAST_DAY: Final = 2_932_896
"""Days since 1970 of 0001-01-01 and of 9999-12-31."""
_DAY_US: Final = 86_400_000_000
FIRST_US: Final = FIRST_DAY * _DAY_US
LAST_US: Final = (LAST_DAY + 1) * _DAY_US - 1
"""Microseconds since 1970 of 0001-01-01T00:00:00Z and of 9999-12-31T23:59:59.999999Z."""


_ENDS: Final = {
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
    # Whichever time zone the session has.
    "timestamp": (f"timestamp_micros({FIRST_US})", f"timestamp_micros({LAST_US})"),
}


def within(done: str, declared: str = "timestamp") -> str:
    """SQL: whether a date, timestamp_ntz or timestamp, as ``declared`` says, is within the bound; null for null."""
    first, last = _ENDS[declared]
    return f"{done} BETWEEN {first} AND {last}"


def limits(unit_us: int) -> tuple[int, int]:
    """The least and the greatest number of units of ``unit_us`` microseconds since 1970 within the bound."""
    return -(-FIRST_US // unit_us), LAST_US // unit_us
