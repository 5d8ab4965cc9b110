"""Names of tables as files use them: what ``USE`` chooses, temporary views, ``LIVE``, catalogs, sinks by name."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from rivermouth.pipelines.graph import Declared
from rivermouth.pipelines.names import Names, TableName, Use
from rivermouth.pipelines.spec import Dataset, SourceLine

AT = SourceLine("a.sql", 1)
SQL = """
CREATE STREAMING TABLE events AS
SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT, day STRING');
USE SCHEMA silver;
CREATE TEMPORARY VIEW picked AS SELECT id, day FROM STREAM LIVE.events WHERE id > 0;
CREATE STREAMING TABLE orders AS SELECT * FROM STREAM(picked);
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM LIVE.orders;
CREATE MATERIALIZED VIEW again AS SELECT n FROM totals;
CREATE STREAMING TABLE `eu.orders` AS SELECT id FROM STREAM(picked);
CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM `eu.orders`;
"""
OTHER = """
USE CATALOG other;
USE SCHEMA gold;
CREATE STREAMING TABLE copies AS SELECT * FROM STREAM(main.silver.orders);
CREATE MATERIALIZED VIEW days AS SELECT day, count(*) AS n FROM gold.copies GROUP BY day;
CREATE MATERIALIZED VIEW main.gold.days AS SELECT max(n) AS n FROM days;
"""
PYTHON = """
from pyspark import pipelines as dp

dp.create_streaming_table("other.gold.kept")
dp.create_sink("sent", "DELTA", {"TableName": "main.gold.sent", "mergeSchema": "true"})

@dp.append_flow(target="other.gold.kept")
def kept():
    return spark.readStream.table("other.gold.copies")

@dp.append_flow(target="sent")
def send():
    return spark.readStream.table("silver.orders")

@dp.materialized_view
def read():
    days = spark.read.table("other.gold.days").join(spark.table("gold.days"), "n")
    return days.crossJoin(spark.sql("SELECT count(*) AS kept FROM other.gold.kept")).select("day", "kept")
