"""Functions that give snapshots: what they take, and what they return."""

from __future__ import annotations

import datetime as dt
import inspect
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

if TYPE_CHECKING:
    from rivermouth.pipelines.spec import PythonQuery

VERSION_TYPES: Final[dict[type, T.DataType]] = {
    int: T.LongType(),
    str: T.StringType(),
    dt.datetime: T.TimestampType(),
    dt.date: T.DateType(),
}
"""Of versions of snapshots: the types of the columns that hold them."""


def takes_version(query: PythonQuery) -> bool:
    """Whether the function of snapshots takes the newest version that is known."""
    try:
        known = inspect.signature(query.function).parameters.values()
    except (TypeError, ValueError):  # of a builtin, which has none
        return False
    return any(each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL} for each in known)


def is_versioned(found: Any) -> bool:
    """Whether a function of snapshots returned a frame and a version that can be kept."""
    return isinstance(found, tuple) and len(found) == 2 and type(found[1]) in VERSION_TYPES  # noqa: PLR2004 - a pair


def follows(version: Any, newest: Any) -> bool:
    """Whether a version has the type of the newest known one and is greater; a time without a zone is in UTC."""
    if type(version) is not type(newest):
        return False
    return bool(_comparable(version) > _comparable(newest))


def time_after(newest: Any, now: dt.datetime) -> dt.datetime:
    """The time of a snapshot that is taken now: later than the newest one, also where a clock was put back."""
    if not isinstance(newest, dt.datetime) or follows(now, newest):
        return now
    known: dt.datetime = _comparable(newest)
    return known + dt.timedelta(microseconds=1)


def _comparable(version: Any) -> Any:
    if isinstance(version, dt.datetime) and version.tzinfo is None:
        return version.replace(tzinfo=dt.UTC)
    return version


def version_text(version: Any) -> Any:
    """A version as ledger entries have it: a time or a date as text in ISO format, others as they are."""
    return version.isoformat() if isinstance(version, (dt.date, dt.datetime)) else version
