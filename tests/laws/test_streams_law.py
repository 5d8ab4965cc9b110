"""Streams in any order of arrival within the watermark: windows are those of a batch, joins are those of SQL."""

from __future__ import annotations

import datetime as dt
from collections import Counter

import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.pipelines.conftest import PipelineFolder

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def events():
    return spark.readStream.schema("case int, kind string, id int, at timestamp").json("in")

@dp.temporary_view
def timed():
    return spark.readStream.table("events").withWatermark("at", "10 minutes")

@dp.table
def tumbling():
    counts = spark.readStream.table("timed").groupBy("case", F.window("at", "5 minutes")).count()
    return counts.select("case", "window.start", "count")

@dp.table
def sliding():
    counts = spark.readStream.table("timed").groupBy("case", F.window("at", "10 minutes", "5 minutes")).count()
    return counts.select("case", "window.start", "count")

dp.create_streaming_table("newest")

@dp.update_flow(target="newest", keys=["case", "start"])
def changed_windows():
    counts = spark.readStream.table("timed").groupBy("case", F.window("at", "5 minutes")).count()
    return counts.select("case", "window.start", "count")

@dp.table
def named():
    return spark.readStream.table("events").join(spark.read.table("silver.names"), "id", "left").select(
        "case", "id", "at", "name")

@dp.table
def placed():
    return spark.readStream.table("events").join(spark.read.parquet("places"), "id").select("case", "id", "at", "place")

def shows_and_clicks(how):
    shows = spark.readStream.table("timed").where("kind = 'show'").select("case", "id", "at")
    clicks = spark.readStream.table("timed").where("kind = 'click'").selectExpr(
        "`case` AS c_case", "id AS c_id", "at AS c_at")
    near = F.expr("`case` = c_case AND c_at BETWEEN at AND at + INTERVAL 2 MINUTES")
    return shows.join(clicks, near, how).select("case", "id", "at", "c_id", "c_at")

@dp.table
def both():
    return shows_and_clicks("inner")

@dp.table
def outer():
    return shows_and_clicks("left_outer")
"""
JOINED = """
SELECT s."case", s.id, s.at, c.id, c.at FROM (SELECT * FROM events WHERE kind = 'show' AND "case" >= 0) s
{how} JOIN (SELECT * FROM events WHERE kind = 'click') c
ON s."case" = c."case" AND c.at BETWEEN s.at AND s.at + INTERVAL '2 minutes'
"""
WINDOWS = """
SELECT "case", date_bin(INTERVAL '5 minutes', at) - shift.by, count(*)
FROM events CROSS JOIN (VALUES {shifts}) AS shift(by) WHERE "case" >= 0 GROUP BY 1, 2
"""
SQL = {
    "tumbling": WINDOWS.format(shifts="(INTERVAL '0 minutes')"),
    "sliding": WINDOWS.format(shifts="(INTERVAL '0 minutes'), (INTERVAL '5 minutes')"),
    "newest": WINDOWS.format(shifts="(INTERVAL '0 minutes')"),
    "named": 'SELECT e."case", e.id, e.at, n.name FROM events e LEFT JOIN names n ON e.id = n.id',
    "placed": 'SELECT e."case", e.id, e.at, p.place FROM events e JOIN places p ON e.id = p.id',
    "both": JOINED.format(how=""),
    "outer": JOINED.format(how="LEFT"),
}
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CASES, FILES, ID = 40, 3, 7
# Of a file the times are within ten minutes, so that none is behind the watermark of the file before.
EVENTS = st.lists(
    st.tuples(
        st.integers(0, FILES - 1),
        st.integers(0, 599),
        st.sampled_from(["show", "click", "other"]),
        st.integers(0, ID),
    ),
    max_size=12,
)


def files(cases):
    """Events of each case cut into files, in the order in which Hypothesis thought of them."""
    found = [[] for _ in range(FILES)]
    for case, events in enumerate(cases):
        for number, second, kind, key in events:
            at = START + dt.timedelta(seconds=number * 600 + second)
            found[number].append({"case": case, "kind": kind, "id": key, "at": at.isoformat()})
    return found


@pytest.fixture
def running(tmp_path, spark):
    folder = PipelineFolder(tmp_path)
    folder.write("pipeline.yml", "name: law\nlibraries:\n  - file: {path: src/a.py}\n")
    folder.write(
        "src/a.py", PIPELINE.replace('"in"', repr(f"{tmp_path}/in")).replace('"places"', repr(f"{tmp_path}/p"))
    )
    rows = [(each, f"name {each}") for each in range(0, ID, 2)] + [(2, "another name")]
    spark.createDataFrame(rows, "id int, name string").write.format("delta").save(f"{tmp_path}/lake/silver/names")
    spark.createDataFrame([(1, "here"), (2, "there")], "id int, place string").write.parquet(f"{tmp_path}/p")
    return folder


def lake(folder, *tables):
    """A reader that is not Spark's, over tables of the lake."""
    found = QueryBuilder()
    for table in tables:
        found.register(table.rpartition(".")[2], DeltaTable(f"{folder.folder}/lake/{table.replace('.', '/')}"))
    return found


def rows_of(reader, sql):
    read = reader.execute(sql).read_all()
    columns = [read.column(place).to_pylist() for place in range(read.num_columns)]
    return Counter(zip(*columns, strict=True))


@pytest.mark.long
def test_windows_are_those_of_a_batch_and_joins_are_those_of_sql(running, spark):
    def carry():
        found = running.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
        return found

    for number, rows in enumerate(files(gathered(EVENTS, CASES))):
        running.feed(f"in/{number}.json", *rows)
        assert {each.counts.late for each in carry().values()} == {0}
    # Records far ahead close all that is open; each side of a join has a watermark of its own.
    end = (START + dt.timedelta(days=1)).isoformat()
    ends = [{"case": case, "kind": kind, "id": -1, "at": end} for case, kind in ((-1, "show"), (-2, "click"))]
    running.feed("in/last.json", *ends)
    carry()
    spark.read.parquet(f"{running.folder}/p").write.format("delta").save(f"{running.folder}/lake/silver/places")
    reader = lake(running, "default.events", "silver.names", "silver.places", *(f"default.{name}" for name in SQL))
    for name, sql in SQL.items():
        there = f"SELECT * FROM {name}"
        there += ' WHERE "case" >= 0' if name in ("newest", "outer") else ""
        assert rows_of(reader, there) == rows_of(reader, sql), name
    assert sum(rows_of(reader, SQL["both"]).values()) > 10