"""
NAMES = ("silver.totals", "silver.again", "silver.counted", "gold.days", "default.read")


def test_a_query_finds_the_schema_that_its_file_has_chosen(folder):
    folder.write(
        "src/a.sql",
        "CREATE MATERIALIZED VIEW first AS SELECT 1 AS n;\n"
        "USE SCHEMA silver;\n"
        "CREATE MATERIALIZED VIEW second AS SELECT n + 1 AS n FROM LIVE.first;\n"
        "CREATE MATERIALIZED VIEW third AS SELECT n + 1 AS n FROM second;\n",
    )
    assert {each.error for each in folder.run().values()} == {None}
    names = ("default.first", "silver.second", "silver.third")
    assert [folder.rows(name) for name in names] == [[(1,)], [(2,)], [(3,)]]


@pytest.mark.long
def test_queries_find_what_their_file_has_chosen(folder):
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + "catalog: main\n")
    folder.write("src/a.sql", SQL)
    folder.write("src/b.sql", OTHER)
    folder.write("src/c.py", PYTHON)
    folder.feed("in/1.json", {"id": 1, "day": "a"}, {"id": 2, "day": "a"}, {"id": -1, "day": "b"})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert {name: folder.rows(name) for name in NAMES} == {
        "silver.totals": [(2,)],
        "silver.again": [(2,)],
        "silver.counted": [(2,)],
        "gold.days": [(2,)],
        "default.read": [("a", 2)],
    }
    assert (
        rows(folder, "other.gold/copies")
        == rows(folder, "other.gold/kept")
        == rows(folder, "gold/sent")
        == [(1, "a"), (2, "a")]
    )
    assert rows(folder, "other.gold/days") == [("a", 2)]
    # A name with a dot is quoted where it is shown; the flow that it has without a name is called as in its ledger.
    assert "silver.`eu.orders`" in found
    assert folder.plan()["silver.`eu.orders`"].flows[0].flow == "silver.eu.orders"
    folder.feed("in/2.json", {"id": 3, "day": "c"})
    assert set(folder.run(refresh=("events", "silver.orders", "other.gold.copies"))) >= {"other.gold.copies"}
    assert rows(folder, "other.gold/copies") == [(1, "a"), (2, "a"), (3, "c")]
    assert {each.error for each in folder.run().values()} == {None}
    assert rows(folder, "gold/sent") == [(1, "a"), (2, "a"), (3, "c")]


def rows(folder, place):
    table = DeltaTable(str(folder.folder / "lake" / place))
    read = QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()
    columns = [read.column(number).to_pylist() for number in range(read.num_columns)]
    return sorted(tuple(row) for row in zip(*columns, strict=True))


def test_names_in_a_schema_and_a_catalog_that_are_used():
    names, use = Names("default", "main"), Use("other", "gold")
    assert {text: str(names.resolve(text, use)) for text in ("t", "s.t", "Main.s.t", "o.s.t", "LIVE.t")} == {
        "t": "other.gold.t",
        "s.t": "other.s.t",
        "Main.s.t": "s.t",
        "o.s.t": "o.s.t",
        "LIVE.t": "default.t",
    }
    assert str(names.resolve("t", Use("other"))) == str(names.resolve("t", Use("main"))) == "default.t"
    assert str(Names("default").resolve("t", use)) == str(Names("default").resolve("x.gold.t")) == "gold.t"
    assert names.resolve("a.b.c.d", use) is None


@pytest.mark.parametrize("names", [Names("default"), Names("default", "main")])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (TableName("default", "t"), "t"),
        (TableName("default", "my table"), "my table"),
        (TableName("default", "eu.orders"), "`eu.orders`"),
        (TableName("silver", "eu.orders"), "silver.`eu.orders`"),
        (TableName("default", "a`b"), "`a``b`"),
        (TableName("other.gold", "t"), ""),
    ],
)
def test_the_text_of_a_name_means_that_name(names, name, shown):
    text = names.shown(name)
    assert names.resolve(text) == name
    assert shown in ("", text)


def test_views_and_live_in_a_schema_that_is_used():
    names, use = Names("default"), Use(schema="silver")
    datasets = {
        names.resolve(name): Dataset(name, kind, AT)
        for name, kind in (("v", "temporary_view"), ("t", "table"), ("silver.t", "table"), ("old", "table"))
    }
    declared = Declared(datasets, {}, {})
    found = {name: str(declared.meant(names, tuple(name.split(".")), use)) for name in ("v", "t", "old", "gold.v")}
    assert found == {"v": "default.v", "t": "silver.t", "old": "silver.old", "gold.v": "gold.v"}
    live = {name: str(declared.meant(names, ("LIVE", name), use)) for name in ("v", "t", "old", "nothing")}
    assert live == {"v": "default.v", "t": "silver.t", "old": "default.old", "nothing": "default.nothing"}


def test_a_test_gives_the_tables_of_names_in_use(tmp_path, run_pipeline):
    given = "USE SCHEMA silver;\nCREATE TEMPORARY VIEW picked AS SELECT 1 AS id;\n"
    given += "CREATE MATERIALIZED VIEW orders AS SELECT 1 AS id;\n"
    text = "CREATE MATERIALIZED VIEW a AS SELECT max(id) AS id FROM picked;\n"
    text += "CREATE MATERIALIZED VIEW b AS SELECT max(id) AS id FROM LIVE.orders;\n"
    (tmp_path / "a.sql").write_text(given + text)
    found = run_pipeline([tmp_path / "a.sql"], tables={"picked": [{"id": 7}], "silver.orders": [{"id": 8}]})
    rows = {name: [tuple(row) for row in found.table(f"silver.{name}").collect()] for name in ("a", "b")}
    assert rows == {"a": [(7,)], "b": [(8,)]}


SHARED = """
CREATE MATERIALIZED VIEW found AS
WITH customers AS (SELECT id FROM raw)
SELECT 'a CTE' AS name, id FROM customers c LEFT ANTI JOIN silver.customers s ON c.id = s.id
UNION ALL SELECT 'two cases', id FROM Bronze.Orders b LEFT ANTI JOIN silver.orders s USING (id)
UNION ALL SELECT 'no aliases', bronze.orders.id FROM bronze.Orders JOIN silver.orders
  ON bronze.orders.id = silver.orders.id
UNION ALL SELECT 'a subquery', orders.id FROM bronze.Orders
  WHERE NOT EXISTS (SELECT 1 FROM silver.orders WHERE orders.id = bronze.orders.id)
