"""``pipelines:`` of a ``rivermouth.yml``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rivermouth.domain.project.references import expand
from rivermouth.pipelines.settings.libraries import Place, source_files
from rivermouth.pipelines.settings.model import PipelineSettings
from rivermouth.pipelines.settings.written import Written
from rivermouth.pipelines.spec import SourceLine
from rivermouth.project.file.reading import read_project
from rivermouth.spec import Pipeline, PipelineProfile, duration_text

INTERVAL: Final = "pipelines.trigger.interval"
"""The key of the configuration that says how often a continuous pipeline looks for rows."""
DEFAULT_PROFILE: Final = "dev"

_SECRET: Final = re.compile(r"\{\{secrets/([^/{}]+/[^/{}]+)\}\}")


def project_pipelines(
    path: Path, profile: str | None, params: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[list[PipelineSettings], list[str]]:
    """The pipelines of a project file, and the names of all their profiles.

    Without ``profile`` a pipeline is read with its profile ``dev``, if it has one.

    Raises:
        RivermouthError: The file cannot be read, or a source file is missing.
    """
    spec, lines = read_project(path, path.name, environ)
    found = []
    for name, pipeline in spec.pipelines.items():
        lines_of = {key[2:]: line for key, line in lines.items() if key[:2] == ("pipelines", name)}
        found.append(_pipeline(path, pipeline, lines_of, profile, params))
    names = [name for pipeline in spec.pipelines.values() for name in pipeline.profiles]
    return found, list(dict.fromkeys(names))


def expanded_configuration(settings: PipelineSettings, environ: Mapping[str, str]) -> dict[str, str]:
    """The configuration with the values of its references in their places: never to be shown.

    In a ``rivermouth.yml`` these are variables and secrets, as in all its texts; elsewhere ``{{secrets/SCOPE/KEY}}``.

    Args:
        settings: Of a pipeline.
        environ: Variables by name, secrets under ``provider:reference``.

    Raises:
        EnvironmentMissing: A variable is not set.
        SecretMissing: There is no such secret.
        ProjectInvalid: A ``${`` in a project file begins no reference.
    """
    if settings.is_project:
        return {name: expand(value, environ) for name, value in settings.configuration.items()}
    return {
        name: _SECRET.sub(lambda found: environ[f"databricks:{found[1]}"], value)
        for name, value in settings.configuration.items()
    }


def _pipeline(
    path: Path,
    pipeline: Pipeline,
    lines: Mapping[tuple[Any, ...], int],
    profile: str | None,
    params: Mapping[str, str],
) -> PipelineSettings:
    chosen = profile or DEFAULT_PROFILE
    over = pipeline.profiles.get(chosen, PipelineProfile())
    place = Place(pipeline.name, path.parent)
    files: list[Path] = []
    for index, pattern in enumerate(pipeline.files):
        line = lines.get(("files", index), lines.get(("files",), 1))
        files += source_files(Written(pattern, path, SourceLine(path.name, line)), place)
    trigger = over.trigger or pipeline.trigger
    interval = {INTERVAL: duration_text(trigger.every)} if trigger else {}
    said = {**interval, **pipeline.configuration, **over.configuration}
    return PipelineSettings(
        name=pipeline.name,
        folder=path.parent,
        files=tuple(dict.fromkeys(files)),
        at=SourceLine(path.name, lines.get((), 1)),
        configuration={**{key: _text(value) for key, value in said.items()}, **_escaped(params)},
        catalog=over.catalog or pipeline.catalog,
        schema=over.schema_name or pipeline.schema_name,
        continuous=pipeline.continuous if over.continuous is None else over.continuous,
        profile=chosen if chosen in pipeline.profiles else None,
        is_project=True,
        notes=tuple(place.notes),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(params: Mapping[str, str]) -> dict[str, str]:
    """Parameters such that nothing in them is taken for a reference."""
    return {name: value.replace("${", "$${") for name, value in params.items()}
