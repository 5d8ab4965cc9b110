"""An archive: a folder of files that a flow adds to, a batch at a time, with a manifest for each batch.

Files of a batch are written into a folder that readers leave out, moved to their places, and then listed in the
manifest of the batch, with the ledger entry. Before the first file is moved, all moves and the entry are written down.
When the archive is opened after a crash, the moves that are missing are made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.ports.lake.archive_reader import MANIFESTS, PLAN, STAGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.ports.lake.lake_files import LakeFiles

_SUFFIX: Final = re.compile(r"[-.]c\d+(\..+)$")


@dataclass(frozen=True, slots=True)
class Archive:
    """What an archive is.

    Attributes:
        location: Its folder.
        format: One of ``FORMATS``.
        options: Of Spark's writer.
        partition_by: Columns whose values become folders, ``column=value``, and are in no file.
    """

    location: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


class FileArchive:
    """What one flow adds to an archive.

    Args:
        files: Of the place of the archive.
        archive: The archive.
        flow: The flow's name, as file names have it.
    """

    def __init__(self, files: LakeFiles, archive: Archive, flow: str) -> None:
        self._files = files
        self._archive = archive
        self._flow = flow
        self._staged = f"{archive.location}/{STAGED}/{flow}"
        self._manifests = f"{archive.location}/{MANIFESTS}"
        self._rows = 0
        self._number: int | None = None

    @property
    def ledger_place(self) -> str:
        """The folder of the manifests, which hold the ledger entries."""
        return self._manifests

    def newest_entry(self) -> str | None:
        """The text of the ledger entry in the newest manifest; None before the first.

        Guarantees:
            A batch that was decided and stopped half-way is complete afterwards.
        """
        self._complete()
        self._number = number = self._newest()
        text = None if number < 0 else self._files.read(self._manifest(number))
        return None if text is None else str(json.loads(text)["entry"])

    def begin(self) -> None:
        """Removes what a batch left that was not decided."""
        self._files.delete(self._staged)
        self._rows = 0

    def send(self, rows: DataFrame) -> int:
        """Writes rows where no reader looks; how many there were.

        Args:
            rows: In the columns of the archive.
        """
        seen = Observation()
        counted = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
        writer = counted.write.format(self._archive.format).options(**self._archive.options)
        # A store may keep folders whose files are all gone.
        writer.mode("overwrite").partitionBy(*self._archive.partition_by).save(self._staged)
        self._rows = int(seen.get["rows"])
        return self._rows

    def commit(self, entry: str) -> None:
        """Brings the files to their places, and writes the manifest of the batch, with the text of its ledger entry.

        Guarantees:
            Stopped half-way: the batch is not there, or it is complete when the archive is opened again.
        """
        number = (self._newest() if self._number is None else self._number) + 1
        staged = sorted(self._found(self._staged)) if self._rows else []
        moves = {each: self._target(each, number, index) for index, each in enumerate(staged)}
        plan = {"number": number, "moves": moves, "entry": entry}
        # From here on the batch is decided.
        self._files.write(f"{self._staged}/{PLAN}", json.dumps(plan))
        self._complete()
        self._number = number

    def abandon(self) -> None:
        """Removes what was written, and nothing of it was seen; of a batch that is decided nothing is removed.

        The next ``newest_entry`` makes the moves of such a batch.
        """
        if PLAN not in self._files.names(self._staged):
            self._files.delete(self._staged)

    def close(self) -> None:
        """Does nothing: no file is open."""

    def _complete(self) -> None:
        text = self._files.read(f"{self._staged}/{PLAN}")
        if text is None:
            return
        plan, left = json.loads(text), set(self._found(self._staged))
        for source, target in plan["moves"].items():
            if source in left:
                self._files.rename(f"{self._staged}/{source}", f"{self._archive.location}/{target}")
        listed = {
            "flow": self._flow,
            "number": plan["number"],
            "format": self._archive.format,
            "files": list(plan["moves"].values()),
            "entry": plan["entry"],
        }
        self._files.write(self._manifest(plan["number"]), json.dumps(listed, indent=1))
        self._files.delete(self._staged)
        self._files.prune(f"{self._archive.location}/{STAGED}")

    def _found(self, folder: str, above: str = "") -> Iterator[str]:
        """The files that Spark has written below a folder, as paths in it."""
        for name in self._files.names(folder):
            # A column may be called part-no; the names of Spark's files have no "=".
            if "=" in name:
                yield from self._found(f"{folder}/{name}", f"{above}{name}/")
            elif name.startswith("part-"):
                yield f"{above}{name}"

    def _target(self, staged: str, number: int, index: int) -> str:
        folder, _, name = staged.rpartition("/")
        found = _SUFFIX.search(name)
        suffix = found[1] if found else f".{self._archive.format}"
        return f"{folder}/" * bool(folder) + f"{self._flow}-{number:010}-{index:05}{suffix}"

    def _manifest(self, number: int) -> str:
        return f"{self._manifests}/{self._flow}-{number:010}.manifest"

    def _newest(self) -> int:
        """The number of the newest manifest; -1 before the first."""
        pattern = re.compile(rf"{re.escape(self._flow)}-(\d+)\.manifest")
        matches = (pattern.fullmatch(name) for name in self._files.names(self._manifests))
        return max((int(found[1]) for found in matches if found), default=-1)


def listed_files(files: LakeFiles, location: str) -> Sequence[str]:
    """The files of an archive that are in a manifest, as paths in it."""
    found: list[str] = []
    for name in files.names(f"{location}/{MANIFESTS}"):
        text = files.read(f"{location}/{MANIFESTS}/{name}")
        found += json.loads(text)["files"] if text else []
    return found
