"""A flow as its project file has it: with the values of variables, and what the project says of all its flows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rivermouth.domain.project.references import expand_flow, references
from rivermouth.errors import FlowUnknown, ProjectInvalid
from rivermouth.names import did_you_mean
from rivermouth.pipelines.convert.model import Difference
from rivermouth.project.file import yaml_source
from rivermouth.project.file.reading import read_project, read_text
from rivermouth.spec import Flow, ProjectSpec

_OF_ALL: Final = ("places", "maintenance")
"""What a project says of all its flows, and a flow may say otherwise."""
_NOT_WRITTEN: Final = ("places", "group_id")
"""Settings whose values are in no file of a pipeline."""


@dataclass(frozen=True, slots=True)
class FlowInFile:
    """A flow of a project file.

    Attributes:
        flow: The flow, with the values of variables, and with what the project says of all its flows.
        file: The name of the project file.
        lines: The line of each value of the project.
        differences: Where the value of a variable takes the place of its name.
    """

    flow: Flow
    file: str
    lines: Mapping[yaml_source.Path, int]
    differences: tuple[Difference, ...] = ()

    def place(self, *path: Any) -> str | None:
        """The line of a setting by its path; where it has none, of the nearest one above it."""
        wholes = [("flows", self.flow.name, *path[:length]) for length in range(len(path), -1, -1)]
        if path and wholes[0] not in self.lines:
            wholes.insert(0, path[:1])  # the project may say it of all flows
        line = next((self.lines[whole] for whole in wholes if whole in self.lines), None)
        return None if line is None else f"{self.file}:{line}"


def flow_in_file(file: str, name: str, environ: Mapping[str, str]) -> FlowInFile:
    """A flow of a project file.

    Args:
        file: The project file.
        name: The name of the flow.
        environ: Environment variables.

    Raises:
        FlowUnknown: The file has no such flow.
        RivermouthError: What is wrong with the file, or the flow needs a variable that is not set.
    """
    spec, lines = read_project(Path(file), file, environ)
    if name not in spec.flows:
        raise FlowUnknown(name=name, fix=did_you_mean(name, spec.flows))
    document = yaml_source.read(read_text(Path(file), file), file)
    texts = _texts(document.value["flows"][name], ("flows", name))
    differences = tuple(
        Difference(
            f"{file}:{document.line(path)}",
            ".".join(map(str, path[2:])),
            f"the value that {_named(found)} has now is written, and not the variable",
        )
        for path, text in texts
        if path[2] not in _NOT_WRITTEN and (found := [*_references(text)])
    )
    return FlowInFile(expand_flow(_with_project(spec, spec.flows[name]), environ), file, lines, differences)


def _with_project(spec: ProjectSpec, flow: Flow) -> Flow:
    empty = {name: type(flow).model_fields[name].default for name in _OF_ALL}
    changes = {
        name: getattr(spec, name)
        for name, nothing in empty.items()
        if getattr(flow, name) == nothing and getattr(spec, name) != nothing
    }
    return flow.model_copy(update=changes)


def _texts(value: Any, path: yaml_source.Path) -> Iterator[tuple[yaml_source.Path, str]]:
    if isinstance(value, str):
        yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _texts(part, (*path, key))


def _references(text: str) -> Iterator[str]:
    try:
        yield from references(text)
    except ProjectInvalid:
        return  # the file was checked before: it is no reference where it is


def _named(names: list[str]) -> str:
    return " and ".join(f"${{{name}}}" for name in names)
