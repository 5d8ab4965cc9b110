"""One writer a table, one update a pipeline: a lease in the lake, taken over from a dead or silent holder alone.

The lease keeps two honest runs apart. It is not what makes commits safe: that is the transaction number
in each commit, on which a late writer loses.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from py4j.protocol import Py4JError

from rivermouth.errors import (
    LakeNotReadable,
    LakeNotWritable,
    LeaseFileLost,
    LeaseLost,
    PipelineBusy,
    RivermouthError,
    TableBusy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rivermouth.ports.lake.lake_files import LakeFiles

# The owners of leases that this process holds: one lake may be used by several flows, and a lease outlive a session.
_held: Final[set[str]] = set()
EXPIRY_S: Final = 30.0
RENEWAL_S: Final = 5.0
_LOOK_EVERY_S: Final = 1.0
# A store that does not replace a file in one step shows one that is empty, or cut short, for a moment.
_READ_AGAIN_S: Final = (0.05, 0.2, 0.5)
# No clock of a machine that works is as wrong as that.
_LONG_AGO_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease, and when it last gave a sign of life.

    Attributes:
        owner: A random mark of this holding.
        host: Name of the machine.
        pid: Process id there.
        started: Start time of that process, by which a reused pid is recognized; empty where unknown.
        renewed_at: Seconds since the epoch, by the holder's clock.
    """

    owner: str
    host: str
    pid: int
    started: str
    renewed_at: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, or did."""
        return self.host == socket.gethostname()

    @property
    def is_alive(self) -> bool:
        """Whether the holder may still write: its process runs here, or its last sign of life is recent."""
        if self.is_here:
            # Of this very process: a lease that could not be given back, when its store or its JVM was away, is dead.
            is_here = self.pid == os.getpid()
            return _process_start(self.pid) == self.started and (not is_here or self.owner in _held)
        return time.time() - self.renewed_at < EXPIRY_S


class Lease(ABC):
    """A lease, held from ``__enter__`` to ``__exit__`` and renewed by a thread of its own.

    Args:
        files: Of the lake.
        path: Of the lease.
        name: Of the flow or pipeline, for errors and the thread.
        pause: Waits for a number of seconds; returns True if there is to be no more waiting.
        say: Gets a message before a holder on another machine is waited for.

    Guarantees:
        Of two processes that enter at once one gets it. A holder that was killed is replaced at once on its
        own machine. One elsewhere is waited for, until it gives a sign of life or has given none for ``EXPIRY_S``.
    """

    noun: ClassVar[str]
    """What is held, as messages name it."""

    def __init__(
        self,
        files: LakeFiles,
        path: str,
        name: str,
        *,
        pause: Callable[[float], object] = time.sleep,
        say: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._files = files
        self._path = path
        self._name = name
        self._pause = pause
        self._say = say
        self._owner = uuid.uuid4().hex
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        _held.add(self._owner)
        try:
            if not self._files.create(self._path, self._text()):
                self._take_over()
        except BaseException:
            _held.discard(self._owner)
            raise
        self._thread = threading.Thread(target=self._renew, name=f"lease-{self._name}", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        _held.discard(self._owner)
        # What cannot be given back now is taken over: by this process at once, by another one when it has expired.
        with contextlib.suppress(LakeNotReadable, LakeNotWritable, Py4JError, OSError):
            holder = read_holder(self._files, self._path)
            if holder is not None and holder.owner == self._owner:
                self._files.delete(self._path)

    def _take_over(self) -> None:
        dead = read_holder(self._files, self._path)
        if dead is None and self._files.read(self._path) is None and self._files.create(self._path, self._text()):
            return  # its holder gave it back just now
        if dead is not None and self._wait_for(dead):
            return
        claims = self._claimed(dead)
        # One that was slow to claim finds here that the dead holder has been replaced meanwhile.
        current = read_holder(self._files, self._path)
        is_replaced = current != dead
        if not is_replaced:
            self._files.write(self._path, self._text())
        for claim in claims:
            self._files.delete(claim)
        if is_replaced:
            raise self._busy(current)

    def _wait_for(self, holder: Holder) -> bool:
        """Waits until the holder has given the lease back or is dead.

        Returns:
            True: it gave it back, and this process holds it now. False: it is dead, and to be replaced.

        Raises:
            RivermouthError: It lives: its process is here, or it has given a sign of life.
        """
        if holder.is_here:
            if holder.is_alive:
                raise self._busy(holder)
            return False
        # By this machine's clock: that of the other one may be ahead or behind.
        silence_s = _silence_s(holder)
        if silence_s > 0:
            self._say(
                f"{holder} had the {self.noun} last: for up to {silence_s:.0f} s it is seen whether it still lives"
            )
        deadline = time.monotonic() + silence_s
        while time.monotonic() < deadline:
            stopped = self._pause(_LOOK_EVERY_S)
            current = read_holder(self._files, self._path)
            if current is None and self._files.create(self._path, self._text()):
                return True
            if current != holder or stopped:
                raise self._busy(current or holder)
        return False

    def _claimed(self, dead: Holder | None) -> list[str]:
        """The files by which this process alone may succeed ``dead``; more than one if a successor died too."""
        claims = [f"{self._path}.after-{dead.owner if dead else 'damaged'}"]
        while not self._files.create(claims[-1], self._text()):
            successor = read_holder(self._files, claims[-1])
            if successor is None or successor.is_alive:
                raise self._busy(successor)
            claims.append(f"{self._path}.after-{successor.owner}")
        return claims

    @abstractmethod
    def _busy(self, holder: Holder | None) -> RivermouthError:
        """The error that says who has it."""

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL_S):
            # A lake that is away for a moment is tried again; for longer, the lease expires, and ``check`` raises.
            with contextlib.suppress(LakeNotReadable, LakeNotWritable, Py4JError, OSError):
                holder = read_holder(self._files, self._path)
                if holder is None or holder.owner != self._owner:
                    return
                self._files.write(self._path, self._text())

    def _text(self) -> str:
        pid = os.getpid()
        holder = Holder(self._owner, socket.gethostname(), pid, _process_start(pid) or "", time.time())
        return json.dumps(asdict(holder))


class TableLease(Lease):
    """The lease on the table that a flow writes.

    Args:
        files: Of the lake.
        path: Of the lease.
        flow: Named in errors.
        table: Likewise.
        pause: As of ``Lease``.
        say: As of ``Lease``.
    """

    noun = "table"

    def __init__(
        self,
        files: LakeFiles,
        path: str,
        *,
        flow: str,
        table: str,
        pause: Callable[[float], object] = time.sleep,
        say: Callable[[str], None] = lambda _words: None,
    ) -> None:
        super().__init__(files, path, flow, pause=pause, say=say)
        self._table = table

    def check(self) -> None:
        """Checks that this process still holds the lease.

        Raises:
            LeaseLost: Another process took it over.
            LeaseFileLost: Its file is gone or damaged.
        """
        holder = read_holder(self._files, self._path)
        if holder is None:
            raise LeaseFileLost(flow=self._name, table=self._table, place=self._path)
        if holder.owner != self._owner:
            raise LeaseLost(flow=self._name, table=self._table, holder=str(holder))

    def _busy(self, holder: Holder | None) -> TableBusy:
        fix = _with_end_of(holder, "writer", f"rivermouth status {self._name}")
        return TableBusy(flow=self._name, table=self._table, holder=_shown(holder), fix=fix)


class PipelineLease(Lease):
    """The lease on the updates of a pipeline."""

    noun = "pipeline"

    def _busy(self, holder: Holder | None) -> PipelineBusy:
        fix = _with_end_of(holder, "update", "rivermouth status")
        return PipelineBusy(pipeline=self._name, holder=_shown(holder), fix=fix)


def _shown(holder: Holder | None) -> str:
    return str(holder or "another process")


def _with_end_of(holder: Holder | None, what: str, command: str) -> str:
    """A command, and behind it how the holder is ended, where that is known."""
    if holder is None or holder.pid == os.getpid():
        return command
    # A comment for the shell: the line can be pasted, and ends nothing by itself.
    return f"{command}  # to end its {what} {'here' if holder.is_here else f'on {holder.host}'}: kill {holder.pid}"


def _silence_s(holder: Holder) -> float:
    """For how long a holder elsewhere must be seen to be silent before it is replaced."""
    age_s = time.time() - holder.renewed_at
    if age_s > _LONG_AGO_S:
        return 0.0
    return min(max(EXPIRY_S - age_s, 2 * RENEWAL_S), EXPIRY_S)


def read_holder(files: LakeFiles, path: str) -> Holder | None:
    """Who holds the lease at ``path``; None if nobody does or the file is damaged."""
    pauses_s = iter(_READ_AGAIN_S)
    while (text := files.read(path)) is not None:
        with contextlib.suppress(ValueError, TypeError):
            return Holder(**json.loads(text))
        pause_s = next(pauses_s, None)
        if pause_s is None:
            break
        time.sleep(pause_s)
    return None


def living_holder(files: LakeFiles, path: str) -> Holder | None:
    """Who holds the lease at ``path`` and may still write; None if nobody does."""
    holder = read_holder(files, path)
    return holder if holder is not None and holder.is_alive else None


def _process_start(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None if there is no such process."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.joinpath("self").exists():
        return _process_exists(pid)
    try:
        fields = stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Field 3 is the state, field 22 the start time; a zombie writes no more.
    return None if fields[0] == "Z" else fields[19]


def _process_exists(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""
