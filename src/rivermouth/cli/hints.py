"""Commands in hints, as the user has to type them: with the files and settings that were named."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

SOURCE_FILES: Final = (".py", ".sql", ".ipynb")
_COMMAND: Final = re.compile(r"\brivermouth((?: [a-z][a-z-]*)+)(?! (?:-f|--file)\b)")
_OF_SOURCE_FILE: Final = re.compile(r"\s*(?:'[^']*|\S*)(?:" + "|".join(map(re.escape, SOURCE_FILES)) + r")\b")
_OF_TABLES: Final = re.compile(r"\brivermouth run(?= --(?:refresh|full-refresh|full-refresh-all|reset-checkpoint)\b)")


@dataclass(frozen=True, slots=True)
class Named:
    """What a command was given that says where a pipeline or a flow is.

    Attributes:
        file: Of ``-f``.
        sources: Source files of a pipeline.
        profile: Of ``--profile``.
        params: The names of ``--param``. Their values may be secret.
    """

    file: str | None = None
    sources: tuple[str, ...] = ()
    profile: str | None = None
    params: tuple[str, ...] = ()


def naming_file(cli: click.Group, arguments: Sequence[str]) -> Callable[[str], str]:
    """A function that puts the files and settings of ``arguments`` into the commands of a text that take them."""
    named = _named(cli, arguments)
    return str if named == Named() else _naming(cli, named)


def naming(cli: click.Group, file: str) -> Callable[[str], str]:
    """A function that puts ``-f file`` into the commands of a text that take it."""
    return _naming(cli, Named(file))


def naming_pipeline(text: str, name: str) -> str:
    """A text whose commands that clear or refresh tables name the pipeline."""
    return _OF_TABLES.sub(lambda _: f"rivermouth run {shlex.quote(name)}", text)


def _naming(cli: click.Group, given: Named) -> Callable[[str], str]:
    def named(match: re.Match[str]) -> str:
        words = match[1].split()
        command, taken = _command(cli, words)
        if command is None:
            return match[0]
        behind = match.start(1) + len(" ".join(["", *words[:taken]]))
        more, params = _arguments(command, given), _arguments(command, Named(params=given.params))
        if any(each and match.string.startswith(" ".join(["", *each]), behind) for each in (more, params)):
            return match[0]  # it has them already
        more = params if _OF_SOURCE_FILE.match(match.string, behind) else more
        return " ".join(["rivermouth", *words[:taken], *more, *words[taken:]])

    return lambda text: _COMMAND.sub(named, text)


def _arguments(command: click.Command, given: Named) -> list[str]:
    """What the command has to be given of it, for a shell."""
    found = [] if given.file is None else ["-f", given.file]
    if _takes(command, "--profile"):
        found += given.sources
        found += [] if given.profile is None else ["--profile", given.profile]
        found += [part for name in given.params for part in ("--param", f"{name}=VALUE")]
    return [shlex.quote(each) for each in found]


def without_file(cli: click.Group, saved_by: str) -> Callable[[str], str]:
    """A function that says, behind a text with commands that read a project file, what writes this file first.

    Args:
        cli: All commands.
        saved_by: The command that writes it.
    """

    def said(text: str) -> str:
        found = any(_command(cli, match[1].split())[1] and match[1] != " ingest" for match in _COMMAND.finditer(text))
        return f"{text} (needs a project file; to write it first: {saved_by})" if found else text

    return said


def without_files(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The source files among the names that a command is given, and the other names."""
    files = [name for name in names if name.lower().endswith(SOURCE_FILES)]
    return files, [name for name in names if name not in files]


def _named(cli: click.Group, arguments: Sequence[str]) -> Named:
    """What the arguments name, as click reads them; what is wrong in them is told elsewhere."""
    command, values = _parsed(cli, arguments)
    file = values.get("file") if _takes(command, "--file") else None
    if not _takes(command, "--profile"):
        return Named(file)
    words: list[Any] = []
    for each in command.params:
        value = values.get(each.name or "") if isinstance(each, click.Argument) else None
        words += [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
    sources = tuple(without_files([*map(str, words)])[0])
    params = tuple(str(each).partition("=")[0] for each in values.get("params") or ())
    return Named(file, sources, values.get("profile"), params)


def _parsed(cli: click.Group, arguments: Sequence[str]) -> tuple[click.Command, dict[str, Any]]:
    """The command, and the values of those of its options and arguments that are given."""
    command: click.Command = cli
    rest = list(arguments)
    while True:
        context = click.Context(command, resilient_parsing=True)
        values, rest, _ = command.make_parser(context).parse_args(rest)
        if not isinstance(command, click.Group) or not rest or rest[0] not in command.commands:
            return command, values
        command, rest = command.commands[rest[0]], rest[1:]


def _takes(command: click.Command, option: str) -> bool:
    return any(option in each.opts for each in command.params)


def _command(cli: click.Group, words: Sequence[str]) -> tuple[click.Command | None, int]:
    """The command that the first words are, and how many they are, if it reads a project file; else none."""
    found: click.Command = cli
    for count, word in enumerate(words, 1):
        if not isinstance(found, click.Group) or word not in found.commands:
            return None, 0
        found = found.commands[word]
        if not isinstance(found, click.Group):
            return (found, count) if _takes(found, "--file") else (None, 0)
    return None, 0
