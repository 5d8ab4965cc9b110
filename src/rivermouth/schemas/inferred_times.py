"""Forms of strings that are dates or times, as the format json reads them; everything else is a string."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

DATE: Final = 1
INSTANT: Final = 2
"""A timestamp with its offset."""
LOCAL: Final = 4
"""A timestamp without one."""
OTHER: Final = 8

_LENGTHS: Final = range(len("2026-01-31"), len("2026-01-31T12:00:00.000000+00:00") + 1)
_FORM: Final = re.compile(r"(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}:\d{2}([.]\d{1,6})?(Z|[+-](\d{2}):(\d{2}))?)?", re.ASCII)
_FARTHEST_OFFSET: Final = dt.timedelta(hours=18)


def form_of(text: str) -> int:
    """Which of the forms a string has."""
    if len(text) not in _LENGTHS or text[4] != "-":
        return OTHER
    match = _FORM.fullmatch(text)
    if match is None:
        return OTHER
    try:
        found = dt.datetime.fromisoformat(text[:19].replace(" ", "T"))
        if match[2] is None:
            return DATE
        if match[4] is None:
            return LOCAL
        return INSTANT if match[5] is None or _is_offset(match, found) else OTHER
    except (ValueError, OverflowError):
        return OTHER


def _is_offset(match: re.Match[str], local: dt.datetime) -> bool:
    """Whether there is such an offset.

    Raises:
        OverflowError: There is, and the instant is not in the years 1 to 9999.
    """
    offset = dt.timedelta(hours=int(match[5]), minutes=int(match[6]))
    if int(match[6]) >= 60 or offset > _FARTHEST_OFFSET:  # noqa: PLR2004 - minutes
        return False
    return isinstance(local + offset if match[4][0] == "-" else local - offset, dt.datetime)


def joined(some: int, others: int) -> int:
    """The forms of some strings and of others; what is not all of time is ``OTHER``, whatever else was among it."""
    return min(some | others, OTHER)


def data_type(forms: int) -> T.DataType | None:
    """The type that takes strings of all these forms; None where it is not one of time.

    Times with an offset and times without one do not mix: nobody said which offset the others have.
    """
    match forms:
        case 1:
            return T.DateType()
        case 2:
            return T.TimestampType()
        case 4 | 5:
            return T.TimestampNTZType()
    return None
