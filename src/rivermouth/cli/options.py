"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from rivermouth.cli.output import Output

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_NAME = "rivermouth.yml"


def _output(_context: click.Context, _option: click.Parameter, value: str) -> Output:
    return Output(json=value == "json")


def speaking(command: Command) -> Command:
    """``--output`` and ``--traceback``; the command gets ``output``."""
    command = click.option(
        "--traceback", is_flag=True, expose_value=False, help="Show the full trace of an unexpected error."
    )(command)
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        callback=_output,
        help="Text for people, or one JSON value a line.",
    )(command)


def with_project(command: Command) -> Command:
    """``--file``, ``--output`` and ``--traceback``; the command gets ``file`` and ``output``."""
    option = click.option("-f", "--file", default=FILE_NAME, show_default=True, help="The project file.")
    return option(speaking(command))


def with_flows(command: Command) -> Command:
    """Names of flows as arguments; the command gets the tuple ``flows``, empty for all."""
    return click.argument("flows", nargs=-1, metavar="[FLOW]...")(command)
