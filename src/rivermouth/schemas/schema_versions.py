"""A schema that is kept: its file, and its versions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.schemas.open_fields import Path

FORMAT: Final = 1
_MOVED: Final = ".moved_to."


@dataclass(frozen=True, slots=True)
class KeptSchema:
    """One version of a flow's inferred schema.

    Attributes:
        flow: The flow's name when it was kept.
        version: Counted from 1.
        kept_at: When, in ISO 8601.
        records: Records that were looked at.
        corrupt: Those of them that were no documents.
        whole: Whether these were all that there were, and not a sample.
        changes: What is different from the version before; empty for the first.
        schema: The columns.
        open: Fields without a column, in which no document had a value so far.
    """

    flow: str
    version: int
    kept_at: str
    records: int
    corrupt: int
    whole: bool
    changes: tuple[str, ...]
    schema: T.StructType
    open: tuple[Path, ...] = ()

    def to_text(self) -> str:
        """The text of its file."""
        body = {
            "format": FORMAT,
            "flow": self.flow,
            "version": self.version,
            "kept_at": self.kept_at,
            "records": self.records,
            "corrupt": self.corrupt,
            "whole": self.whole,
            "changes": list(self.changes),
            "open": [list(path) for path in self.open],
            "schema": self.schema.jsonValue(),
        }
        return json.dumps(body, indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str) -> KeptSchema:
        """The version that a file holds.

        Raises:
            ValueError: It is none; the text says why.
        """
        try:
            body: Any = json.loads(text)
        except ValueError:
            msg = "it is not JSON"
            raise ValueError(msg) from None
        if not isinstance(body, dict) or body.get("format") != FORMAT:
            known = isinstance(body, dict) and isinstance(body.get("format"), int) and body["format"] > FORMAT
            msg = "a newer rivermouth wrote it" if known else "it holds no kept schema"
            raise ValueError(msg)
        try:
            schema = T.StructType.fromJson(body["schema"])
            changes = tuple(str(each) for each in body["changes"])
            counts = (int(body["records"]), int(body["corrupt"]), bool(body["whole"]))
            open_paths = tuple(tuple(map(str, path)) for path in body.get("open", ()))
            head = (str(body["flow"]), int(body["version"]), str(body["kept_at"]))
            return cls(*head, *counts, changes, schema, open_paths)
        except Exception:  # noqa: BLE001 - Spark's parser has no errors of its own for a wrong text
            msg = "it holds no schema in Spark's JSON form"
            raise ValueError(msg) from None


def file_name(version: int) -> str:
    """The name of a version's file."""
    return f"{version:05d}.json"


def moved_name(version: int, flow: str) -> str:
    """The name of the mark that the versions up to one are ``flow``'s now, which bore this name before."""
    return f"{version:05d}{_MOVED}{flow}"


def moved_until(names: Iterable[str], flow: str) -> int:
    """The newest of the versions that another flow than ``flow`` took with it; 0 if there is none."""
    marks = (name.partition(_MOVED) for name in names)
    return max((int(version) for version, mark, taker in marks if mark and taker != flow), default=0)


def versions_of(names: Iterable[str]) -> list[int]:
    """The versions whose files are among these names, ascending."""
    stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return sorted(int(stem) for stem in stems if stem.isdecimal() and stem.isascii())
