"""Frames that were analysed once: what they give for each batch's rows is what new ones would give."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import functions as F

from rivermouth.ports.internals.prepared_plan import Prepared, planned

COLUMNS = "id int, name string, at timestamp, parts array<struct<key: string, value: binary>>"
TIME = dt.datetime(2026, 1, 2, 3, 4, 5)
ROWS = (
    [(1, "a", TIME, [("k", b"v")]), (2, None, None, None)],
    [(3, "b", TIME, []), (None, "", TIME, None), (3, "b", TIME, [])],
    [],
)


class Build:
    """Counts how often it was asked."""

    def __init__(self):
        self.times = 0

    def __call__(self, rows):
        self.times += 1
        doubled = rows.selectExpr("*", "inline(array(struct(id * 2 AS twice, upper(name) AS loud)))")
        return doubled.where("coalesce(twice > 2, true)").select("*", F.expr("size(parts) AS many")).drop("at")


def test_it_gives_for_each_rows_what_it_would_give_built_anew(spark):
    build = Build()
    prepared = Prepared(build)
    for rows in ROWS:
        frame = spark.createDataFrame(rows, COLUMNS)
        found, expected = prepared.over(frame), Build()(frame)
        assert found.schema == expected.schema
        assert found.collect() == expected.collect()
    assert build.times == 1


def test_the_result_is_a_frame_like_any_other(spark):
    prepared = Prepared(Build())
    frame = spark.createDataFrame(ROWS[0], COLUMNS)
    one, other = prepared.over(frame), prepared.over(spark.createDataFrame(ROWS[1], COLUMNS))
    both = one.union(other).join(one.select("id", F.col("loud").alias("l")), "id", "left")
    assert sorted(both.select("twice", "l").collect(), key=str) == [(4, None), (6, None), (6, None), (None, None)]


def test_what_cannot_be_null_in_some_rows_may_be_in_others(spark):
    prepared = Prepared(lambda rows: rows.selectExpr("coalesce(id, -1) AS id", "id IS NULL AS missing"))
    assert prepared.over(spark.range(1).selectExpr("CAST(7 AS INT) AS id")).collect() == [(7, False)]
    assert prepared.over(spark.createDataFrame([(None,)], "id int")).collect() == [(-1, True)]


def test_rows_of_another_shape_are_prepared_apart(spark):
    build = Build()
    prepared = Prepared(build)
    one = spark.createDataFrame(ROWS[0], COLUMNS)
    other = one.selectExpr("CAST(id AS BIGINT) AS id", "name", "at", "parts", "name AS more")
    for _ in range(2):
        assert prepared.over(one).columns == Build()(one).columns
        assert prepared.over(other).dtypes == Build()(other).dtypes
        assert prepared.over(other).collect() == Build()(other).collect()
    assert build.times == 2


def test_the_time_is_that_of_each_batch(spark):
    prepared = Prepared(lambda rows: rows.selectExpr("current_timestamp() AS now"))
    times = [prepared.over(spark.range(1)).first().now for _ in range(2)]
    assert times[0] < times[1]


def test_rows_of_a_plan_by_itself_are_the_same_rows(spark):
    rows = spark.createDataFrame(ROWS[0], COLUMNS).where("id IS NOT NULL")
    assert planned(rows).schema == rows.schema
    assert planned(rows).where("id > 1").collect() == rows.where("id > 1").collect()
