"""Which noun and which types stand at a path of a project file."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from rivermouth.extend import find_kind, kind_names
from rivermouth.project.file.suggestions import fields_of
from rivermouth.project.file.yaml_source import Path
from rivermouth.spec import EndingOffsets, Flow, ProjectSpec, StartingOffsets

KIND_FIELDS: Final = {"format": "formats", "key_format": "formats", "sink": "sinks"}
"""The fields of a flow that hold a kind, with its family."""


def resolved(value: object, loc: tuple[str | int, ...]) -> Path:
    """``loc`` without the parts that are pydantic's and not the file's."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(value, dict):
            key = part if part in value else next((key for key in value if str(key) == str(part)), None)
            if key is not None:
                path.append(key)
                value = value[key]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    return tuple(path)


def value_at(value: Any, path: Path) -> Any:
    """The value at ``path`` below ``value``; None if there is none."""
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def model_at(path: Path, value: object) -> type[BaseModel] | None:
    """The noun that describes the mapping at ``path``; None where that is no noun."""
    annotations = _annotations_at(path, value)
    # A list of one may be written without the list.
    annotations += [typing.get_args(found)[0] for found in annotations if typing.get_origin(found) is tuple]
    models = [found for found in annotations if isinstance(found, type) and issubclass(found, BaseModel)]
    return models[0] if models else None


def scalars_at(path: Path, value: object) -> set[object]:
    """The scalar types that may stand at ``path``."""
    return {found for found in _annotations_at(path, value) if found in (str, int, float, bool)}


def _annotations_at(path: Path, value: object) -> list[Any]:
    found: list[Any] = [ProjectSpec]
    for index, part in enumerate(path):
        here = value_at(value, path[: index + 1])
        found = [deeper for annotation in found for deeper in _step(annotation, part, here)]
    return found


def _step(annotation: Any, part: str | int, value: object) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, StartingOffsets | EndingOffsets):
        # Below a topic's name stand partitions and offsets.
        yield {"group": str}.get(str(part), dict[int, int])
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = fields_of(annotation).get(str(part))
        if annotation is Flow and part in KIND_FIELDS:
            yield from _kind_model(KIND_FIELDS[str(part)], value)
        elif field is not None:
            yield from _unwrapped(field.annotation)
    else:
        arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
        if arguments and typing.get_origin(annotation) is tuple and isinstance(part, str):
            # A list of one may be written without the list.
            yield from _step(arguments[0], part, value)
        elif arguments:
            yield from _unwrapped(arguments[-1])


def _kind_model(family: str, value: object) -> Iterator[type[BaseModel]]:
    name = value.get("type") if isinstance(value, Mapping) else value
    if isinstance(name, str) and name in kind_names(family):
        yield find_kind(family, name)


def _unwrapped(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _unwrapped(typing.get_args(annotation)[0])
    elif origin in (types.UnionType, typing.Union):
        for argument in typing.get_args(annotation):
            yield from _unwrapped(argument)
    else:
        yield annotation
