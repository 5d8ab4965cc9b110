"""What tables hold after an update: expectations of views, conditions that name tables, results that are replaced."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.pipelines.conftest import PipelineFolder

from rivermouth.engine.query.replay_letters import LetterTable
from rivermouth.errors import RowExpectationFailed
from rivermouth.pipelines import commands
from rivermouth.pipelines.running.flows.flow_runs import fingerprint_of
from rivermouth.pipelines.spec import Expectation, NotNull
from rivermouth.rows import row_expectations

PROJECT = """
name: shop
lake: ./lake
pipelines:
  shop:
    files: [sales.py, prices.sql]
"""
PYTHON = """
from pathlib import Path

import dlt
from pyspark.sql.functions import *


@dlt.view
@dlt.expect("has_price", "price IS NOT NULL")
@dlt.expect_or_drop("has_id", "id IS NOT NULL")
@dlt.expect_or_fail("not 13", "coalesce(id, 0) <> 13")
def sales():
    return spark.readStream.format("json").schema("id bigint, item string, price bigint").load("in")


@dlt.table
def kept():
    return dlt.read_stream("sales")


@dlt.table
def items():
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    assert active is spark
    price = int(Path(__file__).with_name("price.txt").read_text())
    return active.createDataFrame([("a", price), ("b", 7.5)], "name string, list_price double")


@dlt.table
def by_item():
    return dlt.read_stream("kept").groupBy("item").agg(count("*").alias("sales"))
"""
SQL = """

