"""Where a path of a pipeline is: those of Databricks by the folders that the settings give for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rivermouth.errors import FilePathUnmapped, FileSourceMissing

_DATABRICKS: Final = re.compile(r"(dbfs:/|/dbfs/|/Volumes/|/mnt/|/FileStore/|/databricks-datasets/)")
_S3: Final = re.compile(r"s3n?://", re.IGNORECASE)


def resolved(path: str, paths: Mapping[str, str], at: str | None = None) -> str:
    """The path that Spark can read.

    Args:
        path: As it is written.
        paths: By prefix of such a path, the folder that is read in its place; the longest prefix wins.
        at: Where it is written.

    Raises:
        FilePathUnmapped: It is a path that only Databricks knows, and ``paths`` does not have it.
    """
    path = path.strip()
    spellings = [path, *([re.sub(r"\Adbfs:/*", "/", path)] if path.startswith("dbfs:") else [])]
    spellings += [f"dbfs:{path}"] if path.startswith("/") else []
    for prefix in sorted(paths, key=len, reverse=True):
        for each in spellings:
            begin = prefix.rstrip("/")
            if each == begin or each.startswith(f"{begin}/"):
                return _s3(paths[prefix].rstrip("/") + each[len(begin) :])
    if (found := _DATABRICKS.match(path)) is not None:
        parts = path[len(found[1]) :].lstrip("/").split("/")
        prefix = found[1] + parts[0] if parts[0] and not re.search(r"[*?\[{]", parts[0]) else found[1].rstrip("/")
        raise FilePathUnmapped(at=at, path=path, prefix=prefix)
    return _s3(path)


def missing(path: str, at: str | None) -> FilePathUnmapped | FileSourceMissing:
    """The error about a path that is not there."""
    try:
        resolved(path, {}, at)
    except FilePathUnmapped as error:
        return error
    return FileSourceMissing(at=at, path=path)


def _s3(path: str) -> str:
    return _S3.sub("s3a://", path, count=1)
