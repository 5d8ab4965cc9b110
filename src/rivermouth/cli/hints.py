"""Commands in hints, as the user has to type them: with the project file that was named."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import click

_COMMAND: Final = re.compile(r"\brivermouth((?: [a-z][a-z-]*)+)(?! (?:-f|--file)\b)")


def naming_file(cli: click.Group, arguments: Sequence[str]) -> Callable[[str], str]:
    """A function that puts the ``-f FILE`` of ``arguments`` into the commands of a text that take it."""
    file = next(_files(arguments), None)
    return str if file is None else naming(cli, file)


def naming(cli: click.Group, file: str) -> Callable[[str], str]:
    """A function that puts ``-f file`` into the commands of a text that take it."""

    def named(match: re.Match[str]) -> str:
        words = match[1].split()
        taken = _command(cli, words)
        if not taken:
            return match[0]
        rest = "".join(f" {word}" for word in words[taken:])
        return f"rivermouth {' '.join(words[:taken])} -f {shlex.quote(file)}{rest}"

    return lambda text: _COMMAND.sub(named, text)


def without_file(cli: click.Group, saved_by: str) -> Callable[[str], str]:
    """A function that says, behind a text with commands that read a project file, what writes this file first.

    Args:
        cli: All commands.
        saved_by: The command that writes it.
    """

    def said(text: str) -> str:
        found = any(_command(cli, match[1].split()) and match[1] != " ingest" for match in _COMMAND.finditer(text))
        return f"{text} (needs a project file; to write it first: {saved_by})" if found else text

    return said


def _files(arguments: Sequence[str]) -> Iterator[str]:
    """The values of ``-f`` as click reads them."""
    for argument, behind in pairwise([*arguments, ""]):
        if argument in ("-f", "--file"):
            yield behind
        elif argument.startswith("--file="):
            yield argument.partition("=")[2]
        elif argument.startswith("-f"):
            yield argument[2:]


def _command(cli: click.Group, words: Sequence[str]) -> int:
    """How many of the words are a command that reads a project file; 0 if they are none."""
    found: click.Command = cli
    for count, word in enumerate(words, 1):
        if not isinstance(found, click.Group) or word not in found.commands:
            return 0
        found = found.commands[word]
        if not isinstance(found, click.Group):
            return count if any("--file" in option.opts for option in found.params) else 0
    return 0
