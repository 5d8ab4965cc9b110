"""Views whose query has other columns than their table: its table gets them with the rows."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from deltalake import DeltaTable
from tests.pipelines.conftest import refusal

from rivermouth.pipelines import commands, dead_letters
from rivermouth.ports.internals.delta_snapshot import clustering_columns

ORDERS = """
CREATE STREAMING TABLE orders (CONSTRAINT small EXPECT (amount < 100) ON VIOLATION DEAD LETTER) AS
SELECT id, day, amount FROM STREAM read_files('{folder}/in', format => 'json',
  schema => 'id BIGINT, day STRING, amount INT');
"""
TOTALS = """
CREATE MATERIALIZED VIEW totals AS SELECT day, sum(amount) AS total FROM orders GROUP BY day;
"""
READERS = """
CREATE MATERIALIZED VIEW grouped CLUSTER BY (n) AS SELECT day, count(*) AS n FROM orders GROUP BY day;
CREATE TEMPORARY VIEW labels AS SELECT day, total AS label FROM totals;
CREATE MATERIALIZED VIEW report AS SELECT labels.*, grouped.* EXCEPT (day) FROM labels JOIN grouped USING (day);
CREATE STREAMING TABLE joined AS
  SELECT id, length(CAST(total AS STRING)) AS size FROM STREAM orders JOIN totals USING (day);
"""
NAMES = ("orders", "totals", "grouped", "report", "joined")
TEXT = (
    "totals AS SELECT day, sum(amount) AS total",
    "totals PARTITIONED BY (total) AS SELECT day, concat('n', sum(amount)) AS total",
)
DATE = ("sum(amount) AS total", "to_date(raise_error('no')) AS total")
SPACE = (
    "CLUSTER BY (n) AS SELECT day, count(*) AS n",
    "CLUSTER BY (`n of`) AS SELECT CAST(count(*) AS STRING) AS `n of`, day",
)
REFUSED = (
    "[TABLE_SCHEMA_CHANGED] dataset totals: column total is bigint in the table, and its query brings date; "
    "nothing was written\n"
    "  at: src/a.sql:{line}\n"
    "  hint: rivermouth run --full-refresh totals, or cast the column in the query"
)


def types(folder, name):
    return {each.name: json.loads(each.type.to_json()) for each in folder.table(name).schema().fields}


def outcomes(folder):
    return {name: (each.result, each.refresh, each.error) for name, each in folder.run().items()}


def test_a_view_gets_the_types_and_partitions_of_its_definition(folder):
    folder.define(ORDERS + TOTALS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5}, {"id": 2, "day": "b", "amount": 6})
    assert {result for result, _, _ in outcomes(folder).values()} == {"completed"}
    folder.define(ORDERS + TOTALS, TEXT)
    assert outcomes(folder)["totals"] == ("completed", "full", None)
    assert folder.rows("default.totals", "day, total") == [("a", "n5"), ("b", "n6")]
    assert types(folder, "totals") == {"day": "string", "total": "string"}
    assert folder.table("totals").metadata().partition_columns == ["total"]
    folder.define(ORDERS + TOTALS, (TEXT[0], TEXT[1].replace("concat('n', sum(amount))", "to_date(max(day))")))
    assert refusal(lambda: folder.plan(refresh=("orders",))) == REFUSED.format(line=6).replace("bigint", "string")


@pytest.mark.long
def test_a_view_gets_the_columns_partitions_and_clustering_of_its_definition_with_its_rows(folder, spark):
    folder.define(ORDERS + TOTALS + READERS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5}, {"id": 2, "day": "b", "amount": 6})
    assert {result for result, _, _ in outcomes(folder).values()} == {"completed"}
    first = folder.table("totals").version()
    folder.feed("in/2.json", {"id": 3, "day": "a", "amount": 7})
    folder.define(ORDERS + TOTALS + READERS, TEXT, SPACE)
    planned = folder.plan()
    assert {name: planned[name].new_columns for name in ("totals", "grouped", "report", "joined")} == {
        "totals": ("day string", "total string"),
        "grouped": ("n of string", "day string"),
        "report": ("day string", "label string", "n of string"),
        "joined": (),
    }
    flows = {name: planned[name].flows[0] for name in ("totals", "grouped", "report")}
    assert {(each.action, each.reason, each.or_else) for each in flows.values()} == {
        ("full", "its columns or partition columns have changed", ())
    }
    found = outcomes(folder)
    assert found == {name: ("completed", "" if name in ("orders", "joined") else "full", None) for name in NAMES}
    assert folder.rows("default.totals") == [("a", "n12"), ("b", "n6")]
    assert folder.rows("default.grouped", '"n of", day') == [("1", "b"), ("2", "a")]
    assert folder.rows("default.report", 'day, label, "n of"') == [("a", "n12", "2"), ("b", "n6", "1")]
    assert folder.rows("default.joined") == [(1, 1), (2, 1), (3, 3)]
    assert folder.table("totals").metadata().partition_columns == ["total"]
    assert clustering_columns(spark, str(folder.folder / "lake/default/grouped")) == ("n of",)
    # Readers see the old rows or the new ones.
    old = folder.table("totals")
    for version in range(first, old.version()):
        old.load_as_version(version)
        assert old.to_pyarrow_table().num_rows == 2
    assert outcomes(folder) == {
        name: ("completed", "" if name in ("orders", "joined") else "nothing", None) for name in NAMES
    }

    folder.define(ORDERS + TOTALS + READERS, DATE, SPACE)
    failed = folder.run()
    assert failed["totals"].error.code == "QUERY_FAILED"
    assert failed["report"].reason == failed["joined"].reason == "totals, which it reads, was not refreshed"
    assert folder.rows("default.totals") == [("a", "n12"), ("b", "n6")]
    assert types(folder, "totals") == {"day": "string", "total": "string"}


LIMITS = """
CREATE MATERIALIZED VIEW wide CLUSTER BY (day) TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'day,id') AS
SELECT id, day, name FROM orders JOIN customers USING (id);
"""
LIMITS_THEN = """
CREATE MATERIALIZED VIEW wide AS
SELECT day, name, TIMESTAMP_NTZ'2026-01-01 00:00:00' AS at FROM orders JOIN customers USING (id);
"""
LIMITS_LAST = LIMITS_THEN.replace("day, name,", "day, concat(name, ' and more') AS name,")
READ_WITHOUT_THE_GRAPH = """
from pyspark import pipelines as dp