CREATE STREAMING TABLE checked (
  CONSTRAINT known EXPECT (i.list_price >= s.price) ON VIOLATION DROP ROW
) AS SELECT s.*, i.* FROM STREAM(kept) AS s JOIN items AS i ON s.item = i.name;
"""


def feed(folder, name, *rows):
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("\n".join(json.dumps(row) for row in rows))


def rows(folder, table):
    return PipelineFolder(folder).rows(f"default.{table}")


def update(folder):
    (pipeline,) = commands.pipelines(folder / "rivermouth.yml")
    return {each.dataset: each for each in commands.run(pipeline)}


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "rivermouth.yml").write_text(PROJECT)
    (tmp_path / "sales.py").write_text(PYTHON)
    (tmp_path / "prices.sql").write_text(SQL)
    (tmp_path / "price.txt").write_text("5")
    return tmp_path


def test_views_keep_back_rows_conditions_name_tables_and_a_view_is_replaced(spark, shop):
    (shop / "sales.py").write_text(PYTHON[: PYTHON.rindex("@dlt.table")])
    feed(shop, "1.json", {"id": 1, "item": "a", "price": 5}, {"item": "a"}, {"id": 3, "item": "a", "price": 9})
    found = update(shop)
    assert {each.result for each in found.values()} == {"completed"}
    assert found["checked"].counts.dropped == 1
    assert rows(shop, "kept") == [(1, "a", 5), (3, "a", 9)]
    assert rows(shop, "checked") == [(1, "a", 5, "a", 5.0)]
    (shop / "price.txt").write_text("1")
    feed(shop, "2.json", {"id": 13, "item": "a"}, {"id": 4, "item": "a"})
    error = update(shop)["kept"].error
    assert isinstance(error, RowExpectationFailed)
    assert error.name == "not 13"
    assert len(rows(shop, "kept")) == 2
    assert rows(shop, "items") == [("a", 1.0), ("b", 7.5)]


@pytest.mark.long
def test_views_keep_back_rows_conditions_name_tables_and_results_are_replaced(spark, shop):
    tmp_path = shop
    feed(tmp_path, "1.json", {"id": 1, "item": "a", "price": 5}, {"item": "a"}, {"id": 2, "item": "b", "price": 9})
    assert {each.result for each in update(tmp_path).values()} == {"completed"}
    assert rows(tmp_path, "kept") == [(1, "a", 5), (2, "b", 9)]
    assert rows(tmp_path, "by_item") == [("a", 1), ("b", 1)]
    assert rows(tmp_path, "checked") == [(1, "a", 5, "a", 5.0)]

    (tmp_path / "price.txt").write_text("1")
    feed(tmp_path, "2.json", {"id": 3, "item": "a"})
    found = update(tmp_path)
    assert found["checked"].counts.dropped == 1
    assert rows(tmp_path, "items") == [("a", 1.0), ("b", 7.5)]
    assert rows(tmp_path, "by_item") == [("a", 2), ("b", 1)]

    feed(tmp_path, "3.json", {"id": 13, "item": "a"}, {"id": 4, "item": "a"})
    found = update(tmp_path)
    assert isinstance(found["kept"].error, RowExpectationFailed)
    assert found["kept"].error.name == "not 13"
    assert len(rows(tmp_path, "kept")) == 3


@pytest.mark.parametrize("name", ["not 13", "a|b", "it's 100%", "Ü"])
def test_the_name_of_an_expectation_comes_through_the_error(spark, name):
    expectations = [Expectation("other", "true", "fail"), Expectation(name, "id < 0", "fail")]
    for frame in (
        row_expectations.passed(spark.range(1), expectations),
        row_expectations.route(spark.range(1), expectations),
    ):
        with pytest.raises(Exception, match="RIVERMOUTH_ROW_EXPECTATION_FAILED") as raised:
            frame.collect()
        assert row_expectations.failed_expectation(str(raised.value)) == name


def test_a_condition_that_throws_is_failed_by_its_row(spark):
    rows = spark.range(3)
    condition = "element_at(array(1), CAST(id AS int)) = 1"  # at 0 and at 2
    expectations = [Expectation("odd", condition, "drop"), Expectation("other", condition, "warn")]
    routed = row_expectations.route(rows, expectations)
    assert sorted(tuple(row) for row in routed.collect()) == [
        (0, True, True, "dropped"),
        (1, False, False, "table"),
        (2, True, True, "dropped"),
    ]
    assert [tuple(row) for row in row_expectations.passed(rows, expectations).collect()] == [(1,)]
    with pytest.raises(Exception, match="RIVERMOUTH_ROW_EXPECTATION_FAILED"):
        row_expectations.passed(rows, [Expectation("odd", condition, "fail")]).collect()


def test_a_null_is_judged_where_no_expectation_takes_the_row_out(spark):
    rows = spark.sql("SELECT * FROM VALUES (1, 1), (NULL, -1), (2, NULL) AS t(id, n)")
    judged = [Expectation("positive", "n > 0", "drop"), NotNull("a|b", "id IS NOT NULL"), NotNull("n", "n IS NOT NULL")]
    routed = row_expectations.route(rows, judged)
    assert [row["__route"] for row in routed.collect()] == ["table", "dropped", "dropped"]
    observed = routed.select(*row_expectations.counting_columns(judged)).first().asDict()
    assert row_expectations.counted(judged, observed).expectations == {"positive": 2}
    with pytest.raises(Exception, match="RIVERMOUTH_NULL_IN_COLUMN") as raised:
        row_expectations.route(rows, judged[1:]).collect()
    assert row_expectations.null_column(str(raised.value)) == "a|b"
    # A replay of dead letters ends no job.
    spared = LetterTable("t", "", "", judged).spared
    found = row_expectations.route(rows, spared[1:])
    found = found.selectExpr("__route", f"{row_expectations.failed_names(spared[1:])} AS failed").collect()
    assert [tuple(row) for row in found] == [("table", []), ("dead_letter", ["a|b"]), ("dead_letter", ["n"])]
    assert [row[0] for row in row_expectations.route(rows, spared).select("__route").collect()] == [
        "table", "dropped", "dropped",
    ]  # fmt: skip


def test_a_query_that_differs_in_its_last_column_alone_is_another(spark):
    def query(last):
        columns = [f"id + {number} AS c{number}" for number in range(40)]
        fields = ", ".join(f"'f{number}', id" for number in range(40))
        return spark.range(1).selectExpr(*columns, f"named_struct({fields}, 'last', {last}) AS nested")

    found = [printed(query(last)) for last in ("1", "1", "2")]
    assert found[0] == found[1] != found[2]
    # Flows of one session write theirs down side by side.
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(printed, [query("1")] * 40)) == {found[0]}


def printed(frame):
    return fingerprint_of(frame)


def test_queries_that_only_look_alike_have_other_fingerprints(spark):
    """Spark writes columns without the table that they are of, and strings without quotes."""
    spark.sql("SELECT 1 AS id, 'a' AS tag, 2 AS at").createOrReplaceTempView("fp_orders")
    spark.sql("SELECT 1 AS id, 'b' AS tag, 3 AS at").createOrReplaceTempView("fp_customers")
    joined = "SELECT {} FROM fp_orders o JOIN fp_customers c ON {}"
    within = "SELECT (SELECT max(tag) FROM fp_orders WHERE tag <> '{}') AS t"
    pairs = [
        (joined.format("o.id, o.at", "o.id = c.id"), joined.format("o.id, c.at", "o.id = c.id")),
        (joined.format("coalesce(o.at, c.at)", "o.id = c.id"), joined.format("coalesce(c.at, o.at)", "o.id = c.id")),
        (joined.format("o.tag", "o.id = 1"), joined.format("o.tag", "c.id = 1")),
        ("SELECT tag AS t FROM fp_orders", "SELECT 'tag' AS t FROM fp_orders"),
        ("SELECT id FROM fp_orders WHERE tag IN ('a,b')", "SELECT id FROM fp_orders WHERE tag IN ('a','b')"),
        ("SELECT id FROM fp_orders WHERE tag = '#112'", "SELECT id FROM fp_orders WHERE tag = '#445'"),
        ("SELECT 'x@a' AS t", "SELECT 'x@b' AS t"),
        ("SELECT 1 AS n", "SELECT 1L AS n"),
        (within.format("#1"), within.format("#2")),
    ]
    for one, other in pairs:
        first, again, second = (fingerprint_of(spark.sql(text)) for text in (one, one, other))
        assert first == again != second, one


def test_the_same_query_is_the_same_again(spark):
    def stream(minutes):
        read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "x:1").option("subscribe", "t").load()
        return read.withWatermark("timestamp", f"{minutes} minutes").dropDuplicates(["key"])

    def view(limit):
        return spark.sql(
            f"WITH a AS (SELECT id FROM range(9)), b AS (SELECT * FROM a, a c) SELECT * FROM b LIMIT {limit}"
        )

    for query in (stream, view):
        assert printed(query(1)) == printed(query(1)) != printed(query(2))
