"""Events as people and programs read them while flows run."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

from rivermouth.cli.event_text import event_json, event_text
from rivermouth.cli.output import Output, echo, echo_json, is_terminal, plain, to_json
from rivermouth.engine import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.engine.flow.jobs import FlowOutcome

# Texts of events that may name a command.
_WITH_COMMANDS: Final = ("error", "message")

Say = Callable[[str], None]


class Progress(Protocol):
    """Shows what goes on; events come one at a time, from any thread."""

    def hear(self, event: events.Event) -> None:
        """Shows one event."""

    def echo(self, words: str) -> None:
        """Shows what goes on where there is no flow yet, or beside the flows."""

    def waits(self, words: str) -> AbstractContextManager[None]:
        """Shows that something takes its time, while the block lasts."""

    def close(self) -> None:
        """Ends the showing, so that the terminal is as it was."""


def progress(output: Output) -> Progress:
    """What fits the listener: JSON lines, a live table on a terminal, else plain lines.

    Commands in events name the project file that this command was given.
    """
    if output.json:
        return JsonLines(output.hinted)
    if not is_terminal():
        return PlainLines(output.hinted)
    from rivermouth.cli.live import LiveTable

    return LiveTable(output.hinted)


class JsonLines:
    """One JSON object an event, on standard output. Implements ``Progress``.

    Args:
        hinted: See ``Output``.
    """

    def __init__(self, hinted: Callable[[str], str] = str) -> None:
        self._hinted = hinted

    def hear(self, event: events.Event) -> None:
        """See ``Progress``."""
        body = event_json(event)
        if body is None:
            return
        body |= {name: self._hinted(body[name]) for name in _WITH_COMMANDS if isinstance(body.get(name), str)}
        echo_json(to_json(body))

    def echo(self, words: str) -> None:
        """Nothing: a program waits for events."""

    def waits(self, _words: str) -> AbstractContextManager[None]:
        """Nothing, as of ``say``."""
        return nullcontext()

    def close(self) -> None:
        """See ``Progress``."""


class PlainLines:
    """One line an event, on standard error. Implements ``Progress``.

    Args:
        hinted: See ``Output``.
    """

    def __init__(self, hinted: Callable[[str], str] = str) -> None:
        self._hinted = hinted

    def hear(self, event: events.Event) -> None:
        """See ``Progress``."""
        text = event_text(event)
        if text is not None:
            echo(self._hinted(text), err=True)

    def echo(self, words: str) -> None:
        """See ``Progress``."""
        echo(words, err=True)

    def waits(self, words: str) -> AbstractContextManager[None]:
        """See ``Progress``."""
        echo(f"{words} …", err=True)
        return nullcontext()

    def close(self) -> None:
        """See ``Progress``."""


SUMMARY_HEAD: Final = ("flow", "consumed", "written", "dropped", "dead-lettered", "batches", "seconds", "rows/s")


def summary_row(outcome: FlowOutcome) -> tuple[object, ...]:
    """A flow's outcome in the columns of ``SUMMARY_HEAD``."""
    counts = outcome.counts
    return (
        outcome.flow,
        counts.consumed,
        counts.written + counts.merged,
        counts.dropped,
        counts.dead_lettered,
        outcome.batches,
        round(outcome.duration_s, 1),
        round(counts.consumed / outcome.duration_s, 1) if outcome.duration_s > 0 else 0.0,
    )


def summary_json(outcomes: Sequence[FlowOutcome], *, stopped: bool) -> dict[str, Any]:
    """What a run came to, as an object of JSON."""
    return {
        "event": "run_finished",
        "stopped": stopped,
        "flows": [
            {
                "flow": each.flow,
                "counts": plain(each.counts),
                "batches": each.batches,
                "duration_s": round(each.duration_s, 3),
                "rows_per_s": summary_row(each)[-1],
                "dropped_by": plain(each.dropped_by),
                "undeclared_names": plain(each.undeclared_names),
                "error": plain(each.error),
            }
            for each in outcomes
        ],
    }
