"""Which pipelines a folder has."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from rivermouth.errors import (
    NotebookInvalid,
    PipelineFileMissing,
    PipelineNameTwice,
    PipelineSettingsInvalid,
    PipelineSettingsMissing,
)
from rivermouth.pipelines.notebooks import SUFFIXES
from rivermouth.pipelines.settings.bundle import (
    BUNDLE_FILES,
    bundle_files,
    bundle_pipelines,
    read_bundle,
    targets_of,
    unknown_profile,
)
from rivermouth.pipelines.settings.model import PipelineSettings, shown_name
from rivermouth.pipelines.settings.one_pipeline import Reading, read_pipeline
from rivermouth.pipelines.settings.project_file import project_pipelines
from rivermouth.pipelines.settings.written import Written, read_settings
from rivermouth.project.file import yaml_source
from rivermouth.project.file.reading import FILE_NAME, read_text

SPEC_FILES: Final = (
    "spark-pipeline.yml",
    "spark-pipeline.yaml",
    "spark-pipelines.yml",
    "spark-pipelines.yaml",
    "pipeline.yml",
    "pipeline.yaml",
)
SETTINGS_FILES: Final = (*SPEC_FILES, *BUNDLE_FILES)
"""Names of files that define pipelines, other than the project file."""
_PARTS: Final = ("*.pipeline.yml", "*.pipeline.yaml", "resources/*.pipeline.yml", "resources/*.pipeline.yaml")
_DEFINES: Final = re.compile(
    r"^\s*(import dlt\b|from dlt import|from pyspark import (\w+, *)*pipelines\b|(from|import) pyspark\.pipelines\b"
    r"|from databricks import (dlt|pipelines)\b)"
    r"|\bCREATE\s+(OR\s+(REFRESH|REPLACE)\s+)?(PRIVATE\s+|TEMPORARY\s+)?"
    r"((STREAMING|INCREMENTAL)\s+(LIVE\s+)?TABLE|LIVE\s+(TABLE|VIEW)|MATERIALIZED\s+VIEW)\b",
    re.MULTILINE | re.IGNORECASE,
)
_LOOKED_AT: Final = 500
_LOOKED_INTO: Final = 1 << 16
_DEEPEST: Final = 3
_SHOWN: Final = 3


def find_pipelines(
    folder_or_file: Path,
    *,
    profile: str | None = None,
    params: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> list[PipelineSettings]:
    """The pipelines of a folder, or of one file with settings.

    A folder is looked through for ``rivermouth.yml``, Spark's ``spark-pipeline.yml`` and ``pipeline.yml``, a bundle of
    Databricks (``databricks.yml``) or parts of one (``*.pipeline.yml``), or, without these, settings that were saved
    as JSON.

    Args:
        folder_or_file: A folder, or a file with settings. Of a part of a bundle its own pipelines are read, with the
            variables of the ``databricks.yml`` above it.
        profile: A profile of ``rivermouth.yml``, a target of a bundle. Without one it is the target that is the
            default, and the profile ``dev`` where a pipeline has it.
        params: Values of the configuration, which win over all files; those named as a reference of a bundle
            (``var.x``, ``workspace.host``) are its value.
        environ: Environment variables.

    Returns:
        The pipelines in the order of their files; none where the folder has neither settings nor files that define
        tables, and where its ``rivermouth.yml`` has no ``pipelines:``.

    Raises:
        PipelineSettingsMissing: The folder has files that define tables, and no settings.
        ProfileUnknown: No file has the profile.
        PipelineNameTwice: Two pipelines have one name.
        RivermouthError: The settings cannot be read, or a source file is missing.
    """
    start = _absolute(folder_or_file)
    given = dict(params or {})
    finding = _Finding(profile, given, environ)
    if start.is_dir():
        finding.folder(start)
    else:
        finding.file(start)
    if profile is not None and finding.files and profile not in finding.profiles:
        where = shown_name(finding.files[0], start if start.is_dir() else start.parent)
        raise unknown_profile(profile, finding.profiles, where)
    _named_once(finding.pipelines)
    return finding.pipelines


def single_files(files: Sequence[Path], *, params: Mapping[str, str] | None = None) -> PipelineSettings:
    """The pipeline of files that are named on the command line.

    It is called as the one file is, without its suffix; of several files as the folder that they are all in.

    Raises:
        PipelineFileMissing: A file does not exist.
        NotebookInvalid: A file is neither Python nor SQL nor a notebook of Jupyter.
    """
    written_as = {_absolute(path): str(path) for path in files}
    found = list(written_as)
    folder = Path(os.path.commonpath([path.parent for path in found]))
    name = found[0].stem if len(found) == 1 else folder.name
    for path, written in written_as.items():
        if not path.is_file():
            fix = "name files, not folders" if path.is_dir() else "check the path"
            raise PipelineFileMissing(pipeline=name, path=written, fix=fix)
        if path.suffix.lower() not in SUFFIXES:
            fix = f"name a file that ends in {', '.join(SUFFIXES)}"
            raise NotebookInvalid(file=written, detail="it is no Python, SQL or Jupyter file", fix=fix)
    return PipelineSettings(name, folder, tuple(found), configuration=dict(params or {}))


def _absolute(path: Path) -> Path:
    return Path(os.path.normpath(path.absolute()))


class _Finding:
    """The pipelines that were found so far, and the profiles of their files."""

    def __init__(self, profile: str | None, params: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.pipelines: list[PipelineSettings] = []
        self.profiles: list[str] = []
        self.files: list[Path] = []
        self._profile = profile
        self._params = params
        self._environ = environ

    def folder(self, folder: Path) -> None:
        """All files with settings in a folder."""
        if (project := folder / FILE_NAME).is_file():
            self._project(project)
        root = next((path for name in BUNDLE_FILES if (path := folder / name).is_file()), None)
        parts = sorted(itertools.chain.from_iterable(folder.glob(pattern) for pattern in _PARTS))
        if root is not None:
            self._bundle(root)
            parts = []
        for path in [*(folder / name for name in SPEC_FILES), *parts]:
            if path.is_file() and path not in self.files:
                self._other(path)
        # Settings as JSON are a copy of what a workspace has: they count only where there are no others.
        saved = [] if self.files else [path for path in sorted(folder.glob("*.json")) if _is_settings(path)]
        for path in saved:
            self._spec(path, read_settings(path, path.parent))
        if not self.pipelines and folder / FILE_NAME not in self.files:
            _refuse_guessing(folder)

    def file(self, path: Path) -> None:
        """One file with settings."""
        if path.name == FILE_NAME:
            self._project(path)
            return
        if path.name in BUNDLE_FILES:
            self._bundle(path)
            return
        written = read_settings(path, path.parent)
        if written.get("flows") or written.get("pipelines") or written.get("lake"):
            self._project(path)
        elif written.get("resources"):
            self._part(path)
        else:
            self._spec(path, written)

    def _project(self, path: Path) -> None:
        self.files.append(path)
        document = yaml_source.read(read_text(path, path.name), path.name)
        if not isinstance(document.value, dict) or "pipelines" not in document.value:
            return  # what is wrong with its flows is reported where these are read
        found, profiles = project_pipelines(path, self._profile, self._params, self._environ)
        self.pipelines += found
        self.profiles += profiles

    def _bundle(self, root: Path, only: Path | None = None) -> None:
        files = bundle_files(root, read_settings(root, root.parent))
        tree = read_bundle(root, () if only is None else (only,))
        self.files += files
        self.profiles += targets_of(tree)
        found = bundle_pipelines(tree, self._profile, self._params, self._environ)
        name = None if only is None else shown_name(only, root.parent)
        self.pipelines += [each for each in found if name is None or (each.at is not None and each.at.file == name)]

    def _part(self, path: Path) -> None:
        above = (folder / name for folder in path.parents for name in BUNDLE_FILES)
        root = next((found for found in above if found.is_file()), path)
        self._bundle(root, path if root != path else None)

    def _other(self, path: Path) -> None:
        """A file whose name alone does not say what it is."""
        written = read_settings(path, path.parent)
        if written.get("resources"):
            self._part(path)
        else:
            self._spec(path, written)

    def _spec(self, path: Path, written: Written) -> None:
        """Spark's settings, or those that Databricks shows as JSON."""
        self.files.append(path)
        # What the API answers has the settings under "spec".
        inner = written.get("spec")
        written = inner if inner is not None and inner.get("libraries") else written
        if not written.mapping("the pipeline"):
            fix = "write name: and libraries:"
            raise PipelineSettingsInvalid(at=str(written.at), detail=f"{path.name} is empty", fix=fix)
        self.pipelines.append(read_pipeline(written, Reading(path.parent, None, self._params)))


