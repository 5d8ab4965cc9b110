"""Values of a project file that are too small, too large, too short or too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

BOUNDS: Final = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "the text is empty",
    "string_too_long": "the text is longer than {max_length} characters",
    "too_short": "the list is empty",
    "finite_number": "must be a finite number",
}
"""What pydantic says of such a value, in our words."""
_STEPS: Final = {"ge": 0, "gt": 1, "le": 0, "lt": -1}


def beyond(kind: str, bounds: Mapping[str, Any]) -> str:
    """How a value leaves its bounds, as a part of a sentence.

    Args:
        kind: One of ``BOUNDS``.
        bounds: The bounds of the field, as pydantic has them.
    """
    return BOUNDS[kind].format_map({name: _number(bound) for name, bound in bounds.items()})


def nearest(bounds: Mapping[str, Any]) -> str | None:
    """The nearest value that keeps within its bounds; None where it has no such bounds."""
    return next((_number(bounds[each] + step) for each, step in _STEPS.items() if each in bounds), None)


def _number(bound: Any) -> str:
    """A number with all its digits; others as they are."""
    return f"{bound:g}" if isinstance(bound, float) else str(bound)
