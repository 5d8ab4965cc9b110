"""Expressions of users that throw for a record, whatever ANSI mode says: the record is refused, and not its batch.

``timestamp_millis`` throws for a number that is too large, ``parse_json`` for a broken document, ``assert_true`` where
it is told to. Spark makes null of what else cannot be computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.jvm.java_objects import java_class, java_frame

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

EXPRESSION_REASON: Final = "EXPRESSION_FAILED"
EXPRESSION_MESSAGE: Final = "the expression of {} cannot be computed for the record: a function in it throws"

_ATTEMPTS: Final = "rivermouth.internals.plan.Attempts"
_BY: Final = "__unmade_by"


def instead(rows: DataFrame, columns: Collection[str], *, otherwise: bool | None = None) -> DataFrame:
    """The rows, where a column is ``otherwise`` in each row for which its expression throws.

    Args:
        rows: They end with a projection.
        columns: Names of columns that this projection makes.
        otherwise: A boolean, or null.
    """
    if not columns:
        return rows
    found = java_class(rows.sparkSession, _ATTEMPTS).instead(java_frame(rows), list(columns), otherwise)
    return rows if found is None else DataFrame(found, rows.sparkSession)


def marked(rows: DataFrame, columns: Mapping[str, str], judged: str, *, otherwise: bool | None = None) -> DataFrame:
    """The same; ``__key_valid`` is false where an expression throws, and ``__unmade`` says which.

    Args:
        rows: Decoded rows; they end with a projection.
        columns: Names of columns that this projection makes, with what a dead letter calls each.
        judged: SQL: whether a row is refused for it.
        otherwise: What such a column is then: a boolean, or null.
    """
    if not columns:
        return rows
    java = java_class(rows.sparkSession, _ATTEMPTS)
    found = java.marked(java_frame(rows), list(columns), otherwise, _BY)
    if found is None:
        return rows
    called = " ".join(f"WHEN {names.literal(name)} THEN {names.literal(said)}" for name, said in columns.items())
    unmade = f"({judged}) AND {_BY} IS NOT NULL"
    return refused(DataFrame(found, rows.sparkSession), EXPRESSION_REASON, unmade, f"CASE {_BY} {called} END").drop(_BY)


def refused(rows: DataFrame, reason: str, condition: str, field: str) -> DataFrame:
    """Rows whose ``__key_valid`` is false also where a condition is met; ``__unmade`` says why, of the first one.

    Args:
        rows: Decoded rows.
        reason: The reason of their dead letters.
        condition: SQL of a boolean.
        field: SQL of what they name as the field.
    """
    why = f"IF({condition}, named_struct('reason', '{reason}', 'field', {field}), NULL)"
    why = f"coalesce({names.UNMADE}, {why})" if names.UNMADE in rows.columns else why
    valid = f"{names.KEY_VALID} AND NOT coalesce({condition}, false)"
    return rows.withColumns({names.KEY_VALID: F.expr(valid), names.UNMADE: F.expr(why)})
