"""Options that many commands share."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FILE_NAME = "rivermouth.yml"


class Timestamp(click.ParamType[dt.datetime]):
    """A time in ISO 8601; without an offset it is UTC."""

    name = "timestamp"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dt.datetime:
        """The value that was meant; fails with words of usage."""
        if isinstance(value, dt.datetime):
            return value
        try:
            found = dt.datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no timestamp, for example 2026-01-31T12:00:00Z.", param, ctx)
        return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


class Duration(click.ParamType[float]):
    """A duration in words, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value that was meant; fails with words of usage."""
        from rivermouth.spec import duration_s

        try:
            found = duration_s(value)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)
        return float(found)  # type: ignore[arg-type]


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
