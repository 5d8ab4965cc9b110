"""Buckets that are mounted as folders: paths of this machine that are no disk of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

FUSE: Final = "fuse"
"""Stands among the schemes of a project's places for a folder that is such a mount."""

_MOUNTS: Final = Path("/proc/self/mountinfo")
# So the kernel writes a space, a tab, a newline and a backslash.
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
# Programs that bring a disk of this machine in this way.
_DISKS: Final = frozenset({"fuseblk", "fuse.mergerfs", "fuse.bindfs", "fuse.fuse-overlayfs"})


def bucket_mounted_at(path: Path) -> str | None:
    """What serves the folder at ``path``, where that is a program and no disk: ``fuse.s3fs``; None for a disk.

    s3fs, gcsfuse, blobfuse, rclone, ``/Volumes`` and ``/dbfs`` are such mounts. They know no hard links, a rename
    copies, and nothing keeps two machines apart. Where the system does not tell its mounts (it is not Linux), None.

    Args:
        path: Absolute; it need not be there.
    """
    try:
        lines = _MOUNTS.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    resolved, served, length = path.resolve(), "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = Path(_ESCAPED.sub(lambda octal: chr(int(octal[1], 8)), fields[4]))
        # Of two at one point, the later one hides the earlier one.
        if resolved.is_relative_to(point) and len(point.parts) >= length:
            served, length = after.split(" ")[0], len(point.parts)
    return served if served.startswith(FUSE) and served not in _DISKS else None
