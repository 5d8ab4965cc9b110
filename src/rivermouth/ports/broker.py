"""A Kafka broker for development and tests: one node, one JVM of its own, only on 127.0.0.1."""

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
import uuid
from base64 import urlsafe_b64encode
from collections import deque
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rivermouth.errors import BrokerFailed, BrokerFolderTaken, BrokerPortTaken
from rivermouth.ports import jars, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

HOST: Final = "127.0.0.1"

_TAIL_LINES: Final = 20
_POLL_S: Final = 0.05
# So say file systems that know no locks.
_NO_LOCKS: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

# Reads the JVM's pid, then waits for the end of its input, which comes when this process is gone,
# however it went. Works where Linux' PDEATHSIG does not: from threads, and on other systems.
_WATCHDOG: Final = "read -r pid || exit 0; read -r done && exit 0; kill -KILL $pid"

_LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n%throwable
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class Broker:
    """A running development broker; made by ``Broker.start``, stopped by ``stop`` or ``with``.

    Attributes:
        bootstrap_servers: What clients want to know.
        port: The port in it.
        pid: Of the broker's JVM.
        data_dir: The folder of its records, its configuration and its log.
        log: The file with everything that the JVM said.
    """

    def __init__(
        self, *, port: int, data_dir: Path, temporary: bool, process: _Process, client: Mapping[str, str]
    ) -> None:
        self.port = port
        self.bootstrap_servers = f"{HOST}:{port}"
        self.pid = process.jvm.pid
        self.data_dir = data_dir
        self.log = data_dir / "broker.log"
        self._temporary = temporary
        self._process = process
        self._client = {"bootstrap.servers": self.bootstrap_servers, **client}

    @classmethod
    def start(
        cls,
        port: int | None = None,
        data_dir: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        client: Mapping[str, str] | None = None,
        heap: str = "1g",
        timeout_s: float = 60,
    ) -> Broker:
        """Start a broker and wait until it answers.

        Args:
            port: Of the listener; a free one if None.
            data_dir: Keeps the topics beyond this broker's life; if None, a temporary folder.
            properties: Lines for ``server.properties`` that win over ours.
            client: Client options for asking whether it is ready, where ``properties`` demand some.
            heap: The JVM's largest heap.
            timeout_s: How long it may take.

        Raises:
            BrokerPortTaken: Something listens on ``port``; no JVM was started.
            BrokerFolderTaken: Another broker runs on ``data_dir``.
            BrokerFailed: It ended, or did not answer in time; no JVM is left behind.
            JavaNotFound: No usable Java on this machine.
            JarsMissing: The broker's jars are neither cached nor to be had.

        Guarantees:
            A ``data_dir`` is formatted once; started again on it, the broker has its topics and records,
            whatever the port. The JVM does not hear Ctrl-C in the terminal, and it ends with this process,
            also when that is killed. A temporary folder is gone after ``stop``.
        """
        chosen = _free_port() if port is None else require_free(port)
        temporary = data_dir is None
        folder = Path(tempfile.mkdtemp(prefix="rivermouth-broker-")) if data_dir is None else data_dir.absolute()
        try:
            with _claimed(folder) as claim:
                _configure(folder, chosen, properties or {})
                process = _Process.start(_command(heap, folder), folder / "broker.log", claim)
        except BaseException:
            if temporary:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        broker = cls(port=chosen, data_dir=folder, temporary=temporary, process=process, client=client or {})
        atexit.register(broker.stop)
        try:
            broker._wait_until_ready(timeout_s)
        except BaseException:
            broker.kill()
            raise
        return broker

    @property
    def running(self) -> bool:
        """Whether the JVM lives."""
        return self._process.jvm.poll() is None

    def check(self) -> None:
        """Nothing, while the JVM lives.

        Raises:
            BrokerFailed: It ended by itself.
        """
        code = self._process.jvm.poll()
        if code is not None:
            raise self._failed(f"ended by itself with exit code {code}")

    def stop(self, timeout_s: float = 20) -> None:
        """End the broker: asked first, killed if it does not end within ``timeout_s``.

        Guarantees:
            Afterwards the JVM is gone, and so is a temporary folder. Calling it again does nothing.
        """
        jvm = self._process.jvm
        if jvm.poll() is None:
            self.resume()  # a paused one hears nothing
            jvm.terminate()
            try:
                jvm.wait(timeout_s)
            except subprocess.TimeoutExpired:
                jvm.kill()
        self._clean_up()

    def kill(self) -> None:
        """End the broker at once, as a power cut would.

        Guarantees:
            As ``stop``; what the broker had not yet written to its files is lost.
        """
        self._process.jvm.kill()
        self._clean_up()

    def pause(self) -> None:
        """Freeze the broker: connections stay open, nothing answers, until ``resume``."""
        self._process.jvm.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on; does nothing to a running one."""
        self._process.jvm.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _clean_up(self) -> None:
        atexit.unregister(self.stop)
        self._process.end()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not _listens(self.port):
            self._check_alive(deadline, timeout_s)
            time.sleep(_POLL_S)
        # Only now: a client made before would wait between its attempts, and talk about each.
        admin = AdminClient({**self._client, "log_level": 0})
        while not _answers(admin):
            self._check_alive(deadline, timeout_s)
            time.sleep(_POLL_S)

    def _check_alive(self, deadline: float, timeout_s: float) -> None:
        code = self._process.jvm.poll()
        if code is not None:
            raise self._failed(f"ended with exit code {code}")
        if time.monotonic() > deadline:
            raise self._failed(f"did not answer within {timeout_s:g} s")

    def _failed(self, detail: str) -> BrokerFailed:
        return BrokerFailed(detail=detail, log=self.log, tail=_tail(self.log))


class _Process:
    """The JVM and the shell that ends it when this process is gone."""

    def __init__(self, jvm: subprocess.Popen[bytes], watchdog: subprocess.Popen[bytes], pipe: int) -> None:
        self.jvm = jvm
        self._watchdog = watchdog
        self._pipe = pipe

    @classmethod
    def start(cls, command: list[str], log: Path, claim: int) -> _Process:
        read_end, pipe = os.pipe()
        try:
            watchdog = _detached(["/bin/sh", "-c", _WATCHDOG], stdin=read_end, output=subprocess.DEVNULL)
            with log.open("ab") as output:
                jvm = _detached(command, stdin=subprocess.DEVNULL, output=output, keeps=[claim])
        except BaseException:
            os.close(pipe)
            raise
        finally:
            os.close(read_end)
        os.write(pipe, b"%d\n" % jvm.pid)
        return cls(jvm, watchdog, pipe)

    def end(self) -> None:
        self.jvm.wait()
        if self._watchdog.returncode is not None:
            return
        if self._watchdog.poll() is None:
            # The JVM's process id is free for others from now on: nothing may be killed by that number.
            os.write(self._pipe, b"done\n")
        os.close(self._pipe)
        self._watchdog.wait()


def _detached(
    command: list[str], *, stdin: int, output: int | IO[bytes], keeps: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C goes to us alone, and we stop the broker when we are ready.
    return subprocess.Popen(
        command, stdin=stdin, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, pass_fds=keeps
    )


@contextmanager
def _claimed(folder: Path) -> Iterator[int]:
    """The folder's lock as an open file: it is held as long as a process has that open, so by the JVM to its end.

    Kafka's own lock comes too late: before it, a second broker has read and written the first one's files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BrokerFolderTaken(folder=folder) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
        yield file.fileno()


