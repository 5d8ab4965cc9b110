"""Windows, joins of streams and duplicates with watermarks: in any order of arrival the result is that of a batch."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter

import pytest

from rivermouth import RivermouthError
from rivermouth.domain.query import query_state
from rivermouth.domain.query.query_state import StateOperator
from rivermouth.pipelines.status import status
from rivermouth.ports.internals.query_plans import keeps_state, state_operators

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

SCHEMA = "case int, kind string, id int, at timestamp"

@dp.temporary_view
def events():
    return spark.readStream.schema(SCHEMA).json("in").withWatermark("at", "10 minutes")

@dp.table
def tumbling():
    return spark.readStream.table("events").groupBy("case", F.window("at", "5 minutes")).count()

@dp.table
def sliding():
    return (spark.readStream.table("events").groupBy("case", F.window("at", "10 minutes", "5 minutes"))
            .agg(F.count("*").alias("count")))

@dp.table
def sessions():
    return spark.readStream.table("events").groupBy("case", F.session_window("at", "3 minutes")).count()

@dp.table
def running():
    return spark.readStream.schema(SCHEMA).json("in").groupBy("kind").count()

@dp.table
def known():
    return spark.readStream.table("events").dropDuplicates(["case", "id", "at"]).select("case", "id")
"""
SQL = """
CREATE STREAMING TABLE by_sql AS
SELECT `case`, window.start AS start, count(*) AS count
FROM STREAM(raw) WATERMARK at DELAY OF INTERVAL 10 MINUTES
GROUP BY `case`, window(at, '5 minutes');

CREATE TEMPORARY VIEW raw AS SELECT * FROM STREAM read_files('in', format => 'json',
  schema => 'case int, kind string, id int, at timestamp');

CREATE STREAMING TABLE joined AS
SELECT s.`case`, s.id, c.id AS click
FROM (SELECT * FROM STREAM(events) WHERE kind = 'show') s
JOIN (SELECT * FROM STREAM(events) WHERE kind = 'click') c
  ON s.`case` = c.`case` AND c.at BETWEEN s.at AND s.at + INTERVAL 2 MINUTES;
"""
START = dt.datetime(2026, 1, 1)
COLUMNS = '"case", "window", "count"'
DELAY_MIN, CASES, FILES = 10, 12, 3


def at(minute):
    return START + dt.timedelta(minutes=minute)