UNION ALL SELECT 'a version', id FROM silver.orders VERSION AS OF 0 o
UNION ALL SELECT 'a version of options', id FROM silver.orders WITH ('versionAsOf' = 0)
UNION ALL SELECT 'a time', sum(orders.id) FROM silver.orders FOR SYSTEM_TIME AS OF '${then}'
UNION ALL SELECT 'a version of a path', id FROM delta.`{folder}/lake/silver/orders` VERSION AS OF :first;
CREATE MATERIALIZED VIEW plain AS
SELECT 'two in a join' AS name, orders.* FROM bronze.orders LEFT ANTI JOIN silver.orders USING (id)
UNION ALL SELECT 'a join in parentheses', o.id FROM (LIVE.raw o JOIN silver.orders s ON o.id = s.id - 2) WHERE o.id > 2
UNION ALL SELECT 'parentheses', raw.id FROM ((LIVE.raw)) WHERE raw.id > 2
UNION ALL SELECT 'a sample', raw.id FROM LIVE.raw TABLESAMPLE (100 PERCENT) REPEATABLE (42) WHERE raw.id = 1
UNION ALL SELECT 'a table', id FROM (TABLE LIVE.raw |> WHERE raw.id = 1)
UNION ALL SELECT 'a sorted table', id FROM (TABLE LIVE.raw ORDER BY raw.id DESC LIMIT 1)
UNION ALL SELECT 'a sorted union', id FROM (SELECT bronze.orders.id FROM bronze.orders
  UNION ALL SELECT silver.customers.id FROM silver.customers ORDER BY bronze.orders.id LIMIT 1);
CREATE MATERIALIZED VIEW expected (CONSTRAINT is_five EXPECT (orders.id = 5) ON VIOLATION DROP ROW) AS
SELECT orders.id FROM silver.orders WHERE id IN (SELECT id - 1 FROM bronze.orders);
CREATE STREAMING TABLE changes AS
SELECT id FROM STREAM delta.`{folder}/lake/silver/orders` WITH (startingVersion = 1);
"""
OF_THE_USER = """
from pyspark import pipelines as dp

@dp.materialized_view
def kept():
    spark.createDataFrame([(7,), (8,)], "id bigint").createOrReplaceTempView("customers")
    spark.sql("CREATE OR REPLACE TEMP VIEW ids AS SELECT id FROM silver.customers")
    spark.sql("SELECT 1 FROM silver.orders")
    found = spark.sql("SELECT customers.id FROM customers CROSS JOIN silver.customers WHERE silver.customers.id = 1")
    made = spark.createDataFrame([(spark.sql("SHOW VIEWS").count(),)], "id bigint")
    return found.unionAll(spark.sql("SELECT id FROM ids")).unionAll(spark.table("customers")).unionAll(made)
"""


@pytest.mark.long
def test_names_of_tables_that_are_names_of_other_things_too(folder):
    for name, versions in {
        "default/raw": [[1, 2, 3]],
        "silver/customers": [[1, 2]],
        "bronze/orders": [[5, 6]],
        "silver/orders": [[4], [5]],
    }.items():
        for ids in versions:
            write_deltalake(str(folder.folder / "lake" / name), pa.table({"id": ids}), mode="append")
    newest = folder.folder / f"lake/silver/orders/_delta_log/{1:020d}.json"
    then = dt.datetime.fromtimestamp(newest.stat().st_mtime, dt.UTC).isoformat(timespec="milliseconds")
    params = f"configuration: {{first: '0', then: '{then}'}}\n"
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + params)
    folder.define(SHARED)
    folder.write("src/b.py", OF_THE_USER)
    done = folder.run()
    assert {name: each.error and str(each.error) for name, each in done.items()} == dict.fromkeys(done)
    assert folder.rows("default.found", "name, id") == [
        ("a CTE", 3),
        ("a subquery", 6),
        ("a time", 9),
        ("a version of a path", 4),
        ("a version of options", 4),
        ("a version", 4),
        ("no aliases", 5),
        ("two cases", 6),
    ]
    assert folder.rows("default.plain", "name, id") == [
        ("a join in parentheses", 3),
        ("a sample", 1),
        ("a sorted table", 3),
        ("a sorted union", 1),
        ("a table", 1),
        ("parentheses", 3),
        ("two in a join", 6),
    ]
    assert folder.rows("default.expected") == folder.rows("default.changes") == [(5,)]
    # The views of the user, and that of the text that Spark keeps of one of them.
    assert folder.rows("default.kept") == [(1,), (2,), (3,), (7,), (7,), (8,), (8,)]
