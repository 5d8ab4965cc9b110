"""What commands say: results on standard output, progress and errors on standard error, each as text and JSON."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from rivermouth import errors
from rivermouth.cli.hints import naming_pipeline
from rivermouth.cli.text_table import folded
from rivermouth.errors import RivermouthError
from rivermouth.names import printable

_HINT: Final = re.compile(r"^ *hint: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks.

    Attributes:
        json: One JSON value a line instead of text.
        traceback: Whether an unexpected error shows its full trace.
        hinted: Puts the files and settings that this command was given into the commands of a text, so that they work
            when pasted. For texts of ours: rows and records stay as they are.
    """

    json: bool = False
    traceback: bool = False
    hinted: Callable[[str], str] = str

    def of(self, pipeline: str) -> Output:
        """The same, and commands that refresh tables name the pipeline; the same alone where it is empty."""
        if not pipeline:
            return self
        return replace(self, hinted=lambda text: self.hinted(naming_pipeline(text, pipeline)))

    def result(self, text: str, value: object, *, whole: bool = False) -> None:
        """Says a result: ``text``, or its twin ``value`` as one line of JSON.

        Args:
            text: For people.
            value: For programs.
            whole: Lines of the text are never broken, as they are there to be copied.
        """
        if self.json:
            echo_json(to_json(self.hinted_json(plain(value))))
        else:
            echo(self.hinted_text(text), whole=whole)

    def note(self, text: str) -> None:
        """Says on standard error what goes on; in JSON nothing."""
        if not self.json:
            echo(text, err=True)

    def error(self, error: RivermouthError) -> None:
        """Says an error on standard error."""
        speaks = self.of(error.of_pipeline)
        if self.json:
            echo_json(to_json(speaks.hinted_json(plain(error))), err=True)
        else:
            echo(speaks.hinted_text(str(error)), err=True)

    def hinted_text(self, text: str) -> str:
        """``text``, and in its lines with hints what the user has to type."""
        return _HINT.sub(lambda hint: self.hinted(hint[0]), text)

    def hinted_json(self, value: Any) -> Any:
        """A value in JSON's types, and in its hints what the user has to type."""
        if isinstance(value, list):
            return [self.hinted_json(part) for part in value]
        if not isinstance(value, dict):
            return value
        body = {key: self.hinted_json(part) for key, part in value.items()}
        # Rows of tables may have a column of that name.
        if {"code", "message", "hint"} <= body.keys() and isinstance(body["hint"], str):
            body["hint"] = self.hinted(body["hint"])
        return body

    def unexpected(self, error: BaseException) -> None:
        """Says an error that is none of ours: in one line with the place of its full trace, or whole."""
        trace = "".join(traceback.format_exception(error))
        if self.traceback:
            echo(trace, err=True, whole=True)
            return
        hint = f"less {_kept(trace)}"
        if self.json:
            body = {"code": "UNEXPECTED", "message": first_line(error), "at": None, "hint": hint}
            echo_json(to_json(body), err=True)
        else:
            echo(f"[UNEXPECTED] {first_line(error)}\n  hint: {hint}", err=True)


def echo(text: str, *, err: bool = False, whole: bool = False) -> None:
    """Says text for people; nothing in it moves the cursor, changes colours or turns words around.

    Lines that are wider than the terminal go on below themselves, broken between words; elsewhere they stay as they
    are, and so they do where they are ``whole``.
    """
    text = printable(text, lines=True)
    click.echo(text if whole else folded(text, sys.stderr if err else sys.stdout), err=err)


def echo_json(line: str, *, err: bool = False) -> None:
    """Says one line of JSON; a character that does not print is written as JSON's own escape for it."""
    # Outside of strings JSON has printable characters alone.
    click.echo("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in line), err=err)


def echo_over(text: str) -> None:
    """Writes text over the current line of standard error, and does not end the line."""
    click.echo(f"\r{printable(text)}", err=True, nl=False)


def to_json(value: object) -> str:
    """``value`` as one line of JSON."""
    return json.dumps(plain(value), ensure_ascii=False, separators=(", ", ": "))


def plain(value: object) -> Any:
    """``value`` in JSON's own types: dataclasses become objects, errors become code, message, at and hint."""
    match value:
        case RivermouthError():
            return _error(value)
        case bytes():
            return value.hex()
        case dt.datetime():
            return value.isoformat()
        case Path():
            return str(value)
        case Mapping():
            return {str(key): plain(part) for key, part in value.items()}
        case str() | int() | float() | bool() | None:
            return value
        case BaseException():
            return {"code": "UNEXPECTED", "message": first_line(value), "at": None, "hint": ""}
        case Iterable():
            return [plain(part) for part in value]
        case _ if is_dataclass(value):
            return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        case _:
            return str(value)


def first_line(error: BaseException) -> str:
    """The kind of an error that is none of ours and the first line of what it says."""
    kind, said = type(error).__name__, errors.first_line(error)
    return kind if said == kind else f"{kind}: {said}"


def count(number: int, noun: str) -> str:
    """``1 batch``, ``2 batches``, ``12,000 offsets``, ``3 entries``."""
    ending = "ies" if noun.endswith("ry") else "es" if noun.endswith(("ch", "s")) else "s"
    plural = (noun[:-1] if ending == "ies" else noun) + ending
    return f"{number:,} {noun if number == 1 else plural}"


def indented(text: str, by: str = "  ") -> str:
    """``text`` with ``by`` before each line."""
    return "\n".join(by + line for line in text.splitlines())


def is_terminal() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr.isatty()


def _kept(trace: str) -> Path:
    # Readable by this user alone: a trace may quote what was worked on.
    handle, name = tempfile.mkstemp(prefix="rivermouth-trace-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(trace)
    return Path(name)


def _error(error: RivermouthError) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message, "at": error.at, "hint": error.next_step}
    problems = error.facts.get("problems")
    if isinstance(problems, tuple):
        body["problems"] = [plain(problem) for problem in problems]
    return body
