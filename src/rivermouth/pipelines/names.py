"""Names of tables as a pipeline's files write them: ``x``, ``LIVE.x``, ``schema.x`` and ``catalog.schema.x``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LIVE: Final = "live"
_PART: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^.`\s]+(?:\s+[^.`\s]+)*))\s*(\.|$)")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table's name, resolved: two names are equal where they mean one table.

    Attributes:
        schema: In lower case.
        table: In lower case.
    """

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Names:
    """How names are resolved in one pipeline.

    Attributes:
        schema: Of names without one.
        catalog: The pipeline's; a name of three parts with another one is of a table outside.
    """

    schema: str
    catalog: str | None = None

    def resolve(self, text: str, schema: str | None = None) -> TableName | None:
        """The table that ``text`` means; None where it is in another catalog or no name.

        Args:
            text: As it is written, with or without backquotes.
            schema: The schema of names without one, if it is not the pipeline's.
        """
        parts = parted(text)
        return None if parts is None else self.of_parts(parts, schema)

    def of_parts(self, parts: tuple[str, ...], schema: str | None = None) -> TableName | None:
        """As ``resolve``, of the parts of a name without their backquotes."""
        found = [part.lower() for part in parts]
        if len(found) == 2 and found[0] == _LIVE:  # noqa: PLR2004 - LIVE and a name
            return TableName(self.schema.lower(), found[1])
        if len(found) == 3 and self.catalog is not None and found[0] != self.catalog.lower():  # noqa: PLR2004
            return None
        if len(found) > 3:  # noqa: PLR2004 - catalog, schema, table
            return None
        before = found[-2] if len(found) > 1 else (schema or self.schema).lower()
        return TableName(before, found[-1])

    def shown(self, name: TableName) -> str:
        """The shortest text that means ``name`` in this pipeline."""
        return name.table if name.schema == self.schema.lower() else str(name)


def parted(text: str) -> tuple[str, ...] | None:
    """The parts of a name, without backquotes; None where it is no name."""
    parts: list[str] = []
    position = 0
    while position < len(text) or not parts:
        match = _PART.match(text, position)
        if match is None:
            return None
        parts.append(match[1].replace("``", "`") if match[1] is not None else match[2])
        position = match.end()
        if not match[3]:
            break
        if position == len(text):
            return None
    return tuple(parts) if position == len(text) else None
