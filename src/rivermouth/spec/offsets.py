"""Where a flow begins and where a bounded run ends."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import BaseModel, model_validator

from rivermouth.names import did_you_mean
from rivermouth.spec.values import ConfigModel

Offsets = dict[str, dict[int, int]]


class StartingOffsets(ConfigModel):
    """Where a flow starts that has no ledger yet.

    In YAML: ``earliest``, ``latest``, ``{topic: {partition: offset}}`` (-2 earliest, -1 latest), a timestamp
    (ISO 8601; without an offset it is UTC) or ``{group: G}`` for the committed offsets of a consumer group.
    """

    kind: Literal["earliest", "latest", "offsets", "timestamp", "group"] = "earliest"
    offsets: Offsets = {}
    timestamp: dt.datetime | None = None
    group: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: object) -> object:
        return _offsets_from_yaml(value, words=("earliest", "latest"), group=True)

    def text(self) -> str:
        """The value in the words of the YAML, for printouts."""
        return _offsets_text(self)


class EndingOffsets(ConfigModel):
    """Where a bounded run ends: ``latest``, ``{topic: {partition: offset}}`` (-1 latest) or a timestamp."""

    kind: Literal["latest", "offsets", "timestamp"] = "latest"
    offsets: Offsets = {}
    timestamp: dt.datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_yaml(cls, value: object) -> object:
        return _offsets_from_yaml(value, words=("latest",), group=False)

    def text(self) -> str:
        """The value in the words of the YAML, for printouts."""
        return _offsets_text(self)


def _offsets_from_yaml(value: object, *, words: tuple[str, ...], group: bool) -> object:
    if isinstance(value, dict) and "kind" in value:
        return value
    if isinstance(value, str) and value in words:
        return {"kind": value}
    if isinstance(value, dict) and group and set(value) == {"group"} and isinstance(value["group"], str):
        return {"kind": "group", "group": value["group"]}
    if isinstance(value, dict) and value and all(isinstance(part, dict) for part in value.values()):
        return {"kind": "offsets", "offsets": value}
    if isinstance(value, str | dt.datetime | dt.date):
        return {"kind": "timestamp", "timestamp": _timestamp(value, words)}
    if isinstance(value, BaseModel):
        return value
    msg = f"write {', '.join(words)}, {{topic: {{partition: offset}}}}, a timestamp{' or {group: name}' * group}"
    raise ValueError(msg)


def _timestamp(value: str | dt.date, words: tuple[str, ...]) -> dt.datetime:
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            msg = f"{value!r} is no timestamp (2026-01-31T12:00:00Z); {did_you_mean(str(value), words)}"
            raise ValueError(msg) from None
    if not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - the zone is set below
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _offsets_text(value: StartingOffsets | EndingOffsets) -> str:
    if value.kind == "offsets":
        return str(value.offsets)
    if value.timestamp is not None:
        return value.timestamp.isoformat()
    group = getattr(value, "group", None)
    return f"{{group: {group}}}" if group else value.kind
