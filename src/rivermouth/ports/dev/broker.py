"""A Kafka broker for development and tests: one node, one JVM of its own, only on 127.0.0.1."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from rivermouth.ports import java
from rivermouth.ports.dev import broker_security
from rivermouth.ports.dev.dev_server import DevServer, Kind, failed, require_free
from rivermouth.ports.dev.local_ports import HOST, free_port, free_ports, ports_behind
from rivermouth.ports.spark import jars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rivermouth.ports.dev.broker_security import Listener

KIND: Final = Kind("Kafka broker", "kafka")
JVM_OPTIONS: Final = "KAFKA_OPTS"
"""Kafka's own variable for options of its JVMs."""
LOG: Final = f"{KIND.command}.log"

_LOGGING: Final = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n%throwable
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True, slots=True)
class ReadyCheck:
    """How a broker that was started is asked whether it answers.

    Attributes:
        client: Client options, where the broker's properties demand some.
        timeout_s: How long the start may take.
    """

    client: Mapping[str, str] | None = None
    timeout_s: float = 60


DEFAULT_CHECK: Final = ReadyCheck()


class Broker(DevServer):
    """A running development broker; made by ``Broker.start``, stopped by ``stop`` or ``with``.

    Attributes:
        bootstrap_servers: What clients want to know.
        listeners: The ways in that ask who comes; none unless it is ``secure``.
    """

    bootstrap_servers: str
    listeners: tuple[Listener, ...] = ()

    @classmethod
    def start(
        cls,
        port: int | None = None,
        data_dir: Path | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        secure: bool = False,
        heap: str = "1g",
        ready: ReadyCheck = DEFAULT_CHECK,
    ) -> Broker:
        """Start a broker and wait until it answers.

        Its JVM has the options of the variable ``KAFKA_OPTS``, if there is one, behind ours.

        Args:
            port: Of the listener; a free one if None.
            data_dir: Keeps the topics beyond this broker's life; if None, a temporary folder.
            properties: Lines for ``server.properties`` that win over ours.
            secure: Also opens ``listeners`` that ask for a password or a certificate, at the ports behind ``port``
                where these are free.
            heap: The JVM's largest heap.
            ready: How it is asked whether it answers.

        Raises:
            DevPortTaken: Something listens on ``port``; no JVM was started.
            DevFolderTaken: Another broker runs on ``data_dir``.
            DevServerFailed: It ended, or did not answer in time; no JVM is left behind.
            CryptographyMissing: It shall be ``secure``, and the library for certificates is not installed.
            JavaNotFound: No usable Java on this machine.
            JarsMissing: The broker's jars are neither cached nor to be had.

        Guarantees:
            A ``data_dir`` is formatted once; started again on it, the broker has its topics and records,
            whatever the port. The JVM does not hear Ctrl-C in the terminal, and it ends with this process,
            also when that is killed. A temporary folder is gone after ``stop``.
        """
        chosen = free_port() if port is None else require_free(port, KIND)

        secured_ports = ports_behind(chosen, broker_security.PORTS) if secure else []
        free = free_ports(1 + len(secured_ports), besides=chosen)
        controller = next(each for each in free if each not in secured_ports)

        def prepare(folder: Path) -> list[str]:
            known = _properties(folder, chosen, controller)
            known = {**_secured(known, folder, secured_ports), **(properties or {})}
            _configure(folder, known, kept=data_dir is not None)
            return _command(heap, folder)

        broker = cls(KIND, chosen, data_dir, prepare)
        broker.bootstrap_servers = f"{HOST}:{chosen}"
        client_config: dict[str, str | int] = {
            "bootstrap.servers": broker.bootstrap_servers,
            **(ready.client or {}),
            "log_level": 0,
        }
        broker.wait_until(lambda: _answers(client_config), ready.timeout_s)
        if secure:
            broker._open_listeners(secured_ports, client_config)
        return broker

    def _open_listeners(self, ports: Sequence[int], client_config: Mapping[str, str | int]) -> None:
        """Makes a user for the listeners at these ports; ends the broker where that fails."""
        self.listeners = broker_security.listeners(self.data_dir, ports)
        try:
            broker_security.add_user(client_config)
        except BaseException:
            self.kill()
            raise


def _command(heap: str, folder: Path, *arguments: str, main: str = "kafka.Kafka") -> list[str]:
    path = os.pathsep.join(str(jar) for jar in jars.classpath("broker"))
    logging = folder / "log4j2.properties"
    return [
        str(java.find().executable),
        f"-Xmx{heap}",
        *java.collector("-XX:+UseSerialGC", JVM_OPTIONS),
        *os.environ.get(JVM_OPTIONS, "").split(),
        f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "-cp",
        path,
        main,
        *arguments,
        str(folder / "server.properties"),
    ]


def _configure(folder: Path, properties: Mapping[str, str], *, kept: bool) -> None:
    lines = "".join(f"{key}={value}\n" for key, value in properties.items())
    (folder / "server.properties").write_text(lines, encoding="utf-8")
    (folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    if (folder / "records" / "meta.properties").is_file():
        return
    cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
    command = _command("256m", folder, "format", f"--cluster-id={cluster}", "--config", main="kafka.tools.StorageTool")
    with (folder / LOG).open("ab") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise failed(KIND, "could not format its folder", folder / LOG, kept=kept)


def _secured(known: dict[str, str], folder: Path, ports: Sequence[int]) -> dict[str, str]:
    """The properties with listeners at these ports that ask who comes; as they are where there are none."""
    if not ports:
        return known
    addresses = broker_security.addresses(ports)
    return {
        **known,
        "listeners": known["listeners"] + addresses,
        "advertised.listeners": known["advertised.listeners"] + addresses,
        "listener.security.protocol.map": known["listener.security.protocol.map"] + broker_security.protocols(),
        **broker_security.properties(folder),
    }


def _properties(folder: Path, port: int, controller: int) -> dict[str, str]:
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
        # Kafka deletes by the timestamps of records, after seven days by default, and samples are often older.
        "log.retention.ms": "-1",
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


def _answers(client_config: Mapping[str, str | int]) -> bool:
    try:
        return bool(AdminClient(dict(client_config)).list_topics(timeout=1).brokers)
    except KafkaException:
        return False  # not yet; the caller knows how long to ask
