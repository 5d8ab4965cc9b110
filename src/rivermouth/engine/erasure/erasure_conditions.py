"""Conditions of an erasure, and the rows and keys that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import ForgetRefused, first_line
from rivermouth.ports.internals.expressions import forbidden
from rivermouth.side_tables.erased_records import CHANGE, COORDINATES, PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.engine.flow.running import FlowContext
    from rivermouth.rows.keyed.change_order import ChangeOrder

MET: Final = "__met"
"""Whether a row is meant."""
OWN: Final = "__own"
"""Whether only rows that go have it."""
RECORD: Final = (*COORDINATES, names.TIMESTAMP)
"""The columns that identify a record."""


def meets(context: FlowContext, frame: DataFrame, option: str, condition: str | None) -> Column:
    """Whether a row of ``frame`` is meant: never null."""
    if condition is None:
        return F.lit(False)
    fix = f"write a condition over {', '.join(frame.columns)}"
    try:
        # First: to analyse reflection is to load a class.
        if refused := forbidden(context.spark, condition):
            raise ForgetRefused(table=context.places.name, detail=f"{option}: {refused}", fix=fix)
        kind = frame.limit(0).selectExpr(f"(\n{condition}\n)").schema[0].dataType.simpleString()
    except PySparkException as error:
        detail = f"{option}: {first_line(error).rstrip(';')}"
        raise ForgetRefused(table=context.places.name, detail=detail, fix=fix) from error
    if kind != "boolean":
        raise ForgetRefused(table=context.places.name, detail=f"{option} is of type {kind}, not boolean", fix=fix)
    return F.coalesce(F.expr(f"(\n{condition}\n)"), F.lit(False))


def as_place(place: str, change: Column | None = None) -> tuple[Column, ...]:
    """``place``, ``batch`` and ``change`` of records in a place that are erased as a whole, or in one change."""
    number = F.lit(None).cast("int") if change is None else change
    return F.lit(place).alias(PLACE), F.lit(None).cast("bigint").alias("batch"), number.alias(CHANGE)


def key_columns_of(order: ChangeOrder) -> list[Column]:
    """The key columns of a table."""
    return [F.col(names.quoted(key)) for key in order.keys]


def of_keys(rows: DataFrame, keys: DataFrame, order: ChangeOrder, how: str = "left_semi") -> DataFrame:
    """The rows that have one of the keys; with ``left_anti`` the others."""
    return rows.alias("t").join(keys.alias("s"), F.expr(order.same_key("t", "s")), how)
