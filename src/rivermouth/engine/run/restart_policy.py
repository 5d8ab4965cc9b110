"""Whether a flow starts again after a failure, and after which pause. Plain values: it asks neither Spark nor Kafka."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rivermouth.engine.flow.table_per_topic import PASSING
from rivermouth.errors import (
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    TopicMissing,
    TopicPatternEmpty,
    TopicRecreated,
)

FIRST_DELAY_S: Final = 1.0
LONGEST_DELAY_S: Final = 60.0
DRAIN_RESTARTS: Final = 3
"""A flow that drains starts again at most so often."""
GONE: Final = (OffsetsExpired, PartitionsFewer, TopicRecreated)
"""Data that is gone since the flow was opened: the next opening records it, where the flow may."""
AWAY: Final = (TopicMissing, TopicPatternEmpty)
"""Topics that are not there: if they are created again, they are ``GONE``."""


@dataclass(slots=True)
class RestartPolicy:
    """The failures of one flow in one run.

    Attributes:
        follows: Whether the flow goes on until it is stopped. It then outlasts what passes by itself, without a bound.
        records_loss: Whether it may record that data is gone (``on_data_loss: record``).
        was_open: Whether it was ever opened in this run.
        may_vanish: Whether it ends with its topic: what found the topic starts it again.
    """

    follows: bool
    records_loss: bool
    was_open: bool = False
    may_vanish: bool = False
    _delay_s: float = 0.0
    _restarts: int = 0

    def pause_s(self, error: Exception, *, is_open: bool, jvm_ended: bool, progressed: bool) -> float | None:
        """The pause in seconds before the flow starts again; 0: at once, without an event; None: it does not.

        Only failures in a row make the pauses longer.

        Args:
            error: What ended the flow.
            is_open: Whether it was open then.
            jvm_ended: Whether Spark's JVM is gone, which the flow cannot start again.
            progressed: Whether batches came into the table since it was opened.
        """
        if isinstance(error, GONE):
            return 0.0 if is_open and self.records_loss else None
        if isinstance(error, RivermouthError):
            if not (self.follows and self.was_open and self._passes(error)):
                return None
        else:
            self._restarts += 1
            if jvm_ended or (not self.follows and self._restarts > DRAIN_RESTARTS):
                return None
        is_first = progressed or not self._delay_s
        self._delay_s = FIRST_DELAY_S if is_first else min(2 * self._delay_s, LONGEST_DELAY_S)
        return self._delay_s

    def _passes(self, error: RivermouthError) -> bool:
        """Whether the failure may be over the next time."""
        return isinstance(error, PASSING) or (isinstance(error, AWAY) and self.records_loss and not self.may_vanish)
