"""A project file, or a mapping in its place, read: its values, each with its line, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from rivermouth.errors import ProjectInvalid, ProjectNotFound, ProjectProblems, RivermouthError
from rivermouth.project.file import dump, yaml_source
from rivermouth.project.file.validation import validate_document
from rivermouth.project.file.variables import resolved
from rivermouth.spec import ProjectSpec

FILE_NAME: Final = "rivermouth.yml"


def read_project(
    path: Path, name: str, environ: Mapping[str, str]
) -> tuple[ProjectSpec, Mapping[yaml_source.Path, int]]:
    """The project in a file, and the line of each of its values.

    Args:
        path: The file.
        name: Its name in messages.
        environ: Environment variables.

    Raises:
        ProjectNotFound: There is no such file.
        ProjectProblems: Several values are wrong; all are listed.
        RivermouthError: The one thing that is wrong.
    """
    document = resolved(yaml_source.read(read_text(path, name), name), name, environ)
    spec, problems = validate_document(document, name)
    raise_all(problems, name)
    if spec is None:
        raise ProjectInvalid(at=f"{name}:1", detail="the file is no project", fix="rivermouth init -f new.yml")
    return spec, document.lines


def read_mapping(values: Mapping[str, Any], environ: Mapping[str, str]) -> ProjectSpec:
    """The project in a mapping that holds what a project file would hold.

    Raises:
        ProjectProblems: Several values are wrong; all are listed.
        RivermouthError: The one thing that is wrong.
    """
    spec, problems = validate_document(resolved(yaml_source.Document(_plain(values)), None, environ), None)
    raise_all(problems, None)
    if spec is None:
        raise ProjectInvalid(detail="the mapping is no project", fix="help(rivermouth.Project.from_spec)")
    return spec


def _plain(value: Any) -> Any:
    """What a project file would hold in place of other mappings and lists, and of nouns."""
    if isinstance(value, BaseModel):
        return dump.plain(value)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def raise_all(problems: list[RivermouthError], file: str | None) -> None:
    """Raises if there is a problem: a single one as it is, several as one error.

    Raises:
        ProjectProblems: There are several problems.
        RivermouthError: There is one problem.
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProjectProblems(count=len(problems), file=file or "the project", problems=tuple(problems))


def read_text(path: Path, name: str) -> str:
    """The text of a project file.

    Raises:
        ProjectNotFound: There is no such file.
        ProjectInvalid: It is a folder, cannot be read, is too large or no UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(yaml_source.MAX_BYTES + 1)
    except FileNotFoundError:
        raise ProjectNotFound(path=name) from None
    except IsADirectoryError:
        fix = f"name the file in it: {path / FILE_NAME}"
        raise ProjectInvalid(detail=f"{name} is a folder", fix=fix) from None
    except OSError as error:
        fix = "check the path and its access rights"
        raise ProjectInvalid(detail=f"{name} cannot be read: {error.strerror}", fix=fix) from None
    if len(data) > yaml_source.MAX_BYTES:
        fix = "name the project file, not one with data"
        raise ProjectInvalid(detail=f"{name} is larger than 1 MiB", fix=fix)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProjectInvalid(at=f"{name}:{line}", detail="the file is no UTF-8", fix="save it as UTF-8") from None
