"""CPU time and memory of a process and everything that it started, read from /proc."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def tree(pid: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            fields = _stat(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        found.append(current)
        todo.extend(children.get(current, ()))
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds of the tree so far, user and system, with children that have ended."""
    total = 0
    for each in tree(pid):
        fields = _stat(each)
        if fields:
            total += sum(int(fields[i]) for i in (11, 12, 13, 14))
    return total / _TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of the tree now."""
    total = 0
    for each in tree(pid):
        try:
            total += int(Path(f"/proc/{each}/statm").read_text().split()[1]) * _PAGE
        except (OSError, IndexError):
            continue
    return total


class Peak:
    """The highest resident memory of a tree while the block runs, looked at four times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.bytes = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            self.bytes = max(self.bytes, rss_bytes(self._pid))
            if self._done.wait(0.25):
                return


def _stat(pid: int) -> list[str] | None:
    """The fields after the command's name; the first is the state, the second the parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
