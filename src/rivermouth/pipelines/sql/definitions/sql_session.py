"""What ``SET`` and ``USE`` choose in a file of a pipeline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rivermouth.pipelines.sql.definitions.cursor import name_of


@dataclass(slots=True)
class SqlSession:
    """What ``SET`` and ``USE`` have chosen so far: one for all cells of a notebook.

    Attributes:
        conf: The pipeline's configuration, and settings.
        catalog: From ``USE CATALOG``.
        schema: From ``USE SCHEMA``.
    """

    conf: dict[str, str] = field(default_factory=dict)
    catalog: str | None = None
    schema: str | None = None

    def full(self, name: str) -> str:
        """A name in the schema and catalog that ``USE`` chose."""
        parts = name.count(".") - sum(part.count(".") for part in re.findall(r"`[^`]*`", name)) + 1
        if name.upper().startswith("LIVE."):
            return name
        if parts == 1 and self.schema:
            name, parts = f"{name_of([self.schema])}.{name}", 2
        return f"{name_of([self.catalog])}.{name}" if parts == 2 and self.catalog else name  # noqa: PLR2004 - schema.table


def is_use(text: str) -> bool:
    """Whether a statement chooses a schema or a catalog."""
    return re.match(r"\s*USE\b", text, re.IGNORECASE) is not None
