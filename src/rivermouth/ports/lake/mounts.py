"""Folders of this machine that are no disk of it: a program serves them, such as a bucket that is mounted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOUNTS: Final = Path("/proc/self/mountinfo")
_FIELDS: Final = 5
# So the kernel writes a space, a tab, a newline and a backslash.
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
# Programs that bring a disk of this machine in this way.
_DISKS: Final = frozenset({"fuseblk", "fuse.mergerfs", "fuse.bindfs", "fuse.fuse-overlayfs"})


def served_by(path: Path) -> str | None:
    """The program that serves the folder at ``path``, as the kernel calls it: ``fuse.s3fs``; None for a disk.

    s3fs, gcsfuse, blobfuse, rclone and mountpoint-s3 are such programs, and so is what serves ``/Volumes`` and
    ``/dbfs`` on Databricks. Where the system does not list its mounts (it is not Linux), None.

    Args:
        path: Absolute; it need not be there.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", errors="surrogateescape").split("\n")
        resolved = path.resolve()
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return None
    mounts = [each for line in lines if (each := _mount(line)) is not None and resolved.is_relative_to(each.point)]
    # Which mount the kernel comes to on the way: one that lies in another hides what was there before.
    inner = next((each for each in reversed(mounts) if each.point == "/"), None)
    served = ""
    while inner is not None:
        served, outer = inner.served_by, inner.number
        below = [each for each in mounts if each.outer == outer != each.number]
        inner = min(below, key=lambda each: len(each.point), default=None)
    return served if served.startswith("fuse") and served not in _DISKS else None


@dataclass(frozen=True, slots=True)
class _Mount:
    number: str
    outer: str
    point: str
    served_by: str


def _mount(line: str) -> _Mount | None:
    before, _, after = line.partition(" - ")
    fields = before.split(" ")
    if len(fields) < _FIELDS:
        return None
    return _Mount(fields[0], fields[1], _unescaped(fields[_FIELDS - 1]), after.split(" ")[0])


def _unescaped(point: str) -> str:
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), point)
