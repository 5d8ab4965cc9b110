"""What the columns before a SELECT are called behind it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from rivermouth.pipelines.convert.model import word
from rivermouth.pipelines.convert.selects.items import Item


class Lost(Exception):
    """A column is not there any more behind a SELECT."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What columns are called behind a SELECT.

    Attributes:
        known: The columns before it, in lower case.
        names: By path in lower case, ``(column,)`` or ``(column, field)``, the name behind it of each that is kept.
    """

    known: Collection[str] = ()
    names: dict[tuple[str, ...], str] = field(default_factory=dict)

    def add(self, path: tuple[str, ...], name: str) -> None:
        """Notes a column that the SELECT keeps; without a path it is none."""
        if path:
            self.names.setdefault(tuple(part.lower() for part in path), name)

    def name(self, path: tuple[str, ...]) -> str | None:
        """The name of a column behind the SELECT; None where it is not kept."""
        return self.names.get(tuple(part.lower() for part in path))

    def behind(self, read: Item) -> str:
        """An expression over the columns before the SELECT, over those behind it.

        Raises:
            Lost: One of its columns is not kept.
        """
        return read.replaced(self._changed)

    def _changed(self, parts: tuple[str, ...]) -> str | None:
        if parts[0].lower() not in self.known:
            return None
        lengths = (length for length in range(len(parts), 0, -1) if self.name(parts[:length]) is not None)
        length = next(lengths, None)
        if length is None:
            raise Lost
        new = (str(self.name(parts[:length])), *parts[length:])
        return None if new == parts else ".".join(map(word, new))
