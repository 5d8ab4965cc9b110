"""Settings of Databricks' pipelines, ``pipelines.*``: what their values may be, and those that nothing here reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rivermouth.errors import DefinitionInvalid, PipelineSettingsInvalid
from rivermouth.names import did_you_mean

if TYPE_CHECKING:
    from rivermouth.pipelines.spec import Dataset, SourceLine

REMEMBER: Final = "pipelines.cdc.tombstoneGCThresholdInSeconds"
"""How long the deleted keys of a target of AUTO CDC are remembered: of its dataset, or of the pipeline."""
RESET_ALLOWED: Final = "pipelines.reset.allowed"
"""Whether a full refresh may clear a dataset."""
_READ: Final = (
    "pipelines.trigger.interval",
    "pipelines.trigger",
    "pipelines.maxFlowRetryAttempts",
    REMEMBER,
)


def without_effect(configuration: Mapping[str, str], at: SourceLine) -> tuple[tuple[SourceLine, str], ...]:
    """What to say of settings that have no effect here.

    Args:
        configuration: The settings of a pipeline.
        at: Where the pipeline is written.
    """
    known = {each.lower() for each in _READ}
    names = [each for each in configuration if each.lower().startswith("pipelines.") and each.lower() not in known]
    return tuple((at, f"{name} has no effect here{_like(name)}") for name in names)


def allows_reset(properties: Mapping[str, str]) -> bool:
    """Whether the properties of a dataset allow a full refresh."""
    return (setting_of(properties, RESET_ALLOWED) or "true").lower() != "false"


def setting_of(settings: Mapping[str, str], name: str) -> str | None:
    """The value of a setting, whose name is written in any letter case; None where there is none, or an empty one."""
    return next((value for key, value in settings.items() if key.lower() == name.lower() and value), None)


def check_configuration(configuration: Mapping[str, str], at: SourceLine | None) -> None:
    """Checks the values of settings.

    Args:
        configuration: The settings of a pipeline.
        at: Where the pipeline is written.

    Raises:
        PipelineSettingsInvalid: A value does not fit.
    """
    if wrong := _wrong(REMEMBER, setting_of(configuration, REMEMBER)):
        detail, fix = wrong
        where = None if at is None else str(at)
        raise PipelineSettingsInvalid(at=where, detail=f"configuration: {REMEMBER} {detail}", fix=fix)


def check_properties(dataset: Dataset) -> None:
    """Checks the values of the properties of a dataset that are settings of pipelines.

    Raises:
        DefinitionInvalid: A value does not fit.
    """
    for name in (REMEMBER, RESET_ALLOWED):
        if wrong := _wrong(name, setting_of(dataset.properties, name)):
            detail, fix = f"table property {name} {wrong[0]}", wrong[1]
            raise DefinitionInvalid(at=str(dataset.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix)


def _wrong(name: str, value: str | None) -> tuple[str, str] | None:
    """What is wrong with a value, and what to write; None where it fits."""
    if value is None:
        return None
    if name == RESET_ALLOWED:
        fits = value.lower() in ("true", "false")
        return None if fits else ("is neither true nor false", f"{name} = false, or true")
    try:
        fits = 0 <= float(value) < math.inf
    except ValueError:
        fits = False
    return None if fits else ("is no number of seconds", f"{name} = 172800, for two days")


def _like(name: str) -> str:
    fix = did_you_mean(name, _READ)
    return f": {fix}" if fix.startswith("did you mean") else ""
