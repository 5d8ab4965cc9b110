"""A server for development and tests: a process of its own in a folder of its own, only on 127.0.0.1."""

from __future__ import annotations

import atexit
import errno
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from rivermouth.errors import DevFolderTaken, DevPortTaken, DevServerFailed
from rivermouth.ports.dev.local_ports import HOST, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

_TAIL_LINES: Final = 20
_POLL_S: Final = 0.05
# So say file systems that know no locks.
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# Reads the server's pid, then waits for the end of its input, which comes when this process is gone,
# however it went. Works where Linux' PDEATHSIG does not: from threads, and on other systems.
_WATCHDOG: Final = "read -r pid || exit 0; read -r done && exit 0; kill -KILL $pid"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a development server is called.

    Attributes:
        server: In sentences: ``Kafka broker``.
        command: Its word after ``rivermouth dev``.
    """

    server: str
    command: str


class DevServer:
    """A running server, stopped by ``stop`` or ``with``; ``start`` of its subclasses makes it.

    Args:
        kind: What it is called.
        port: Where it will answer.
        data_dir: Its folder; if None, a temporary one.
        prepare: Makes its files in the folder and says by which command it is started.

    Raises:
        DevFolderTaken: Another server runs on ``data_dir``; nothing was started.

    Attributes:
        port: Where it answers.
        pid: Of its process.
        data_dir: The folder of its data, its configuration and its log.
        log: The file with everything that the process printed.
    """

    def __init__(self, kind: Kind, port: int, data_dir: Path | None, prepare: Callable[[Path], list[str]]) -> None:
        self.port = port
        self._kind = kind
        self._temporary = data_dir is None
        prefix = f"rivermouth-{kind.command}-"
        self.data_dir = Path(tempfile.mkdtemp(prefix=prefix)) if data_dir is None else data_dir.absolute()
        self.log = self.data_dir / f"{kind.command}.log"
        try:
            with _claimed(self.data_dir, kind) as claim:
                self._process = _Process.start(prepare(self.data_dir), self.log, self.data_dir, claim)
        except BaseException:
            if self._temporary:
                shutil.rmtree(self.data_dir, ignore_errors=True)
            raise
        self.pid = self._process.server.pid
        atexit.register(self.stop)

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process.server.poll() is None

    def check(self) -> None:
        """Checks that the process still runs.

        Raises:
            DevServerFailed: It ended by itself.
        """
        code = self._process.server.poll()
        if code is not None:
            raise self._failed(f"ended by itself with exit code {code}")

    def stop(self, timeout_s: float = 20) -> None:
        """End the server: asked first, killed if it does not end within ``timeout_s``.

        Guarantees:
            Afterwards the process is gone, and so is a temporary folder. Calling it again does nothing.
        """
        server = self._process.server
        if server.poll() is None:
            self.resume()  # a paused one hears nothing
            server.terminate()
            try:
                server.wait(timeout_s)
            except subprocess.TimeoutExpired:
                server.kill()
        self._clean_up()

    def kill(self) -> None:
        """End the server at once, as a power cut would.

        Guarantees:
            As ``stop``; what the server had not yet written to its files is lost.
        """
        self._process.server.kill()
        self._clean_up()

    def pause(self) -> None:
        """Freeze the server: connections stay open, nothing answers, until ``resume``."""
        self._process.server.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused server go on; does nothing to a running one."""
        self._process.server.send_signal(signal.SIGCONT)

    def wait_until(self, answers: Callable[[], bool], timeout_s: float) -> None:
        """Comes back when the port listens and ``answers`` says yes.

        Raises:
            DevServerFailed: The process ended, or did not answer in time; it is killed then.
        """
        deadline = time.monotonic() + timeout_s
        try:
            # A client that asks before would wait between its attempts, and talk about each.
            while not (_listens(self.port) and answers()):
                self._check_alive(deadline, timeout_s)
                time.sleep(_POLL_S)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _check_alive(self, deadline: float, timeout_s: float) -> None:
        code = self._process.server.poll()
        if code is not None:
            raise self._failed(f"ended with exit code {code}")
        if time.monotonic() > deadline:
            raise self._failed(f"did not answer within {timeout_s:g} s")

    def _clean_up(self) -> None:
        atexit.unregister(self.stop)
        self._process.end()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _failed(self, detail: str) -> DevServerFailed:
        return failed(self._kind, detail, self.log, kept=not self._temporary)


def failed(kind: Kind, detail: str, log: Path, *, kept: bool) -> DevServerFailed:
    """The error for a server that does not run, with the last lines of its log, which may be ``kept``."""
    fix = f"less {log}" if kept else f"rivermouth dev {kind.command} --data-dir FOLDER, where its log is kept"
    return DevServerFailed(server=kind.server, detail=detail, log=log, tail=_tail(log), fix=fix)


def require_free(port: int, kind: Kind) -> int:
    """The port itself, if nobody listens on it.

    Raises:
        DevPortTaken: Somebody does.
    """
    try:
        # create_server sets SO_REUSEADDR: connections of an earlier server that linger are no obstacle.
        socket.create_server((HOST, port)).close()
    except OSError as error:
        free = free_port()
        raise DevPortTaken(port=port, server=kind.server, command=kind.command, free_port=free) from error
    return port


class _Process:
    """The server and the shell that ends it when this process is gone."""

    def __init__(self, server: subprocess.Popen[bytes], watchdog: subprocess.Popen[bytes], pipe: int) -> None:
        self.server = server
        self._watchdog = watchdog
        self._pipe = pipe

    @classmethod
    def start(cls, command: list[str], log: Path, folder: Path, claim: int) -> _Process:
        read_end, pipe = os.pipe()
        try:
            watchdog = _detached(["/bin/sh", "-c", _WATCHDOG], stdin=read_end, output=subprocess.DEVNULL)
            with log.open("ab") as output:
                server = _detached(command, stdin=subprocess.DEVNULL, output=output, folder=folder, keeps=[claim])
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(read_end)
        os.write(pipe, b"%d\n" % server.pid)
        return cls(server, watchdog, pipe)

    def end(self) -> None:
        self.server.wait()
        if self._watchdog.returncode is not None:
            return
        if self._watchdog.poll() is None:
            # The server's process id is free for others from now on: nothing may be killed by that number.
            os.write(self._pipe, b"done\n")
        os.close(self._pipe)
        self._watchdog.wait()


def _detached(
    command: list[str], *, stdin: int, output: int | IO[bytes], folder: Path | None = None, keeps: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C goes to us alone, and we stop the server when we are ready.
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        pass_fds=keeps,
        cwd=folder,
    )


@contextmanager
def _claimed(folder: Path, kind: Kind) -> Iterator[int]:
    """The folder's lock as an open file: it is held as long as a process has that open, so by the server to its end.

    A server's own lock comes too late: before it, a second one has read and written the first one's files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DevFolderTaken(folder=folder, server=kind.server, command=kind.command) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield file.fileno()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def _tail(log: Path) -> str:
    """The last lines that say something; frames of stacks only fill the room of their cause."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        telling = (line for line in lines if not line.startswith("\tat "))
        return "".join(deque(telling, maxlen=_TAIL_LINES)).rstrip()
