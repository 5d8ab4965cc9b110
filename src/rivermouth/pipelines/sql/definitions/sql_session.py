"""What ``SET`` and ``USE`` choose in a file of a pipeline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rivermouth.errors import SqlNotSupported
from rivermouth.names import quoted
from rivermouth.pipelines.names import NO_USE, Use
from rivermouth.pipelines.spec import SourceLine
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


def shown_in(text: str, schema: str) -> str:
    """A statement, where SHOW TABLES without a schema names this one."""
    found = re.match(r"\s*SHOW\s+TABLES\b(?!\s+(?:IN|FROM)\b)", text, re.IGNORECASE)
    return text if found is None else f"{found[0]} IN {quoted(schema)}{text[found.end() :]}"


def is_use(text: str, at: SourceLine, *, in_query: bool) -> bool:
    """Whether a statement chooses a schema or a catalog.

    Raises:
        SqlNotSupported: It does, in the query of a dataset: it would choose for all queries behind it.
    """
    found = re.match(r"\s*USE\b", text, re.IGNORECASE) is not None
    if found and in_query:
        fix = "write USE above the definitions, or the names with their schemas"
        raise SqlNotSupported(at=str(at), clause="USE in the query of a dataset", fix=fix)
    return found
