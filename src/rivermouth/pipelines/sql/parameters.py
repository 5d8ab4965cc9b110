"""Parameters of SQL: ``${name}`` anywhere but in comments, and ``:name`` where a value can be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Final

from rivermouth.errors.pipeline_sql import SqlParameterUnknown
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.edits import Edit, edited
from rivermouth.pipelines.sql.tokens import VARIABLE, Token, place, quoted_string, string_value, tokens

_PREFIXES: Final = re.compile(r"(?:spark|sparkconf|hivevar|hiveconf):")
_BEFORE_VALUE: Final = frozenset(
    [
        "SELECT",
        "DISTINCT",
        "ALL",
        "CATALOG",
        "SCHEMA",
        "DATABASE",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "ON",
        "WHEN",
        "THEN",
        "ELSE",
        "CASE",
        "BETWEEN",
        "IN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "LIMIT",
        "OFFSET",
        "HAVING",
        "BY",
        "INTERVAL",
        "VALUES",
        "RETURN",
        "FROM",
        "IS",
        "DIV",
        "AS",
        "OF",
        "VERSION",
        "TIMESTAMP",
        "DATE",
        "SET",
        "DEFAULT",
        "QUALIFY",
        "FILTER",
    ]
)


class SqlText(str):
    """The value of a parameter as ``SET`` has it: SQL, which is a string where it is in quotes."""

    __slots__ = ()


def with_variables(text: str, params: Mapping[str, str], at: SourceLine) -> str:
    """A text with the value of each ``${name}`` in its place, in strings and names, too; comments stay.

    Args:
        text: Any SQL.
        params: Values by name.
        at: Where the text's first line is.

    Raises:
        SqlParameterUnknown: A name has no value.
        SqlInvalid: The text has a string or comment that does not end.
    """
    return edited(text, variables(text, params, at)).text


def variables(text: str, params: Mapping[str, str], at: SourceLine) -> list[Edit]:
    """The changes that ``with_variables`` makes. As it."""
    if "${" not in text:
        return []
    found = (token for token in tokens(text, at) if "${" in token.text)
    return [(token.start, token.end, _filled(token, params, place(text, token.start, at))) for token in found]


def _filled(token: Token, params: Mapping[str, str], at: str) -> str:
    def value(found: re.Match[str]) -> str:
        name = _PREFIXES.sub("", found[0][2:-1].strip(), count=1)
        return parameter(name, params, found[0], at)

    return VARIABLE.sub(value, token.text)


def parameter(name: str, params: Mapping[str, str], written: str, at: str) -> str:
    """The value of a parameter.

    Args:
        name: Its name.
        params: Values by name.
        written: How the file names it: ``${name}`` or ``:name``.
        at: Where it is written, as ``file:line:column``.

    Raises:
        SqlParameterUnknown: It has none.
    """
    if name in params:
        return params[name]
    near = difflib.get_close_matches(name, list(params), n=1, cutoff=0.75)
    fix = f"did you mean {written.replace(name, near[0])}?" if near else f"rivermouth run --param {name}=..."
    raise SqlParameterUnknown(at=at, parameter=written, fix=fix)


def value_of(name: str, params: Mapping[str, str], at: str) -> str:
    """The value of ``:name``. A string that ``SET`` wrote is without its quotes.

    Raises:
        SqlParameterUnknown: It has none.
    """
    value = parameter(name, params, f":{name}", at)
    said = string_value(value) if isinstance(value, SqlText) else None
    return str(value) if said is None else said


def markers(text: str, found: list[Token], params: Mapping[str, str], at: SourceLine) -> list[Edit]:
    """The changes that put the value of each ``:name`` in its place, as a string.

    Args:
        text: The text of the tokens.
        found: The tokens.
        params: Values by name.
        at: Where the text's first line is.

    Raises:
        SqlParameterUnknown: A name has no value.
    """
    result = []
    for i, token in enumerate(found):
        if is_marker(found, i):
            name = found[i + 1].text
            value = value_of(name, params, place(text, token.start, at))
            result.append((token.start, found[i + 1].end, quoted_string(value)))
    return result


def is_marker(found: list[Token], i: int) -> bool:
    """Whether the tokens at ``i`` and behind it are a parameter ``:name``, and not the path of ``column:path``."""
    if i + 1 >= len(found) or found[i].text != ":" or found[i + 1].kind != "word":
        return False
    if found[i + 1].start != found[i].end or found[i + 1].text[0].isdigit():
        return False
    if i == 0:
        return True
    before = found[i - 1]
    if before.kind == "word":
        return before.word in _BEFORE_VALUE and before.end < found[i].start
    return before.kind == "symbol" and before.text not in (")", "]", "?")
