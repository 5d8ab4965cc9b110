"""``rivermouth kinds`` and ``rivermouth schema``: which words the project file knows."""

from __future__ import annotations

import inspect
import sys
from typing import Final

import click

from rivermouth.cli.options import speaking
from rivermouth.cli.output import Output, columns
from rivermouth.extend import find_kind, kind_names

FAMILIES: Final = ("formats", "sinks", "actions")


@click.command()
@speaking
def kinds(output: Output) -> None:
    """List the formats, sinks and actions that this installation knows."""
    found = [
        {"family": family, "name": name, "about": _about(family, name)}
        for family in FAMILIES
        for name in kind_names(family)
    ]
    rows = [(each["family"].removesuffix("s"), each["name"], each["about"]) for each in found]
    output.result(columns(("family", "name", "about"), rows), {"kinds": found})


@click.group()
def schema() -> None:
    """Schemas of what rivermouth reads."""


@schema.command("json")
@speaking
def schema_json(output: Output) -> None:
    """Print the JSON Schema of the project file, for editors."""
    from rivermouth.project.json_schema import project_schema, to_text

    found = project_schema()
    output.result(to_text(found).rstrip("\n"), found)


def _about(family: str, name: str) -> str:
    """The first sentence of what its class or its module says of it."""
    kind = find_kind(family, name)
    documented = kind if inspect.isclass(kind) else sys.modules.get(f"rivermouth.{family}.{name}", kind)
    return (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ").replace("``", "")
