"""The files of a source that are there now."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import java_session
from rivermouth.errors import FileSourceUnreadable, first_line
from rivermouth.names import folded
from rivermouth.pipelines.files.paths import missing, visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER: Final = re.compile(r"/([^/=]+)=([^/]*)(?=/)")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source.

    Attributes:
        path: Its address, as ``_metadata.file_path`` has it.
        changed_ms: When it was last changed, in milliseconds since 1970.
        bytes: Its size.
    """

    path: str
    changed_ms: int
    bytes: int

    @property
    def location(self) -> str:
        """The address for Spark's readers, which take no escapes."""
        return unquote(self.path)


def files_of(spark: SparkSession, path: str, glob: str | None = None, at: str | None = None) -> list[File]:
    """The files below a path, oldest first.

    Args:
        spark: Has the access to them.
        path: A folder or file, with or without wildcards.
        glob: Pattern of the names of files that count; None for all.
        at: Where the source is written.

    Raises:
        FilePathUnmapped, FileSourceMissing: There is no such folder or file.
        FileSourceUnreadable: The place cannot be listed.
    """
    try:
        text = jvm_classes.found(spark, "internals.files.Listing").of(java_session(spark), visible(path))
    except jvm_classes.JAVA_ERRORS as error:
        raise FileSourceUnreadable(at=at, path=path, detail=first_line(error)) from None
    if text is None:
        raise missing(path, at)
    lines = (line.split("\t", 2) for line in str(text).splitlines())
    found = [File(address, int(changed), int(size)) for changed, size, address in lines]
    pattern = pattern_of(glob)
    found = [each for each in found if has_name(each.path, pattern)]
    return sorted(found, key=lambda each: (each.changed_ms, each.path))


def pattern_of(glob: str | None) -> re.Pattern[str] | None:
    """The names that a pattern of Hadoop's has; None for all."""
    return None if glob is None else re.compile(_as_regex(glob), re.DOTALL)


def has_name(path: str, pattern: re.Pattern[str] | None) -> bool:
    """Whether the file at an address has such a name."""
    return pattern is None or pattern.fullmatch(unquote(path.rsplit("/", 1)[-1])) is not None


def _as_regex(glob: str) -> str:
    r"""Hadoop's patterns of names: ``*``, ``?``, ``[a-z]``, ``[^a]``, ``{a,b}``, and ``\`` before a sign."""
    found, depth, place = "", 0, 0
    while place < len(glob):
        sign = glob[place]
        end = glob.find("]", place + 1) if sign == "[" else -1
        if sign == "\\" and place + 1 < len(glob):
            place += 1
            found += re.escape(glob[place])
        elif sign == "[" and end > 0:
            inside = glob[place + 1 : end]
            found += f"[{'^' + inside[1:] if inside[:1] in {'^', '!'} else inside}]"
            place = end
        elif sign == "}" and depth > 0:
            depth -= 1
            found += ")"
        else:
            depth += sign == "{"
            inside_braces = {",": "|"} if depth > 0 else {}
            found += ({"*": ".*", "?": ".", "{": "(?:"} | inside_braces).get(sign, re.escape(sign))
        place += 1
    return found


def partition_values(path: str, source: str) -> dict[str, str | None]:
    """The columns that the folders ``name=value`` of a file's address make, below the source's own path."""
    own = own_names(source)
    found: dict[str, str | None] = {}
    for escaped, value in _FOLDER.findall(unquote(path)):
        name = _unescaped(escaped)
        if folded(name) not in own:
            found[name] = None if value == _NULL else _unescaped(value)
    return found


def own_names(source: str) -> set[str]:
    """The folded names of columns that folders of the source's own path would make."""
    return {folded(_unescaped(name)) for name, _ in _FOLDER.findall(f"{source.rstrip('/')}/")}


def _unescaped(name: str) -> str:
    """Without the escapes that Hive and Spark write into names of folders."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), name)


def folder_names(files: list[File], source: str) -> list[tuple[str, ...]]:
    """The names that the folders of each file have, in their order."""
    return [tuple(partition_values(each.path, source)) for each in files]


def agreed(names: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The names that the folders of all files have in common, in their order; none where the files differ."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for each in names:
        found.setdefault(tuple(map(folded, each)), each)
    return found.popitem()[1] if len(found) == 1 else ()
