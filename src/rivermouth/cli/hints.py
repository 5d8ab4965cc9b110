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
    """A function that puts the ``-f FILE`` of ``arguments`` into the commands of a hint that take it."""
    file = next(_files(arguments), None)
    if file is None:
        return str

    def named(match: re.Match[str]) -> str:
        words = match[1].split()
        taken = _command(cli, words)
        if not taken:
            return match[0]
        rest = "".join(f" {word}" for word in words[taken:])
        return f"rivermouth {' '.join(words[:taken])} -f {shlex.quote(file)}{rest}"

    return lambda hint: _COMMAND.sub(named, hint)


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
