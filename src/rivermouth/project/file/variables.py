"""Environment variables in the values of a project file, resolved before the file is judged.

They may stand in every value. Where a secret may stand too, the text stays as it is written until it is used, so that
no printout of a project shows it; everywhere else the value takes their place when the file is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from rivermouth.domain.project.references import expand, references, values_in
from rivermouth.errors import EnvironmentMissing, ProjectInvalid, RivermouthError
from rivermouth.project.file.yaml_source import Document, Path

_ESCAPED: Final = "$${"
# By the key above them, the keys below which a text stays as it is written; None is any.
_LATE: Final[tuple[tuple[str | None, ...], ...]] = (
    ("lake",),
    ("kafka", "bootstrap_servers"),
    ("kafka", "username"),
    ("kafka", "password"),
    ("kafka", "options"),
    ("schema_registry", "url"),
    ("schema_registry", "username"),
    ("schema_registry", "password"),
    ("schema_registry", "ca_file"),
    ("spark", "conf"),
    ("places",),
    ("flows", None, "places"),
    ("flows", None, "topics"),
    ("flows", None, "topic_pattern"),
    ("flows", None, "group_id"),
    ("flows", None, "starting_offsets", "group"),
    ("flows", None, "format", "config"),
    ("flows", None, "key_format", "config"),
    ("pipelines", None, "configuration"),
    ("pipelines", None, "profiles", None, "configuration"),
)


def is_late(path: Path) -> bool:
    """Whether the references of the text at ``path`` are resolved only where the text is used."""
    return any(
        len(path) >= len(late) and all(want in (None, part) for want, part in zip(late, path, strict=False))
        for late in _LATE
    )


def resolved(document: Document, file: str | None, environ: Mapping[str, str]) -> Document:
    """The document with the values of variables in their places, but for those that are resolved later."""
    values = _Values(document, file, environ)
    value = values.of((), document.value)
    return replace(
        document,
        value=value,
        problems=(*document.problems, *values.problems),
        doubtful=document.doubtful | values.doubtful,
        references=values.references,
    )


def escaped(value: Any, path: Path = ()) -> Any:
    """Values of a project such that ``resolved`` gives them back: with ``$${`` for each ``${`` that is plain text."""
    match value:
        case str():
            return value if is_late(path) else value.replace("${", _ESCAPED)
        case Mapping():
            return {key: escaped(part, (*path, key)) for key, part in value.items()}
        case list():
            return [escaped(part, (*path, index)) for index, part in enumerate(value)]
        case _:
            return value


class _Values:
    def __init__(self, document: Document, file: str | None, environ: Mapping[str, str]) -> None:
        self.problems: list[RivermouthError] = []
        self.doubtful: frozenset[Path] = frozenset()
        self.references: dict[Path, tuple[tuple[str, str], ...]] = {}
        self._document = document
        self._file = file
        self._environ = environ

    def of(self, path: Path, value: Any) -> Any:
        match value:
            case str() if not is_late(path) and ("${" in value or "{{secrets/" in value):
                return self._text(path, value)
            case dict():
                return {key: self.of((*path, key), part) for key, part in value.items()}
            case list():
                return [self.of((*path, index), part) for index, part in enumerate(value)]
            case _:
                return value

    def _text(self, path: Path, text: str) -> str:
        try:
            if not any(":" in name for name in references(text)):
                expanded = expand(text, self._environ)
                pairs = tuple(values_in(text, self._environ))
                if any(value for _, value in pairs):
                    self.references[path] = ((text, expanded), *pairs)
                return expanded
            detail = f"{_words(path)}: a secret would be visible here"
            fix = "write it as a variable, ${NAME}, or keep secrets in kafka, schema_registry and spark.conf"
            raise ProjectInvalid(detail=detail, fix=fix)  # noqa: TRY301 - one of the refusals that get their line here
        except (EnvironmentMissing, ProjectInvalid) as error:
            at = f"{self._file}:{self._document.line(path)}" if self._file else None
            self.problems.append(error.located(at))
            self.doubtful |= {path}
            return text


def _words(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
