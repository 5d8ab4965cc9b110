"""The end of a streaming query: it has read what there is, or it shall stop and its batch in hand is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

STOP_TIMEOUT_S: Final = 60.0
"""Bound on the batch in hand of a query that shall stop."""
_WAIT_S: Final = 0.2
"""So long a query that goes on does not hear that it shall stop."""
_LOOK_EVERY_S: Final = 1.0
"""Spark keeps the reports of 100 triggers; no query has that number of triggers in this time."""


class Stopping(Exception):
    """Ends a batch that began after a stop of the flow was requested."""


def until_ended(
    query: StreamingQuery,
    stopping: threading.Event,
    look: Callable[[], None] = lambda: None,
    works: Callable[[], None] = lambda: None,
    *,
    finishes_batch: bool = True,
) -> bool:
    """Returns when the query has ended, or when it shall and its batch in hand has ended.

    Args:
        query: Started.
        stopping: Set when it shall end. A batch that begins after that raises ``Stopping``.
        look: Called now and then meanwhile.
        works: Called once, when the query has done its first trigger, also where there was nothing to read.
        finishes_batch: Whether a stop waits for the batch in hand.

    Returns:
        False where the batch in hand did not end within ``STOP_TIMEOUT_S``.

    Raises:
        StreamingQueryException: It failed.
    """
    looks_at, has_worked = time.monotonic() + _LOOK_EVERY_S, False
    while not stopping.is_set() and not _has_ended(query):
        if time.monotonic() >= looks_at:
            look()
            if not has_worked and query.lastProgress is not None:
                works()
                has_worked = True
            looks_at = time.monotonic() + _LOOK_EVERY_S
    if not (finishes_batch and stopping.is_set()):
        return True
    last, deadline = _last_batch(query), time.monotonic() + STOP_TIMEOUT_S
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == last:
        if time.monotonic() >= deadline:
            return False
        _has_ended(query)
    return True


def _has_ended(query: StreamingQuery) -> bool | None:
    return query.awaitTermination(_WAIT_S)  # type: ignore[arg-type]  # takes fractions


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
