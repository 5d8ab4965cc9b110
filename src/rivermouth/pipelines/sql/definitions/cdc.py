"""AUTO CDC and APPLY CHANGES: clauses in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, Literal

from rivermouth.pipelines.spec import AutoCdc, SourceLine
from rivermouth.pipelines.sql.constants import closing
from rivermouth.pipelines.sql.definitions.cursor import Cursor, near
from rivermouth.pipelines.sql.tokens import is_part

_WHOLE: Final = "SELECT * FROM "
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
    _refuse_snapshots(cursor)
    text, line, end = _select(cursor, *_until_clause(cursor, "the table with the changes"))
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
            condition = _until_clause(cursor, "a condition")
            text = f"{_WHOLE}({text}){_where(cursor, end, condition[0])}{cursor.filled(*condition)}"
            line, end = replace(line, before=line.before - len(f"{_WHOLE}(")), cursor.found[condition[1] - 1].end
            continue
        value = _value(cursor, clause)
        if value.keys() & values.keys():
            raise cursor.invalid(f"{' '.join(clause)} is written twice", "remove one of them", position=position)
        values.update(value)
    for name, wanted in (("keys", "KEYS (id)"), ("sequence_by", "SEQUENCE BY updated_at")):
        if not values.get(name):
            raise cursor.invalid(f"AUTO CDC has no {wanted.split(' ')[0]}", f"add {wanted}")
    return text, line, AutoCdc(**values)


def _refuse_snapshots(cursor: Cursor) -> None:
    """Refuses ``FROM SNAPSHOT (...)``, and a table behind SNAPSHOT; a table may have that name."""
    if not cursor.sees("SNAPSHOT") or cursor.token(1).text in ("", "."):
        return
    if not _begins_clause(cursor.within(cursor.i + 1, len(cursor.found))):
        raise cursor.not_supported("FROM SNAPSHOT", "define it in Python: dp.create_auto_cdc_from_snapshot_flow(...)")


def _select(cursor: Cursor, start: int, end: int) -> tuple[str, SourceLine, int]:
    """The changes as a SELECT, a subquery without its parentheses, or all of a table.

    Returns:
        Its text, the line where it begins, and the character of the file at which it ends.
    """
    is_subquery = cursor.found[start].text == "(" and closing(cursor.found, start) == end - 1
    if is_subquery and cursor.found[start + 1].word in ("SELECT", "WITH", "FROM"):
        start, end, before = start + 1, end - 1, ""
    else:
        before = _WHOLE
    line = cursor.source.line_of(cursor.found[start].start)
    text = f"{before}{cursor.raw(start, end)}"
    return text, replace(line, before=line.before - len(before)), cursor.found[end - 1].end


def _where(cursor: Cursor, end: int, condition: int) -> str:
    """WHERE between a query and a condition, which is as far behind its end as in the file.

    Args:
        cursor: The statement.
        end: The character of the file at which the query ends.
        condition: The first token of the condition.
    """
    between = cursor.source.between(end, cursor.found[condition].start)
    lines, last = between.count("\n"), len(between) - between.rfind("\n") - 1
    if lines and last < len("WHERE "):
        return " WHERE" + "\n" * lines + " " * last
    return "\n" * lines + "WHERE ".rjust(last if lines else last - len(")"))


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
    if is_part(cursor.found, cursor.i):
        return False
    if any(cursor.sees(*each) for each in _CLAUSES):
        return cursor.word() != "KEYS" or cursor.word(1) == "("
    _no_misspelled_clause(cursor)
    return False


def _no_misspelled_clause(cursor: Cursor) -> None:
    """Refuses ``SEQENCE BY`` in an expression, which would be a part of it without a sense."""
    first = near(cursor.word(), _FIRST_WORDS) if len(cursor.word()) > 3 else None  # noqa: PLR2004 - KEY is a name
    if first and first != cursor.word() and _FIRST_WORDS[first] and cursor.word(1) == _FIRST_WORDS[first]:
        raise cursor.invalid(f"unexpected {cursor.shown}", f"did you mean {first}?")


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
            if cursor.sees_parameter:  # the name of a column: a constant would be no order
                return {"sequence_by": cursor.name("a column")}
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
    found = _chosen(cursor, "ignore_null_updates_columns", "ignore_null_updates_except_columns")
    return found if any(found.values()) else {"ignore_null_updates": True}  # ON *


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
