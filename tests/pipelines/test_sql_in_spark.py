"""Queries that were rewritten, in Spark: it takes them, and where it does not, the place in the file is known."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from rivermouth.pipelines.session.sql_frames import frame_of
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.rewrite import rewritten

RECORDS = """{"a": {"b": [1, 2], "x y": "z"}, "c": "d"}"""


@pytest.fixture
def views(spark):
    session = spark.newSession()
    frame = session.createDataFrame([(1, RECORDS)], "id INT, text STRING")
    frame.selectExpr("id", "text", "parse_json(text) AS variant").createOrReplaceTempView("records_of_today")
    session.readStream.format("rate").load().createOrReplaceTempView("ticks_of_today")
    return session


def frame(session, text):
    places = []
    query = rewritten(
        text,
        table=lambda reference: f"`{reference.parts[-1]}_of_today`",
        function=lambda _: "records_of_today",
        params={"n": "1"},
        secret=lambda *_: "",
        at=SourceLine("gold.sql", 20),
    )
    try:
        return frame_of(query, session.sql, places.append), places
    except PySparkException:
        return None, places


RIGHT = [
    ("SELECT records.id, LIVE.records.text:c FROM LIVE.records WHERE id = :n", [("id", 1), ("c", "d")]),
    ("SELECT text:a.b[1]::int, text:a['x y'], text:a:`x y` AS w FROM records r", [("b", 2), ("x y", "z"), ("w", "z")]),
    ("SELECT variant:a.b[1]::int, variant:c::string FROM records", [("b", 2), ("c", "d")]),
    ("SELECT variant:a.b[1]::int, text:c FROM read_files('/a',\n format => 'json')", [("b", 2), ("c", "d")]),
    ("FROM records |> SELECT text:c, '${n}' AS n", [("c", "d"), ("n", "1")]),
]


@pytest.mark.parametrize(("text", "row"), RIGHT)
def test_spark_takes_them(views, text, row):
    found, places = frame(views, text)
    assert (list(zip(found.columns, found.collect()[0], strict=True)), places) == (row, [])


STREAMS = [
    "SELECT ticks.value FROM STREAM(ticks)",
    "SELECT LIVE.ticks.value FROM STREAM LIVE.ticks WHERE ticks.value > 1",
    "SELECT count(*) FROM STREAM(ticks) o WATERMARK timestamp DELAY OF INTERVAL '10 seconds' GROUP BY o.timestamp",
    "SELECT * FROM (SELECT * FROM STREAM ticks) AS o WATERMARK timestamp DELAY OF INTERVAL 1 DAY JOIN records ON 1 = 1",
]


@pytest.mark.parametrize("text", STREAMS)
def test_streams_stay_streams(views, text):
    found, places = frame(views, text)
    assert (found.isStreaming, places) == (True, [])


WRONG = [
    ("SELECT id,\n  missing FROM LIVE.records", "gold.sql:21:3"),
    ("SELECT '${n}' AS n,\n\n  id + FROM records", "gold.sql:22:20"),
    ("SELECT * FROM read_files('/a',\n  format => 'json'), records AS r\nWHERE nowhere = 1", "gold.sql:22:7"),
    ("SELECT text:c,\n text:d, r.absent FROM records AS r", "gold.sql:21:10"),
]


@pytest.mark.parametrize(("text", "place"), WRONG)
def test_the_place_of_a_fault(views, text, place):
    assert frame(views, text) == (None, [place])