@dp.foreach_batch_sink(name="matched")
def matched(batch, number):
    found = batch.join(spark.table("wide").select("day").distinct(), "day")
    found.select("id").write.format("delta").mode("append").save("{folder}/matched")

@dp.append_flow(target="matched")
def orders_to_match():
    return spark.readStream.table("orders")

@dp.materialized_view
def old():
    return spark.read.option("versionAsOf", 1).table("wide").selectExpr("count(*) AS n")
"""


@pytest.mark.long
def test_a_view_gets_what_delta_has_limits_for_and_others_read_it_meanwhile(folder, spark):
    place = folder.folder / "lake/default"
    spark.sql(f"CREATE TABLE delta.`{place}/customers` (id BIGINT, name VARCHAR(5)) USING delta")
    spark.sql(f"INSERT INTO delta.`{place}/customers` VALUES (1, 'Ann'), (2, 'Bob')")
    folder.define(ORDERS + LIMITS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5})
    assert {result for result, _, _ in outcomes(folder).values()} == {"completed"}
    folder.write("src/b.py", READ_WITHOUT_THE_GRAPH.replace("{folder}", str(folder.folder)))
    folder.feed("in/2.json", {"id": 2, "day": "a", "amount": 6})
    folder.define(ORDERS + LIMITS_THEN)
    assert {name: (result, error) for name, (result, _, error) in outcomes(folder).items()} == dict.fromkeys(
        ("orders", "wide", "matched", "old"), ("completed", None)
    )
    at = dt.datetime(2026, 1, 1)
    assert folder.rows("default.wide") == [("a", "Ann", at), ("a", "Bob", at)]
    assert "varchar" not in (place / "wide/_delta_log").joinpath(newest_schema(place / "wide")).read_text()
    assert folder.rows("default.old") == [(1,)]
    matched = DeltaTable(folder.folder / "matched").to_pyarrow_table().to_pylist()
    assert sorted(each["id"] for each in matched) == [1, 2]
    folder.define(ORDERS + LIMITS_LAST)
    assert outcomes(folder)["wide"] == ("completed", "full", None)
    assert {name for _, name, _ in folder.rows("default.wide")} == {"Ann and more", "Bob and more"}
    assert clustering_columns(spark, str(place / "wide")) == ("day",)


def newest_schema(table):
    """The newest commit of a table that has its columns."""
    commits = sorted((table / "_delta_log").glob("*.json"), reverse=True)
    return next(each.name for each in commits if '"metaData"' in each.read_text())


@pytest.mark.long
def test_a_view_keeps_its_table_where_the_update_does_not_compute_it_first_or_the_rows_are_not_its_own(folder, spark):
    folder.define(ORDERS + TOTALS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5}, {"id": 2, "day": "a", "amount": 500})
    assert folder.run()["orders"].counts.dead_lettered == 1
    folder.define(ORDERS + TOTALS, ("sum(amount) AS total", "to_date(max(day)) AS total"))
    text = REFUSED.format(line=6)
    assert refusal(lambda: folder.run(refresh=("orders",))) == text
    assert refusal(lambda: folder.plan(refresh=("orders",))) == text
    assert refusal(lambda: commands.run(folder.pipeline(), commands.UpdateOptions(follow=True))) == text
    assert refusal(lambda: dead_letters.replayed(folder.pipeline(), ["orders"])) == text
    # A view that was to be computed again, and could not be, is still this view.
    folder.define(ORDERS + TOTALS, DATE)
    for _ in range(2):
        assert folder.run(reset_checkpoint=("totals",))["totals"].error.code == "QUERY_FAILED"
    folder.define(
        ORDERS + TOTALS,
        ("totals AS SELECT", "totals TBLPROPERTIES ('pipelines.reset.allowed' = 'false') AS SELECT"),
        ("sum(amount) AS total", "to_date(max(day)) AS total"),
    )
    assert refusal(folder.run) == text
    folder.define(ORDERS + "CREATE MATERIALIZED VIEW others AS SELECT to_date(max(day)) AS total FROM orders;")
    spark.range(3).selectExpr("id AS total").write.format("delta").save(str(folder.folder / "lake/default/others"))
    assert refusal(folder.run) == text.replace("totals", "others").replace(":6", ":5")
    assert folder.rows("default.others") == [(0,), (1,), (2,)]
    assert folder.rows("default.totals") == [("a", 5)]
