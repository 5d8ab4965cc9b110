"""Structured Streaming's checkpoint files: which offsets a batch was planned with.

The only place that knows their form. ``offsets/<id>`` holds the END offsets of batch ``<id>``; its start is
the end of the batch before, and for the first batch the source's own initial offsets.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
from rivermouth.errors import CheckpointForeign

if TYPE_CHECKING:
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.ports.lake.lake_files import LakeFiles

_VERSION: Final = "v1"
_OWNER_FILE: Final = "rivermouth.json"
_FOLDERS: Final = ("offsets", "commits", "sources/0")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What lies at a checkpoint's place.

    Attributes:
        state: ``none``; ``usable`` with every planned batch committed or one batch in the air; ``damaged``.
        committed: End offsets of the last batch whose commit file exists; None before the first batch.
        planned: End offsets of the batch after it, if one was planned.
        detail: What is damaged.
        decided: Number of the ledger entry with the last decision before the checkpoint was made; 0 without one.
    """

    state: Literal["none", "usable", "damaged"]
    committed: Offsets | None = None
    planned: Offsets | None = None
    detail: str = ""
    decided: int = 0

    def difference(self, entry: Entry, wanted: Offsets) -> str | None:
        """Why a query with this checkpoint does not go on at the ledger's position; None if it does.

        Args:
            entry: The ledger's newest entry.
            wanted: The offset at which each partition begins that the query would read.
        """
        ends = [offsets for offsets in (self.committed, self.planned) if offsets is not None]
        # Spark's query fails at a partition of its checkpoint that it does not read, and at one that it reads besides
        # them and whose first records are gone.
        if any(_partitions(offsets) != _partitions(wanted) for offsets in ends):
            return "the flow reads other partitions"
        # Since a decision the same offsets may be other records than those that were planned.
        return None if self.decided == entry.decided and wanted in ends else "the ledger has other offsets"


