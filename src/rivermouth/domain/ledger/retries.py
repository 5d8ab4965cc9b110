"""When dead letters are tried again by themselves: soon after they were written, then less and less often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_S: Final = 60.0
LONGEST_PAUSE_S: Final = 3600.0
_NEVER: Final = float("inf")


@dataclass(slots=True)
class Retries:
    """The times of one flow.

    Attributes:
        due_at: The next time, in seconds since the epoch; infinite while nothing waits.
        pause_s: How long it is from then to the one after.
        written: How often dead letters had been written at the last look.
    """

    due_at: float = 0.0
    pause_s: float = FIRST_PAUSE_S
    written: int = 0

    def is_due(self, now: float, written: int) -> bool:
        """Whether it is time, after ``written`` writings of dead letters; a new one makes the pauses short again."""
        if written != self.written:
            self.written, self.pause_s = written, FIRST_PAUSE_S
            self.due_at = min(self.due_at, now + FIRST_PAUSE_S)
        return now >= self.due_at

    def tried(self, now: float, *, left: bool) -> None:
        """They were tried; ``left`` says whether some still fail."""
        self.due_at = now + self.pause_s if left else _NEVER
        self.pause_s = min(2 * self.pause_s, LONGEST_PAUSE_S)
