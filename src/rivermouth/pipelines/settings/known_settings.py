"""Settings of Databricks' pipelines, ``pipelines.*``, in a configuration: those that nothing here reads are named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rivermouth.names import did_you_mean

if TYPE_CHECKING:
    from rivermouth.pipelines.spec import SourceLine

_READ: Final = (
    "pipelines.trigger.interval",
    "pipelines.trigger",
    "pipelines.maxFlowRetryAttempts",
    "pipelines.cdc.tombstoneGCThresholdInSeconds",
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


def _like(name: str) -> str:
    fix = did_you_mean(name, _READ)
    return f": {fix}" if fix.startswith("did you mean") else ""
