"""The last failure of each flow, kept in the lake's state until the flow works again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from rivermouth.domain.ledger.failures import Failure, failure_of
from rivermouth.errors import PipelineBusy, RivermouthError, TableBusy, first_line

if TYPE_CHECKING:
    from rivermouth.ports.lake.lake_files import LakeFiles


class FailureNotes:
    """Keeps, for each flow of a run, why it failed last; several threads may share it.

    Args:
        files: The lake's small files, as they can be written at that moment.
        warn: Gets a flow and why its note could not be written. Nothing is ever raised: the failure that is to be
            kept matters more.
    """

    def __init__(self, files: Callable[[], LakeFiles], warn: Callable[[str, str], None]) -> None:
        self._files = files
        self._warn = warn
        self._lock = threading.Lock()
        self._well: set[str] = set()
        self.folder: str | None = None
        """``_rivermouth/failures``; None until a run has begun: nothing is kept then."""

    def failed(self, flow: str, error: BaseException) -> None:
        """Keeps the failure, unless another process has the flow or pipeline: it says how that is doing.

        Guarantees:
            Run twice: the second failure takes the place of the first.
        """
        if isinstance(error, TableBusy | PipelineBusy):
            return
        failure = failure_of(flow, error)
        with self._lock:
            self._well.discard(flow)
        self._do(flow, lambda files, file: files.write(file, failure.to_json()))

    def works(self, flow: str) -> None:
        """Removes what is kept of the flow's last failure; costs nothing where that was done before."""
        with self._lock:
            if flow in self._well:
                return
            self._well.add(flow)
        self._do(flow, lambda files, file: files.delete(file))

    def _do(self, flow: str, what: Callable[[LakeFiles, str], None]) -> None:
        if not self.folder:
            return
        try:
            what(self._files(), file_of(self.folder, flow))
        except (RivermouthError, OSError, Py4JError) as error:
            detail = error.message if isinstance(error, RivermouthError) else first_line(error)
            self._warn(flow, f"status may not show how this run ended: {detail}")


def file_of(folder: str, flow: str) -> str:
    """The file of one flow's last failure."""
    return f"{folder}/{flow}.json"


def read_failure(files: LakeFiles, folder: str, flow: str) -> Failure | None:
    """Why the flow failed last; None where it did not, or worked since.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    text = files.read(file_of(folder, flow))
    return None if text is None else Failure.from_json(text)


def keep_unstarted(files: LakeFiles, folder: str, flows: Iterable[str], error: Exception) -> None:
    """Keeps why a run ended before any of its flows began; nothing where the lake has no state yet, or does not answer.

    Guarantees:
        Run twice: the same notes. Never raises for the lake: ``error`` matters more.
    """
    notes = FailureNotes(lambda: files, lambda _flow, _words: None)
    notes.folder = folder
    try:
        begun = bool(files.names(folder.rpartition("/")[0]))
    except (RivermouthError, OSError, Py4JError):
        return
    for flow in flows if begun else ():
        notes.failed(flow, error)
