"""Paths and patterns of ``libraries`` as the source files that they mean."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rivermouth.errors import NotebookInvalid, PipelineFileMissing, PipelineGlobEmpty, PipelineLibraryRefused
from rivermouth.names import did_you_mean
from rivermouth.pipelines.notebooks import SUFFIXES
from rivermouth.pipelines.settings.model import shown_name
from rivermouth.pipelines.settings.written import Written
from rivermouth.pipelines.spec import SourceLine
from rivermouth.project.file.secret_keys import without_logins

_INSTALLED: Final = {
    "whl": "install the wheel, and remove the entry: pip install {}",
    "pypi": "install the package, and remove the entry: pip install {}",
    "maven": "write it as spark: {{conf: {{spark.jars.packages: ...}}}} in rivermouth.yml, and remove the entry",
    "jar": "write it as spark: {{conf: {{spark.jars: ...}}}} in rivermouth.yml, and remove the entry",
}
_PATHS: Final = {"notebook": "path", "file": "path", "glob": "include"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where paths of one pipeline are looked for.

    Attributes:
        pipeline: Its name, for messages.
        folder: Absolute; the folder of its settings.
        notes: Filled with what was read from another place than the one that is written.
    """

    pipeline: str
    folder: Path
    notes: list[tuple[SourceLine, str]] = field(default_factory=list)


def library_files(libraries: Written, place: Place) -> list[Path]:
    """The source files of ``libraries``, each once.

    Raises:
        PipelineFileMissing: A path of it does not exist.
        PipelineGlobEmpty: A pattern of it matches nothing.
        PipelineLibraryRefused: An entry is no source file.
        NotebookInvalid: A file is neither Python nor SQL nor a notebook of Jupyter.
        PipelineSettingsInvalid: An entry cannot be read.
    """
    found: list[Path] = []
    for entry in libraries.items("libraries"):
        kinds = entry.mapping("libraries")
        if not kinds:
            raise entry.invalid("libraries: an entry is empty", "- glob: {include: transformations/**}")
        for kind, inside in kinds.items():
            if kind not in _PATHS:
                raise _refused(kind, inside, place)
            path = inside.get(_PATHS[kind])
            if path is None:
                fix = f"- {kind}: {{{_PATHS[kind]}: ...}}"
                raise inside.invalid(f"libraries.{kind}: {_PATHS[kind]} is missing", fix)
            found += source_files(path, place)
    return list(dict.fromkeys(found))


def source_files(written: Written, place: Place) -> list[Path]:
    """The source files that a path, with or without its suffix, or a pattern means.

    Raises:
        PipelineFileMissing: A path does not exist.
        PipelineGlobEmpty: A pattern matches nothing.
        NotebookInvalid: The file is neither Python nor SQL nor a notebook of Jupyter.
    """
    text = written.text("libraries")
    if glob.has_magic(text):
        return _matching(written, text, place)
    return [_one_file(written, place)]


def existing(
    written: Written, place: Place, *, text: str | None = None, suffixes: tuple[str, ...] = ("",)
) -> Path | None:
    """The file or folder of a path, relative to the file that it is written in; None where there is none.

    An absolute path that does not exist here is one of a workspace: its longest end that exists below the folder of
    the settings is taken, and noted.

    Args:
        written: The path.
        place: Where its end is looked for.
        text: The part of it that is meant; None for all of it.
        suffixes: What its name may lack.
    """
    base, text = written.file.parent, written.text("a path") if text is None else text
    asked = Path(os.path.normpath(base / text))
    for suffix in suffixes:
        if (here := asked.with_name(asked.name + suffix) if suffix else asked).exists():
            return here
    if not text.startswith("/"):
        return None
    for start in range(1, len(asked.parts)):
        end = place.folder.joinpath(*asked.parts[start:])
        for suffix in suffixes:
            if (here := end.with_name(end.name + suffix) if suffix else end).exists():
                shown = text if written.unsaid is None else written.unsaid
                place.notes.append(
                    (written.at, f"{shown} does not exist here; {shown_name(here, place.folder)} is used")
                )
                return here
    return None


def _one_file(written: Written, place: Place) -> Path:
    text, shown = written.text("libraries"), written.shown("libraries")
    path = existing(written, place, suffixes=("", *SUFFIXES))
    if path is not None and path.is_dir():
        path = next((named for suffix in SUFFIXES if (named := path.with_name(path.name + suffix)).is_file()), path)
    if path is None or path.is_dir():
        near = _below(written, place) if shown != text else _nearest(text, written, place)
        fix = f"glob: {{include: {shown.rstrip('/')}/**}}" if path else near
        raise PipelineFileMissing(at=str(written.at), pipeline=place.pipeline, path=shown, fix=fix)
    if path.suffix.lower() not in SUFFIXES:
        fix = f"name a file that ends in {', '.join(SUFFIXES)}"
        detail = "it is no Python, SQL or Jupyter file"
        raise NotebookInvalid(at=str(written.at), file=shown, detail=detail, fix=fix)
    return path


def _below(written: Written, place: Place) -> str:
    return f"write a path relative to {shown_name(written.file.parent, place.folder)}"


def _nearest(text: str, written: Written, place: Place) -> str:
    base = written.file.parent
    if (base.parent / text).exists():
        return f"did you mean {os.path.normpath(Path('..', text))!r}?"
    asked = Path(os.path.normpath(base / text))
    known = [each.name for each in asked.parent.glob("*") if each.suffix.lower() in SUFFIXES]
    named = did_you_mean(asked.name, known)
    return named if named.startswith("did") else _below(written, place)


def _matching(written: Written, pattern: str, place: Place) -> list[Path]:
    parts = Path(pattern).parts
    fixed = next(number for number, part in enumerate(parts) if glob.has_magic(part))
    rest = str(Path(*parts[fixed:]))
    prefix = str(Path(*parts[:fixed])) if fixed else "."
    base = existing(written, place, text=prefix)
    found = sorted(_sources(base, rest + "/*" if rest.endswith("**") else rest)) if base else []
    if not found:
        below = f"write a pattern relative to {shown_name(written.file.parent, place.folder)}"
        fix = below if base is None else f"put a source file into {shown_name(base, place.folder)}"
        raise PipelineGlobEmpty(
            at=str(written.at), pipeline=place.pipeline, pattern=written.shown("libraries"), fix=fix
        )
    return found


def _sources(base: Path, pattern: str) -> Iterator[Path]:
    for path in base.glob(pattern):
        inner = path.relative_to(base).parts
        if path.suffix.lower() in SUFFIXES and path.is_file() and not _is_by_the_way(inner):
            yield path


def _is_by_the_way(parts: tuple[str, ...]) -> bool:
    """Whether a path lies in a folder that programs fill: caches, and copies of notebooks."""
    return any(part == "__pycache__" or part.startswith(".") for part in parts)


def _refused(kind: str, inside: Written, place: Place) -> PipelineLibraryRefused:
    said = inside.shown(f"libraries.{kind}") if isinstance(inside.value, str) else "NAME"
    if kind == "pypi" and (package := inside.get("package")):
        said = package.shown("libraries.pypi.package")
    fix = _INSTALLED.get(kind, "known: file, glob, notebook").format(without_logins(said))
    return PipelineLibraryRefused(at=str(inside.at), pipeline=place.pipeline, kind=kind, fix=fix)
