"""The open sets besides formats: what a sink and an action must be able to do. Each is in a file of its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from rivermouth.extend import find_kind
from rivermouth.spec.values import ConfigModel


class Action(ConfigModel):
    """What a failed expectation does to its record. Lives in ``actions/<name>.py`` as ``KIND``.

    Attributes:
        name: The word in the YAML.
        strength: Of several failed expectations the one with the greatest strength decides.
        route: Where the record goes: table, dropped, dead_letter, or fail to stop the flow.
    """

    name: str
    strength: int
    route: Literal["table", "dropped", "dead_letter", "fail"]


class Sink(ConfigModel):
    """Base of the sinks: how rows get into the table. Lives in ``sinks/<type>.py`` as ``KIND``."""

    type: str

    @property
    def archive(self) -> str | None:
        """The folder of the files that it writes too: below the lake, or a path or URI; None where it writes none."""
        return None


def kind_from_yaml(family: str) -> Any:
    """A function that makes one of ``family`` of what the YAML says: its name, or a mapping with its ``type``."""

    def build(value: object) -> object:
        if isinstance(value, str):
            value = {"type": value}
        if isinstance(value, Mapping):
            if "type" not in value:
                msg = f"a {family[:-1]} needs a type: {family[:-1]}: {{type: ...}}"
                raise ValueError(msg)
            return find_kind(family, str(value["type"])).model_validate(value)
        return value

    return build
