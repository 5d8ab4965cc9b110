"""Where a path of a pipeline is: those of Databricks by the folders that the settings give for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rivermouth.errors import FilePathUnmapped, FileSourceMissing

_DATABRICKS: Final = re.compile(r"(dbfs:/|/dbfs/|/Volumes/|/mnt/|/FileStore/|/databricks-datasets/)")
_DBFS: Final = re.compile(r"\Adbfs:/*")
_SCHEME: Final = re.compile(r"(?:[\w+.-]+:/*)?(?:(?<=//)[^/]*)?")
_S3: Final = re.compile(r"s3n?://", re.IGNORECASE)


def resolved(path: str, paths: Mapping[str, str], at: str | None = None) -> str:
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
        raise _unmapped(path, at)
    return _s3(found or path)


def written(path: str, paths: Mapping[str, str], at: str | None = None) -> str:
    """The path that Spark can write to. Its arguments are those of ``resolved``.

    Raises:
        FilePathUnmapped: It is one of Databricks, ``paths`` does not have it, and this machine has no such folder.
    """
    path = path.strip()
    if _mapped(path, paths) is None and not _is_local(path):
        raise _unmapped(path, at, done="written")
    return resolved(path, paths, at)


def visible(path: str) -> str:
    """A path for Spark, whose wildcards at the begin of a name match hidden names: these do not.

    Hidden are names that begin with ``.`` or ``_``, but not folders ``_name=value``. A step that begins without ``*``
    and ``?`` stays as it is.
    """
    scheme = _SCHEME.match(path)
    end = 0 if scheme is None else scheme.end()
    return path[:end] + "/".join(_visible_step(step) for step in _steps(path[end:]))


def _visible_step(step: str) -> str:
    rest = step.lstrip("*?")
    signs = step[: len(step) - len(rest)]
    if not signs or "/" in step:
        return step
    star, more, rest = "*" * ("*" in signs), signs.count("?"), _without_commas(rest)
    least = "?" * (more - 1)
    found = [f"[^._]{least}{star}{rest}"]
    if not more and rest and rest[0] not in "._":
        found.append(rest)
    if "=" in rest:
        found.append(f"_{least}{star}{rest}")
        found += [rest] if not more and rest.startswith("_") else []
    elif star:
        found.append(f"_{least}*=*{rest}")
    return f"{{{','.join(found)}}}" if len(found) > 1 else found[0]


def _without_commas(pattern: str) -> str:
    """A pattern as it is written within braces, where a comma of its own is none between alternatives."""
    found, depth = "", 0
    for sign in pattern:
        depth += (sign in "{[") - (sign in "}]")
        found += "\\," if sign == "," and depth == 0 else sign
    return found


def _steps(path: str) -> list[str]:
    """The steps of a path; a slash in braces is in one of them."""
    found, depth = [""], 0
    for sign in path:
        depth += (sign == "{") - (sign == "}")
        if sign == "/" and depth <= 0:
            found.append("")
        else:
            found[-1] += sign
    return found


def missing(path: str, at: str | None) -> FilePathUnmapped | FileSourceMissing:
    """The error about a path that does not exist. One of Databricks is missing because no setting has its prefix.

    A path below a folder that this machine has, such as ``/mnt/data``, is one of this machine.
    """
    return FileSourceMissing(at=at, path=path) if _is_local(path) else _unmapped(path, at)


def _is_local(path: str) -> bool:
    begin, first = _first_folder(path)
    return not begin or (first != "" and Path(begin + first).exists())


def _unmapped(path: str, at: str | None, done: str = "read") -> FilePathUnmapped:
    begin, first = _first_folder(path)
    return FilePathUnmapped(at=at, path=path, prefix=(begin + first).rstrip("/"), done=done)


def _first_folder(path: str) -> tuple[str, str]:
    """The place that a path of Databricks begins with, and its first folder there if that has no wildcards."""
    found = _DATABRICKS.match(path)
    begin = "" if found is None else found[1]
    first = path[len(begin) :].lstrip("/").split("/")[0]
    return begin, "" if re.search(r"[*?\[{]", first) else first


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or inside of it, with ``dbfs:`` or without."""
    plain, begin = _plain(path).rstrip("/"), _plain(folder).rstrip("/")
    return plain == begin or plain.startswith(f"{begin}/")


def _mapped(path: str, paths: Mapping[str, str]) -> str | None:
    for prefix in sorted(paths, key=lambda each: -len(_plain(each))):
        if is_inside(path, prefix):
            return paths[prefix].rstrip("/") + _plain(path)[len(_plain(prefix).rstrip("/")) :]
    return None


def _plain(path: str) -> str:
    return _DBFS.sub("/", path)


def _s3(path: str) -> str:
    return _S3.sub("s3a://", path, count=1)
