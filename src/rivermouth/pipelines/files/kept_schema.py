"""The schema of a source that is kept from one start to the next."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.ports.lake.lake_files import files_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from rivermouth.pipelines.files.listing import File

_FOLDER: Final = "_schemas"
_SCHEMA: Final = "schema.json"
_EXISTING: Final = "existing.txt"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a source's files from its last start.

    Attributes:
        shape: Their fields, with inferred types; empty before the first start.
        seen_ms: Files that were last changed before that time, in milliseconds since 1970, were looked at.
        newest: Addresses of the files of that very time that were looked at.
        partitions: The columns that folders make.
    """

    shape: T.StructType = field(default_factory=T.StructType)
    seen_ms: int = 0
    newest: tuple[str, ...] = ()
    partitions: T.StructType = field(default_factory=T.StructType)

    def has_seen(self, file: File) -> bool:
        """Whether a file was looked at."""
        return file.changed_ms < self.seen_ms or file.path in self.newest

    def having_seen(self, files: Sequence[File], shape: T.StructType) -> Kept:
        """What is known after a look at files, oldest first."""
        if not files or files[-1].changed_ms < self.seen_ms:
            return replace(self, shape=shape)
        seen_ms = files[-1].changed_ms
        newest = tuple(each.path for each in files if each.changed_ms == seen_ms)
        return replace(self, shape=shape, seen_ms=seen_ms, newest=newest)


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """The place of a kept schema.

    Attributes:
        spark: Has the access to it.
        folder: Below which it is.
        writes: Whether it is changed; else ``write`` and ``keep_existing`` do nothing.
    """

    spark: SparkSession
    folder: str
    writes: bool = True

    def read(self) -> Kept | None:
        """What is kept; None before the first start."""
        text = files_for(self.folder, self.spark).read(self._path(_SCHEMA))
        if text is None:
            return None
        told = json.loads(text)
        shape, made = (T.StructType.fromJson(told[name]) for name in ("shape", "partitions"))
        return Kept(shape, told["seen_ms"], tuple(told["newest"]), made)

    def write(self, kept: Kept) -> None:
        """Keeps it."""
        if not self.writes:
            return
        told: dict[str, Any] = {"shape": kept.shape.jsonValue(), "partitions": kept.partitions.jsonValue()}
        told |= {"seen_ms": kept.seen_ms, "newest": list(kept.newest)}
        files_for(self.folder, self.spark).write(self._path(_SCHEMA), json.dumps(told, indent=1) + "\n")

    def existing(self) -> list[str] | None:
        """Addresses of the files that were there at the first start; None before it."""
        text = files_for(self.folder, self.spark).read(self._path(_EXISTING))
        return None if text is None else text.splitlines()

    def keep_existing(self, paths: Sequence[str]) -> None:
        """Keeps the addresses of the files that are there at the first start."""
        if not self.writes:
            return
        files_for(self.folder, self.spark).write(self._path(_EXISTING), "".join(f"{path}\n" for path in paths))

    def _path(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{_FOLDER}/{name}"


def default_folder(state_folder: str, path: str, kind: str) -> str:
    """The folder for the schema of a source that names none, one for each path and format."""
    digest = hashlib.sha256(f"{kind}\n{path}".encode()).hexdigest()[:12]
    return f"{state_folder.rstrip('/')}/files-{digest}"
