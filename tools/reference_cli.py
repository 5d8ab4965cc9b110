"""The reference page of the commands."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from rivermouth.cli.main import cli
from tools.reference_markdown import table_row


def cli_page() -> str:
    """The page of the commands."""
    parts = ["# Commands", *_command(cli, click.Context(cli, info_name="rivermouth"), top=True)]
    return "\n\n".join(parts)


def _command(command: click.Command, context: click.Context, *, top: bool = False) -> Iterator[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    if not top:
        yield f"## `{context.command_path}`"
    yield _help(command.help or "")
    if not isinstance(command, click.Group):
        yield f"```text\n{usage}\n```"
    rows = [row for parameter in command.get_params(context) if (row := _option(parameter, context))]
    if rows:
        yield "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            if not child.hidden:
                yield from _command(child, click.Context(child, info_name=name, parent=context))


def _option(parameter: click.Parameter, context: click.Context) -> str | None:
    record = parameter.get_help_record(context)
    if not isinstance(parameter, click.Option) or record is None or "--help" in parameter.opts:
        return None
    default = parameter.get_default(context)
    default = ", ".join(default) if isinstance(default, tuple) else default
    given = isinstance(default, str | int | float) and default not in (False, "")
    shown = "required" if parameter.required else f"`{default}`" if given else ""
    return table_row(f"`{record[0]}`", shown, _help(parameter.help or ""))


def _help(text: str) -> str:
    paragraphs = textwrap.dedent(text).replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
