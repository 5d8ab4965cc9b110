"""Processes that die at a given point, and scenes for them to die in."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crashes.scene import Scene

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0


class Child:
    """A process of ``tests.crashes.child``; its Spark starts while it waits for its job."""

    def __init__(self, folder: Path) -> None:
        self.events: list[str] = []
        self.error: str | None = None
        self.jvm: int | None = None
        self._holder: int | None = None
        self._log = (folder / f"child-{time.time_ns()}.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crashes.child"],
            cwd=ROOT,
            env={**os.environ, "CHILD_FOLDER": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def run(self, scene: Scene, **job) -> int:
        """Hands the child its job and waits for its end; the exit code, negative after a signal."""
        try:
            self._process.stdin.write(json.dumps({"scene": scene.to_json(), **job}) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                self._hear(line)
            return self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()

    def _hear(self, line: str) -> None:
        if not line.startswith("{"):
            return
        said = json.loads(line)
        self.jvm = said.get("jvm", self.jvm)
        self._holder = said.get("holder", self._holder)
        self.error = said.get("error", self.error)
        if "event" in said:
            self.events.append(said["event"])

    def resume_jvm(self) -> None:
        """Lets a JVM go on that was frozen."""
        os.kill(self.jvm, signal.SIGCONT)

    def jvm_is_alive(self) -> bool:
        try:
            return Path(f"/proc/{self.jvm}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
        except FileNotFoundError:
            return False

    def bury(self) -> None:
        """Ends what the child left behind."""
        for pid in (self.jvm, self._holder):
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()
        self._log.close()

    def said(self) -> str:
        """What it wrote to its standard error, for a failing test."""
        self._log.flush()
        return Path(self._log.name).read_text()[-4000:]


class Nursery:
    """Keeps one child ahead, so that its Spark starts while the test before is being audited."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next: Child | None = None
        self._used: list[Child] = []

    def run(self, scene: Scene, **job) -> Child:
        """A child that has done its job, or died of it."""
        child = self._next or Child(self._folder)
        self._next = None
        self._used.append(child)
        child.code = child.run(scene, **job)
        return child

    def start_next(self) -> None:
        """Starts the next child already."""
        if self._next is None:
            self._next = Child(self._folder)

    def bury(self) -> None:
        """Ends all that the used children left behind."""
        for child in self._used:
            child.bury()
        self._used.clear()

    def close(self) -> None:
        self.bury()
        if self._next is not None:
            for line in self._next._process.stdout:
                self._next._hear(line)
                break
            self._next.bury()


@pytest.fixture(scope="session")
def nursery(tmp_path_factory):
    nursery = Nursery(tmp_path_factory.mktemp("children"))
    yield nursery
    nursery.close()


@pytest.fixture
def children(nursery):
    """Runs jobs in processes of their own; see ``Nursery``."""
    yield nursery
    nursery.bury()


@pytest.fixture
def make_scene(broker, tmp_path):
    """Makes scenes: ``make_scene(partitions=2, trigger={...})``."""
    count = iter(range(100))

    def make(partitions=2, **options):
        return Scene.make(broker, tmp_path / f"scene-{next(count)}", partitions=partitions, **options)

    return make