def arrivals(source):
    """Events of some cases, cut into files; none comes later than the watermark allows."""
    files = [[] for _ in range(FILES)]
    for case in range(CASES):
        for number in range(source.randint(5, 12)):
            minute = source.uniform(0, 40)
            kind = source.choice(["show", "click"])
            row = {"case": case, "kind": kind, "id": number % 7, "at": minute}
            # The newest time of a file is at most 10 minutes ahead of what comes after it.
            first = max(0, int(minute // 14))
            files[
                min(FILES - 1, first + (1 if minute % 14 >= 14 - DELAY_MIN / 2 and source.random() < 0.5 else 0))
            ].append(row)
    for rows in files:
        source.shuffle(rows)
    return files


def written(rows):
    return [{**row, "at": at(row["at"]).isoformat(timespec="milliseconds")} for row in rows]


def windows(rows, size, step):
    found = Counter()
    for row in rows:
        last = int(row["at"] // step) * step
        for start in range(last - size + step, last + step, step):
            if start <= row["at"] < start + size:
                found[row["case"], at(start)] += 1
    return found


def sessions_of(rows, gap):
    found = []
    for case in {row["case"] for row in rows}:
        times = sorted(
            at(row["at"]).replace(microsecond=at(row["at"]).microsecond // 1000 * 1000)
            for row in rows
            if row["case"] == case
        )
        runs = [[times[0]]]
        for time in times[1:]:
            if time < runs[-1][-1] + dt.timedelta(minutes=gap):
                runs[-1].append(time)
            else:
                runs.append([time])
        found += [(case, run[0], len(run)) for run in runs]
    return sorted(found)


def naive(value):
    return value.replace(tzinfo=None)


@pytest.fixture
def running(folder):
    (folder.folder / "in").mkdir()
    folder.write("src/a.py", PYTHON.replace('"in"', repr(str(folder.folder / "in"))))
    folder.write("src/b.sql", SQL.replace("'in'", repr(str(folder.folder / "in"))))
    return folder


def carried(folder):
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    return found


@pytest.mark.long
def test_in_any_order_of_arrival_within_the_watermark_the_result_is_that_of_a_batch(running):
    source = random.Random(7)
    files = arrivals(source)
    for number, rows in enumerate(files):
        running.feed(f"in/{number}.json", *written(rows))
        found = carried(running)
        assert {each.counts.late for each in found.values()} == {0}
    rows = [row for file in files for row in file]
    # All that is open is closed by a record that is far ahead; what comes then for a closed window is late.
    running.feed("in/last.json", {"case": -1, "kind": "end", "id": 0, "at": at(500).isoformat()})
    carried(running)
    running.feed("in/late.json", {"case": 0, "kind": "show", "id": 99, "at": at(1).isoformat()})
    found = carried(running)
    assert {name: found[name].counts.late for name in ("tumbling", "sliding", "by_sql", "known")} == {
        "tumbling": 1,
        "sliding": 2,
        "by_sql": 1,
        "known": 1,
    }
    late = [each for each in status(running.pipeline()).datasets if each.dataset == "tumbling"]
    assert late[0].totals.late == 1

    tumbling = windows(rows, 5, 5)
    assert (
        Counter({(row[0], naive(row[1]["start"])): row[2] for row in running.rows("default.tumbling", COLUMNS)})
        == tumbling
    )
    assert Counter({(row[0], naive(row[1])): row[2] for row in running.rows("default.by_sql")}) == tumbling
    sliding = running.rows("default.sliding", COLUMNS)
    assert Counter({(row[0], naive(row[1]["start"])): row[2] for row in sliding}) == windows(rows, 10, 5)
    found_sessions = running.rows("default.sessions", COLUMNS.replace("window", "session_window"))
    assert sorted((row[0], naive(row[1]["start"]), row[2]) for row in found_sessions) == sessions_of(rows, 3)
    joined = Counter(
        (show["case"], show["id"], click["id"])
        for show in rows
        for click in rows
        if show["kind"] == "show"
        and click["kind"] == "click"
        and show["case"] == click["case"]
        and 0 <= int(click["at"] * 60000) - int(show["at"] * 60000) <= 2 * 60000
    )
    assert Counter(running.rows("default.joined")) == joined
    distinct = {(row["case"], row["id"], row["at"]) for row in rows}
    known = Counter(row for row in running.rows("default.known") if row[0] >= 0)
    assert known == Counter((case, number) for case, number, _ in distinct)
    kinds = Counter(row["kind"] for row in rows) + Counter({"end": 1, "show": 1})
    assert dict(running.rows("default.running")) == kinds


def test_plan_says_when_a_window_is_written_and_what_grows(running):
    planned = {name: each.flows[0].state for name, each in running.plan().items() if each.flows}
    end = "its end + 10 minutes"
    once = (
        f"a window is written once, when a record newer than {end} has come: later records for it are dropped as late",
    )
    assert planned == {
        "tumbling": once,
        "sliding": once,
        "sessions": once,
        "by_sql": once,
        "running": ("each batch writes all groups again; its state grows without bound: no group is ever removed",),
        "known": ("a key is forgotten when the watermark, 10 minutes behind the newest time, passes it",),
        "joined": ("a row is kept for the join until the watermarks say that no row can match it any more",),
    }


@pytest.mark.parametrize(
    ("operator", "mode", "words"),
    [
        (StateOperator("deduplication"), "append", "its state grows without bound: each key is kept"),
        (StateOperator("join"), "append", "its state grows without bound: all rows of both streams"),
        (StateOperator("aggregation"), "update", "each batch writes the groups that changed; its state grows"),
        (
            StateOperator("aggregation", 5400.0, True),
            "update",
            "is final when a record newer than its end + 90 m",
        ),
        (
            StateOperator("aggregation", 1.5),
            "append",
            "written once, when a record newer than its time + 1.5 s",
        ),
        (StateOperator("aggregation", 60.0, True), "complete", "each batch writes all windows again"),
        (StateOperator("function"), "append", "the query's own function"),
    ],
)
def test_each_kind_of_state_has_a_sentence(operator, mode, words):
    (text,) = query_state.texts([operator, operator], mode)
    assert words in text


def test_distinct_in_sql_keeps_state_as_an_aggregation_does(spark):
    spark.readStream.format("rate").load().createOrReplaceTempView("rates")
    frame = spark.sql("SELECT DISTINCT value FROM rates")
    assert keeps_state(frame)
    assert state_operators(frame) == (StateOperator("aggregation"),)


def test_an_aggregation_that_appends_needs_a_watermark(folder):
    folder.feed("in/0.json", {"kind": "a"})
    folder.write(
        "src/a.py",
        f"""
from pyspark import pipelines as dp

dp.create_streaming_table("counts")

for name in ("one", "two"):
    @dp.append_flow(target="counts", name=name)
    def counted():
        return spark.readStream.schema("kind string").json({str(folder.folder / "in")!r}).groupBy("kind").count()
""",
    )
    with pytest.raises(RivermouthError) as raised:
        folder.plan()
    assert str(raised.value) == (
        "[WATERMARK_MISSING] flow one aggregates a stream without a watermark on the time that it groups by, so no "
        "group is ever complete, and none can be appended; the pipeline was not run\n"
        "  at: src/a.py:7\n"
        '  hint: .withWatermark("event_time", "10 minutes") before groupBy; in SQL, behind STREAM(...): '
        "WATERMARK event_time DELAY OF INTERVAL 10 MINUTES"
    )
