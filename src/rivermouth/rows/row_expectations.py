"""Expectations on the rows of a query: where each row goes, and how many failed which."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import quote, unquote

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.rows.checks import failed_column, met
from rivermouth.rows.columns import attempts
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

TABLE: Final = "table"
_DROPPED: Final = "dropped"
DEAD_LETTER: Final = "dead_letter"
IN_TABLE: Final = f"{names.ROUTE} = '{TABLE}'"
"""SQL: rows that go on, into the table or to the readers of a view."""
_FAIL_MARK: Final = "RIVERMOUTH_ROW_EXPECTATION_FAILED"
_FAILURE: Final = re.compile(_FAIL_MARK + r"\|([^|]*)\|")
_MET: Final = f"{names.FAILED_PREFIX}not"
_NULL_MARK: Final = "RIVERMOUTH_NULL_IN_COLUMN"
_NULL: Final = re.compile(_NULL_MARK + r"\|([^|]*)\|")
NOT_NULL: Final = "not_null"
"""The action of a column that must not be null: a null ends the job where no expectation has taken the row out."""
NOT_NULL_SPARED: Final = "not_null_dead_letter"
"""The same, where such a row is a dead letter."""
_STRONGEST_FIRST: Final = ("fail", DEAD_LETTER, "drop", NOT_NULL, NOT_NULL_SPARED)
_MAKING_LETTERS: Final = (DEAD_LETTER, NOT_NULL_SPARED)
_MARK_BITS: Final = 0xFFFFFFFF
"""Of a mark as many that the sum of all marks of a batch is a bigint."""
_HASHED: Final = (
    T.NumericType,
    T.StringType,
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DayTimeIntervalType,
    T.YearMonthIntervalType,
    T.NullType,
)
"""Types whose values Spark has a hash of."""


class RowExpectation(Protocol):
    """A condition on a row, and what happens where it is not TRUE."""

    @property
    def name(self) -> str:
        """Unique among those of a table."""

    @property
    def condition(self) -> str:
        """SQL of a boolean."""

    @property
    def action(self) -> str:
        """``warn``, ``drop``, ``fail``, ``dead_letter``, ``NOT_NULL`` or ``NOT_NULL_SPARED``."""


def route(rows: DataFrame, expectations: Sequence[RowExpectation]) -> DataFrame:
    """Adds ``__failed_<i>`` (boolean, never null) for each expectation, and ``__route``: table, dropped or dead_letter.

    A condition is met only where it is TRUE; NULL fails, and so does one that throws. Of several failed expectations
    the strongest action wins: fail, dead letter, drop, not null. One whose action is fail or not null ends the Spark
    job; ``failed_expectation`` and ``null_column`` read its error.
    """
    failed = {failed_column(i): f"NOT {met(each.condition)}" for i, each in enumerate(expectations)}
    rows = rows.selectExpr("*", *(f"{sql} AS {name}" for name, sql in failed.items()))
    rows = attempts.instead(rows, failed, otherwise=True)
    cases = []
    for action in _STRONGEST_FIRST:
        for index, each in enumerate(expectations):
            if each.action == action:
                cases.append(f"WHEN {failed_column(index)} THEN {_outcome(action, each.name)}")
    case = f"CASE {' '.join(cases)} ELSE '{TABLE}' END" if cases else f"'{TABLE}'"
    return rows.selectExpr("*", f"{case} AS {names.ROUTE}")


@dataclass(frozen=True, slots=True)
class _Exempting:
    name: str
    condition: str
    action: str


def exempting(expectations: Sequence[RowExpectation], exempt: str) -> list[RowExpectation]:
    """The same expectations, which rows meet for which ``exempt`` (SQL) is TRUE."""
    return [_Exempting(each.name, f"{exempt} OR (\n{each.condition}\n)", each.action) for each in expectations]


def passed(rows: DataFrame, expectations: Sequence[RowExpectation]) -> DataFrame:
    """The rows of a view that its readers get: without those that fail an expectation whose action is drop.

    One whose action is fail ends the Spark job, also for rows that another one leaves out; ``failed_expectation`` reads
    its error.
    """
    for each in sorted(expectations, key=lambda each: each.action != "fail"):
        if each.action == "fail":
            rows = _where(rows, each.condition, f"IF({{}}, true, CAST({_ending(each.name)} AS BOOLEAN))")
        elif each.action != "warn":
            rows = _where(rows, each.condition, "{}")
    return rows


def _where(rows: DataFrame, condition: str, test: str) -> DataFrame:
    """The rows that pass a test, in which ``{}`` is whether they meet the condition; one that throws is not met."""
    told = rows.selectExpr("*", f"{met(condition)} AS {_MET}")
    found = attempts.instead(told, [_MET], otherwise=False)
    if found is told:
        return rows.where(test.replace("{}", met(condition)))
    return found.where(test.replace("{}", _MET)).drop(_MET)


def _ending(name: str, mark: str = _FAIL_MARK) -> str:
    return f"raise_error('{mark}|{quote(name, safe=' ')}|')"


def _outcome(action: str, name: str) -> str:
    if action in ("fail", NOT_NULL):
        return f"CAST({_ending(name, _NULL_MARK if action == NOT_NULL else _FAIL_MARK)} AS STRING)"
    return f"'{_DROPPED if action == 'drop' else DEAD_LETTER}'"


def counting(expectations: Sequence[RowExpectation]) -> dict[str, Aggregate]:
    """What is counted of routed rows, by the name of the count; ``counted`` reads it.

    Columns that must not be null have no counts: with a null no row is written.
    """
    conditions = {
        "read": "true",
        "written": f"{names.ROUTE} = '{TABLE}'",
        "dropped": f"{names.ROUTE} = '{_DROPPED}'",
        "dead_lettered": f"{names.ROUTE} = '{DEAD_LETTER}'",
        **{failed_column(i): failed_column(i) for i, each in enumerate(expectations) if each.action != NOT_NULL},
    }
    return {name: Aggregate("count_if", condition) for name, condition in conditions.items()}


def counting_columns(expectations: Sequence[RowExpectation]) -> list[Column]:
    """The same counts as columns of an aggregate."""
    return [F.expr(f"count_if({each.of})").alias(name) for name, each in counting(expectations).items()]


def counted(expectations: Sequence[RowExpectation], observed: Mapping[str, Any]) -> QueryCounts:
    """The counts that ``counting`` observed."""
    return QueryCounts(
        read=observed["read"],
        written=observed["written"],
        dropped=observed["dropped"],
        dead_lettered=observed["dead_lettered"],
        expectations={
            each.name: observed[failed_column(i)] for i, each in enumerate(expectations) if each.action != NOT_NULL
        },
    )


def letter_mark(columns: T.StructType, expectations: Sequence[RowExpectation]) -> str:
    """SQL, a bigint: of a row that is a dead letter a number made of its values, else null.

    Two passes over a batch with as many dead letters, and the same sum of these numbers, have found the same ones.

    Args:
        columns: Of the routed rows.
        expectations: By which they were routed.
    """
    if not any(each.action in _MAKING_LETTERS for each in expectations):
        return "CAST(NULL AS BIGINT)"
    return mark_where(f"{names.ROUTE} = '{DEAD_LETTER}'", columns)


def mark_where(condition: str, columns: Iterable[T.StructField]) -> str:
    """SQL, a bigint: a number made of the values of these columns where ``condition`` is TRUE, else null."""
    values = [sql for sql in map(_hashed, columns) if sql is not None]
    return f"IF({condition}, xxhash64({', '.join(values)}) & {_MARK_BITS}L, NULL)" if values else "CAST(NULL AS BIGINT)"


def _hashed(column: T.StructField) -> str | None:
    """SQL of a value that Spark has a hash of; None of types that it can neither hash nor write as JSON."""
    name, kinds = names.quoted(column.name), set(_kinds(column.dataType))
    if kinds <= {"hash"}:
        return name
    return f"to_json(struct({name}))" if kinds <= {"hash", "json"} else None


def _kinds(kind: T.DataType) -> Iterable[str]:
    """How the parts of a type can be hashed: ``hash``, ``json`` or ``not``."""
    match kind:
        case T.StructType():
            for each in kind:
                yield from _kinds(each.dataType)
        case T.ArrayType():
            yield from _kinds(kind.elementType)
        case T.MapType():
            yield from ("json", *_kinds(kind.keyType), *_kinds(kind.valueType))
        case T.VariantType():
            yield "json"
        case _:
            yield "hash" if isinstance(kind, _HASHED) else "not"


def failed_names(expectations: Sequence[RowExpectation]) -> str:
    """SQL: the names of the expectations that a row failed, in their order."""
    each = (
        f"IF({failed_column(i)}, {names.literal(each.name)}, NULL)"
        for i, each in enumerate(expectations)
        if each.action != NOT_NULL
    )
    return f"array_compact(array({', '.join(each)}))"


def failed_expectation(error_text: str) -> str | None:
    """The name of the expectation that ended a Spark job; None if it ended for another reason."""
    match = _FAILURE.search(error_text)
    return None if match is None else unquote(match[1])


def null_column(error_text: str) -> str | None:
    """The column whose null ended a Spark job; None if it ended for another reason."""
    match = _NULL.search(error_text)
    return None if match is None else unquote(match[1])


def way_columns(expectations: Sequence[RowExpectation]) -> list[str]:
    """The columns that ``route`` adds."""
    return [*(failed_column(i) for i in range(len(expectations))), names.ROUTE]
