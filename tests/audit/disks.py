"""Small disks of their own for places that shall be full: ``tmpfs``, where this process may mount."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_SIZE = "400m"
_BLOCK_BYTES = 1 << 20


class Disk:
    """What lies below ``place`` has so much room and no more; ``close`` takes the place away."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", place], check=True, capture_output=True)
        self._place = place

    @contextlib.contextmanager
    def full(self, left_bytes: int) -> Iterator[None]:
        """Within the block there is room for about ``left_bytes`` more."""
        ballast = self._place / ".ballast"
        try:
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(_BLOCK_BYTES))
            with ballast.open("r+b") as file:
                file.truncate(max(0, ballast.stat().st_size - left_bytes))
            yield
        finally:
            ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Takes it away, if it is still there."""
        if not self._place.is_mount():
            return
        # Lazily: who still has a file open there keeps it.
        subprocess.run(["umount", "--lazy", self._place], check=True, capture_output=True)


@functools.cache
def can_be_made() -> bool:
    """Whether this process may mount."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            disk = Disk(Path(folder) / "disk")
        except (OSError, subprocess.CalledProcessError):
            return False
        disk.close()
    return True
