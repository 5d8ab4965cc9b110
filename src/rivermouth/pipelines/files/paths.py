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
    """The path that Spark can look for.

    Args:
        path: As it is written.
        paths: By prefix of a path that only Databricks knows, the folder that is used in its place; the longest prefix
            wins.
        at: Where it is written.

    Raises:
        FilePathUnmapped: It is one of ``dbfs:``, and ``paths`` does not have it.
    """
    path = path.strip()
    found = _mapped(path, paths)
    if found is None and path.startswith("dbfs:"):
        raise FilePathUnmapped(at=at, path=path, prefix=_prefix(path))
    return _s3(found or path)


def missing(path: str, at: str | None) -> FilePathUnmapped | FileSourceMissing:
    """The error about a path that does not exist. One of Databricks is missing because no setting has its prefix.

    A path below a folder that this machine has, such as ``/mnt/data``, is one of this machine.
    """
    if _DATABRICKS.match(path) is None or (_is_named(path) and Path(_prefix(path)).exists()):
        return FileSourceMissing(at=at, path=path)
    return FilePathUnmapped(at=at, path=path, prefix=_prefix(path))


def _is_named(path: str) -> bool:
    """Whether the folder below the place that Databricks has is written without wildcards."""
    return _prefix(path).count("/") > _beginning(path).rstrip("/").count("/")


def _beginning(path: str) -> str:
    found = _DATABRICKS.match(path)
    return "" if found is None else found[1]


def _prefix(path: str) -> str:
    """The prefix of a path of Databricks that a setting can have: the place, and the first folder there."""
    begin = _beginning(path)
    first = path[len(begin) :].lstrip("/").split("/")[0]
    return begin + first if first and not re.search(r"[*?\[{]", first) else begin.rstrip("/")


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
