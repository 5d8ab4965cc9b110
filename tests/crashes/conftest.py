"""Processes that die at a given point, and scenes for them to die in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from tests.crashes.scene import Scene

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


class Child:
    """A process of ``tests.crashes.child``; its Spark starts while it waits for its job.

    Without a ``gateway`` it has a JVM of its own, which it may kill. ``conf`` are further options of Spark.
    """

    def __init__(
        self,
        folder: Path,
        gateway: str | None = None,
        conf: Mapping[str, str] | None = None,
        master: str = "local[2]",
    ) -> None:
        self._owns_jvm = gateway is None
        # Files, not pipes: a JVM that outlives the child would keep a pipe open.
        name = folder / f"child-{time.time_ns()}"
        self._out, self._log = name.with_suffix(".out"), name.with_suffix(".log")
        with self._out.open("w") as out, self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.crashes.child"],
                cwd=ROOT,
                env={**os.environ, "CHILD_FOLDER": str(folder), "CHILD_CONF": json.dumps(dict(conf or {}))}
                | {"CHILD_MASTER": master}
                | ({"CHILD_GATEWAY": gateway} if gateway else {}),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                text=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    @property
    def jvm(self) -> int:
        """The process id of its JVM, once it is ready."""
        return self._said("jvm")[0]

    @property
    def events(self) -> list[str]:
        """Names of the steps and events that it has told."""
        return self._said("event")

    @property
    def error(self) -> str | None:
        """The error with which its flow ended."""
        return self._said("error")[0]

    def begin(self, scene: Scene, **job) -> None:
        """Hands the child its job."""
        self._process.stdin.write(json.dumps({"scene": scene.to_json(), **job}) + "\n")
        self._process.stdin.flush()

    def run(self, scene: Scene, **job) -> int:
        """Hands the child its job and waits for its end; the exit code, negative after a signal."""
        try:
            self.begin(scene, **job)
            return self.wait()
        finally:
            self._process.kill()

    def wait(self) -> int:
        """Waits for its end; the exit code, negative after a signal."""
        return self._process.wait(PATIENCE_S)

    def wait_until(self, done: Callable[[], bool], patience_s: float = 60.0) -> bool:
        """Waits until ``done`` says so or it has ended; whether ``done`` said so."""
        deadline = time.monotonic() + patience_s
        while not done() and self.lives and time.monotonic() < deadline:
            time.sleep(0.05)
        return done()

    def kill(self) -> None:
        """Kills it, whatever it is doing; it is dead afterwards."""
        self._process.kill()
        self._process.wait()

    def wait_until_ready(self) -> str:
        """Where its JVM is to be found, as JSON."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._said("jvm"):
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return json.dumps(next(line for line in self._lines() if "jvm" in line))

    def _lines(self) -> list[dict]:
        # The last line may be cut short while it is being written, or by the death of who wrote it.
        lines = self._out.read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _said(self, name: str) -> list:
        return [line[name] for line in self._lines() if name in line]

    def resume_jvm(self) -> None:
        """Lets a JVM go on that was frozen."""
        os.kill(self.jvm, signal.SIGCONT)

    def wait_until_its_jvm_rests(self) -> None:
        """Returns when the JVM, which must be alive, has had nothing to do for a while."""
        deadline = time.monotonic() + PATIENCE_S
        before, ticks = -100, self._jvm_ticks()
        while ticks - before > 3:
            assert time.monotonic() < deadline, "the JVM does not come to rest"
            time.sleep(2)
            before, ticks = ticks, self._jvm_ticks()

    def _jvm_ticks(self) -> int:
        fields = Path(f"/proc/{self.jvm}/stat").read_text().rpartition(")")[2].split()
        assert fields[0] not in {"Z", "X"}, "the JVM is gone"
        return int(fields[11]) + int(fields[12])

    def cleanup(self) -> None:
        """Ends what the child left behind."""
        for pid in (self._said("jvm") if self._owns_jvm else []) + self._said("holder"):
            self._kill_if_ours(pid)
        self.kill()
        self._process.stdin.close()

    def _kill_if_ours(self, pid: int) -> None:
        # Long gone, its number may be another's by now; ours have our folder in their environment.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if str(self._out.parent).encode() in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)

    def said(self) -> str:
        """What it wrote to its standard error, for a failing test."""
        return self._log.read_text()[-4000:]


