"""What goes on, on a terminal: a table of the flows that renews itself, and how long something takes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rivermouth.cli.output import Output, echo, is_terminal
from rivermouth.cli.text_table import columns, folded
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine import events
from rivermouth.names import printable

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_REFRESHES_PER_S: Final = 4
_LOOKS_PER_S: Final = 2
_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_HEAD: Final = ("flow", "consumed", "written", "dropped", "dead-lettered", "rows/s", "to go", "now")


@dataclass(slots=True)
class _Row:
    """A flow in the live table."""

    state: str = "waiting"
    counts: Counts = field(default_factory=Counts)
    backlog: int | None = None
    rows_per_s: float | None = None


class LiveTable:
    """The flows, and what Spark is at; above them the lines of all events. Implements ``Progress``.

    Args:
        hinted: See ``Output``.
    """

    def __init__(self, hinted: Callable[[str], str] = str) -> None:
        self._hinted = hinted
        self._rows: dict[str, _Row] = {}
        self._live: Live | None = None
        self._wait: tuple[str, float] | None = None
        self._work: tuple[float, str] = (0.0, "")
        self._lock = threading.RLock()

    def hear(self, event: events.Event) -> None:
        """See ``Progress``."""
        from rivermouth.cli.event_text import event_text

        if event.flow:
            _update(self._rows.setdefault(event.flow, _Row()), event)
        if isinstance(event, events.StepReached):
            return
        text = event_text(event)
        if text is not None:
            self._print(self._hinted(text))

    def echo(self, words: str) -> None:
        """See ``Progress``."""
        if self._live is None:
            echo(words, err=True)
        else:
            self._print(words)

    @contextmanager
    def waits(self, words: str) -> Iterator[None]:
        """See ``Progress``; the line stays, with the seconds that it took."""
        self._wait = (words, time.monotonic())
        self._shown()
        try:
            yield
        finally:
            text, self._wait = _waited(self._wait), None
            self._print(text)

    def close(self) -> None:
        """See ``Progress``."""
        with self._lock:
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _shown(self) -> Live:
        with self._lock:
            if self._live is None:
                from rich.console import Console
                from rich.live import Live

                # Transient: the summary says it all again.
                self._live = Live(
                    console=Console(stderr=True),
                    refresh_per_second=_REFRESHES_PER_S,
                    transient=True,
                    get_renderable=self._text,
                )
                self._live.start()
            return self._live

    def _print(self, text: str) -> None:
        console = self._shown().console
        text = folded(printable(text, lines=True), sys.stderr)
        console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)

    def _text(self) -> Text:
        from rich.text import Text

        table = _table(dict(self._rows)) if self._rows else ""
        wait = self._wait
        below = f"{_frame()} {_waited(wait)}" if wait is not None else self._at_work()
        text = Text("\n".join(filter(None, (table, below))), no_wrap=True, overflow="crop")
        text.stylize("dim", 0, len(table.partition("\n")[0]))
        return text

    def _at_work(self) -> str:
        """What Spark is at, asked for now and then."""
        from rivermouth.ports.internals.spark_progress import at_work

        at, said = self._work
        if self._rows and time.monotonic() - at > 1 / _LOOKS_PER_S:
            work = at_work()
            if work is None:
                said = ""
            else:
                read = f"{work.records:,} records read, " if work.records else ""
                said = f"{_frame()} Spark: {read}{work.done:,} of {work.tasks:,} tasks"
            self._work = (time.monotonic(), said)
        return said


def waiting(output: Output, words: str) -> AbstractContextManager[None]:
    """Shows that something takes its time, while the block lasts: seconds on a terminal, else a line; in JSON nothing.

    For commands that show nothing else meanwhile.
    """
    if output.json:
        return nullcontext()
    if not is_terminal():
        echo(f"{words} …", err=True)
        return nullcontext()
    return _alone(words)


@contextmanager
def _alone(words: str) -> Iterator[None]:
    shown = LiveTable()
    try:
        with shown.waits(words):
            yield
    finally:
        shown.close()


def _waited(wait: tuple[str, float]) -> str:
    words, began_at = wait
    return f"{words} … {time.monotonic() - began_at:.0f} s"


def _frame() -> str:
    return _FRAMES[int(time.monotonic() * _REFRESHES_PER_S) % len(_FRAMES)]


def _update(row: _Row, event: events.Event) -> None:
    match event:
        case events.StepReached():
            row.state = event.step.replace("_", " ")
        case events.FlowOpened():
            row.state = "opened"
        case events.BatchDone():
            row.state = "reading"
            row.counts += event.counts
            row.backlog = event.backlog
            row.rows_per_s = event.rows_per_s
        case events.FlowRestarted():
            row.state = "restarting"
        case events.FlowFailed():
            row.state = "failed"
        case events.FlowFinished():
            row.state = "stopped" if event.stopped else "done"


def _table(rows: dict[str, _Row]) -> str:
    cells = [
        (
            name,
            row.counts.consumed,
            row.counts.written + row.counts.merged,
            row.counts.dropped,
            row.counts.dead_lettered,
            None if row.rows_per_s is None else round(row.rows_per_s),
            row.backlog,
            row.state,
        )
        for name, row in rows.items()
    ]
    return columns(_HEAD, cells, stream=sys.stderr)
