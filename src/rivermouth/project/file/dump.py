"""A spec as the YAML that a person would write: what differs from the defaults, in the order of the nouns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from rivermouth.names import METADATA_COLUMNS
from rivermouth.project.file.variables import escaped
from rivermouth.project.file.yaml_source import scalar, two_meanings
from rivermouth.spec import (
    EndingOffsets,
    Flow,
    Format,
    Lookup,
    Maintenance,
    Optimize,
    ProjectSpec,
    Sink,
    StartingOffsets,
    Table,
    Vacuum,
)

# Long texts stay on one line: a folded schema is hard to read.
_WIDTH: Final = 1 << 16
AFTER_RUN: Final = "after_run"
_TEXT: Final = "tag:yaml.org,2002:str"


def to_yaml(spec: ProjectSpec) -> str:
    """The text of a ``rivermouth.yml`` that loads back to an equal spec.

    References to environment variables stand in it as they do in ``spec``: nothing is resolved. A ``${`` in a text in
    which ``spec`` has no references is written as ``$${``.
    """
    return yaml.dump(
        escaped(_project(spec)),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_WIDTH,
        default_flow_style=None,
    )


def plain(value: object) -> Any:
    """A value of a noun as YAML's own types, in the short form where there is one."""
    match value:
        case StartingOffsets() | EndingOffsets():
            return _offsets(value)
        case Table() | Format() | Sink():
            return _named(value)
        case Maintenance() if value == Maintenance.model_validate(AFTER_RUN):
            return AFTER_RUN
        case Optimize() | Vacuum():
            body = _fields(value, always=("every",))
            return body if len(body) > 1 else body["every"]
        case Lookup():
            keys = _names(value.on)
            return {
                **_fields(value),
                "on": keys[0] if isinstance(keys, list) and len(keys) == 1 else keys,
                "columns": _names(value.columns),
            }
        case BaseModel():
            return _fields(value)
        case Mapping():
            return {key: plain(part) for key, part in value.items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case _:
            return value


def _names(mapping: Mapping[str, str]) -> Any:
    """A mapping of names as a list, where each has its own name."""
    return [*mapping] if all(name == other for name, other in mapping.items()) else dict(mapping)


def _project(spec: ProjectSpec) -> dict[str, Any]:
    body = _fields(spec, always=("name", "lake"))
    if spec.flows:
        body["flows"] = {name: flow_body(flow) for name, flow in spec.flows.items()}
    for pipeline in body.get("pipelines", {}).values():
        del pipeline["name"]  # it is the key above it
    return body


def flow_body(flow: Flow) -> dict[str, Any]:
    """A flow as the mapping below its name: what differs from the defaults."""
    body = _fields(flow)
    # Its name is the key above it, and a bare append is what every flow does.
    del body["name"]
    if body.get("sink") == "append":
        del body["sink"]
    if len(flow.lookup) == 1:
        (body["lookup"],) = body["lookup"]
    if "metadata_columns" in body:
        picked = flow.metadata_columns
        same = all(name == new for name, new in picked.items())
        body["metadata_columns"] = [name for name in METADATA_COLUMNS if name in picked] if same else dict(picked)
    return body


def _fields(model: BaseModel, always: tuple[str, ...] = ()) -> dict[str, Any]:
    texts = model.model_dump()
    body: dict[str, Any] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        default = field.get_default(call_default_factory=True, validated_data=texts)
        if name not in always and not field.is_required() and value == default:
            continue
        # Numbers that have a unit are texts in the dump.
        body[field.alias or name] = texts[name] if isinstance(value, float) else plain(value)
    return body


def _named(model: Table | Format | Sink) -> Any:
    body = _fields(model, always=("type",))
    return next(iter(body.values())) if len(body) == 1 else body


def _offsets(value: StartingOffsets | EndingOffsets) -> Any:
    if value.kind == "offsets":
        return {topic: dict(partitions) for topic, partitions in value.offsets.items()}
    if value.timestamp is not None:
        return value.timestamp.isoformat()
    group = getattr(value, "group", None)
    return {"group": group} if group is not None else value.kind


class _Dumper(yaml.SafeDumper):
    """Quotes every text that our reader, or any other, would take for something else."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - PyYAML's signature
        # Items of a list stand deeper than its key.
        super().increase_indent(flow, False)

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        """The tag that a plain scalar would get; a tag that is none forces quotes."""
        tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if kind is yaml.ScalarNode and implicit[0] and tag == _TEXT and not _is_plain_text(value):
            return "!"
        return tag


def _is_plain_text(value: str) -> bool:
    return scalar(value) == value and two_meanings(value) is None
