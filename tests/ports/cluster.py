"""A cluster of Spark's own kind on this machine: a master and two workers, each a JVM of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from rivermouth.ports import java
from rivermouth.ports.dev.local_ports import HOST, free_port

PATIENCE_S = 60.0
_LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %m%n%throwable
"""


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        master: Its URL.
        folder: Where its processes work and log.
        workers: Its workers that were not given up.
    """

    master: str
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def add_worker(self) -> None:
        """Starts another one; it is known to the master afterwards."""
        number = next(self._numbers)
        one = _start(self.folder, "worker.Worker", "--cores", "1", "--memory", "1g", self.master, number=number)
        self.workers.append(one)
        _wait_for(self.folder / f"Worker-{number}.log", "Successfully registered with master", one)

    def kill_worker(self, worker: subprocess.Popen[bytes]) -> None:
        """Kills it, as the end of its machine would; its executor notices and ends too."""
        self.workers.remove(worker)
        worker.kill()
        worker.wait()

    @staticmethod
    def executors(worker: subprocess.Popen[bytes]) -> list[int]:
        """The process ids of its executors."""
        return [int(pid) for pid in Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()]


@contextlib.contextmanager
def running(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """A cluster whose processes have ended when the block has."""
    port = free_port()
    cluster = Cluster(f"spark://{HOST}:{port}", folder)
    master = _start(folder, "master.Master", "--port", str(port))
    try:
        _wait_for(folder / "Master-0.log", "I have been elected leader", master)
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        there = [*cluster.workers, master]
        for process in there:
            process.terminate()  # a worker ends its executors then
        for process in there:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(folder: Path, main: str, *arguments: str, number: int = 0) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    name = f"{main.rpartition('.')[2]}-{number}"
    work = ["--work-dir", str(folder / name)] if "Worker" in main else []
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING)
    environ = {
        # Workers shall find no more than any machine has.
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.find().home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={logging.as_uri()}"
        ),
    }
    command = [str(home / "bin/spark-class"), f"org.apache.spark.deploy.{main}", "--host", HOST, "--webui-port", "0"]
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*command, *work, *arguments], env=environ, stdout=log, stderr=log, cwd=folder)


def _wait_for(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while text not in log.read_text():
        assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.05)
