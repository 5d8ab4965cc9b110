"""Tokens of Spark's SQL with their places in the text, so that a text can be changed in some places and in no other.

The rules are those of Spark's lexer (SqlBaseLexer.g4): nested comments, raw strings, ``$$`` strings, backquotes. A
variable ``${name}`` is part of the word, string or quoted name that it is in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

from rivermouth.errors.pipeline_sql import SqlInvalid
from rivermouth.pipelines.spec import SourceLine

TokenKind = Literal["word", "quoted", "string", "raw_string", "symbol"]

VARIABLE: Final = re.compile(r"\$\{[^{}]*\}")

_COMMENT_EDGE: Final = re.compile(r"/\*|\*/")
_STRING: Final = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\""""
_TOKEN: Final = re.compile(
    rf"""
      (?P<space>\s+|--[^\r\n]*)
    | (?P<comment>/\*)
    | (?P<raw_string>[rR](?:'[^']*'|"[^"]*")|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<string>{_STRING})
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<open>['"`])
    | (?P<word>(?:\w|\$\{{[^{{}}]*\}})+)
    | (?P<symbol>::|:=|=>|==|->|<=>|<>|!=|<=|>=|\|\||\|>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text.

    Attributes:
        kind: What it is; numbers are words and symbols.
        text: As it is written, with its quotes.
        start: Its first character in the text.
        end: The character after its last one.
    """

    kind: TokenKind
    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A word in capital letters, a symbol as it is; empty for strings and quoted names."""
        return self.text.upper() if self.kind in ("word", "symbol") else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name."""
        return self.kind in ("word", "quoted")

    @property
    def is_string(self) -> bool:
        """Whether it is the literal of a string."""
        return self.kind in ("string", "raw_string")

    @property
    def value(self) -> str:
        """What a string or a name says, without quotes and escapes."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        if self.kind == "string":
            quote = self.text[0]
            return _ESCAPE.sub(_unescaped, self.text[1:-1].replace(quote * 2, quote))
        if self.kind == "raw_string":
            width = 2 if self.text[0] in "rR" else self.text.index("$", 1) + 1
            return self.text[width : -1 if self.text[0] in "rR" else -width]
        return self.text


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    if len(code) == 1:
        return _ESCAPED.get(code, code)
    return chr(int(code[1:], 16)) if code[0] in "uU" else chr(int(code, 8))


def is_part(found: list[Token], i: int) -> bool:
    """Whether the word at ``i`` is part of a longer name, a step of a ``column:path``, or a parameter ``:name``."""
    return i > 0 and found[i - 1].text in (".", ":")


def string_value(text: str) -> str | None:
    """What a text says that is the literal of a string; None where it is something else."""
    found = _TOKEN.fullmatch(text)
    token = Token(cast("TokenKind", found.lastgroup), text, 0, len(text)) if found else None
    return token.value if token is not None and token.is_string else None


def quoted_string(value: str) -> str:
    """The literal of a string."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted_name(*parts: str) -> str:
    """A name with each of its parts in backquotes."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def place(text: str, position: int, at: SourceLine) -> str:
    """Where a character of a text is in its file: ``file:line:column``.

    Args:
        text: The whole text.
        position: The character, from 0.
        at: Where the text's first line is.
    """
    line = line_of(text, position, at)
    return f"{line}:{line.before + 1}"


def line_of(text: str, position: int, at: SourceLine) -> SourceLine:
    """The line of a character of a text, for a text that begins with it."""
    start = text.rfind("\n", 0, position) + 1
    before = position - start + (at.before if start == 0 else 0)
    return SourceLine(at.file, at.line + text.count("\n", 0, position), at.cell, before)


def tokens(text: str, at: SourceLine) -> list[Token]:
    """The tokens of a text, without its comments. As ``lexed``."""
    return list(lexed(text, at))


def lexed(text: str, at: SourceLine, *, start: int = 0) -> Iterator[Token]:
    """The tokens of a text, one after the other, without its comments.

    Args:
        text: Any SQL.
        at: Where the text's first line is; for errors.
        start: The character to begin with.

    Raises:
        SqlInvalid: A string, a quoted name or a comment does not end.
    """
    position = start
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None, "the last alternative is any character"  # noqa: S101
        kind, position = match.lastgroup, match.end()
        if kind == "comment":
            position = _end_of_comment(text, match.start(), at)
        elif kind == "open":
            what = "a quoted name" if match[0] == "`" else "a string"
            raise SqlInvalid(
                at=place(text, match.start(), at),
                detail=f"{what} begins here and does not end",
                fix=f"close it with {match[0]}",
            )
        elif kind != "space":
            yield Token(cast("TokenKind", kind), match[0], match.start(), match.end())


def _end_of_comment(text: str, start: int, at: SourceLine) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise SqlInvalid(at=place(text, start, at), detail="a comment begins here and does not end", fix="close it with */")
