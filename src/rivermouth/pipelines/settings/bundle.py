"""Pipelines of a Databricks bundle: ``databricks.yml`` and the files that it includes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from rivermouth.errors import ArgumentInvalid, ProfileUnknown
from rivermouth.names import did_you_mean
from rivermouth.pipelines.settings.model import PipelineSettings
from rivermouth.pipelines.settings.one_pipeline import CONNECTORS, Reading, read_pipeline
from rivermouth.pipelines.settings.references import VARIABLE_KEYS, References
from rivermouth.pipelines.settings.written import Written, merged, read_settings
from rivermouth.pipelines.spec import SourceLine

BUNDLE_FILES: Final = ("databricks.yml", "databricks.yaml", "bundle.yml", "bundle.yaml")
DEFAULT_TARGET: Final = "default"


def bundle_files(root: Path, written: Written) -> list[Path]:
    """The files that a bundle consists of: itself first."""
    found = [root]
    listed = written.get("include")
    for pattern in listed.items("include") if listed is not None else ():
        text = os.path.normpath(pattern.text("include"))
        found += sorted(path for path in root.parent.glob(text) if path.is_file())
    return list(dict.fromkeys(found))


def read_bundle(root: Path, more: Iterable[Path] = ()) -> Written:
    """A bundle and its included files as one value.

    Args:
        root: ``databricks.yml``.
        more: Files that belong to it without being included.

    Raises:
        PipelineSettingsInvalid: One of the files cannot be read.
    """
    tree = read_settings(root, root.parent)
    for path in dict.fromkeys([*bundle_files(root, tree)[1:], *more]):
        if path != root:
            tree = merged(tree, read_settings(path, root.parent))
    return tree


def targets_of(tree: Written) -> list[str]:
    """Names of the targets of a bundle; in old ones they are environments."""
    return list(_targets(tree))


def bundle_pipelines(
    tree: Written, profile: str | None, params: Mapping[str, str], environ: Mapping[str, str]
) -> list[PipelineSettings]:
    """The pipelines of a bundle in the order of its files.

    A pipeline without a name has that of its key. One that is a connector of Databricks is left out, and noted.

    Raises:
        ProfileUnknown: There is no such target, or there are several and none is the default.
        ArgumentInvalid: A parameter is named as a variable that the bundle does not have.
        RivermouthError: A pipeline cannot be read.
    """
    target = _target(tree, profile)
    if target is not None:
        tree = _with_target(tree, _targets(tree)[target])
    _check_variables(tree, params)
    references = References(tree, target or DEFAULT_TARGET, params, environ)
    resources = tree.get("resources", "pipelines")
    pipelines = resources.mapping("resources.pipelines") if resources is not None else {}
    connectors = [key for key, each in pipelines.items() if any(each.get(kind) for kind in CONNECTORS)]
    found = []
    for key, written in pipelines.items():
        if key in connectors:
            continue
        reading = Reading(tree.file.parent, target, {}, references.resolved, key)
        found.append(read_pipeline(written, reading))
    if connectors and not found:
        detail = f"pipeline {connectors[0]} is a connector of Databricks, which has no source files"
        raise pipelines[connectors[0]].invalid(detail, "add a pipeline with libraries:")
    given = {name: value for name, value in params.items() if name not in references.used and not _is_variable(name)}
    left_out = [
        (pipelines[key].at, f"pipeline {key} is left out: it is a connector of Databricks") for key in connectors
    ]
    return [_completed(each, given, [*references.notes, *left_out]) for each in found]


def _completed(
    settings: PipelineSettings, params: Mapping[str, str], notes: list[tuple[SourceLine, str]]
) -> PipelineSettings:
    configuration = {**settings.configuration, **params}
    return replace(settings, configuration=configuration, notes=tuple(dict.fromkeys([*settings.notes, *notes])))


def _check_variables(tree: Written, params: Mapping[str, str]) -> None:
    written = tree.get("variables")
    known = [f"var.{name}" for name in (written.mapping("variables") if written is not None else ())]
    for name in params:
        # A variable may be a mapping or a list: var.x.key and var.x[0] are parts of it.
        if _is_variable(name) and ".".join(re.split(r"[.\[]", name)[:2]) not in known:
            fix = did_you_mean(name, known) if known else f"leave out {name}"
            raise ArgumentInvalid(argument=f"--param {name}", detail="the bundle has no such variable", fix=fix)


def _is_variable(name: str) -> bool:
    return name.startswith("var.")


def _targets(tree: Written) -> Mapping[str, Written]:
    written = tree.get("targets") or tree.get("environments")
    return written.mapping("targets") if written is not None else {}


def _with_target(tree: Written, target: Written) -> Written:
    """The bundle with what a target says: values of variables are replaced, all others merged."""
    keys = target.mapping("targets")
    said = {key: part for key, part in keys.items() if key not in ("default", "mode", "variables")}
    both = merged(tree, Written(said, target.file, target.at))
    variables = dict(written.mapping("variables")) if (written := tree.get("variables")) else {}
    for name, part in keys["variables"].mapping("variables").items() if "variables" in keys else ():
        whole = isinstance(part.value, Mapping) and bool(VARIABLE_KEYS & part.value.keys())
        over = part.mapping("variables") if whole else {"default": part}
        base = variables[name].mapping("variables") if name in variables else {}
        variables[name] = Written({**base, **over}, part.file, part.at)
    return Written({**both.mapping("bundle"), "variables": Written(variables, tree.file, tree.at)}, tree.file, tree.at)


def _target(tree: Written, profile: str | None) -> str | None:
    targets = _targets(tree)
    if profile in targets:
        return profile
    # Whether another file of the folder has the profile is checked where all files are known.
    defaults = [name for name, each in targets.items() if (said := each.get("default")) and said.is_true("default")]
    if defaults:
        return defaults[0]
    if len(targets) < 2:  # noqa: PLR2004 - one is the only one
        return next(iter(targets), None)
    names = list(targets)
    written = tree.get("targets") or tree
    detail = f"the bundle has the targets {', '.join(names)}, and none of them is the default"
    raise ProfileUnknown(at=str(written.at), detail=detail, fix=f"--profile {names[0]}")


def unknown_profile(profile: str, known: Iterable[str], where: str) -> ProfileUnknown:
    """The error of a profile that no file has."""
    listed = list(known)
    fix = did_you_mean(profile, listed) if listed else "leave out --profile"
    return ProfileUnknown(detail=f"{where} has no profile {profile!r}", fix=fix)