class Checkpoints:
    """The checkpoint of one query at one place."""

    def __init__(self, files: LakeFiles, location: str) -> None:
        self._files = files
        self.location = location.rstrip("/")

    def inspect(self, flow: str, table_id: str | None, *, previously: str | None = None) -> Checkpoint:
        """What lies there, checked file by file; ``table_id`` None where the table's is not known.

        Raises:
            CheckpointForeign: Another flow left its mark there.
        """
        if self._is_empty():
            return Checkpoint("none")
        try:
            owner = json.loads(self._files.read(f"{self.location}/{_OWNER_FILE}") or "null")
        except ValueError:
            return Checkpoint("damaged", detail=f"{_OWNER_FILE} is no JSON")
        if not isinstance(owner, dict):
            return Checkpoint("damaged", detail=f"no {_OWNER_FILE}")
        if owner.get("flow") not in {flow, previously or flow}:
            raise CheckpointForeign(flow=flow, checkpoint=self.location, owner=owner.get("flow"))
        if table_id is not None and owner.get("table_id") != table_id:
            return Checkpoint("damaged", detail="it belongs to a table that was there before")
        metadata = self._metadata()
        if metadata is not None and _query_id(metadata) is None:
            return Checkpoint("damaged", detail="metadata holds no id of a query")
        found = self._inspect_batches()
        # Spark begins no query over batches whose query it does not know.
        if metadata is None and (found.planned or found.committed):
            return Checkpoint("damaged", detail="metadata is missing")
        return replace(found, decided=owner.get("decided", 0))

    def query_id(self) -> str | None:
        """Spark's id of the query; None where there is none to be read."""
        return _query_id(self._metadata() or "")

    def progress(self) -> tuple[Checkpoint, int]:
        """What a query of anybody's has read, and the number of its last batch that is done.

        Raises:
            ValueError: There is no checkpoint, it is damaged, not one of Kafka alone, or has not ended a batch.
        """
        if not self._files.names(self.location):
            msg = "there is no such folder"
            raise ValueError(msg)
        found, done = self._inspect_batches(), self._numbers("commits")
        if found.state == "damaged":
            raise ValueError(found.detail)
        if not done:
            msg = "its query has not ended a batch"
            raise ValueError(msg)
        if len([line for line in self._lines(f"offsets/{done[-1]}", at_least=3) if line]) > 3:  # noqa: PLR2004
            msg = "its query reads more than one source"
            raise ValueError(msg)
        return found, done[-1]

    def claim(self, flow: str, table_id: str, *, decided: int = 0) -> None:
        """Leaves the flow's mark, so that no other flow takes the checkpoint for its own, nor this one an old one."""
        body = {"flow": flow, "table_id": table_id, "decided": decided}
        self._files.write(f"{self.location}/{_OWNER_FILE}", json.dumps(body))

    def set_aside(self) -> str:
        """Moves the checkpoint to ``<place>.broken-<time>`` and says where."""
        aside = f"{self.location}.broken-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{time.time_ns() % 10**6:06d}"
        self._files.rename(self.location, aside)
        return aside

    def remove(self) -> None:
        """Removes it; the ledger has all that it had."""
        self._files.delete(self.location)

    def ranges(self, batch_id: int, next_offsets: Offsets) -> Ranges:
        """The ranges that Spark planned for a batch.

        Args:
            batch_id: Spark's number of the batch.
            next_offsets: The ledger's; gives the start of partitions that joined with this batch.

        Raises:
            ValueError: A file is missing or has another form than this version of Spark writes.
        """
        end = self._offsets(f"offsets/{batch_id}")
        start = self._offsets(f"offsets/{batch_id - 1}") if batch_id > 0 else self._initial()
        ranges: Ranges = {}
        for topic, partitions in end.items():
            for partition, last in partitions.items():
                known = next_offsets.get(topic, {}).get(partition)
                first = start.get(topic, {}).get(partition, known if known is not None else 0)
                ranges.setdefault(topic, {})[partition] = (first, last)
        return ranges

    def _is_empty(self) -> bool:
        """Whether no query has begun here; some object stores keep folders whose files are gone."""
        others = set(self._files.names(self.location)) - {_OWNER_FILE}
        if others - {folder.partition("/")[0] for folder in _FOLDERS}:
            return False
        return not any(self._files.names(f"{self.location}/{folder}") for folder in _FOLDERS if others)

    def _inspect_batches(self) -> Checkpoint:
        try:
            planned = self._numbers("offsets")
            done = self._numbers("commits")
            if not planned and not done:
                return Checkpoint("usable")
            if not planned or (done and done[-1] > planned[-1]):
                return Checkpoint("damaged", detail="a commit file without its planned batch")
            last = planned[-1]
            if last not in done and last - 1 not in done and last != 0:
                return Checkpoint("damaged", detail=f"batch {last - 1} has no commit file")
            for number in done[-2:]:
                self._lines(f"commits/{number}", at_least=2)
            if last > 0:
                # Spark reads the batch before the last one too, whether that is done or not.
                self._offsets(f"offsets/{last - 1}")
            committed = last if last in done else last - 1
            return Checkpoint(
                "usable",
                committed=self._offsets(f"offsets/{committed}") if committed >= 0 else self._initial(),
                planned=self._offsets(f"offsets/{last}") if last != committed else None,
            )
        except ValueError as error:
            return Checkpoint("damaged", detail=str(error))

    def _metadata(self) -> str | None:
        return self._files.read(f"{self.location}/metadata")

    def _numbers(self, folder: str) -> list[int]:
        names = [name for name in self._files.names(f"{self.location}/{folder}") if name.isdecimal()]
        return sorted(int(name) for name in names)

    def _offsets(self, name: str) -> Offsets:
        # Line 1 the version, line 2 the metadata of the batch, then one line a source.
        return _parsed(self._lines(name, at_least=3)[2], name)

    def _initial(self) -> Offsets:
        # A zero byte, the version, and the offsets.
        text = self._files.read(f"{self.location}/sources/0/0")
        lines = (text or "").lstrip("\0").split("\n", 1)
        if len(lines) < 2 or lines[0] != _VERSION:  # noqa: PLR2004 - version line and offsets
            msg = "sources/0/0 is missing or has an unknown form"
            raise ValueError(msg)
        return _parsed(lines[1], "sources/0/0")

    def _lines(self, name: str, *, at_least: int) -> list[str]:
        text = self._files.read(f"{self.location}/{name}")
        lines = (text or "").split("\n")
        if lines[0] != _VERSION or len(lines) < at_least:
            msg = f"{name} is missing, cut short or of an unknown version"
            raise ValueError(msg)
        return lines


def _query_id(metadata: str) -> str | None:
    try:
        return str(uuid.UUID(json.loads(metadata)["id"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _partitions(offsets: Offsets) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, parts in offsets.items() for partition in parts}


def _parsed(line: str, name: str) -> Offsets:
    try:
        body = json.loads(line)
        return {topic: {int(p): int(offset) for p, offset in parts.items()} for topic, parts in body.items()}
    except (ValueError, AttributeError, TypeError) as error:
        msg = f"{name} holds no offsets"
        raise ValueError(msg) from error
