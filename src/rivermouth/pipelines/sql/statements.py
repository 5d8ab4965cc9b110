"""A file or cell of SQL in its statements: at ``;``, and at the lines between the cells of a notebook."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.tokens import Token, lexed, line_of

_SET_VALUE: Final = re.compile(
    r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|\n[ \t]*(?!\s|--[ ]COMMAND)|[^;\n])*""", re.DOTALL
)
_CELL: Final = re.compile(r"^-- COMMAND -+[ \t]*$", re.MULTILINE)
_MAGIC: Final = re.compile(r"^-- MAGIC ?", re.MULTILINE)
_FIRST_MAGIC: Final = re.compile(r"^-- MAGIC %([\w-]+)", re.MULTILINE)
_BARE_MAGIC: Final = re.compile(r"(?:[ \t]*(?:--.*)?\n)*%([\w-]+)")
_WORDS: Final = re.compile(r"[^\n]+")
_TEXT_MAGICS: Final = ("md", "md-sandbox", "html")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text.

    Attributes:
        found: Its tokens, at least one, without the ``;``.
        value: Of ``SET``: the text behind the word, as it is written; else None.
    """

    found: list[Token]
    value: str | None = None


def statements(text: str, at: SourceLine) -> Iterator[Statement]:
    """The statements of a text, in its order.

    Args:
        text: SQL; of a notebook, its magics have been read.
        at: Where its first line is.

    Raises:
        SqlInvalid: A string or comment does not end.
    """
    position = 0
    while position < len(text):
        found: list[Token] = []
        for token in lexed(text, at, start=position):
            position = token.end
            if token.text == ";" or token.kind == "break":
                break
            found.append(token)
            if len(found) == 1 and token.word == "SET":
                value = _SET_VALUE.match(text, token.end)
                position = token.end + len(value[0]) if value else len(text)
                yield Statement(found, text[token.end : position])
                break
        else:
            position = len(text)
        if found and found[0].word != "SET":
            yield Statement(found)


def without_magics(text: str, at: SourceLine) -> tuple[str, list[tuple[SourceLine, str]]]:
    """A notebook's text in which cells of ``%sql`` are SQL, and a note for each cell of another language.

    Every character that stays keeps its place.

    Args:
        text: A file of SQL; without the marks of a notebook it stays as it is.
        at: Where its first line is.
    """
    edges = [0, *(found.start() for found in _CELL.finditer(text)), len(text)]
    pieces: list[str] = []
    notes: list[tuple[SourceLine, str]] = []
    for start, end in itertools.pairwise(edges):
        cell = text[start:end]
        bare = _BARE_MAGIC.match(cell)
        magic = bare or _FIRST_MAGIC.search(cell)
        name = magic[1] if magic else ""
        if name == "sql":
            cell = _MAGIC.sub(_blank, cell).replace("%sql", "    ", 1)
        elif bare:
            cell = cell[: bare.start(1) - 1] + _WORDS.sub(_blank, cell[bare.start(1) - 1 :])
        if magic and name not in ("sql", *_TEXT_MAGICS):
            sentence = f"the cell %{name} is not run: in a file of SQL a pipeline reads only SQL"
            notes.append((line_of(text, start + magic.start(1), at), sentence))
        pieces.append(cell)
    return "".join(pieces), notes


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])
