"""What ``explode`` says: of what a record is made several rows, and what their columns are called."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# The word for a value that is itself an array of what the format reads.
ALL: Final = "*"

_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_CALLED: Final = re.compile(
    rf"^(?P<sql>.*?)\s+AS\s+(?:(?P<one>{_NAME})|\(\s*(?P<first>{_NAME})\s*,\s*(?P<second>{_NAME})\s*\))$",
    re.IGNORECASE | re.DOTALL,
)
_COLUMN: Final = re.compile(rf"^{_NAME}$")


@dataclass(frozen=True, slots=True)
class Explosion:
    """Of what a record is made several rows.

    Attributes:
        sql: An array or a map over the columns that the format reads; ``*`` for a value that is itself an array.
        called: The names of an element's columns, as far as they are given: one, or those of key and value.
    """

    sql: str
    called: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the value itself is an array of what the format reads."""
        return self.sql == ALL

    @property
    def column(self) -> str | None:
        """The column whose place the elements take; None where an expression is exploded."""
        return _plain(self.sql) if _COLUMN.match(self.sql) else None


def parsed(text: str) -> Explosion:
    """What the words of a project file say: ``items``, ``items AS item``, ``tags AS (name, tag)``."""
    text = text.strip()
    found = _CALLED.match(text)
    if found is None:
        return Explosion(text)
    called = (found["one"],) if found["one"] else (found["first"], found["second"])
    return Explosion(found["sql"].strip(), tuple(map(_plain, called)))


def _plain(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
