"""``rivermouth kinds``: which words the project file knows."""

from __future__ import annotations

import inspect
import sys
from typing import Final

import click

from rivermouth.cli.options import speaking
from rivermouth.cli.output import Output
from rivermouth.cli.text_table import columns
from rivermouth.extend import find_kind, kind_names

FAMILIES: Final = ("formats", "sinks", "actions")


@click.command(short_help="List the formats, sinks and actions that are installed.")
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


def _about(family: str, name: str) -> str:
    """The first sentence of what its class or its module says of it."""
    kind = find_kind(family, name)
    documented = kind if inspect.isclass(kind) else sys.modules.get(f"rivermouth.{family}.{name}", kind)
    return (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ").replace("``", "")
