"""What is known of state that was deleted from the lake: the note of it, and its words. Pure values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

_FORMAT: Final = 1

LEDGER_COPY: Final = "ledger_copy"
COUNTS: Final = "counts"
SCHEMA: Final = "schema"
DELETED_KEYS: Final = "deleted_keys"
ERASED_RECORDS: Final = "erased_records"

TEXTS: Final[Mapping[str, str]] = {
    LEDGER_COPY: "the copy of the newest ledger entry",
    COUNTS: "the counts of its batch, by reading the batch's records again without writing them",
    SCHEMA: "the schema, from the table's columns",
    DELETED_KEYS: "which keys were deleted (an older change of such a key that comes again brings its row back)",
    ERASED_RECORDS: "which records were erased (a rewind brings them back)",
}
"""What is rebuilt and what is lost, by the words that programs read."""
LOST_SCHEMA: Final = "the versions of the schema (it is inferred again)"


@dataclass(frozen=True, slots=True)
class LostState:
    """That a flow's state in the lake was deleted, and could not be rebuilt whole.

    Attributes:
        entry: Number of the newest ledger entry when this was noticed.
        at: When it was noticed, in ISO 8601 and UTC.
        lost: What is lost: ``deleted_keys``, ``erased_records``, ``schema``.
    """

    entry: int
    at: str
    lost: tuple[str, ...]

    def to_text(self) -> str:
        """The text of its file."""
        return json.dumps({"format": _FORMAT, **asdict(self)})

    @classmethod
    def from_text(cls, text: str | None) -> LostState | None:
        """What the file says; None if there is none, or it is none of ours."""
        try:
            body = json.loads(text or "")
            return cls(int(body["entry"]), str(body["at"]), tuple(map(str, body["lost"])))
        except (ValueError, KeyError, TypeError):
            return None


def lost_text(lost: tuple[str, ...]) -> str:
    """What is lost, for a person."""
    return "; ".join(LOST_SCHEMA if each == SCHEMA else TEXTS.get(each, each) for each in lost) or "nothing"


def rebuilt_text(rebuilt: tuple[str, ...]) -> str:
    """What is rebuilt, for a person."""
    return "; ".join(TEXTS.get(each, each) for each in rebuilt)
