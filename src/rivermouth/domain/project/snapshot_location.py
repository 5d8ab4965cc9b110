"""Where snapshots lie that are no messages: the versions of a Delta table, or files. Pure values."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Final

from rivermouth.spec.source import VERSION

MOST: Final = 2**63 - 2
"""The last offset that there can be."""
_DIGITS: Final = r"([0-9][0-9T_.:-]*?)"


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """What a flow reads instead of Kafka, version by version.

    Attributes:
        location: The table's folder, or the path of files with ``{version}`` in the name; absolute.
        shown: The same as the project has it.
        is_table: Whether it is a table.
        max_bytes: More than that of a table's files, or of a file, is not read at once.
    """

    location: str
    shown: str
    is_table: bool
    max_bytes: int

    @property
    def topic(self) -> str:
        """The name that is used instead of a topic's name."""
        name = self.shown.rstrip("/").rpartition("/")[2]
        stem = re.sub(r"\.(jsonl?|ndjson|parquet)$", "", name.replace(VERSION, "")) if not self.is_table else name
        return re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("_.-")[:200] or "snapshots"

    @property
    def folder(self) -> str:
        """Where files lie."""
        return self.location.rpartition("/")[0]

    @property
    def file_id(self) -> str:
        """The id that is used instead of a topic's id: another path is another topic."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, self.location))

    def version_of(self, name: str) -> int | None:
        """The version that a file's name tells; None for a file that is none of these."""
        before, _, after = self.location.rpartition("/")[2].partition(VERSION)
        match = re.fullmatch(re.escape(before) + _DIGITS + re.escape(after), name)
        digits = re.sub(r"[^0-9]", "", match[1]) if match else ""
        return int(digits) if digits and int(digits) <= MOST else None


def is_path(text: str) -> bool:
    """Whether a table is named by where it lies, and not as ``schema.table``."""
    return "/" in text
