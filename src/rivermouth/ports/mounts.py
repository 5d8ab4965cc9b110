"""Folders of this machine that are no disk of it: a program serves them, such as a bucket that is mounted."""

from __future__ import annotations

import re
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
    ``/dbfs`` on Databricks. Where the system does not tell its mounts (it is not Linux), None.

    Args:
        path: Absolute; it need not be there.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", errors="surrogateescape").split("\n")
        resolved = path.resolve()
    except (OSError, RuntimeError):  # RuntimeError: links in a circle
        return None
    served = ""
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        # In the order in which they were mounted: what comes later lies over what was there.
        if len(fields) >= _FIELDS and resolved.is_relative_to(_unescaped(fields[_FIELDS - 1])):
            served = after.split(" ")[0]
    return served if served.startswith("fuse") and served not in _DISKS else None


def _unescaped(point: str) -> str:
    return _ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), point)
