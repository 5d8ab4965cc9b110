"""The parent's side of a contestant: its process, what it cost, and what it left on disk."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow.dataset as ds
from deltalake import DeltaTable

from bench import measure

_READY_S = 180.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One timed run of one contestant.

    Attributes:
        seconds: From the command to the answer, by the contestant's own clock.
        cpu_s: CPU seconds of its process, its JVM and all that they started.
        rss_bytes: Highest resident memory of all of them.
        answer: The other fields of its answer.
    """

    seconds: float
    cpu_s: float
    rss_bytes: int
    answer: dict[str, Any]


class Worker:
    """A process with a session of its own, ready for commands within ``with``."""

    def __init__(self, name: str, session: str, folder: Path, servers: str) -> None:
        self.name = name
        folder.mkdir(parents=True, exist_ok=True)
        # One contestant may have a process in several groups.
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
        self._servers = servers
        self._runs = 0
        self.log = self._folder / "worker.log"
        read_end, write_end = os.pipe()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker", session, str(write_end)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[write_end],
                # A group of its own: a Ctrl-C is ours, and we end the workers.
                start_new_session=True,
                # Spark puts its warehouse and Derby its log into the working directory: not into the checkout.
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
            )
        os.close(write_end)
        self._replies = os.fdopen(read_end)

    def __enter__(self) -> Self:
        try:
            self._answer(_READY_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def start(self, what: str, topic: str, **options: Any) -> Path:
        """Gives the word without waiting, to a contestant or a part of ``small``; the folder that it writes."""
        self._runs += 1
        folder = self._folder / f"run{self._runs}"
        command = {"what": what, "servers": self._servers, "topic": topic, "folder": str(folder), **options}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        return folder

    def cpu_s(self) -> float:
        """CPU seconds of its process, its JVM and all that they started, so far."""
        return measure.cpu_s(self._process.pid)

    def answered(self) -> bool:
        """Whether the answer to the last command is there."""
        return bool(select.select([self._replies], [], [], 0)[0])

    def finish(self, timeout_s: float = 3600.0) -> dict[str, Any]:
        """The answer to the last command."""
        return self._answer(timeout_s)

    def run(self, what: str, topic: str, **options: Any) -> tuple[Measured, Path]:
        """One timed run and the folder that it wrote."""
        before = self.cpu_s()
        with measure.Peak(self._process.pid) as peak:
            folder = self.start(what, topic, **options)
            answer = self.finish()
        cpu_s = self.cpu_s() - before
        return Measured(answer.pop("seconds"), cpu_s, peak.bytes, answer), folder

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        ready, _, _ = select.select([self._replies], [], [], timeout_s)
        line = self._replies.readline() if ready else ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": "it ended" if ready else "no answer"}
        if "error" in answer:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-40:])
            message = f"{self.name}: {answer['error']}\n{tail}"
            raise RuntimeError(message)
        return answer

    def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            for pid in reversed(measure.tree(self._process.pid)):
                os.kill(pid, signal.SIGKILL)
            self._process.wait()
        self._replies.close()


def rows_in(table: Path) -> int:
    """Rows of a table, as a reader without Spark sees them: Delta through delta-rs, Parquet through Arrow."""
    if not table.exists():
        return 0
    if not (table / "_delta_log").exists():
        return int(ds.dataset(table, format="parquet").count_rows())
    files = DeltaTable(table).file_uris()
    return int(ds.dataset(files, format="parquet").count_rows()) if files else 0


def remove(folder: Path) -> None:
    """Takes a run's folder away, so that the disk holds one at a time."""
    shutil.rmtree(folder, ignore_errors=True)
    time.sleep(0.2)
