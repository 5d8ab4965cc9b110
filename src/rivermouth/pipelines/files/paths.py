"""Where a path of a pipeline is: those of Databricks by the folders that the settings give for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rivermouth.errors import FilePathUnmapped, FileSourceMissing

_DATABRICKS: Final = re.compile(r"(dbfs:/|/dbfs/|/Volumes/|/mnt/|/FileStore/|/databricks-datasets/)")
_DBFS: Final = re.compile(r"\Adbfs:/*")
_S3: Final = re.compile(r"s3n?://", re.IGNORECASE)
_NO_PATHS: Final[Mapping[str, str]] = MappingProxyType({})


def resolved(path: str, paths: Mapping[str, str] = _NO_PATHS, at: str | None = None) -> str:
    """The path that Spark can read.

    Args:
        path: As it is written.
        paths: By prefix of such a path, the folder that is read in its place; the longest prefix wins.
        at: Where it is written.

    Raises:
        FilePathUnmapped: It is a path that only Databricks knows, and ``paths`` does not have it. A path below a folder
            that this machine has, such as ``/mnt/data``, is one of this machine.
    """
    path = path.strip()
    if (other := _mapped(path, paths)) is not None:
        return _s3(other)
    if (found := _DATABRICKS.match(path)) is not None:
        parts = path[len(found[1]) :].lstrip("/").split("/")
        is_named = bool(parts[0]) and not re.search(r"[*?\[{]", parts[0])
        prefix = found[1] + parts[0] if is_named else found[1].rstrip("/")
        if not (is_named and Path(prefix).is_dir()):
            raise FilePathUnmapped(at=at, path=path, prefix=prefix)
    return _s3(path)


def missing(path: str, at: str | None) -> FilePathUnmapped | FileSourceMissing:
    """The error about a path that does not exist."""
    try:
        resolved(path, at=at)
    except FilePathUnmapped as error:
        return error
    return FileSourceMissing(at=at, path=path)


def _mapped(path: str, paths: Mapping[str, str]) -> str | None:
    plain = _plain(path)
    for prefix in sorted(paths, key=lambda each: -len(_plain(each))):
        begin = _plain(prefix).rstrip("/")
        if plain == begin or plain.startswith(f"{begin}/"):
            return paths[prefix].rstrip("/") + plain[len(begin) :]
    return None


def _plain(path: str) -> str:
    return _DBFS.sub("/", path)


def _s3(path: str) -> str:
    return _S3.sub("s3a://", path, count=1)