def _is_settings(path: Path) -> bool:
    """Whether a file in JSON is about a pipeline: it may be about anything."""
    text = path.read_bytes()[:_LOOKED_INTO]
    return b'"libraries"' in text and b'"name"' in text and b'"properties"' not in text


def _named_once(pipelines: Sequence[PipelineSettings]) -> None:
    first: dict[str, PipelineSettings] = {}
    for each in pipelines:
        other = first.setdefault(each.name, each)
        if other is not each:
            raise PipelineNameTwice(at=str(each.at), name=each.name, other=str(other.at))


def _refuse_guessing(folder: Path) -> None:
    found = list(itertools.islice(_defining(folder), _SHOWN + 1))
    if not found:
        return
    names = [shown_name(path, folder) for path in found]
    files = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
    first = shlex.quote(shown_name(found[0], Path.cwd()))
    raise PipelineSettingsMissing(folder=folder.name or str(folder), files=files, first=first)


def _defining(folder: Path) -> Iterator[Path]:
    """Files in and below a folder that define tables of a pipeline."""
    for path in itertools.islice(_sources(folder), _LOOKED_AT):
        with path.open("rb") as stream:
            text = stream.read(_LOOKED_INTO).decode("utf-8", errors="replace")
        if _DEFINES.search(text):
            yield path


def _sources(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        folders[:] = sorted(each for each in folders if depth < _DEEPEST and not each.startswith((".", "__")))
        yield from (Path(here, name) for name in sorted(names) if Path(name).suffix in SUFFIXES)
