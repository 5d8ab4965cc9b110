"""An archive of files as it is: what its manifests list, and which files are there. Needs no Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rivermouth.ports.lake.lake_files import LakeFiles

FORMATS: Final = ("parquet", "orc", "avro", "csv", "json")
MANIFESTS: Final = "_manifests"
"""The folder of the manifests; readers of folders leave out names that begin so."""
STAGED: Final = "_staged"
PLAN: Final = "plan"
SPARK_LOG: Final = "_spark_metadata"
"""The folder in which Spark's own file sink keeps which files are committed."""
_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch of an archive.

    Attributes:
        number: Of the batch, from 0 on.
        format: Of its files.
        files: Paths in the archive.
        entry: The text of the ledger entry.
    """

    number: int
    format: str
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

    def problems(self) -> Iterator[str]:
        """What of this should not be, a sentence each."""
        for what, paths in {"missing": self.missing, "in no manifest": self.unlisted}.items():
            if paths:
                yield f"archive: files {what}: {len(paths):,}, such as {', '.join(paths[:_EXAMPLES])}"
        if gaps := self.gaps:
            yield f"archive: manifests missing: {len(gaps):,}, such as {', '.join(map(str, gaps[:_EXAMPLES]))}"

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
            manifests.append(Manifest(body["number"], body["format"], tuple(body["files"]), body["entry"]))
    return ArchiveFiles(tuple(sorted(manifests, key=lambda each: each.number)), there, decided)


def _found(files: LakeFiles, folder: str, pattern: re.Pattern[str], above: str = "") -> Iterator[str]:
    for name in files.names(folder):
        if pattern.fullmatch(name):
            yield f"{above}{name}"
        elif "=" in name:
            yield from _found(files, f"{folder}/{name}", pattern, f"{above}{name}/")
