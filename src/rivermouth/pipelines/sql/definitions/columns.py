"""The list behind the name of a table: columns, labels and constraints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from rivermouth.pipelines.spec import Expectation, ExpectationAction, SourceLine
from rivermouth.pipelines.sql.constants import closing
from rivermouth.pipelines.sql.definitions.cursor import Cursor
from rivermouth.pipelines.sql.definitions.filled import as_written
from rivermouth.pipelines.sql.tokens import quoted_name, quoted_string, tokens

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of columns that Spark takes without backquotes."""
_AFTER_TYPE: Final = frozenset(
    [
        "NOT",
        "NULL",
        "COMMENT",
        "DEFAULT",
        "GENERATED",
        "MASK",
        "CONSTRAINT",
        "PRIMARY",
        "FOREIGN",
        "REFERENCES",
        "CHECK",
        "UNIQUE",
        ",",
        "EXPECT",
    ]
)
_OPTIONS: Final = ("COMMENT", "NOT NULL", "DEFAULT", "GENERATED", "CONSTRAINT")
_OF_TYPED: Final = ("NOT", "DEFAULT", "GENERATED")
_KINDS: Final = ("EXPECT", "PRIMARY", "FOREIGN", "CHECK", "UNIQUE")
_AFTER_KEY: Final = (",", "COMMENT", "CONSTRAINT", "MASK", "GENERATED", "DEFAULT")
_ACTIONS: Final[dict[tuple[str, ...], ExpectationAction]] = {
    ("DROP", "ROW"): "drop",
    ("FAIL", "UPDATE"): "fail",
    ("DEAD", "LETTER"): "dead_letter",
}


@dataclass(slots=True)
class Column:
    """A column of a list.

    Attributes:
        name: Without backquotes.
        type: As it is written; empty where the list gives only names.
        not_null: Whether it refuses nulls.
        default: SQL of the value of rows that bring none.
        generated: SQL of the value that it always has.
        comment: A comment.
        token: The number of the token that is its name.
    """

    name: str
    type: str = ""
    not_null: bool = False
    default: str | None = None
    generated: str | None = None
    comment: str | None = None
    token: int = field(default=0, compare=False)

    @property
    def written(self) -> str:
        """Its name in SQL."""
        return self.name if _PLAIN.fullmatch(self.name) else quoted_name(self.name)

    @property
    def ddl(self) -> str:
        """All of it, as CREATE TABLE takes it."""
        default = f"DEFAULT {self.default}" if self.default is not None else ""
        generated = f"GENERATED ALWAYS AS ({self.generated})" if self.generated is not None else ""
        return self._ddl(default, generated)

    @property
    def plain_ddl(self) -> str:
        """Without ``default`` and ``generated``, as StructType.fromDDL takes it."""
        return self._ddl()

    def _ddl(self, *more: str) -> str:
        not_null = "NOT NULL" if self.not_null else ""
        comment = f"COMMENT {quoted_string(self.comment)}" if self.comment is not None else ""
        pieces = (self.written, self.type, not_null, *more, comment)
        return " ".join(piece for piece in pieces if piece)


@dataclass(slots=True)
class ColumnList:
    """What a list says.

    Attributes:
        columns: In its order.
        expectations: In its order.
    """

    columns: list[Column] = field(default_factory=list)
    expectations: list[Expectation] = field(default_factory=list)


def columns_of(ddl: str, at: SourceLine) -> tuple[Column, ...]:
    """The columns of a schema as DDL: of ``Dataset.schema``, and of ``schema=`` in Python.

    Args:
        ddl: ``id BIGINT NOT NULL, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))``.
        at: Where it is written.

    Raises:
        SqlInvalid: It is not written as SQL wants it.
        SqlNotSupported: A column has an identity or a mask.
    """
    return tuple(read_columns(Cursor(as_written(ddl, at), tokens(ddl, at), {})).columns)


def read_columns(cursor: Cursor) -> ColumnList:
    """Reads a list, from a cursor on what its parentheses hold.

    Raises:
        SqlInvalid: It is not written as SQL wants it.
        SqlNotSupported: A column has an identity or a mask, or a constraint is a CHECK.
    """
    result = ColumnList()
    while not cursor.ended:
        if cursor.word() in ("CONSTRAINT", *_KINDS) and _is_constraint(cursor):
            _constraint(cursor, result)
        else:
            result.columns.append(_column(cursor, result))
        if not cursor.ended:
            cursor.needs(",")
    typed = [bool(column.type) for column in result.columns]
    if any(typed) and not all(typed):
        column = next(column for column in result.columns if not column.type)
        cursor.i, name = column.token, column.written
        raise cursor.invalid(f"the column {name} has no type, and others have one", f"write {name} STRING")
    return result


def _is_constraint(cursor: Cursor) -> bool:
    if cursor.sees("CONSTRAINT"):
        return cursor.word(2) in _KINDS
    return cursor.word(1) in ("(", "KEY")


