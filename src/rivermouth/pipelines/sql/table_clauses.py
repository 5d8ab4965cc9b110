"""What can be behind a table in FROM: its version, options, a sample, a watermark, an alias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rivermouth.errors.pipeline_sql import SqlInvalid, SqlNotConstant
from rivermouth.pipelines.sql.constants import Expressions, closing, split_at_commas
from rivermouth.pipelines.sql.tokens import Token, is_part, place
from rivermouth.pipelines.sql.watermarks import end_of_watermark

KEY_ONCE: Final = "give each key once"
END_OF_FROM: Final = frozenset(
    [
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "SORT",
        "CLUSTER",
        "DISTRIBUTE",
        "LIMIT",
        "OFFSET",
        "UNION",
        "EXCEPT",
        "MINUS",
        "INTERSECT",
        "WINDOW",
        "QUALIFY",
        "SELECT",
        "FROM",
        "|>",
        ";",
        ")",
    ]
)
"""Words and symbols before which FROM and its joins end."""
_BEHIND_TABLE: Final = END_OF_FROM | frozenset(
    (
        *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", "ON", "USING", "LATERAL"),
        *("PIVOT", "UNPIVOT", "WITH"),
    )
)
_VERSIONS: Final = {
    "VERSION": "versionAsOf",
    "SYSTEM_VERSION": "versionAsOf",
    "TIMESTAMP": "timestampAsOf",
    "SYSTEM_TIME": "timestampAsOf",
}


@dataclass(frozen=True, slots=True)
class Clauses:
    """The clauses that are options of a table.

    Attributes:
        options: By name; ``true`` for one without a value.
        end: The token behind them.
        computed: Why the time of ``TIMESTAMP AS OF`` is not among the options: only Spark can evaluate it.
    """

    options: Mapping[str, str]
    end: int
    computed: SqlNotConstant | None = None


def read_clauses(read: Expressions, i: int, *, has_version: bool) -> Clauses:
    """Reads ``VERSION AS OF 3`` and ``TIMESTAMP AS OF '2026-01-01'``, and ``WITH (key = 'value')``.

    Args:
        read: The tokens, up to the end of what can belong to the table.
        i: The token behind the table.
        has_version: Whether a version can be there.

    Raises:
        SqlInvalid: A key is there twice.
        SqlNotConstant: A value is not constant.
        SqlParameterUnknown: A parameter has no value.
    """
    version = _version(read, i) if has_version else Clauses({}, i)
    i = version.end
    if _word(read.found, i) != "WITH" or _word(read.found, i + 1) != "(":
        return version
    if version.computed is not None:
        raise version.computed
    close = min(closing(read.found, i + 1), len(read.found) - 1)
    options: dict[str, str] = {}
    for low, high in split_at_commas(read.found, i + 2, close):
        equals = next((j for j in range(low, high) if read.found[j].text == "="), high)
        key = ".".join(token.value for token in read.found[low:equals] if token.text != ".")
        if key in options:
            detail = f"the options behind the table have the key {key} twice"
            raise SqlInvalid(at=place(read.text, read.found[low].start, read.at), detail=detail, fix=KEY_ONCE)
        options[key] = read.plain(equals + 1, high, f"the option {key}") if equals < high else "true"
    return Clauses({**version.options, **options}, close + 1)


def _version(read: Expressions, i: int) -> Clauses:
    first = i + (_word(read.found, i) == "FOR")
    option = _VERSIONS.get(_word(read.found, first))
    if option is None or [_word(read.found, first + j) for j in (1, 2)] != ["AS", "OF"]:
        return Clauses({}, i)
    start = first + 3
    if _word(read.found, start) in ("TIMESTAMP", "DATE") and start + 1 < len(read.found):
        start += read.found[start + 1].is_string
    end = _end_of_value(read.found, start)
    try:
        return Clauses({option: read.plain(start, end, f"the value of {_word(read.found, first)} AS OF")}, end)
    except SqlNotConstant as error:
        if option != "timestampAsOf":
            raise
        return Clauses({}, end, error)


def _end_of_value(found: list[Token], i: int) -> int:
    """The token behind an expression that no parentheses hold: the next clause, alias, comma or closing parenthesis."""
    start = i
    while i < len(found) and found[i].text not in (",", ")", ";", "|>"):
        is_operator = found[i].kind == "symbol" or (
            i > start and found[i - 1].kind == "symbol" and found[i - 1].text != ")"
        )
        is_operator = is_operator or _is_in_interval(found, start, i)
        if i > start and not is_operator and not found[i].is_string:
            break
        i = closing(found, i) + 1 if found[i].text == "(" else i + 1
    return min(i, len(found))


def _is_in_interval(found: list[Token], start: int, i: int) -> bool:
    """Whether the token at ``i`` is the number or the unit of ``INTERVAL 1 DAY``."""
    if i - 1 >= start and found[i - 1].word == "INTERVAL":
        return True
    is_number = i - 2 >= start and found[i - 2].word == "INTERVAL"
    return is_number and not (found[i - 1].is_string and " " in found[i - 1].value.strip())


def end_of_rows(found: list[Token], i: int, end: int) -> int:
    """The token behind the rows of ``VALUES``: an alias, or a clause.

    Args:
        found: Tokens.
        i: The token behind the word.
        end: The token after the last one that can belong to it.
    """
    while i < end and not _ends_rows(found, i, end):
        i = closing(found, i) + 1 if found[i].text == "(" else i + 1
    return min(i, end)


def _ends_rows(found: list[Token], i: int, end: int) -> bool:
    """Whether the rows of VALUES end before ``i``: with a clause, or with an alias right behind a value."""
    if is_part(found, i):
        return False
    if found[i].word == "AS" or found[i].word in _BEHIND_TABLE:
        return True
    before = found[i - 1]
    is_behind_value = before.is_string or before.text == ")" or before.text[0].isdigit()
    if not (found[i].is_name and is_behind_value) or found[i - 2].word == "INTERVAL":
        return False
    follows = found[i + 1].word if i + 1 < end else ""
    return follows in ("", ",", "(") or follows in _BEHIND_TABLE


def alias_behind(found: list[Token], i: int, end: int) -> tuple[int, str | None]:
    """The token at which the alias of what ends before ``i`` is or could be, and that alias; None where it has none."""
    if _word(found[:end], i) == "TABLESAMPLE" and _word(found[:end], i + 1) == "(":
        i = closing(found, i + 1) + 1
        if _word(found[:end], i) == "REPEATABLE" and _word(found[:end], i + 1) == "(":
            i = closing(found, i + 1) + 1
    if _word(found[:end], i) == "WATERMARK":
        i = end_of_watermark(found, i)
    is_insert = _word(found[:end], i) == "INSERT" and _word(found[:end], i + 1) in ("INTO", "OVERWRITE")
    if i >= end or is_insert or found[i].word in _BEHIND_TABLE or not (found[i].is_name or found[i].text == "("):
        return min(i, end), None
    named = i + 1 if found[i].word == "AS" and i + 1 < end else i
    return i, found[named].value if found[named].is_name else ""


def _word(found: list[Token], i: int) -> str:
    return found[i].word if i < len(found) else ""
