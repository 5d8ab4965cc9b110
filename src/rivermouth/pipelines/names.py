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
class Use:
    """What ``USE`` has chosen in a file.

    Attributes:
        catalog: Of names without one; None for the pipeline's.
        schema: Of names without one; None for the pipeline's.
    """

    catalog: str | None = None
    schema: str | None = None


NO_USE: Final = Use()


@dataclass(frozen=True, slots=True)
class Names:
    """How names are resolved in one pipeline.

    Attributes:
        schema: Of names without one.
        catalog: The pipeline's. A table of another catalog has that in its schema: ``other.sales``. Without one, names
            mean the same table whatever their catalog is.
    """

    schema: str
    catalog: str | None = None

    def resolve(self, text: str, use: Use = NO_USE) -> TableName | None:
        """The table that ``text`` means; None where it is no name.

        Args:
            text: As it is written, with or without backquotes.
            use: What ``USE`` has chosen.
        """
        parts = parted(text)
        return None if parts is None else self.of_parts(parts, use)

    def of_parts(self, parts: tuple[str, ...], use: Use = NO_USE) -> TableName | None:
        """As ``resolve``, of the parts of a name without their backquotes."""
        found = [part.lower() for part in parts]
        if is_live(parts):
            return TableName(self.schema.lower(), found[1])
        if len(found) > 3:  # noqa: PLR2004 - catalog, schema, table
            return None
        chosen = [*([use.catalog] if use.catalog else []), use.schema] if use.schema else [self.schema]
        if len(found) == 1:
            found = [*(each.lower() for each in chosen), *found]
        elif len(found) == 2 and use.catalog:  # noqa: PLR2004 - schema and table
            found = [use.catalog.lower(), *found]
        *before, schema, table = found
        outside = bool(before) and self.catalog is not None and before[0] != self.catalog.lower()
        return TableName(f"{before[0]}.{schema}" if outside else schema, table)

    def spellings(self, parts: tuple[str, ...], use: Use) -> tuple[TableName | None, TableName | None]:
        """What a name means in the pipeline's schema, and in what ``USE`` has chosen; without ``LIVE``."""
        return self.of_parts(parts), self.of_parts(parts[1:] if is_live(parts) else parts, use)

    def shown(self, name: TableName) -> str:
        """The shortest text that means ``name`` in this pipeline; parts with dots, and the like, are in backquotes."""
        parts = (name.table,) if name.schema == self.schema.lower() else (name.schema, name.table)
        text = ".".join(parts)
        return text if self.resolve(text) == name else ".".join(map(_quoted, parts))


def is_live(parts: tuple[str, ...]) -> bool:
    """Whether a name is ``LIVE.x``."""
    return len(parts) == 2 and parts[0].lower() == _LIVE  # noqa: PLR2004 - LIVE and a name


def _quoted(part: str) -> str:
    return part if parted(part) == (part,) else f"`{part.replace('`', '``')}`"


def unquoted(text: str) -> str:
    """A name without backquotes: so flows are called that a dataset has without a name, and folders of its state."""
    parts = parted(text)
    return text if parts is None else ".".join(parts)


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
