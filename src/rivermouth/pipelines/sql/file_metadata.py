"""``_metadata`` of table functions of files: a column that can be named and that ``*`` leaves out.

Spark hides it behind the name of a view. So the view has it as a column of its own, and each ``*`` says EXCEPT.
"""

from __future__ import annotations

from typing import Final

from rivermouth.pipelines.sql.tokens import Token, is_part

COLUMN: Final = "_metadata"
FUNCTIONS: Final = ("read_files", "cloud_files")
_ENDS: Final = frozenset(["UNION", "INTERSECT", "MINUS"])
_BEFORE_STAR: Final = frozenset(["SELECT", "DISTINCT", "ALL", ","])
_BEHIND_STAR: Final = frozenset([",", "FROM", "EXCEPT", ""])


def star_edits(found: list[Token], start: int, end: int) -> list[tuple[int, int, str]] | None:
    """What changes in the SELECT that reads a table function; None where that does not name ``_metadata``.

    Args:
        found: The tokens of a text.
        start: The first character of the call.
        end: The character after its last one.
    """
    first = next(i for i, token in enumerate(found) if token.start >= start)
    last = max(i for i, token in enumerate(found) if token.end <= end)
    select = _select(found, first)
    if select is None:
        return None
    outside = [*range(select, first), *range(last + 1, _end(found, last + 1))]
    if not any(found[i].is_name and found[i].value.lower() == COLUMN for i in outside):
        return None
    alias = _alias(found, last + 1)
    result = []
    for i in _list(found, select, first):
        token, before, behind = found[i], found[i - 1], _word(found, i + 1)
        if token.text != "*" or behind not in _BEHIND_STAR:
            continue
        of_alias = before.text == "." and found[i - 2].value.lower() == alias
        if not of_alias and before.word not in _BEFORE_STAR:
            continue
        if behind == "EXCEPT" and _word(found, i + 2) == "(":
            result.append((found[i + 2].end, found[i + 2].end, f"`{COLUMN}`, "))
        else:
            result.append((token.end, token.end, f" EXCEPT (`{COLUMN}`)"))
    return result


def _word(found: list[Token], i: int) -> str:
    return found[i].word if i < len(found) else ""


def _select(found: list[Token], i: int) -> int | None:
    """The SELECT whose FROM has the token; parentheses of STREAM around it do not count."""
    depth = 0
    while i > 0:
        i -= 1
        depth += {")": 1, "(": -1}.get(found[i].text, 0)
        depth = max(depth, 0)
        if depth == 0 and found[i].word == "SELECT" and not is_part(found, i):
            return i
    return None


def _end(found: list[Token], i: int) -> int:
    """The end of the SELECT, from behind a relation of its FROM."""
    depth = 1 if _word(found, i) == ")" else 0  # of STREAM
    while i < len(found):
        depth += {"(": 1, ")": -1}.get(found[i].text, 0)
        if depth < 0 or (depth == 0 and found[i].word in _ENDS):
            return i
        i += 1
    return i


def _list(found: list[Token], select: int, end: int) -> list[int]:
    """The tokens between SELECT and FROM that are in no parentheses."""
    depth, result = 0, []
    for i in range(select + 1, end):
        if depth == 0 and found[i].word == "FROM" and not is_part(found, i):
            break
        depth += {"(": 1, ")": -1}.get(found[i].text, 0)
        if depth == 0:
            result.append(i)
    return result


def _alias(found: list[Token], i: int) -> str | None:
    """The alias behind a relation, in lower case."""
    i += _word(found, i) == ")"
    i += _word(found, i) == "AS"
    return found[i].value.lower() if i < len(found) and found[i].is_name else None
