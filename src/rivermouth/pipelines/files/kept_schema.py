"""The schema of a source that is kept from one start to the next."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.ports.lake.lake_files import files_for

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import SparkSession

    from rivermouth.pipelines.files.listing import File

_FOLDER: Final = "_schemas"
_SCHEMA: Final = "schema.json"
_EXISTING: Final = "existing.txt"
_OF_OTHERS: Final = -1


@dataclass(frozen=True, slots=True)
class FileSet:
    """The files that a schema is of.

    Attributes:
        path: Where Spark reads.
        format: Their format.
        glob: Pattern of their names; None for all.
        row: The element of XML that is a row.
    """

    path: str
    format: str
    glob: str | None = None
    row: str | None = None

    def __str__(self) -> str:
        more = "" if self.glob is None else f" with names {self.glob}"
        more += "" if self.row is None else f" with rows {self.row}"
        return f"{self.format} files of {self.path.rstrip('/')}{more}"


@dataclass(frozen=True, slots=True)
class Kept:
    """What is known of a source's files from its last start.

    Attributes:
        shape: Their fields, with inferred types; empty before the first start.
        seen_ms: Files that were last changed before that time, in milliseconds since 1970, were looked at.
        newest: Addresses of the files of that very time that were looked at.
        partitions: The columns that folders make.
        files: Which files it is of; empty where an older version of rivermouth kept it.
        typed: Whether types of CSV were inferred; None where an older version of rivermouth kept it.
    """

    shape: T.StructType = field(default_factory=T.StructType)
    seen_ms: int = 0
    newest: tuple[str, ...] = ()
    partitions: T.StructType = field(default_factory=T.StructType)
    files: str = ""
    typed: bool | None = None

    @property
    def has_looked(self) -> bool:
        """Whether there was a file at one of the starts."""
        return self.seen_ms != 0

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
        files: Which files it is of.
        writes: Whether it is changed; else ``write`` and ``keep_existing`` do nothing.
        earlier: Where older versions of rivermouth kept it, together with those of other sources; None where that is
            this place.
    """

    spark: SparkSession
    folder: str
    files: FileSet
    writes: bool = True
    earlier: KeptSchema | None = None

    def read(self) -> Kept | None:
        """What is kept; None before the first start.

        Of other files the columns and their types count, and all files of this source are looked at again.
        """
        text, mine = self.text(_SCHEMA), True
        if text is None and self.earlier is not None:
            text, mine = self.earlier.text(_SCHEMA), False
        if text is None:
            return None
        told = json.loads(text)
        shape, made = (T.StructType.fromJson(told[name]) for name in ("shape", "partitions"))
        files, typed = told.get("files", ""), told.get("typed")
        if mine and files in ("", str(self.files)):
            return Kept(shape, told["seen_ms"], tuple(told["newest"]), made, files, typed)
        return Kept(shape, _OF_OTHERS, (), made, typed=typed)

    def write(self, kept: Kept) -> None:
        """Keeps it."""
        if not self.writes:
            return
        told: dict[str, Any] = {"shape": kept.shape.jsonValue(), "partitions": kept.partitions.jsonValue()}
        told |= {"seen_ms": kept.seen_ms, "newest": list(kept.newest), "files": kept.files}
        told |= {} if kept.typed is None else {"typed": kept.typed}
        files_for(self.folder, self.spark).write(self._path(_SCHEMA), json.dumps(told, indent=1) + "\n")

    def existing(self) -> list[str] | None:
        """Addresses of the files that were there at the first start; None before it."""
        text = self.text(_EXISTING)
        return None if text is None else text.splitlines()

    def keep_existing(self, paths: Sequence[str]) -> None:
        """Keeps the addresses of the files that are there at the first start."""
        if not self.writes:
            return
        files_for(self.folder, self.spark).write(self._path(_EXISTING), "".join(f"{path}\n" for path in paths))

    def text(self, name: str) -> str | None:
        """What one of its files holds; None where it is not there."""
        return files_for(self.folder, self.spark).read(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self.folder.rstrip('/')}/{_FOLDER}/{name}"


@dataclass(frozen=True, slots=True)
class SchemasOfRun:
    """What the sources of one run know of each other's schemas.

    Attributes:
        named: By folder that a ``schemaLocation`` says, the files of the source that has it.
        anew: Datasets whose sources infer their schemas as at a first start, because the update clears them.
        held: Their schemas, which are kept when the datasets are cleared: of each its dataset and place.
    """

    named: dict[str, FileSet] = field(default_factory=dict)
    anew: set[str] = field(default_factory=set)
    held: dict[str, tuple[str, KeptSchema, Kept]] = field(default_factory=dict)

    def other(self, folder: str, files: FileSet) -> FileSet | None:
        """The files of another source that has the same folder, if there is one."""
        first = self.named.setdefault(folder.rstrip("/"), files)
        return None if str(first) == str(files) else first

    def hold(self, dataset: str, place: KeptSchema, kept: Kept) -> None:
        """Remembers the schema of a source of a dataset that is to be cleared."""
        self.held[place.folder] = (dataset, place, kept)

    def keep(self, datasets: Collection[str]) -> None:
        """Keeps the schemas that are held of datasets: their rows are gone.

        Guarantees:
            Run twice: as once. Stopped half-way: some schemas are the old ones; a full refresh replaces them.
        """
        for folder, (dataset, place, kept) in list(self.held.items()):
            if dataset in datasets:
                place.write(kept)
                del self.held[folder]
        self.anew.difference_update(datasets)


def default_place(spark: SparkSession, state_folder: str, files: FileSet, flow: str, *, writes: bool) -> KeptSchema:
    """The place for the schema of a source that names none.

    Args:
        spark: Has the access to it.
        state_folder: Below which it is.
        files: Those of the source.
        flow: The flow that reads them, if the dataset can have others; else empty.
        writes: Whether it is changed.
    """
    # Older versions of rivermouth had one place for each path and format of a dataset.
    earlier = KeptSchema(spark, _folder(state_folder, files.format, files.path), files, writes)
    more = [f"{name} {value}" for name, value in (("glob", files.glob), ("row", files.row), ("flow", flow)) if value]
    if not more:
        return earlier
    own = _folder(state_folder, files.format, files.path.rstrip("/"), *more)
    return KeptSchema(spark, own, files, writes, earlier)


def _folder(state_folder: str, *parts: str) -> str:
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{state_folder.rstrip('/')}/files-{digest}"
