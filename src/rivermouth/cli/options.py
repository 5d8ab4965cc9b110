"""Options that many commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_NAME = "rivermouth.yml"


def speaking(command: Command) -> Command:
    """``--output`` and ``--traceback``; the command's first argument is an ``Output`` that heeds them."""
    choice = click.Choice(["text", "json"])
    help_text = "Text for people, or one JSON value a line."
    # Main reads both before any command: errors of usage have a JSON twin too.
    output = click.option("--output", type=choice, default="text", expose_value=False, help=help_text)
    traceback = click.option(
        "--traceback", is_flag=True, expose_value=False, help="Show the full trace of an unexpected error."
    )
    return cast("Command", click.pass_obj(output(traceback(command))))


def with_project(command: Command) -> Command:
    """``--file`` beside what ``speaking`` gives; the command gets ``file``."""
    option = click.option("-f", "--file", default=FILE_NAME, show_default=True, help="The project file.")
    return option(speaking(command))


def with_flows(command: Command) -> Command:
    """Names of flows as arguments; the command gets the tuple ``flows``, empty for all."""
    return click.argument("flows", nargs=-1, metavar="[FLOW]...")(command)
