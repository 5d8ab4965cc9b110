"""``CREATE ... TABLE | VIEW``: the clauses between the name and the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from rivermouth.pipelines.spec import VIEWS, DatasetKind, Expectation
from rivermouth.pipelines.sql.definitions.columns import Column, read_columns
from rivermouth.pipelines.sql.definitions.cursor import Cursor
from rivermouth.pipelines.sql.tokens import quoted_name

BODY: Final = frozenset(("SELECT", "FROM", "VALUES", "TABLE"))
"""Words with which a query begins; WITH does, too."""

_CLAUSES: Final = (
    "AS",
    "COMMENT",
    "TBLPROPERTIES",
    "PARTITIONED BY",
    "CLUSTER BY",
    "LOCATION",
    "USING",
    "SCHEDULE",
    "TRIGGER ON UPDATE",
    "REFRESH POLICY",
    "SELECT",
)
_SCHEDULE_WORDS: Final = frozenset(
    ["SCHEDULE", "REFRESH", "CRON", "EVERY", "AT", "TIME", "ZONE", "TRIGGER", "ON", "UPDATE", "MOST", "INTERVAL"]
)
_UNITS: Final = frozenset(
    f"{unit}{s}" for unit in ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH") for s in ("", "S")
)
_POLICIES: Final = ("AUTO", "INCREMENTAL", "FULL")


@dataclass(slots=True)
class Head:
    """What a statement says before the query of its dataset.

    Attributes:
        kind: Of the dataset.
        private: Whether only the pipeline reads it.
        name: As it is written.
        columns: Its list; empty without one.
        expectations: Its constraints.
        comment: A comment.
        properties: TBLPROPERTIES.
        partition_by: Columns.
        cluster_by: Columns.
        path: LOCATION.
        refresh_policy: REFRESH POLICY.
    """

    kind: DatasetKind
    private: bool
    name: str
    columns: list[Column] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    path: str | None = None
    refresh_policy: str | None = None

    @property
    def schema(self) -> str | None:
        """The columns as DDL; None where the list has no types."""
        typed = [column.ddl for column in self.columns if column.type]
        return ", ".join(typed) or None

    def labelled(self, query: str) -> str:
        """The query with the names of the list, where that gives names without types."""
        if not self.columns or self.columns[0].type:
            return query
        names = ", ".join(quoted_name(column.name) for column in self.columns)
        return f"SELECT * FROM ({query}\n) AS `labelled`({names})"  # noqa: S608 - the user's own text


def read_head(cursor: Cursor, kind: DatasetKind, *, private: bool) -> Head:
    """Reads from behind TABLE or VIEW to before the query, or to the end.

    Raises:
        SqlInvalid: It is not written as SQL wants it.
        SqlNotSupported: A clause would change the result and is not supported.
    """
    cursor.takes("IF", "NOT", "EXISTS")
    head = Head(kind, private, cursor.name("a name"))
    if cursor.word() == "(" and not _is_query(cursor.word(1)):
        start, end = cursor.parenthesis()
        inner = cursor.within(start, end)
        found = read_columns(inner)
        head.columns, head.expectations = found.columns, found.expectations
        column = next((column for column in found.columns if column.not_null), None)
        if kind in VIEWS and column is not None:
            inner.i, strict = column.token, column.written
            fix = f"write CONSTRAINT {strict} EXPECT ({strict} IS NOT NULL) ON VIOLATION FAIL UPDATE"
            raise inner.not_supported(f"NOT NULL of the column {strict} of a view", fix)
    while not cursor.ended and not begins_query(cursor):
        _clause(cursor, head)
    return head


def begins_query(cursor: Cursor) -> bool:
    """Whether ``AS``, a query without it, or ``FLOW`` is next."""
    if cursor.word() in ("AS", "FLOW") or (cursor.word() == "(" and _is_query(cursor.word(1))):
        return True
    is_cte = cursor.sees("WITH") and not cursor.sees("WITH", "ROW") and cursor.word(2) in ("AS", "(")
    return cursor.word() in BODY or is_cte or cursor.sees("WITH", "RECURSIVE")


def _is_query(word: str) -> bool:
    return word in BODY or word in ("WITH", "(")


def _clause(cursor: Cursor, head: Head) -> None:
    clause = _READERS.get(cursor.word())
    if clause is None:
        raise cursor.unexpected(*_CLAUSES)
    clause(cursor, head)


def _comment(cursor: Cursor, head: Head) -> None:
    cursor.needs("COMMENT")
    head.comment = cursor.string()


def _location(cursor: Cursor, head: Head) -> None:
    cursor.needs("LOCATION")
    head.path = cursor.string()


def _using(cursor: Cursor, head: Head) -> None:
    cursor.needs("USING")
    if not cursor.takes("DELTA"):
        raise cursor.not_supported(f"USING {cursor.shown} for {head.name}", "write USING DELTA, or leave USING out")


def _properties(cursor: Cursor, head: Head) -> None:
    cursor.needs("TBLPROPERTIES")
    head.properties.update(read_properties(cursor))


def read_properties(cursor: Cursor) -> dict[str, str]:
    """Reads ``(key = value, ...)``: keys with dots, quoted or not; values that are strings, numbers or booleans.

    Raises:
        SqlInvalid: It is not written as SQL wants it.
    """
    start, end = cursor.parenthesis()
    inner = cursor.within(start, end)
    found = {}
    while not inner.ended:
        shown = inner.shown
        key = inner.string() if inner.token().is_string else _dotted(inner)
        if not inner.takes("="):
            inner.takes("=>")
        if inner.token().is_string or inner.sees_parameter:
            found[key] = inner.string()
        else:
            low = inner.i
            while not _at_comma(inner):
                inner.i += 1
            if low == inner.i:
                raise inner.unexpected(f"a value of {shown}")
            text = inner.filled(low, inner.i)
            found[key] = text.lower() if text.upper() in ("TRUE", "FALSE") else text
        if not inner.takes(",") and not inner.ended:
            # What follows may be the rest of a secret: it is not quoted.
            raise inner.invalid(f"something follows the value of {shown}", "write , between two properties")
    return found


def _dotted(cursor: Cursor) -> str:
    return ".".join(cursor.parts("the name of a property"))


def _partitioned(cursor: Cursor, head: Head) -> None:
    cursor.needs("PARTITIONED", "BY")
    head.partition_by = _columns_of(cursor, "PARTITIONED BY")


def _clustered(cursor: Cursor, head: Head) -> None:
    line = cursor.line
    cursor.needs("CLUSTER", "BY")
    if cursor.takes("AUTO"):
        cursor.note("CLUSTER BY AUTO: no clustering columns are chosen", line)
    elif not cursor.takes("NONE"):
        head.cluster_by = _columns_of(cursor, "CLUSTER BY")


def _columns_of(cursor: Cursor, clause: str) -> tuple[str, ...]:
    start, end = cursor.parenthesis()
    for i in range(start, end - 1):
        if cursor.found[i].is_name and cursor.found[i + 1].text == "(":
            detail, fix = "takes names of columns, not expressions", "compute the column in the SELECT and name it here"
            raise cursor.invalid(f"{clause} {detail}", fix, position=cursor.found[i].start)
    return cursor.names(start, end)


def _schedule(cursor: Cursor, head: Head) -> None:
    cursor.note(f"{cursor.word()} of {head.name}: `rivermouth run` refreshes it, with --follow all the time")
    while not cursor.ended:
        token = cursor.token()
        is_value = token.is_string or token.text[0].isdigit() or cursor.word() in _UNITS
        if not is_value and cursor.word() not in _SCHEDULE_WORDS:
            return
        if cursor.sees("REFRESH", "POLICY"):
            return
        cursor.i += 1


def _policy(cursor: Cursor, head: Head) -> None:
    cursor.needs("REFRESH", "POLICY")
    policy = cursor.word()
    if policy not in _POLICIES:
        raise cursor.unexpected(*_POLICIES)
    cursor.i += 1
    head.refresh_policy = policy.lower()
    if policy == "INCREMENTAL" and cursor.takes("STRICT"):
        head.refresh_policy = "incremental_strict"


def _with(cursor: Cursor, head: Head) -> None:
    if cursor.sees("WITH", "ROW", "FILTER"):
        cursor.i += 1
    _row_filter(cursor, head)


def _row_filter(cursor: Cursor, head: Head) -> None:
    if cursor.sees("ROW", "FILTER"):
        raise cursor.not_supported(f"ROW FILTER of {head.name}", "filter the rows in the SELECT with WHERE")
    raise cursor.unexpected("ROW FILTER", "AS")


def _collation(cursor: Cursor, head: Head) -> None:
    cursor.needs("DEFAULT", "COLLATION")
    if not cursor.takes("UTF8_BINARY"):
        clause = f"DEFAULT COLLATION {cursor.shown} of {head.name}"
        raise cursor.not_supported(clause, "give columns their collation: name STRING COLLATE ...")


def _tags(cursor: Cursor, head: Head) -> None:
    cursor.note(f"TAGS of {head.name} are not kept")
    cursor.needs("TAGS")
    cursor.parenthesis()


_READERS: Final[dict[str, Callable[[Cursor, Head], None]]] = {
    "COMMENT": _comment,
    "LOCATION": _location,
    "USING": _using,
    "TBLPROPERTIES": _properties,
    "PARTITIONED": _partitioned,
    "CLUSTER": _clustered,
    "SCHEDULE": _schedule,
    "TRIGGER": _schedule,
    "REFRESH": _policy,
    "WITH": _with,
    "ROW": _row_filter,
    "DEFAULT": _collation,
    "TAGS": _tags,
}


def _at_comma(cursor: Cursor) -> bool:
    return cursor.ended or cursor.word() == ","
