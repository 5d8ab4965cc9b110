"""One statement, read from its first token to its last."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rivermouth.errors.pipeline_sql import SqlInvalid, SqlNotConstant, SqlNotSupported
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.constants import Expressions, closing
from rivermouth.pipelines.sql.definitions.filled import FilledText
from rivermouth.pipelines.sql.edits import Edit, edited
from rivermouth.pipelines.sql.parameters import is_marker, value_of, with_variables
from rivermouth.pipelines.sql.tokens import Token, quoted_name, quoted_string, tokens

MODIFIERS: Final = frozenset(
    ("PRIVATE", "TEMPORARY", "TEMP", "PERSISTED", "STREAMING", "INCREMENTAL", "LIVE", "MATERIALIZED")
)
"""Words between CREATE and what it creates."""
NOUNS: Final = ("TABLE", "VIEW", "FLOW", "SINK")
"""What CREATE creates."""

_END: Final = Token("symbol", "", 0, 0)
_VALUE: Final = SourceLine("<parameter>", 1)
_PLAIN: Final = re.compile(r"[\w$-]+")


def near(word: str, known: Iterable[str]) -> str | None:
    """The known word that a word is most like, or None."""
    found = difflib.get_close_matches(word.upper(), list(known), n=1, cutoff=0.7)
    return found[0] if found else None


def name_of(parts: Iterable[str]) -> str:
    """A name of several parts as text; parts that are no words are in backquotes."""
    return ".".join(part if _PLAIN.fullmatch(part) else quoted_name(part) for part in parts)


def _split(name: str) -> list[str]:
    """The parts of a name whose text is the value of a parameter."""
    return [each.value for each in tokens(name, _VALUE) if each.text != "."] if "`" in name else name.split(".")


@dataclass(slots=True)
class Cursor:
    """A place in the tokens of a statement.

    Attributes:
        source: The whole text of the file or cell.
        found: The statement's tokens.
        params: Values of ``${name}`` and ``:name``.
        i: The token that is read next.
        notes: What was read and changes nothing.
    """

    source: FilledText
    found: list[Token]
    params: Mapping[str, str]
    i: int = 0
    notes: list[tuple[SourceLine, str]] = field(default_factory=list)

    def token(self, ahead: int = 0) -> Token:
        """The next token, or one further on; an empty one behind the end."""
        return self.found[self.i + ahead] if self.i + ahead < len(self.found) else _END

    def word(self, ahead: int = 0) -> str:
        """The next token's word in capital letters; empty for strings, quoted names and behind the end."""
        return self.token(ahead).word

    @property
    def ended(self) -> bool:
        """Whether no token is left."""
        return self.i >= len(self.found)

    @property
    def line(self) -> SourceLine:
        """The line of the next token; behind the end that of the last one."""
        return self.source.line_of(self._position)

    @property
    def shown(self) -> str:
        """The next token as it is written: a variable, where it is of a value."""
        return self.source.shown(self.token())

    def within(self, start: int, end: int) -> Cursor:
        """A cursor on the tokens from ``start`` to before ``end``."""
        return replace(self, found=self.found[:end], i=start)

    @property
    def _position(self) -> int:
        return self.token().start if not self.ended else self.found[-1].end

    def sees(self, *words: str) -> bool:
        """Whether the next tokens are these words."""
        return all(self.word(ahead) == word for ahead, word in enumerate(words))

    def takes(self, *words: str) -> bool:
        """Goes past these words if they are next, and says whether they were."""
        if not self.sees(*words):
            return False
        self.i += len(words)
        return True

    def needs(self, *words: str) -> None:
        """Goes past these words.

        Raises:
            SqlInvalid: They are not next.
        """
        for word in words:
            if not self.takes(word):
                raise self.unexpected(word)

    def unexpected(self, *expected: str, fix: str = "") -> SqlInvalid:
        """The error about the next token, which is none of the expected words."""
        found = f"unexpected {self.shown}" if not self.ended else "the statement ends here"
        wanted = " or ".join(expected)
        detail = f"{found}, expected {wanted}" if wanted and len(expected) < 4 else found  # noqa: PLR2004 - readable
        like = near(self.word(), expected) if not self.ended else None
        hint = fix or (f"did you mean {like}?" if like else f"write {wanted} here" if wanted else "remove it")
        return self.invalid(detail, hint)

    def invalid(self, detail: str, fix: str, *, position: int | None = None) -> SqlInvalid:
        """An error at the next token, or at a character of the text."""
        where = self._position if position is None else position
        return SqlInvalid(at=self.source.place(where), detail=detail, fix=fix)

    def not_supported(self, clause: str, fix: str) -> SqlNotSupported:
        """An error about a clause at the next token."""
        return SqlNotSupported(at=self.source.place(self._position), clause=clause, fix=fix)

    def refuse_next_statement(self) -> None:
        """Goes on where no statement begins at the next token.

        Raises:
            SqlInvalid: One does: the ``;`` before it is missing.
        """
        is_create = self.sees("CREATE") and (self.word(1) in MODIFIERS or self.word(1) in ("OR", *NOUNS))
        if is_create or self.sees("APPLY", "CHANGES", "INTO"):
            word = self.word()
            raise self.invalid(f"a statement ends before {word}, without ;", f"write ; before {word}")

    def note(self, sentence: str, line: SourceLine | None = None) -> None:
        """Says that something changes nothing."""
        self.notes.append((line or self.line, sentence))

    def parts(self, what: str = "a name") -> tuple[str, ...]:
        """Reads a name: its parts, without backquotes.

        Raises:
            SqlInvalid: No name is next.
        """
        if self.sees("IDENTIFIER", "("):
            return self._identifier()
        if is_marker(self.found, self.i):
            return tuple(self._parameter().split("."))
        found: list[str] = []
        while self.token().is_name:
            token = self.token()
            found += _split(self._value(token)) if token.kind == "word" else [self._value(token)]
            self.i += 1
            if not (self.token().text == "." and self.token(1).is_name):
                return tuple(found)
            self.i += 1
        raise self.unexpected(what)

    def name(self, what: str = "a name") -> str:
        """Reads a name as text."""
        parts = self.parts(what)
        return parts[0] if len(parts) == 1 and "." in parts[0] and "${" in self.token(-1).text else name_of(parts)

    def column(self) -> str:
        """Reads the name of a column, of one part, without backquotes.

        Raises:
            SqlInvalid: No name is next.
        """
        if not self.token().is_name:
            raise self.unexpected("the name of a column")
        self.i += 1
        return self._value(self.token(-1))

    def _value(self, token: Token) -> str:
        """What a string or name says, with the values of ``${name}``."""
        filled = with_variables(token.text, self.params, self.source.line_of(token.start))
        return Token(token.kind, filled, token.start, token.end).value

    @property
    def sees_parameter(self) -> bool:
        """Whether ``:name`` is next, where a string could be."""
        after = self.token(1)
        return self.word() == ":" and after.kind == "word" and after.start == self.token().end

    def _parameter(self) -> str:
        token = self.token(1)
        self.i += 2
        return value_of(token.text, self.params, self.source.place(token.start))

    def _identifier(self) -> tuple[str, ...]:
        self.i += 1
        start, end = self.parenthesis()
        at = self.source.line_of(self.found[start].start)
        found = tokens(text, at) if (text := self.filled(start, end, has_markers=False)) else []
        subject = "the argument of IDENTIFIER"
        if not found:
            raise SqlNotConstant(at=self.source.place(self.found[start].start), subject=subject)
        name = Expressions(text, at, found, self.params).plain(0, len(found), subject)
        return tuple(each.value for each in tokens(name, at) if each.text != ".")

    def string(self) -> str:
        """Reads the literal of a string or ``:name``, or several that follow each other.

        Raises:
            SqlInvalid: No string is next.
            SqlParameterUnknown: A parameter has no value.
        """
        if not self.token().is_string and not self.sees_parameter:
            raise self.unexpected("a string in quotes")
        found = []
        while self.token().is_string or self.sees_parameter:
            if self.sees_parameter:
                found.append(self._parameter())
                continue
            found.append(self._value(self.token()))
            self.i += 1
        return "".join(found)

    def parenthesis(self) -> tuple[int, int]:
        """Goes past a pair of parentheses; the tokens between them, from and to.

        Raises:
            SqlInvalid: None is next, or it does not end.
        """
        if self.word() != "(":
            raise self.unexpected("(")
        close = closing(self.found, self.i)
        if close == len(self.found):
            raise self.invalid("a parenthesis begins here and does not end", "close it with )")
        inner = self.i + 1, close
        self.i = close + 1
        return inner

    def raw(self, start: int, end: int) -> str:
        """The text of the tokens from ``start`` to before ``end``, as it is written."""
        return self.source.between(self.found[start].start, self.found[end - 1].end) if start < end else ""

    def filled(self, start: int, end: int, *, has_markers: bool = True) -> str:
        """The same with the values of ``${name}``, and of ``:name`` as strings unless it has none of these."""
        if start >= end:
            return ""
        found, edits = self.found[start:end], list[Edit]()
        low = found[0].start
        for i, token in enumerate(found):
            if has_markers and is_marker(found, i):
                value = value_of(found[i + 1].text, self.params, self.source.place(token.start))
                edits.append((token.start - low, found[i + 1].end - low, quoted_string(value)))
            elif "${" in token.text:
                value = with_variables(token.text, self.params, self.source.line_of(token.start))
                edits.append((token.start - low, token.end - low, value))
        return edited(self.source.text[low : found[-1].end], edits).text

    def names(self, start: int, end: int) -> tuple[str, ...]:
        """The names of columns between the tokens ``start`` and ``end``, with commas between them.

        A name of one part has no backquotes, unless it has a dot.

        Raises:
            SqlInvalid: Something else is there.
        """
        inner, found = self.within(start, end), []
        while not inner.ended:
            parts = inner.parts("the name of a column")
            is_plain = len(parts) == 1 and "." not in parts[0]
            found.append(parts[0] if is_plain else name_of(parts))
            if not inner.ended:
                inner.needs(",")
        return tuple(found)
