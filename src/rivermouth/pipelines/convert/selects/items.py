"""Items of a SELECT: what they compute and what they are called."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.constants import closing, split_at_commas
from rivermouth.pipelines.sql.tokens import Token, tokens

_NOWHERE: Final = SourceLine("<query>", 1)
_NO_NAMES: Final = ("NULL", "TRUE", "FALSE", "UNKNOWN", "END", "DISTINCT")
_OPERATORS: Final = ("AND", "OR", "NOT", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "DIV", "ESCAPE", "FROM")
_AS_TEXT: Final = (
    re.compile(r"^CAST \( (\S+) AS STRING \)$"),
    re.compile(r"^(\S+) :: STRING$"),
    re.compile(r"^STRING \( (\S+) \)$"),
)


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a SELECT.

    Attributes:
        text: SQL of its value, as it is written.
        names: What it is called: one name, or those of ``AS (a, b)``; empty where none is given.
        found: The tokens of ``text``.
    """

    text: str
    names: tuple[str, ...]
    found: tuple[Token, ...]

    @property
    def plain(self) -> str:
        """Its tokens with a space between them, words in capitals, names without backquotes."""
        return " ".join(each.value if each.kind == "quoted" else each.word or each.text for each in self.found)

    @property
    def column(self) -> str | None:
        """The column that it is; None where it is more."""
        return self.found[0].value if len(self.found) == 1 and self.found[0].is_name else None

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of ``a.b``; empty where it is something else."""
        dots = all(each.text == "." for each in self.found[1::2])
        names = self.found[::2]
        is_path = dots and len(self.found) % 2 and all(each.is_name or each.text == "*" for each in names)
        return tuple(each.value for each in names) if is_path else ()

    @property
    def as_text(self) -> str | None:
        """The column, in capitals, that is cast to a string."""
        return next((found[1] for each in _AS_TEXT if (found := each.match(self.plain))), None)

    @property
    def excepted(self) -> tuple[str, ...] | None:
        """The columns that ``* EXCEPT (...)`` leaves out; none of ``*``; None where it is neither."""
        words = [each.word for each in self.found]
        if words == ["*"]:
            return ()
        if words[:3] != ["*", "EXCEPT", "("] or words[-1] != ")":
            return None
        is_list = all(each.is_name if i % 2 == 0 else each.text == "," for i, each in enumerate(self.found[3:-1]))
        return tuple(each.value for each in self.found[3:-1:2]) if is_list else None

    def call(self) -> tuple[str, list[Item]] | None:
        """The function that it calls, in capitals, and its arguments; None where it is no call."""
        is_call = len(self.found) > 2 and self.found[0].kind == "word" and self.found[1].text == "("  # noqa: PLR2004
        if not is_call or closing([*self.found], 1) != len(self.found) - 1:
            return None
        ranges = split_at_commas([*self.found], 2, len(self.found) - 1)
        start = self.found[0].start
        texts = [self.text[self.found[a].start - start : self.found[b - 1].end - start] for a, b in ranges]
        return self.found[0].word, [item(text) for text in texts]

    def replaced(self, change: Callable[[tuple[str, ...]], str | None]) -> str:
        """Its text with other names in the places of some: ``change`` is given the parts of each name."""
        pieces, position, start = [], 0, self.found[0].start
        i = 0
        while i < len(self.found):
            j = i + 1
            if self.found[i].is_name:
                while j + 1 < len(self.found) and self.found[j].text == "." and self._is_part(j + 1):
                    j += 2
                parts = tuple(each.value for each in self.found[i:j:2])
                new = change(parts) if self._is_column(i, j) else None
                if new is not None:
                    pieces.append(self.text[position : self.found[i].start - start] + new)
                    position = self.found[j - 1].end - start
            i = j
        return "".join([*pieces, self.text[position:]])

    def _is_column(self, i: int, j: int) -> bool:
        """Whether the name in these tokens is no function, no type and no word before a literal, as DATE '...'."""
        is_type = i > 0 and (self.found[i - 1].word == "AS" or self.found[i - 1].text == "::")
        is_before = j < len(self.found) and (self.found[j].text == "(" or self.found[j].is_string)
        return not (is_type or is_before)

    def _is_part(self, i: int) -> bool:
        return self.found[i].is_name or self.found[i].text == "*"


def item(text: str) -> Item:
    """The item that a text is."""
    found = tokens(text, _NOWHERE)
    end, names = len(found), tuple[str, ...]()
    at = _last_as(found)
    if at is not None:
        end = at
        names = tuple(each.value for each in found[at + 1 :] if each.is_name)
    elif len(found) > 1 and found[-1].is_name and _is_alias(found):
        end, names = len(found) - 1, (found[-1].value,)
    start, stop = (found[0].start, found[end - 1].end) if end else (0, 0)
    return Item(text[start:stop], names, tuple(found[:end]))


def written(text: str) -> tuple[str, tuple[str, ...]]:
    """The value of an expression, without comments around it, and what AS calls it."""
    found = tokens(text, _NOWHERE)
    at = _last_as(found)
    names = () if at is None else tuple(each.value for each in found[at + 1 :] if each.is_name)
    end = len(found) if at is None else at
    return (text[found[0].start : found[end - 1].end] if end else text), names


def expression(text: str) -> Item:
    """An expression, which has no name: a condition."""
    found = tokens(text, _NOWHERE)
    return Item(text[found[0].start : found[-1].end], (), tuple(found))


def _is_alias(found: list[Token]) -> bool:
    """Whether the last word is the name of what is before it, without AS."""
    is_behind = found[-2].is_name and found[-2].word not in _OPERATORS
    return found[-1].word not in _NO_NAMES and (is_behind or found[-2].text == ")")


def _last_as(found: list[Token]) -> int | None:
    depth = 0
    for i in range(len(found) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(found[i].text, 0)
        if depth == 0 and found[i].word == "AS":
            return i
    return None
