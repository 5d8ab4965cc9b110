"""Files of settings as values; each value knows its file and line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivermouth.errors import PipelineSettingsInvalid, ProjectInvalid, ProjectNotFound, RivermouthError
from rivermouth.pipelines.settings.model import shown_name
from rivermouth.pipelines.spec import SourceLine
from rivermouth.project.file.reading import read_text
from rivermouth.project.file.yaml_source import Document, read_texts
from rivermouth.project.file.yaml_source import Path as KeyPath


@dataclass(frozen=True, slots=True)
class Written:
    """A value of a file.

    Attributes:
        value: A text, None for null, a mapping or a list.
        file: The file, absolute.
        at: Its line, with the file's name in messages.
        unsaid: The text for messages where a part of it is in no file: with references in the place of such parts.
    """

    value: str | Mapping[str, Written] | list[Written] | None
    file: Path
    at: SourceLine
    unsaid: str | None = None

    def get(self, *keys: str) -> Written | None:
        """The value under the keys; None where there is none, or null."""
        here: Written = self
        for key in keys:
            if not isinstance(here.value, Mapping) or key not in here.value:
                return None
            here = here.value[key]
        return None if here.value is None else here

    def mapping(self, where: str) -> Mapping[str, Written]:
        """The value as a mapping; null is an empty one.

        Raises:
            PipelineSettingsInvalid: It is none.
        """
        if isinstance(self.value, Mapping):
            return self.value
        if self.value is None:
            return {}
        raise self.invalid(f"{where}: expected a mapping", "write key: value lines, indented under it")

    def items(self, where: str) -> list[Written]:
        """The value as a list; null is an empty one.

        Raises:
            PipelineSettingsInvalid: It is none.
        """
        if isinstance(self.value, list):
            return self.value
        if self.value is None:
            return []
        raise self.invalid(f"{where}: expected a list", "write one '- ' line for each, indented under it")

    def text(self, where: str) -> str:
        """The value as a text.

        Raises:
            PipelineSettingsInvalid: It is none.
        """
        if isinstance(self.value, str):
            return self.value
        found = {type(None): "null", list: "a list"}.get(type(self.value), "a mapping")
        raise self.invalid(f"{where}: expected text, found {found}", "write text")

    def shown(self, where: str) -> str:
        """The text for messages; what parameters and environment variables say of it may be a secret.

        Raises:
            PipelineSettingsInvalid: It is no text.
        """
        return self.text(where) if self.unsaid is None else self.unsaid

    def is_true(self, where: str) -> bool:
        """The value as true or false.

        Raises:
            PipelineSettingsInvalid: It is neither.
        """
        text = self.text(where).strip().lower()
        if text not in ("true", "false"):
            raise self.invalid(f"{where}: expected true or false", "write true or false")
        return text == "true"

    def invalid(self, detail: str, fix: str) -> PipelineSettingsInvalid:
        """An error about this value, not yet raised."""
        return PipelineSettingsInvalid(at=str(self.at), detail=detail, fix=fix)


def read_settings(path: Path, folder: Path) -> Written:
    """The values of a file in YAML or JSON; one with nothing but comments is an empty mapping.

    Args:
        path: The file, absolute.
        folder: That to which its name in messages is relative.

    Raises:
        PipelineSettingsInvalid: It is missing, is no YAML or JSON, or holds no mapping.
    """
    name = shown_name(path, folder)
    document = _document(path, name)
    if not isinstance(document.value, dict):
        detail, fix = f"{name} holds no mapping of keys to values", "write a space after each ':'"
        raise PipelineSettingsInvalid(at=f"{name}:1", detail=detail, fix=fix)
    return _tree(document, (), document.value, (path, name))


def merged(base: Written, over: Written) -> Written:
    """Both values: of mappings all keys, of lists all items, else that of ``over``, unless it is null."""
    if isinstance(base.value, Mapping) and isinstance(over.value, Mapping):
        both = dict(base.value)
        for key, value in over.value.items():
            both[key] = merged(both[key], value) if key in both else value
        return Written(both, base.file, base.at)
    if isinstance(base.value, list) and isinstance(over.value, list):
        return Written([*base.value, *over.value], base.file, base.at)
    return base if over.value is None else over


def _document(path: Path, name: str) -> Document:
    try:
        text = read_text(path, name)
        if not any(line.strip() and not line.lstrip().startswith("#") and line != "---" for line in text.splitlines()):
            return Document({})
        if path.suffix == ".json":
            json.loads(text)
            # JSON is YAML, but for tabs; a text in JSON has none.
            text = text.replace("\t", " ")
        document = read_texts(text, name)
    except ProjectNotFound:
        fix = "check the path"
        raise PipelineSettingsInvalid(detail=f"there is no file {name}", fix=fix) from None
    except json.JSONDecodeError as error:
        fix = "correct it there; python -m json.tool shows the same place"
        raise PipelineSettingsInvalid(at=f"{name}:{error.lineno}", detail=f"no JSON: {error.msg}", fix=fix) from None
    except ProjectInvalid as error:
        raise _as_settings(error) from None
    if document.problems:
        raise _as_settings(document.problems[0])
    return document


def _as_settings(error: RivermouthError) -> PipelineSettingsInvalid:
    return PipelineSettingsInvalid(at=error.at, detail=error.facts["detail"], fix=error.facts["fix"])


def _tree(document: Document, path: KeyPath, value: Any, origin: tuple[Path, str]) -> Written:
    at = SourceLine(origin[1], document.line(path))
    if isinstance(value, dict):
        parts = {str(key): _tree(document, (*path, key), part, origin) for key, part in value.items()}
        return Written(parts, origin[0], at)
    if isinstance(value, list):
        listed = [_tree(document, (*path, index), part, origin) for index, part in enumerate(value)]
        return Written(listed, origin[0], at)
    return Written(value, origin[0], at)
