"""A statement with the values of its variables, and where each of its characters is in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rivermouth.errors.pipeline_sql import SqlInvalid, SqlParameterUnknown
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.edits import Edit, Edited, edited
from rivermouth.pipelines.sql.parameters import with_variables
from rivermouth.pipelines.sql.tokens import Token, line_of, place, tokens

_NAME: Final = re.compile(r"(?!.*--)[\w$][\w$.-]*")
_VALUE: Final = SourceLine("<parameter>", 1)


@dataclass(frozen=True, slots=True)
class FilledText:
    """A text, with values where words have ``${name}``; strings and quoted names are as they are written.

    Attributes:
        written: As it is in the file.
        at: Where its first line is.
        filled: With the values.
    """

    written: str
    at: SourceLine
    filled: Edited

    @property
    def text(self) -> str:
        """The text with the values."""
        return self.filled.text

    def place(self, position: int) -> str:
        """Where a character of the text is in its file: ``file:line:column``; of a value, where its variable is."""
        return place(self.written, self.filled.origin(position), self.at)

    def line_of(self, position: int) -> SourceLine:
        """The line of a character of the text."""
        return line_of(self.written, self.filled.origin(position), self.at)

    def between(self, start: int, end: int) -> str:
        """A piece of the text as it is written; with the values, where it begins or ends within one."""
        if self._is_within_value(start) or self._is_within_value(end):
            return self.text[start:end]
        return self.written[self.filled.origin(start) : self.filled.origin(end)]

    def shown(self, token: Token) -> str:
        """A token as it is written: where it is of a value, the variable."""
        variable = self.filled.replaced(token.start)
        return token.text if variable is None else self.written[slice(*variable)]

    def _is_within_value(self, position: int) -> bool:
        """Whether a character and the one before it are of one value."""
        variable = self.filled.replaced(position)
        return variable is not None and position > 0 and self.filled.replaced(position - 1) == variable


def as_written(text: str, at: SourceLine) -> FilledText:
    """A text without values."""
    return FilledText(text, at, edited(text, ()))


def filled(text: str, at: SourceLine, found: list[Token], params: Mapping[str, str]) -> tuple[FilledText, list[Token]]:
    """A text with the values of the variables in some of its tokens, and these tokens.

    A value that can be a name or a number is one word. Others are the tokens that they have. A variable that has no
    value, and one whose value has no tokens because a string in it does not end, stay as they are.

    Args:
        text: The text.
        at: Where its first line is.
        found: Tokens of it.
        params: Values of ``${name}``.
    """
    values = {i: value for i, token in enumerate(found) if (value := _value(token, params)) is not None}
    if not values:
        return as_written(text, at), found
    edits: list[Edit] = [(found[i].start, found[i].end, value[0]) for i, value in values.items()]
    result = FilledText(text, at, edited(text, edits))
    moved, shifts = list[Token](), iter([now - before for now, before, _ in result.filled.kept])
    shift = next(shifts)
    for i, token in enumerate(found):
        if i in values:
            moved += [_moved(each, token.start + shift) for each in values[i][1]]
            shift = next(shifts)
        else:
            moved.append(_moved(token, shift))
    return result, moved


def _value(token: Token, params: Mapping[str, str]) -> tuple[str, list[Token]] | None:
    """A word with its values, and the tokens of that; None where it stays as it is."""
    if token.kind != "word" or "${" not in token.text:
        return None
    try:
        value = with_variables(token.text, params, _VALUE)
        if _NAME.fullmatch(value):
            return value, [Token("word", value, 0, len(value))]
        return value, tokens(value, _VALUE)
    except (SqlInvalid, SqlParameterUnknown):
        return None


def _moved(token: Token, by: int) -> Token:
    return replace(token, start=token.start + by, end=token.end + by)
