"""The keys of one pipeline, as Spark's and Databricks' settings have them in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rivermouth.errors import PipelineFileMissing, PipelineSettingsInvalid
from rivermouth.names import did_you_mean
from rivermouth.pipelines.settings.environment import package_folders
from rivermouth.pipelines.settings.libraries import Place, existing, library_files
from rivermouth.pipelines.settings.model import EventLog, PipelineSettings
from rivermouth.pipelines.settings.written import Written
from rivermouth.pipelines.spec import SourceLine

_COMPUTE: Final = "rivermouth starts its own Spark session"
_ACCESS: Final = "rights on tables are not set here"
_ADMIN: Final = "it is about the workspace of Databricks"
_READ: Final = (
    *("name", "storage", "catalog", "database", "schema", "target", "configuration", "libraries", "continuous"),
    *("event_log", "root_path", "parameters"),
)
_NOT_READ: Final[Mapping[str, str]] = {
    **dict.fromkeys(("serverless", "photon", "clusters", "cluster", "edition", "channel", "development"), _COMPUTE),
    **dict.fromkeys(("permissions", "run_as"), _ACCESS),
    **dict.fromkeys(("tags", "budget_policy_id", "usage_policy_id", "policy", "allow_duplicate_names"), _ADMIN),
    **dict.fromkeys(("lifecycle", "deployment", "dry_run", "expected_last_modified", "pipeline_type"), _ADMIN),
    "notifications": "nobody is notified; rivermouth run ends with an exit code",
    "trigger": "rivermouth has no scheduler; start rivermouth run from yours",
    "restart_window": "a continuous pipeline is not restarted by the clock",
    "filters": "no packages of a cluster are chosen",
    "environment": "packages are not installed",
}
# Bookkeeping of Databricks about which nobody asks.
_SILENT: Final = frozenset({"id", "pipeline_id", "creator_user_name", "created_at", "last_modified", "state", "health"})
CONNECTORS: Final = ("ingestion_definition", "gateway_definition")
"""Keys of pipelines that are a connector of Databricks: they have no source files."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a pipeline's settings are read.

    Attributes:
        folder: Absolute; that of the settings, or of the bundle.
        profile: With which values were chosen.
        params: Parameters of the configuration.
        resolved: Puts the values of references in their places.
        name: The name where none is written; None where one must be.
    """

    folder: Path
    profile: str | None
    params: Mapping[str, str]
    resolved: Callable[[Written, str], Written] = lambda written, _where: written
    name: str | None = None


def read_pipeline(written: Written, reading: Reading) -> PipelineSettings:
    """The settings in a mapping.

    Raises:
        PipelineSettingsInvalid: A value is missing or does not fit, or a key is unknown and near one that is read.
        RivermouthError: A reference or a library of it cannot be used.
    """
    keys = written.mapping("the pipeline")
    known = {key: reading.resolved(keys[key], key) for key in _READ if key in keys and keys[key].value is not None}
    name = known["name"].text("name").strip() if "name" in known else reading.name
    if not name:
        raise written.invalid("the pipeline has no name", "name: orders")
    place = Place(name, reading.folder)
    packages, of_environment = package_folders(keys.get("environment"), reading.resolved, place)
    notes = _not_read(keys, of_environment)
    if "libraries" not in known or not known["libraries"].items("libraries"):
        fix = "libraries: [{glob: {include: transformations/**}}]"
        raise written.invalid(f"pipeline {name}: it has no libraries", fix)
    files = library_files(known["libraries"], place)
    texts = {
        key: known[key].text(key) for key in ("catalog", "database", "schema", "target", "storage") if key in known
    }
    return PipelineSettings(
        name=name,
        folder=reading.folder,
        files=tuple(files),
        at=written.at,
        configuration=_configuration(known, reading.params),
        catalog=texts.get("catalog") or None,
        schema=texts.get("database") or texts.get("schema") or texts.get("target") or None,
        continuous="continuous" in known and known["continuous"].is_true("continuous"),
        storage=texts.get("storage"),
        event_log=_event_log(known.get("event_log")),
        root_path=_root_path(known.get("root_path"), place),
        packages=tuple(packages),
        profile=reading.profile,
        notes=(*notes, *place.notes),
    )


def _configuration(known: Mapping[str, Written], params: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in ("configuration", "parameters"):
        said = known[key].mapping(key) if key in known else {}
        found |= {name: value.text(f"{key}.{name}") for name, value in said.items()}
    return found | dict(params)


def _event_log(written: Written | None) -> EventLog | None:
    if written is None:
        return None
    said = {key: part.text(f"event_log.{key}") for key in ("name", "catalog", "schema") if (part := written.get(key))}
    if "name" not in said:
        raise written.invalid("event_log: name is missing", "event_log: {name: events}")
    return EventLog(said["name"], said.get("catalog"), said.get("schema"))


def _root_path(written: Written | None, place: Place) -> Path | None:
    if written is None:
        return None
    text, shown = written.text("root_path"), written.shown("root_path")
    path = existing(written, place)
    if path is None and text.startswith("/"):
        place.notes.append((written.at, f"root_path {shown} does not exist here; the folder of the settings is used"))
        return place.folder
    if path is None or not path.is_dir():
        fix = "write a folder, relative to the file with the settings"
        raise PipelineFileMissing(at=str(written.at), pipeline=place.pipeline, path=shown, fix=fix)
    return path


def _not_read(
    keys: Mapping[str, Written], of_environment: list[tuple[SourceLine, str]]
) -> list[tuple[SourceLine, str]]:
    """What to say of keys that are not read; that of ``environment`` is given."""
    notes = []
    for key, value in keys.items():
        if key in _READ or key in _SILENT or key in CONNECTORS or value.value in (None, "false", [], {}):
            continue
        if key not in _NOT_READ and (meant := re.fullmatch(r"did you mean '(\w+)'\?", did_you_mean(key, _READ))):
            raise PipelineSettingsInvalid(at=str(value.at), detail=f"unknown key {key!r}", fix=f"{meant[1]}: ...")
        reason = _NOT_READ.get(key, "rivermouth does not know this key")
        notes += of_environment if key == "environment" else [(value.at, f"{key} has no effect: {reason}")]
    return notes
