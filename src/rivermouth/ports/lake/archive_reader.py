"""An archive of files as it is: what its manifests list, which files are there, and how many rows they have."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.ports.lake.file_archive import MANIFESTS, PLAN, STAGED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.ports.lake.file_archive import Archive
    from rivermouth.ports.lake.lake_files import LakeFiles

_NO_COLUMN: Final = "__none string"
"""No file has it; rows are counted without their values."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch of an archive.

    Attributes:
        number: Of the batch; that of a flow's first manifest, which lists no files, is 0.
        files: Paths in the archive.
        entry: The text of the ledger entry.
    """

    number: int
    files: tuple[str, ...]
    entry: str


@dataclass(frozen=True, slots=True)
class ArchiveFiles:
    """What one flow has in an archive.

    Attributes:
        manifests: In the order of their numbers.
        there: Paths in the archive of the flow's files that are there.
        decided: Paths of files that get their manifest when the flow is opened again.
    """

    manifests: tuple[Manifest, ...]
    there: frozenset[str]
    decided: frozenset[str]

    @property
    def missing(self) -> list[str]:
        """Files that a manifest lists and that are not there."""
        return sorted(self._listed - self.there)

    @property
    def unlisted(self) -> list[str]:
        """Files that are there and that no manifest lists."""
        return sorted(self.there - self._listed - self.decided)

    @property
    def gaps(self) -> list[int]:
        """Numbers of manifests that are not there though a later one is."""
        numbers = {each.number for each in self.manifests}
        return [each for each in range(max(numbers, default=0)) if each not in numbers]

    @property
    def _listed(self) -> frozenset[str]:
        return frozenset(path for each in self.manifests for path in each.files)


def read_archive(files: LakeFiles, location: str, flow: str) -> ArchiveFiles:
    """What a flow has in an archive. Reads only; the flow may write meanwhile.

    Args:
        files: Of the place of the archive.
        location: The folder of the archive.
        flow: The flow's name, as file names have it.
    """
    # In this order: a file that is there now has its plan or its manifest when these are read.
    there = frozenset(_found(files, location, re.compile(rf"{re.escape(flow)}-\d{{10,}}-\d{{5,}}\..+")))
    plan = files.read(f"{location}/{STAGED}/{flow}/{PLAN}")
    decided = frozenset() if plan is None else frozenset(json.loads(plan)["moves"].values())
    pattern = re.compile(rf"{re.escape(flow)}-\d+\.manifest")
    manifests = []
    for name in files.names(f"{location}/{MANIFESTS}"):
        text = files.read(f"{location}/{MANIFESTS}/{name}") if pattern.fullmatch(name) else None
        if text is not None:
            body = json.loads(text)
            manifests.append(Manifest(body["number"], tuple(body["files"]), body["entry"]))
    return ArchiveFiles(tuple(sorted(manifests, key=lambda each: each.number)), there, decided)


def _found(files: LakeFiles, folder: str, pattern: re.Pattern[str], above: str = "") -> Iterator[str]:
    for name in files.names(folder):
        if pattern.fullmatch(name):
            yield f"{above}{name}"
        elif "=" in name:
            yield from _found(files, f"{folder}/{name}", pattern, f"{above}{name}/")


def rows_by_batch(spark: SparkSession, archive: Archive, paths: Sequence[str]) -> Counter[int]:
    """How many rows these files have, by the number of the manifest that lists them.

    Args:
        spark: A session.
        archive: The archive.
        paths: In the archive.

    Raises:
        PySparkException: A file cannot be read.
    """
    if not paths:
        return Counter()
    # A value of CSV may have line breaks. Partition columns of earlier batches may be others.
    reader = spark.read.format(archive.format).schema(_NO_COLUMN).options(**archive.options)
    found = reader.options(multiLine=archive.format == "csv", recursiveFileLookup=True).load(
        [f"{archive.location}/{each}" for each in paths]
    )
    number = F.regexp_extract("_metadata.file_name", r"-(\d+)-\d+\.[^-]*$", 1).cast("bigint").alias("number")
    counted = found.select(number).groupBy("number").agg(F.count(F.lit(1)).alias("rows")).collect()
    return Counter({row["number"]: row["rows"] for row in counted})