def _command(heap: str, folder: Path, *arguments: str, main: str = "kafka.Kafka") -> list[str]:
    path = os.pathsep.join(str(jar) for jar in jars.classpath("broker"))
    logging = folder / "log4j2.properties"
    return [
        str(java.find().executable),
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "-cp",
        path,
        main,
        *arguments,
        str(folder / "server.properties"),
    ]


def _configure(folder: Path, port: int, properties: Mapping[str, str]) -> None:
    lines = "".join(f"{key}={value}\n" for key, value in {**_properties(folder, port), **properties}.items())
    (folder / "server.properties").write_text(lines, encoding="utf-8")
    (folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    if (folder / "records" / "meta.properties").is_file():
        return
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    command = _command("256m", folder, "format", f"--cluster-id={cluster}", "--config", main="kafka.tools.StorageTool")
    with (folder / "broker.log").open("ab") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        log = folder / "broker.log"
        raise BrokerFailed(detail="could not format its folder", log=log, tail=_tail(log))


def _properties(folder: Path, port: int) -> dict[str, str]:
    controller = _free_port(besides=port)
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "records"),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # Its default is an eighth of the heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }


def _answers(admin: AdminClient) -> bool:
    try:
        return bool(admin.list_topics(timeout=1).brokers)
    except KafkaException:
        return False  # not yet; the caller knows how long to ask


def _free_port(*, besides: int = 0) -> int:
    port = besides
    while port == besides:
        with socket.create_server((HOST, 0)) as server:
            port = int(server.getsockname()[1])
    return port


def require_free(port: int) -> int:
    """The port itself, if nobody listens on it.

    Raises:
        BrokerPortTaken: Somebody does.
    """
    try:
        # create_server sets SO_REUSEADDR: connections of an earlier broker that linger are no obstacle.
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise BrokerPortTaken(port=port, free_port=_free_port()) from error
    return port


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def _tail(log: Path) -> str:
    """The last lines that say something; frames of stacks only fill the room of their cause."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        telling = (line for line in lines if not line.startswith("\tat "))
        return "".join(deque(telling, maxlen=_TAIL_LINES)).rstrip()
