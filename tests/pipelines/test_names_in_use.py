"""Names of tables as files use them: what ``USE`` chooses, temporary views, ``LIVE``, catalogs, sinks by name."""

from __future__ import annotations

from deltalake import DeltaTable, QueryBuilder

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


def test_queries_find_what_their_file_has_chosen(folder):
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + "catalog: main\n")
    folder.write("src/a.sql", SQL)
    folder.write("src/b.sql", OTHER)
    folder.write("src/c.py", PYTHON)
    folder.feed("in/1.json", {"id": 1, "day": "a"}, {"id": 2, "day": "a"}, {"id": -1, "day": "b"})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert {name: folder.rows(name) for name in ("silver.totals", "silver.again", "gold.days", "default.read")} == {
        "silver.totals": [(2,)],
        "silver.again": [(2,)],
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
    shown = TableName("other.gold", "t")
    assert names.resolve(names.shown(shown)) == shown


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
