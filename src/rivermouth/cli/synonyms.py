"""Commands and options that people try because other tools have them, and what to type instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from rivermouth.names import nearest

COMMANDS: Final[Mapping[str, str]] = {
    "stop": "press Ctrl-C where it runs, or: kill PID; it ends after the current batch",
    **dict.fromkeys(("start", "stream", "follow", "up"), "rivermouth run --follow"),
    **dict.fromkeys(("metrics", "lag", "offsets", "progress", "ps", "ls"), "rivermouth status --output json"),
    **dict.fromkeys(("list", "logs", "log", "history"), "rivermouth status"),
    **dict.fromkeys(("new", "create"), "rivermouth init"),
    **dict.fromkeys(("check", "lint", "parse", "compile"), "rivermouth validate"),
    **dict.fromkeys(("test", "try", "judge"), "rivermouth check-records FLOW FILE"),
    **dict.fromkeys(("dry-run", "diff", "show"), "rivermouth plan"),
    **dict.fromkeys(("optimize", "compact"), "rivermouth tables optimize"),
    "vacuum": "rivermouth tables vacuum",
    "describe": "rivermouth tables describe",
    "forget": "rivermouth tables forget",
    **dict.fromkeys(("reset", "full-refresh", "refresh"), "rivermouth rebuild FLOW, for a flow over a table"),
    **dict.fromkeys(("dlq", "dead_letters", "deadletters", "letters", "errors"), "rivermouth dead-letters list"),
    "replay": "rivermouth dead-letters replay",
    "produce": "rivermouth dev produce TOPIC FILE",
    "kafka": "rivermouth dev kafka",
    **dict.fromkeys(("read", "consume", "peek"), "rivermouth topics read TOPIC"),
    "infer": "rivermouth schema infer",
    "help": "rivermouth --help",
    "version": "rivermouth --version",
}
"""By the word that was typed in the place of a command."""

_FLOW: Final = "name the flows behind the command: rivermouth {command} FLOW"
OPTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--select", "-s", "--flow", "--flows", "--models", "-m", "--name"), _FLOW),
    **dict.fromkeys(("--reset", "--overwrite"), "rivermouth rebuild FLOW, for a flow over a table"),
    **dict.fromkeys(("--dry-run", "--plan", "-n"), "rivermouth plan"),
    **dict.fromkeys(
        ("-v", "-vv", "--verbose", "--log-level"),
        "as JSON, with all that is known: rivermouth {command} --output json; the trace of an error: --traceback",
    ),
    **dict.fromkeys(("-q", "--quiet"), "rivermouth {command} 2> /dev/null"),
    **dict.fromkeys(("--json", "--format", "-o"), "rivermouth {command} --output json"),
    **dict.fromkeys(
        ("--config", "-c", "--project", "--project-file", "--project-dir"), "rivermouth {command} -f rivermouth.yml"
    ),
    **dict.fromkeys(("--watch", "--continuous", "--streaming", "--forever"), "rivermouth run --follow"),
    **dict.fromkeys(("--available-now", "--batch"), "rivermouth run --once"),
}
"""By the option that was typed and that the command does not have; ``{command}`` is the command."""

_WITHOUT_VALUE: Final[Mapping[str, str]] = {
    "--full-refresh": (
        "rivermouth run --full-refresh-all for a pipeline; rivermouth rebuild FLOW for a flow over a table"
    ),
    "--refresh": "rivermouth run; for some tables of a pipeline: rivermouth run --refresh TABLE",
}
"""By the option that was typed without the value that it needs."""


def meant_by(error: click.ClickException) -> str | None:
    """What to type instead of what was typed; None where nobody can tell."""
    context: click.Context | None = getattr(error, "ctx", None)
    if isinstance(error, click.BadOptionUsage):
        return _WITHOUT_VALUE.get(error.option_name)
    if isinstance(error, click.NoSuchOption):
        command = "run" if context is None else context.command_path.partition(" ")[2] or "run"
        meant = OPTIONS.get(error.option_name)
        return meant and meant.format(command=command)
    if isinstance(error, click.UsageError) and context is not None and isinstance(context.command, click.Group):
        typed = next((word for word in COMMANDS if error.message.startswith(f"No such command '{word}'")), None)
        return COMMANDS[typed] if typed and context.parent is None else None
    return None


def without_guesses(error: click.ClickException, meant: str | None) -> click.ClickException:
    """The error without names that nobody meant: Click offers each one that shares letters with what was typed.

    Args:
        error: Of Click.
        meant: As of ``meant_by``; what is known needs no guess.
    """
    offered = getattr(error, "possibilities", None)
    if not offered or not isinstance(error, click.UsageError):
        return error
    typed = str(getattr(error, "command_name", None) or getattr(error, "option_name", ""))
    near = None if meant else nearest(typed, offered)
    return click.UsageError(error.message + (f" Did you mean {near!r}?" if near else ""), error.ctx)
