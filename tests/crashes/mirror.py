"""A copy on this machine of a lake on S3, for those who read files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem, FileType


class Mirror:
    """The copy of ``lake``, an ``s3a://`` URI, in the folder ``copy``; ``connect`` gives a client of its store."""

    def __init__(self, lake: str, copy: Path, connect: Callable[[], FileSystem]) -> None:
        self._lake = lake.partition("://")[2]
        self._copy = copy
        self._connect = connect

    def fetch(self) -> None:
        """Afterwards the copy is as new as the lake was at the beginning of this call."""
        store = self._connect()
        there = store.get_file_info(FileSelector(self._lake, recursive=True, allow_not_found=True))
        paths = [each.path for each in there if each.type == FileType.File]
        wanted = {path: self._copy / path[len(self._lake) + 1 :] for path in paths}
        for old in {path for path in self._copy.rglob("*") if path.is_file()} - set(wanted.values()):
            old.unlink()
        for path, here in wanted.items():
            if path.endswith(".parquet") and here.exists():
                continue  # no name of a data file is used twice
            here.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError), store.open_input_stream(path) as source:
                here.write_bytes(source.read())

    def forget(self) -> None:
        """Deletes the copy, and the bucket."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._connect().delete_dir(self._lake.partition("/")[0])
