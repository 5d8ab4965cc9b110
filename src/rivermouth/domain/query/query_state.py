"""What a streaming query keeps between its batches, and when that becomes rows. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

StateKind = Literal["aggregation", "deduplication", "join", "function"]

UNBOUNDED: Final = "its state grows without bound"


@dataclass(frozen=True, slots=True)
class StateOperator:
    """A part of a query that keeps state.

    Attributes:
        kind: What it does.
        delay_s: How far the watermark that removes its state is behind the newest event time, in seconds; None where
            no watermark removes it.
        is_windowed: Whether it groups by a window of event time.
    """

    kind: StateKind
    delay_s: float | None = None
    is_windowed: bool = False


def texts(operators: Sequence[StateOperator], output_mode: str) -> tuple[str, ...]:
    """What a user should know of a query's state, a sentence each.

    Args:
        operators: The parts of the query that keep state.
        output_mode: Spark's: ``append``, ``update`` or ``complete``.
    """
    return tuple(dict.fromkeys(text for each in operators for text in _texts(each, output_mode)))


def _texts(operator: StateOperator, output_mode: str) -> Iterator[str]:
    match operator.kind:
        case "aggregation":
            yield _aggregation(operator, output_mode)
        case "deduplication" if operator.delay_s is None:
            yield (
                f"{UNBOUNDED}: each key is kept to find duplicates; use withWatermark and "
                "dropDuplicatesWithinWatermark, or a time column with a watermark among the keys"
            )
        case "deduplication":
            yield f"a key is forgotten when the watermark, {_time(operator.delay_s)} behind the newest time, passes it"
        case "join" if operator.delay_s is None:
            yield (
                f"{UNBOUNDED}: all rows of both streams are kept for the join; give both a watermark, and the join "
                "condition a range of their times"
            )
        case "join":
            yield "a row is kept for the join until the watermarks say that no row can match it any more"
        case "function":
            yield "the query's own function decides how long its state is kept"


def _aggregation(operator: StateOperator, output_mode: str) -> str:
    what = "window" if operator.is_windowed else "group"
    if output_mode == "complete":
        bound = "no group is ever removed" if operator.delay_s is None else "it keeps all groups"
        return f"each batch writes all {what}s again; {UNBOUNDED}: {bound}"
    if operator.delay_s is None:
        return f"each batch writes the {what}s that changed; {UNBOUNDED}: without a watermark no group is removed"
    delay = _time(operator.delay_s)
    end = f"its end + {delay}" if operator.is_windowed else f"its time + {delay}"
    if output_mode == "update":
        return (
            f"each batch writes the {what}s that changed; a {what} is final when a record newer than {end} has come: "
            "later records for it are dropped as late"
        )
    return (
        f"a {what} is written once, when a record newer than {end} has come: later records for it are dropped as late"
    )


def _time(seconds: float | None) -> str:
    number, unit = seconds or 0.0, "second"
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if number and number % size == 0:
            number, unit = number / size, name
            break
    return f"{number:g} {unit}{'' if number == 1 else 's'}"
