"""Attending to work that takes its time: Spark's output put aside, signals heard, the outcome handed on."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

from rivermouth.cli.output import Output
from rivermouth.errors import BatchFailed, EngineLost, FlowBroken, FlowsFailed, RivermouthError, SparkNotStarted

if TYPE_CHECKING:
    from rivermouth.cli.progress import Progress
    from rivermouth.project.commands.managed_session import RunHooks, Stop

Result = TypeVar("Result")


class Interrupted(Exception):
    """A command was ended by a signal before its work was done.

    Args:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def exit_code(self) -> int:
        """As shells give it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number


_POLL_S: Final = 0.2
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def hooks(output: Output, shown: Progress | None = None, stop: Stop | None = None) -> Iterator[RunHooks]:
    """A door for one command: what Spark's JVM says goes to a file, which stays only where Spark itself failed.

    Args:
        output: How the command speaks.
        shown: Hears events, and shows what goes on; where None, a line or a spinner does.
        stop: Where the wish to end is uttered; None for one of its own.
    """
    from rivermouth.project.commands.managed_session import RunHooks, Stop

    handle, name = tempfile.mkstemp(prefix="rivermouth-spark-", suffix=".log")
    os.close(handle)
    log, stop = Path(name), stop or Stop()
    try:
        if shown is None:
            from rivermouth.cli.live import waiting

            say = lambda words: output.note(f"{words} …")  # noqa: E731
            yield RunHooks(say=say, waits=lambda words: waiting(output, words), log=log, stop=stop)
        else:
            yield RunHooks(
                listener=shown.hear,
                say=lambda words: shown.echo(f"{words} …"),
                waits=shown.waits,
                log=log,
                stop=stop,
            )
    except (KeyboardInterrupt, Interrupted):
        log.unlink(missing_ok=True)
        raise
    except Exception as error:
        if isinstance(error, SparkNotStarted):
            raise  # its hint names the file
        if _is_about_spark(error) and log.stat().st_size > 0:
            output.note(f"what Spark said is in {log}")
        else:
            log.unlink(missing_ok=True)
        raise
    log.unlink(missing_ok=True)


def _is_about_spark(error: Exception) -> bool:
    cause = error.__cause__ if isinstance(error, FlowsFailed) else error
    return not isinstance(cause, RivermouthError) or isinstance(cause, FlowBroken | EngineLost | BatchFailed)


def run_interruptible(work: Callable[[], Result], stop: Stop, note: Callable[[str], None]) -> Result:
    """Does ``work`` in a thread of its own, while this one hears signals.

    The first SIGINT or SIGTERM asks ``stop``, the second ends Spark at once. A signal handler of Python runs
    only between two of the main thread's steps: a main thread that waits for Spark would hear nothing.

    Raises:
        Interrupted: A signal came before any flow had begun, as while Spark starts. Nothing was carried; what was
            started ends with this process.
    """
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def worker() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            failure.append(error)

    with _heard(stop, note) as numbers:
        thread = threading.Thread(target=worker, name="rivermouth-work", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_S)
            if numbers and not stop.begun:
                raise Interrupted(numbers[0])
    if failure:
        raise failure[0]
    return outcome[0]


@contextmanager
def _heard(stop: Stop, note: Callable[[str], None]) -> Iterator[list[int]]:
    """Hears signals while the block lasts; the list gets their numbers."""
    numbers: list[int] = []

    def hear(number: int, _frame: FrameType | None) -> None:
        numbers.append(number)
        if not stop.begun:
            stop.ask()
        elif stop.asked:
            note("stopping at once: the current batch is given up")
            stop.at_once()
        else:
            note("stopping after the current batch; press Ctrl-C again to stop at once")
            stop.ask()

    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield numbers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
