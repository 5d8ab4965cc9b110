"""The format of files whose format is not given, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_BY_SUFFIX: Final = {
    "avro": "avro",
    "csv": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "orc": "orc",
    "parquet": "parquet",
    "text": "text",
    "txt": "text",
    "xml": "xml",
}
_COMPRESSED: Final = ("bz2", "deflate", "gz", "lz4", "snappy", "zst")


def format_of(names: Iterable[str]) -> str | None:
    """The one format that all of these file names have; None where they have none, or several.

    Args:
        names: Names or addresses of files; a suffix of compression may follow the one of the format.
    """
    kinds = {_of_one(name) for name in names}
    return kinds.pop() if len(kinds) == 1 else None


def _of_one(name: str) -> str | None:
    parts = name.rsplit("/", 1)[-1].lower().split(".")[1:]
    while parts and parts[-1] in _COMPRESSED:
        parts.pop()
    return _BY_SUFFIX.get(parts[-1]) if parts else None
