"""Settings of Spark and of pipelines that hold for a query, and what becomes of them in a flow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rivermouth.pipelines.convert.model import INTERVAL, Difference, NotReadable
from rivermouth.pipelines.settings.known_settings import REMEMBER
from rivermouth.pipelines.spec import SourceLine

_KINDS: Final = ("spark.", "pipelines.")
_CARRIED: Final = (INTERVAL.lower(), REMEMBER.lower())
_OF_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "spark.sql.session.timezone": ("utc", "etc/utc"),
    "spark.sql.ansi.enabled": ("false",),
    "spark.sql.casesensitive": ("false",),
    "spark.sql.decimaloperations.allowprecisionloss": ("true",),
    "spark.sql.mapkeydeduppolicy": ("exception",),
}
"""Settings that decide about values, and what they are in a flow."""
_LEGACY: Final = "spark.sql.legacy."


def settings_in(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings among values of a configuration; others are parameters."""
    return {name: value for name, value in conf.items() if name.lower().startswith(_KINDS)}


def lost_settings(confs: Iterable[Mapping[str, str]], at: SourceLine) -> list[Difference]:
    """The settings that a flow does not have.

    Args:
        confs: The settings of the query, and of those that it reads on the way from Kafka.
        at: Where the table is written.

    Raises:
        NotReadable: One of them decides about values, and a flow has another value.
    """
    found: dict[str, Difference] = {}
    for conf in confs:
        for name, value in conf.items():
            low = name.lower()
            if low in _CARRIED or value.lower() in _OF_VALUES.get(low, ()):
                continue
            if low in _OF_VALUES or low.startswith(_LEGACY):
                raise NotReadable(at, f"its query has the setting {name}, which decides about values: a flow has not")
            text = "a flow has no such setting; it is left out"
            if low.startswith("spark."):
                text = "a flow has no settings of Spark; those of all flows are below spark.conf"
            found.setdefault(low, Difference(str(at), name, text))
    return [*found.values()]