class ProcessPool:
    """Brings children up; keeps one ahead, which gets ready while the test before is being audited.

    Most of them share a warm JVM that outlives them all, as the JVM of a killed Python may. Those that kill their
    JVM get one of their own. ``conf`` are further options of Spark, such as those of a lake on S3.
    """

    def __init__(self, folder: Path, conf: Mapping[str, str] | None = None, master: str = "local[2]") -> None:
        self._folder = folder
        self._conf = conf
        self._master = master
        self._warm: Child | None = None
        self._ahead: dict[bool, Child] = {}
        self._used: list[Child] = []

    def run(self, scene: Scene, *, own_jvm: bool, **job) -> Child:
        """A child that has done its job, or died of it."""
        self.get_ready(own_jvm=own_jvm)
        child = self._ahead.pop(own_jvm)
        self._used.append(child)
        child.code = child.run(scene, **job)
        return child

    @contextlib.contextmanager
    def running(self, scene: Scene, *, own_jvm: bool, **job) -> Iterator[Child]:
        """A child at work, killed at the end."""
        self.get_ready(own_jvm=own_jvm)
        child = self._ahead.pop(own_jvm)
        self._used.append(child)
        child.begin(scene, **job)
        yield child
        child.kill()

    def get_ready(self, *, own_jvm: bool) -> None:
        """Starts the next child already."""
        if own_jvm not in self._ahead:
            self._ahead[own_jvm] = self._child(None if own_jvm else self._gateway())

    def _gateway(self) -> str:
        if self._warm is None:
            self._warm = self._child(None)
            self._where = self._warm.wait_until_ready()
        return self._where

    def _child(self, gateway: str | None) -> Child:
        return Child(self._folder, gateway, self._conf, self._master)

    def cleanup(self) -> None:
        """Ends all that the used children left behind."""
        for child in self._used:
            child.cleanup()
        self._used.clear()

    def close(self) -> None:
        self.cleanup()
        for child in [*self._ahead.values(), *([self._warm] if self._warm else [])]:
            child.wait_until_ready()
            child.cleanup()


@pytest.fixture(scope="session")
def processes(tmp_path_factory):
    processes = ProcessPool(tmp_path_factory.mktemp("children"))
    yield processes
    processes.close()


@pytest.fixture
def children(processes):
    """Runs jobs in processes of their own; see ``ProcessPool``."""
    yield processes
    processes.cleanup()


@pytest.fixture(params=["ended", pytest.param("killed", marks=pytest.mark.long)])
def end_at(request, spark):
    """Ends a run at a step or event and returns the names of what it told: ``end_at(scene, "write", nth=2)``.

    An error ends it in this process, which leaves the lake as a kill does; the long run kills processes.
    """
    if request.param == "ended":
        return lambda scene, on, **how: scene.end_at(spark, on, **how)
    children = request.getfixturevalue("children")

    def kill(scene, on, *, nth=1, follow=False):
        child = children.run(scene, own_jvm=False, follow=follow, kill={"on": on, "nth": nth, "who": "python"})
        children.get_ready(own_jvm=False)
        assert child.code == -signal.SIGKILL, child.said()
        return child.events

    return kill


@pytest.fixture
def make_scene(broker, tmp_path):
    """Makes scenes: ``make_scene(partitions=2, trigger={...})``."""
    count = iter(range(100))

    def make(partitions=2, **options):
        return Scene.make(broker, tmp_path / f"scene-{next(count)}", partitions=partitions, **options)

    return make
