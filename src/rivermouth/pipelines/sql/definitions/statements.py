"""A file or cell of SQL in its statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.tokens import Token, lexed

_OF_VALUE: Final = r"""(?P<comment>(?<!\S)--[^\r\n]*)|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|[^;]"""
_SET_VALUE: Final = re.compile(f"(?:{_OF_VALUE})*", re.DOTALL)
_PIECE: Final = re.compile(_OF_VALUE, re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a text.

    Attributes:
        found: Its tokens, at least one, without the ``;``.
        value: Of ``SET``: the text behind the word, as it is written but for comments of a line; else None.
    """

    found: list[Token]
    value: str | None = None


def statements(text: str, at: SourceLine) -> Iterator[Statement]:
    """The statements of a text, in its order.

    Args:
        text: SQL; of a notebook, one cell.
        at: Where its first line is.

    Raises:
        SqlInvalid: A string or comment does not end.
    """
    position = 0
    while position < len(text):
        found: list[Token] = []
        for token in lexed(text, at, start=position):
            position = token.end
            if token.text == ";":
                break
            found.append(token)
            if len(found) == 1 and token.word == "SET":
                value = _SET_VALUE.match(text, token.end)
                position = token.end + len(value[0]) if value else len(text)
                pieces = _PIECE.finditer(text, token.end, position)
                yield Statement(found, "".join(piece[0] for piece in pieces if piece["comment"] is None))
                break
        else:
            position = len(text)
        if found and found[0].word != "SET":
            yield Statement(found)
