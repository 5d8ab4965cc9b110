"""Frames of no rows or a few, which no Python worker is asked for."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as T

from rivermouth.ports.spark.local_frames import few_rows, no_rows

COLUMNS = T.StructType(
    [
        T.StructField("number", T.LongType(), nullable=False),
        T.StructField("text", T.StringType(), metadata={"comment": "words"}),
        T.StructField("at", T.TimestampType()),
        T.StructField("held", T.StructType([T.StructField("days", T.ArrayType(T.DateType()))])),
        T.StructField("price", T.DecimalType(10, 2)),
    ]
)


def plan(frame):
    return frame._jdf.queryExecution().optimizedPlan().nodeName()


@pytest.mark.parametrize("columns", [COLUMNS, T.StructType([*COLUMNS, T.StructField("any", T.VariantType())])])
def test_no_rows_have_the_columns_and_are_read_without_python(spark, columns):
    found = no_rows(spark, columns)
    assert found.schema == columns
    assert (found.collect(), plan(found)) == ([], "LocalRelation")


def test_few_rows_are_what_was_given_and_are_read_without_python(spark):
    at = dt.datetime(2026, 5, 1, 12, 30, tzinfo=dt.UTC)
    rows = [
        {"number": 1, "text": "a\nb", "at": at, "held": {"days": [dt.date(2026, 5, 1), None]}, "price": None},
        {"number": 2, "text": None, "at": None, "held": None, "price": Decimal("3.50")},
    ]
    found = few_rows(spark, rows, COLUMNS)
    assert found.schema == COLUMNS
    assert plan(found) == "LocalRelation"
    told = found.selectExpr(
        "number", "text", "unix_micros(at) AS at", "held.days AS days", "CAST(price AS STRING) AS price"
    )
    assert [tuple(each) for each in told.collect()] == [
        (1, "a\nb", int(at.timestamp() * 1e6), [dt.date(2026, 5, 1), None], None),
        (2, None, None, None, "3.50"),
    ]
