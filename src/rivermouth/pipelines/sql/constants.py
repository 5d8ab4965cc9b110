"""Expressions whose value is known before a query runs: literals, parameters and secrets, joined by ``||``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rivermouth.errors.pipeline_sql import SqlNotConstant
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.parameters import is_marker, value_of
from rivermouth.pipelines.sql.tokens import Token, place

_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?:[LSYFDlsyfd]|BD|bd)?")
_SUFFIX: Final = re.compile(r"(?:[LSYlsy]|BD|bd|(?<!x)[FDfd])$")
_WORDS: Final = {"TRUE": "true", "FALSE": "false"}


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that is kept elsewhere: ``secret('scope', 'key')``."""

    scope: str
    key: str


@dataclass(frozen=True, slots=True)
class Constant:
    """The value of a constant expression.

    Attributes:
        pieces: Texts and secrets that are joined. A number or boolean is its text; ``NULL`` has no pieces.
        is_null: Whether it is ``NULL``.
    """

    pieces: tuple[str | Secret, ...]
    is_null: bool = False

    def text(self, secret: Callable[[str, str], str]) -> str:
        """The value as text.

        Args:
            secret: Gives the secret of a scope and key.
        """
        return "".join(secret(each.scope, each.key) if isinstance(each, Secret) else each for each in self.pieces)

    def __add__(self, other: Constant) -> Constant:
        return Constant(self.pieces + other.pieces, self.is_null or other.is_null)


@dataclass(slots=True)
class Expressions:
    """Reads constant expressions from tokens.

    Attributes:
        text: The text of the tokens.
        at: Where its first line is.
        found: The tokens.
        params: Values of ``:name``.
    """

    text: str
    at: SourceLine
    found: list[Token]
    params: Mapping[str, str] = field(default_factory=dict)

    def constant(self, start: int, end: int, subject: str) -> Constant:
        """The value of the tokens from ``start`` to before ``end``.

        Args:
            start: The first token.
            end: The token after the last one.
            subject: What it is, for the error: ``the argument format of read_files``.

        Raises:
            SqlNotConstant: It is not a constant expression.
            SqlParameterUnknown: A parameter has no value.
        """
        result: Constant | None = None
        i = start
        while i < end:
            if result is not None and self.found[i].text == "||":
                i += 1
            elif result is not None and not (self.found[i].is_string and self.found[i - 1].is_string):
                break
            term = self._term(i, end, subject)
            if term is None:
                break
            result, i = (term[0] if result is None else result + term[0]), term[1]
        if result is None or i < end:
            raise self._not_constant(i, subject)
        return result

    def plain(self, start: int, end: int, subject: str) -> str:
        """The same as text, where a secret must not be.

        Raises:
            SqlNotConstant: It is not a constant expression, or has a secret.
            SqlParameterUnknown: A parameter has no value.
        """
        pieces = self.constant(start, end, subject).pieces
        if any(isinstance(each, Secret) for each in pieces):
            raise self._not_constant(start, subject)
        return "".join(each for each in pieces if isinstance(each, str))

    def _not_constant(self, i: int, subject: str) -> SqlNotConstant:
        position = self.found[min(i, len(self.found) - 1)].start
        return SqlNotConstant(at=place(self.text, position, self.at), subject=subject)

    def arguments(self, open_: int) -> tuple[list[tuple[int, int]], int]:
        """The token ranges between the commas behind an opening parenthesis, and the place of the closing one."""
        close = closing(self.found, open_)
        return split_at_commas(self.found, open_ + 1, close), close

    def _term(self, i: int, end: int, subject: str) -> tuple[Constant, int] | None:
        if i >= end:
            return None
        token = self.found[i]
        if token.is_string:
            return Constant((token.value,)), i + 1
        if is_marker(self.found, i) and i + 1 < end:
            name = self.found[i + 1].text
            at = place(self.text, token.start, self.at)
            return Constant((value_of(name, self.params, at),)), i + 2
        if token.word == "NULL":
            return Constant((), is_null=True), i + 1
        if token.word in _WORDS:
            return Constant((_WORDS[token.word],)), i + 1
        number = _NUMBER.match(self.text, token.start)
        if number and (token.text == "-" or token.text[0].isdigit()):
            after = next((j for j in range(i, end) if self.found[j].start >= number.end()), end)
            return Constant((_SUFFIX.sub("", number[0]),)), after
        if i + 1 < end and (token.text == "(" or self.found[i + 1].text == "("):
            return self._call(i, subject)
        return None

    def _call(self, i: int, subject: str) -> tuple[Constant, int] | None:
        token = self.found[i]
        if token.text == "(":
            close = closing(self.found, i)
            return self.constant(i + 1, close, subject), close + 1
        ranges, close = self.arguments(i + 1)
        if token.word == "CONCAT" and ranges:
            values = [self.constant(low, high, subject) for low, high in ranges]
            return sum(values[1:], values[0]), close + 1
        if token.word == "SECRET" and len(ranges) == 2:  # noqa: PLR2004 - the scope and the key
            scope, key = (self.plain(*each, subject) for each in ranges)
            return Constant((Secret(scope, key),)), close + 1
        return None


def closing(found: list[Token], open_: int) -> int:
    """The token that closes the parenthesis at ``open_``; the number of tokens if none does."""
    depth = 0
    for i in range(open_, len(found)):
        depth += {"(": 1, ")": -1}.get(found[i].text, 0)
        if depth == 0:
            return i
    return len(found)


def split_at_commas(found: list[Token], start: int, end: int) -> list[tuple[int, int]]:
    """The token ranges between the commas from ``start`` to ``end`` that no bracket holds."""
    ranges, depth, low = [], 0, start
    for i in range(start, end):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(found[i].text, 0)
        if depth == 0 and found[i].text == ",":
            ranges.append((low, i))
            low = i + 1
    if low < end:
        ranges.append((low, end))
    return ranges
