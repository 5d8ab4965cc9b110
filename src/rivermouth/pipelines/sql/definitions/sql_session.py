"""What ``SET`` and ``USE`` choose in a file of a pipeline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rivermouth.pipelines.names import NO_USE, Use
from rivermouth.pipelines.sql.definitions.cursor import name_of


@dataclass(slots=True)
class SqlSession:
    """What ``SET`` and ``USE`` have chosen so far: one for all cells of a notebook.

    Attributes:
        conf: The pipeline's configuration, and settings.
        use: The catalog and the schema.
    """

    conf: dict[str, str] = field(default_factory=dict)
    use: Use = NO_USE

    def full(self, name: str) -> str:
        """A name in the schema and catalog that ``USE`` chose."""
        parts = name.count(".") - sum(part.count(".") for part in re.findall(r"`[^`]*`", name)) + 1
        if name.upper().startswith("LIVE."):
            return name
        if parts == 1 and self.use.schema:
            name, parts = f"{name_of([self.use.schema])}.{name}", 2
        has_schema = parts == 2  # noqa: PLR2004 - schema and table
        return f"{name_of([self.use.catalog])}.{name}" if has_schema and self.use.catalog else name


def is_use(text: str) -> bool:
    """Whether a statement chooses a schema or a catalog."""
    return re.match(r"\s*USE\b", text, re.IGNORECASE) is not None
