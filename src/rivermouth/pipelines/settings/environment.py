"""``environment:`` of a pipeline of Databricks: what its files import."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rivermouth.pipelines.settings.libraries import Place, existing
from rivermouth.pipelines.settings.model import shown_name
from rivermouth.pipelines.settings.written import Written
from rivermouth.pipelines.spec import SourceLine
from rivermouth.project.file.secret_keys import without_logins

_EDITABLE: Final = re.compile(r"(?:-e|--editable)(?:\s+|\s*=\s*)(.+)")
_EXTRAS: Final = re.compile(r"\[[\w\s,.-]*\]$")


def package_folders(
    environment: Written | None, resolved: Callable[[Written, str], Written], place: Place
) -> tuple[list[Path], list[tuple[SourceLine, str]]]:
    """The folders with modules of the packages that an environment has from folders, and what to say of the others.

    The package of a folder is what is in its ``src``, where it has one: ``--editable ${workspace.file_path}``.

    Args:
        environment: What is written.
        resolved: Puts the values of references in their places.
        place: Where paths are looked for.

    Raises:
        PipelineReferenceUnknown: A reference in the path of a folder has no value.
    """
    if environment is None:
        return [], []
    listed = environment.get("dependencies")
    folders, packages, notes = list[Path](), list[str](), list[tuple[SourceLine, str]]()
    for entry in listed.items("environment.dependencies") if listed is not None else ():
        text = entry.value if isinstance(entry.value, str) else ""
        if (path := _path(text)) is not None:
            asked = resolved(Written(path, entry.file, entry.at), "environment.dependencies")
            found = existing(asked, place)
            if found is not None and found.is_dir():
                folders.append(found / "src" if (found / "src").is_dir() else found)
            elif not asked.text("dependencies").endswith(".whl"):
                notes.append((entry.at, f"environment: {path} is no folder here; no modules are imported from it"))
        elif text and not text.startswith("-"):
            packages.append(without_logins(text))
    shown = ", ".join(shown_name(each, place.folder) for each in dict.fromkeys(folders))
    effect = f"environment: modules are imported from {shown};" if folders else "environment has no effect:"
    installed = f": pip install {shlex.join(packages)}" if packages else ""
    return folders, [(environment.at, f"{effect} packages are not installed{installed}"), *notes]


def _path(text: str) -> str | None:
    """The folder or file that an entry means; None of the name of a package, and of other options of pip."""
    editable = _EDITABLE.fullmatch(text.strip())
    path = editable[1].strip("'\"") if editable else text
    is_path = bool(editable) or path.startswith((".", "/", "$"))
    return _EXTRAS.sub("", path) if is_path and "://" not in path else None
