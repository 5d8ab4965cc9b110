"""AUTO CDC and APPLY CHANGES: clauses in any order."""

from __future__ import annotations

from typing import Any, Final, Literal

from rivermouth.errors.pipeline_sql import SqlInvalid
from rivermouth.pipelines.spec import AutoCdc, SourceLine
from rivermouth.pipelines.sql.constants import closing
from rivermouth.pipelines.sql.cursor import Cursor, near

_CLAUSES: Final = (
    ("KEYS",),
    ("IGNORE", "NULL", "UPDATES"),
    ("APPLY", "AS", "DELETE", "WHEN"),
    ("APPLY", "AS", "TRUNCATE", "WHEN"),
    ("SEQUENCE", "BY"),
    ("SYSTEM", "SEQUENCE", "BY"),
    ("COLUMNS", "TO", "UPDATE"),
    ("COLUMNS",),
    ("STORED", "AS"),
    ("TRACK", "HISTORY", "ON"),
    ("WHERE",),
)
_FIRST_WORDS: Final = {
    "SEQUENCE": "BY",
    "COLUMNS": "",
    "STORED": "AS",
    "TRACK": "HISTORY",
    "IGNORE": "NULL",
    "KEYS": "(",
}


def read_cdc(cursor: Cursor) -> tuple[str, SourceLine, AutoCdc]:
    """Reads all from behind FROM to the end of the statement.

    Returns:
        The changes as the text of a SELECT, the line where they are written, and what is made of them.

    Raises:
        SqlInvalid: It is not written as SQL wants it.
        SqlNotSupported: A clause would change the result and is not supported.
    """
    line = cursor.line
    source = _until_clause(cursor, "the table with the changes")
    text = _select(cursor, *source)
    values: dict[str, Any] = {}
    while not cursor.ended:
        clause = next((each for each in _CLAUSES if cursor.sees(*each)), None)
        if clause is None:
            raise cursor.unexpected(*(" ".join(each) for each in _CLAUSES))
        position = cursor.token().start
        if clause[0] == "SYSTEM":
            raise cursor.not_supported("SYSTEM SEQUENCE BY", "use SEQUENCE BY alone, with STORED AS SCD TYPE 2")
        cursor.i += len(clause)
        if clause == ("WHERE",):
            condition = cursor.filled(*_until_clause(cursor, "a condition"))
            text = f"SELECT * FROM ({text}\n) WHERE {condition}"  # noqa: S608 - the user's own text
            continue
        value = _value(cursor, clause)
        if value.keys() & values.keys():
            raise cursor.invalid(f"{' '.join(clause)} is written twice", "remove one of them", position=position)
        values.update(value)
    for name, wanted in (("keys", "KEYS (id)"), ("sequence_by", "SEQUENCE BY updated_at")):
        if not values.get(name):
            raise cursor.invalid(f"AUTO CDC has no {wanted.split(' ')[0]}", f"add {wanted}")
    return text, line, AutoCdc(**values)


def _select(cursor: Cursor, start: int, end: int) -> str:
    """The changes as a SELECT: a subquery without its parentheses, or all of a table."""
    is_subquery = cursor.found[start].text == "(" and closing(cursor.found, start) == end - 1
    if is_subquery and cursor.found[start + 1].word in ("SELECT", "WITH", "FROM"):
        return cursor.raw(start + 1, end - 1)
    return f"SELECT * FROM {cursor.raw(start, end)}"  # noqa: S608 - the user's own text


def _until_clause(cursor: Cursor, what: str) -> tuple[int, int]:
    start = cursor.i
    while not cursor.ended and not _begins_clause(cursor):
        cursor.refuse_next_statement()
        if cursor.word() == "(":
            cursor.parenthesis()
        else:
            cursor.i += 1
    if cursor.i == start:
        raise cursor.unexpected(what)
    return start, cursor.i


def _begins_clause(cursor: Cursor) -> bool:
    if cursor.i and cursor.token(-1).text == ".":
        return False
    if any(cursor.sees(*each) for each in _CLAUSES):
        return cursor.word() != "KEYS" or cursor.word(1) == "("
    _no_misspelled_clause(cursor)
    return False


def _no_misspelled_clause(cursor: Cursor) -> None:
    """Refuses ``SEQENCE BY`` in an expression, which would be a part of it without a sense."""
    first = near(cursor.word(), _FIRST_WORDS) if len(cursor.word()) > 3 else None  # noqa: PLR2004 - KEY is a name
    if first and first != cursor.word() and _FIRST_WORDS[first] and cursor.word(1) == _FIRST_WORDS[first]:
        raise SqlInvalid(
            at=cursor.invalid("", "").at, detail=f"unexpected {cursor.token().text}", fix=f"did you mean {first}?"
        )


def _value(cursor: Cursor, clause: tuple[str, ...]) -> dict[str, Any]:
    match clause:
        case ("KEYS",):
            return {"keys": cursor.names(*cursor.parenthesis())}
        case ("IGNORE", *_):
            return _ignored_nulls(cursor)
        case ("APPLY", _, "DELETE", _):
            return {"apply_as_deletes": cursor.filled(*_until_clause(cursor, "a condition"))}
        case ("APPLY", *_):
            return {"apply_as_truncates": cursor.filled(*_until_clause(cursor, "a condition"))}
        case ("SEQUENCE", *_):
            return {"sequence_by": cursor.filled(*_until_clause(cursor, "a column"))}
        case ("COLUMNS", "TO", _):
            return {"columns_to_update": cursor.name("the name of a column")}
        case ("COLUMNS",):
            return _chosen(cursor, "columns", "except_columns")
        case ("STORED", *_):
            return {"scd_type": _scd_type(cursor)}
        case _:
            return _chosen(cursor, "track_history_columns", "track_history_except_columns")


def _ignored_nulls(cursor: Cursor) -> dict[str, Any]:
    if not cursor.takes("ON"):
        return {"ignore_null_updates": True}
    return _chosen(cursor, "ignore_null_updates_columns", "ignore_null_updates_except_columns")


def _chosen(cursor: Cursor, chosen: str, excepted: str) -> dict[str, tuple[str, ...]]:
    """Reads ``a, b`` or ``(a, b)`` or ``* EXCEPT (a, b)``."""
    if cursor.takes("*"):
        return {excepted: _names(cursor) if cursor.takes("EXCEPT") else ()}
    return {chosen: _names(cursor)}


def _names(cursor: Cursor) -> tuple[str, ...]:
    if cursor.word() == "(":
        return cursor.names(*cursor.parenthesis())
    return cursor.names(*_until_clause(cursor, "the name of a column"))


def _scd_type(cursor: Cursor) -> Literal[1, 2]:
    if cursor.sees("BITEMPORAL"):
        raise cursor.not_supported("STORED AS BITEMPORAL", "write STORED AS SCD TYPE 2")
    cursor.needs("SCD")
    cursor.takes("TYPE")
    if cursor.takes("1"):
        return 1
    if cursor.takes("2"):
        return 2
    raise cursor.unexpected("1", "2")
