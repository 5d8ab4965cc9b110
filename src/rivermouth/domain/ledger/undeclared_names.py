"""Names of fields that records have and no column of a table has, counted in a sample of the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_NAMES: Final = 100
"""The number of different names that are kept."""
MAX_LETTERS: Final = 100
"""The length in characters to which a name is cut."""


@dataclass(frozen=True, slots=True)
class UndeclaredNames:
    """In how many records each name was.

    Attributes:
        of_batch: Of one batch.
        so_far: Of this one and those before it.
    """

    of_batch: Mapping[str, int] = field(default_factory=dict)
    so_far: Mapping[str, int] = field(default_factory=dict)


NO_NAMES: Final = UndeclaredNames()


def after_batch(before: Mapping[str, Any] | None, seen: Mapping[str, Any]) -> UndeclaredNames:
    """The names after a batch.

    Args:
        before: The report of the batch before it, as the side file keeps it; None without one.
        seen: What was counted of the batch.
    """
    of_batch = seen.get("undeclared_names") or {}
    return UndeclaredNames(of_batch, most_frequent((before or {}).get("undeclared_names") or {}, of_batch))


def most_frequent(*found: Mapping[str, int]) -> dict[str, int]:
    """The sums by name, of at most ``MAX_NAMES`` names: those with the greatest sums, which come first."""
    sums: Counter[str] = Counter()
    for each in found:
        for name, rows in each.items():
            sums[name[:MAX_LETTERS]] += rows
    ordered = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
    return dict(ordered[:MAX_NAMES])