def _column(cursor: Cursor, result: ColumnList) -> Column:
    line, token = cursor.line, cursor.i
    column = Column(cursor.column(), token=token)
    cursor.takes(":")
    column.type = _type(cursor)
    while not cursor.ended and cursor.word() != ",":
        if not column.type and cursor.word() in _OF_TYPED:
            option = "NOT NULL" if cursor.word() == "NOT" else cursor.word()
            detail = f"the column {column.written} has no type, and {option} needs one"
            raise cursor.invalid(detail, f"write {column.written} STRING {option}")
        _column_option(cursor, column, result)
    if column.comment and not column.type:
        cursor.note(f"the comment of the column {column.name} is not kept, because the column has no type", line)
    return column


def _type(cursor: Cursor) -> str:
    start, depth = cursor.i, 0
    while not cursor.ended and (depth > 0 or cursor.word() not in _AFTER_TYPE):
        depth += {"<": 1, ">": -1}.get(cursor.word(), 0)
        if cursor.token().is_string and depth == 0:
            cursor.i -= 1
            raise cursor.unexpected(*_OPTIONS)
        if cursor.word() == "(":
            cursor.parenthesis()
        else:
            cursor.i += 1
    return cursor.filled(start, cursor.i, has_markers=False)


def _column_option(cursor: Cursor, column: Column, result: ColumnList) -> None:
    if cursor.takes("NOT", "NULL"):
        column.not_null = True
    elif cursor.takes("NULL"):
        pass
    elif cursor.takes("COMMENT"):
        column.comment = cursor.string()
    elif cursor.takes("DEFAULT"):
        column.default = _default(cursor)
    elif cursor.sees("GENERATED"):
        column.generated = _generated(cursor, column)
    elif cursor.sees("MASK"):
        raise cursor.not_supported(f"MASK of the column {column.name}", "mask the value in the SELECT, without MASK")
    elif cursor.word() in ("CONSTRAINT", *_KINDS, "REFERENCES"):
        _constraint(cursor, result)
    else:
        raise cursor.unexpected(*_OPTIONS)


def _default(cursor: Cursor) -> str:
    start = cursor.i
    cursor.i += 1  # DEFAULT NULL
    while not cursor.ended and cursor.word() not in _AFTER_TYPE:
        if cursor.word() == "(":
            cursor.parenthesis()
        else:
            cursor.i += 1
    return cursor.filled(start, cursor.i)


def _generated(cursor: Cursor, column: Column) -> str:
    if cursor.sees("GENERATED", "BY", "DEFAULT") or cursor.sees("GENERATED", "ALWAYS", "AS", "IDENTITY"):
        raise cursor.not_supported(
            f"IDENTITY of the column {column.name}", f"compute {column.name} in the SELECT, for example with xxhash64"
        )
    cursor.needs("GENERATED", "ALWAYS", "AS")
    return cursor.filled(*cursor.parenthesis())


def _constraint(cursor: Cursor, result: ColumnList) -> None:
    line = cursor.line
    position = cursor.token().start
    name = ".".join(cursor.parts("the name of a constraint")) if cursor.takes("CONSTRAINT") else ""
    if cursor.takes("EXPECT"):
        if not name:
            raise cursor.invalid("EXPECT without a name", "write CONSTRAINT name EXPECT (...)", position=position)
        if any(each.name == name for each in result.expectations):
            raise cursor.invalid(
                f"two constraints have the name {name}", f"give this one another name: {name}_2", position=position
            )
        result.expectations.append(Expectation(name, _condition(cursor), _action(cursor)))
        return
    if cursor.sees("CHECK"):
        raise cursor.not_supported("CHECK", "write EXPECT (...) ON VIOLATION FAIL UPDATE")
    if cursor.word() not in ("PRIMARY", "FOREIGN", "UNIQUE", "REFERENCES"):
        raise cursor.unexpected("EXPECT", "PRIMARY KEY", "FOREIGN KEY")
    kind = {"PRIMARY": "PRIMARY KEY", "FOREIGN": "FOREIGN KEY"}.get(cursor.word(), cursor.word())
    cursor.note(f"{kind} is information only: nothing enforces it", line)
    while not cursor.ended and cursor.word() not in _AFTER_KEY and not cursor.sees("NOT", "NULL"):
        if cursor.word() == "(":
            cursor.parenthesis()
        else:
            cursor.i += 1


def _condition(cursor: Cursor) -> str:
    start = cursor.i
    while not cursor.ended and cursor.word() != "," and not cursor.sees("ON", "VIOLATION"):
        if cursor.word() == "(":
            cursor.parenthesis()
        else:
            cursor.i += 1
    end = cursor.i
    if start < end and cursor.found[start].text == "(" and closing(cursor.found, start) == end - 1:
        start, end = start + 1, end - 1
    if start == end:
        raise cursor.unexpected("a condition", fix="write EXPECT (column IS NOT NULL)")
    return cursor.filled(start, end)


def _action(cursor: Cursor) -> ExpectationAction:
    if not cursor.takes("ON", "VIOLATION"):
        return "warn"
    for words, action in _ACTIONS.items():
        if cursor.takes(*words):
            return action
    raise cursor.unexpected("DROP ROW", "FAIL UPDATE", "DEAD LETTER")
