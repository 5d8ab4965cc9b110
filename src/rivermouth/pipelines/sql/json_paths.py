"""``column:path``: how Databricks reads a field of a VARIANT, and of a STRING that holds JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rivermouth.pipelines.sql.edits import Edit
from rivermouth.pipelines.sql.parameters import is_marker
from rivermouth.pipelines.sql.tokens import Token, is_part, quoted_name, quoted_string

_NO_OPERAND: Final = frozenset(
    [
        "SELECT",
        "DISTINCT",
        "ALL",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "ON",
        "WHEN",
        "THEN",
        "ELSE",
        "CASE",
        "BY",
        "IN",
        "LIKE",
        "AS",
    ]
)
_NO_SELECT_LIST: Final = frozenset(["FROM", "WHERE", "BY", "HAVING", "ON", "LIMIT", "VALUES", "WINDOW", "QUALIFY"])
_PAIRS: Final = {")": "(", "]": "["}


@dataclass(frozen=True, slots=True)
class JsonPath:
    """One ``operand:path``.

    Attributes:
        start: The first character of the operand.
        colon: The character of the colon.
        end: The character after the path.
        path: As get_json_object takes it: ``$.a[0]['b c']``.
        label: The name that a column of a SELECT gets from it; None where it is no such column, or has a name.
        label_at: The character behind which that name belongs.
    """

    start: int
    colon: int
    end: int
    path: str
    label: str | None
    label_at: int


def json_paths(found: list[Token]) -> list[JsonPath]:
    """The paths of a text, from its tokens."""
    result = []
    i = 0
    while i < len(found):
        if found[i].word == "STRUCT" and i + 1 < len(found) and found[i + 1].text == "<":
            i = _behind_type(found, i + 1) - 1
        elif found[i].text == ":" and not is_marker(found, i) and (read := _path(found, i + 1)) is not None:
            path, label, after = read
            first = _operand(found, i - 1)
            if first is not None:
                last = _behind_casts(found, after)
                named = label if _is_whole_column(found, first, last) else None
                result.append(
                    JsonPath(found[first].start, found[i].start, found[after - 1].end, path, named, found[last - 1].end)
                )
                i = after - 1
        i += 1
    return result


def _path(found: list[Token], i: int) -> tuple[str, str, int] | None:
    """The path from the token ``i`` on, its last name, and the token after it."""
    path, label, start = "$", "", i
    while i < len(found):
        token = found[i]
        if token.text == "[" and i + 2 < len(found) and found[i + 2].text == "]":
            inner = found[i + 1]
            if inner.is_string:
                label = inner.value
                path += f"['{inner.value}']"
            elif inner.text.isdigit() or inner.text == "*":
                path += f"[{inner.text}]"
            else:
                break
            i += 3
        elif token.text in (".", ":") and i > start and i + 1 < len(found) and found[i + 1].is_name:
            label, i = found[i + 1].value, i + 2
            path += _step(found[i - 1])
        elif token.is_name and i == start:
            label, i = token.value, i + 1
            path += _step(token)
        else:
            break
    return (path, label, i) if i > start else None


def _step(token: Token) -> str:
    return f".{token.text}" if token.kind == "word" else f"['{token.value}']"


def _operand(found: list[Token], i: int) -> int | None:
    """The first token of the expression that ends at ``i``."""
    while i >= 0:
        token = found[i]
        if token.text in _PAIRS:
            i = _opening(found, i)
            if i > 0 and found[i].text == "[":
                i -= 1
                continue
            has_name = i > 0 and found[i - 1].is_name and found[i - 1].word not in _NO_OPERAND
            i -= has_name
        elif not (token.is_name or token.is_string) or (token.word in _NO_OPERAND and not is_part(found, i)):
            return None
        if i > 1 and found[i - 1].text in (".", "::"):
            i -= 2
            continue
        return i
    return None


def _opening(found: list[Token], close: int) -> int:
    depth = 0
    for i in range(close, -1, -1):
        if found[i].text in _PAIRS:
            depth += 1
        elif found[i].text in _PAIRS.values():
            depth -= 1
            if depth == 0:
                return i
    return 0


def _behind_casts(found: list[Token], i: int) -> int:
    while i + 1 < len(found) and found[i].text == "::" and found[i + 1].is_name:
        i = _behind_type(found, i + 2)
    return i


def _behind_type(found: list[Token], i: int) -> int:
    """The token behind what a type has in brackets, if it has some: ``<b: string>``, ``(10, 2)``."""
    depth = 0
    while i < len(found) and (depth > 0 or found[i].text in ("(", "<")):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(found[i].text, 0)
        i += 1
    return i


def _is_whole_column(found: list[Token], first: int, last: int) -> bool:
    """Whether the tokens are all of a column in a list of SELECT, without a name of its own."""
    if last < len(found) and found[last].word not in (",", "FROM", ")", "|>", "UNION", ";"):
        return False
    if first == 0 or found[first - 1].word not in (",", "SELECT", "DISTINCT", "ALL"):
        return False
    depth = 0
    for i in range(first - 1, -1, -1):
        text, word = found[i].text, "" if is_part(found, i) else found[i].word
        depth += {")": 1, "]": 1, "(": -1, "[": -1}.get(text, 0)
        if depth < 0 or (depth == 0 and word in _NO_SELECT_LIST):
            return False
        if depth == 0 and word == "SELECT":
            return True
    return False


def edits(paths: list[JsonPath]) -> list[Edit]:
    """What makes ``get_json_object(CAST(operand AS STRING), 'path')`` of each: from, to, and the new text."""
    found: list[Edit] = []
    for each in paths:
        found.append((each.start, each.start, "get_json_object(CAST("))
        found.append((each.colon, each.end, f" AS STRING), {quoted_string(each.path)})"))
        if each.label is not None:
            found.append((each.label_at, each.label_at, f" AS {quoted_name(each.label)}"))
    return found
