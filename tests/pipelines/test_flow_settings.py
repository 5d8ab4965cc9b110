"""Settings of a flow: its query has them, and no other one, also while both are at work."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from rivermouth.pipelines.session.flow_settings import SessionOfFlows
from rivermouth.ports.internals import sessions

ZONE, OTHER = "spark.sql.session.timeZone", "America/New_York"
SOURCE = """
from delta.tables import DeltaTable
from pyspark import pipelines as dp

NEW_YORK = {"spark.sql.session.timeZone": "America/New_York", "shop.suffix": "ny"}

BEFORE = spark.sql("SELECT 1 AS id, TIMESTAMP '2026-01-01 00:00:00' AS at")

def times():
    return spark.readStream.schema("id bigint, at timestamp").json("in")

@dp.temporary_view
def seen():
    return times()

@dp.temporary_view(spark_conf={"shop.suffix": "view"})
def named():
    return times().selectExpr("id", "at", f"'{spark.conf.get('shop.suffix')}' AS suffix")

@dp.table(spark_conf=NEW_YORK)
def new_york():
    return spark.readStream.table("named").selectExpr("*", "current_timezone() AS zone")

@dp.table
def utc():
    return spark.readStream.table("named").selectExpr("*", "current_timezone() AS zone")

@dp.table(spark_conf=NEW_YORK)
def of_view():
    return spark.readStream.table("seen").selectExpr("*", "hour(at) AS hour", f"'{spark.conf.get('shop.suffix')}' AS s")

@dp.table
def of_view_utc():
    return spark.readStream.table("seen").selectExpr("*", "hour(at) AS hour", "coalesce(null, 'none') AS s")

dp.create_streaming_table("newest", spark_conf=NEW_YORK)
dp.create_auto_cdc_flow(target="newest", source="seen", keys=["id"], sequence_by="at")

@dp.materialized_view(spark_conf=NEW_YORK)
def batch():
    return spark.read.schema("id bigint, at timestamp").json("in").selectExpr("*", "current_timezone() AS zone")

@dp.materialized_view(spark_conf=NEW_YORK)
def reads_placed():
    text = "SELECT id, hour(at) AS hour FROM {before} JOIN placed USING (id)"
    return spark.sql(text, before=BEFORE)

@dp.table(path="lake/elsewhere/placed")
def placed():
    return times().selectExpr("id")

@dp.materialized_view
def place():
    where = DeltaTable.forName(spark, "placed").detail().first().location
    return spark.range(1).selectExpr(f"'{where}' LIKE '%lake/elsewhere/placed' AS is_there")

@dp.materialized_view
def batch_utc():
    return spark.read.table("of_view").selectExpr("id", "hour(at) AS hour", "current_timezone() AS zone")
"""


@pytest.mark.long
def test_each_query_has_the_settings_of_its_own_flow(folder):
    folder.write("src/a.py", SOURCE)
    folder.write(
        "src/b.sql", f"SET {ZONE} = {OTHER};\nCREATE MATERIALIZED VIEW hours AS SELECT hour(at) AS h FROM utc;"
    )
    folder.feed("in/1.json", {"id": 1, "at": "2026-01-01 00:00:00"})
    for _ in range(2):
        found = folder.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
        utc = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        there = utc.replace(hour=5)
        assert folder.rows("elsewhere.placed") == [(1,)]
        tables = {name: folder.rows(f"default.{name}") for name in found if name != "placed"}
        assert tables == {
            "new_york": [(1, there, "view", OTHER)],
            "utc": [(1, utc, "view", "UTC")],
            "of_view": [(1, there, 0, "ny")],
            "of_view_utc": [(1, utc, 0, "none")],
            "newest": [(1, there)],
            "batch": [(1, there, OTHER)],
            "reads_placed": [(1, 19)],
            "place": [(True,)],
            "batch_utc": [(1, 5, "UTC")],
            "hours": [(19,)],
        }


PARTS = """
CREATE TEMPORARY VIEW parts AS
SELECT id, hour(at) AS hour, current_timezone() AS zone
FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT, at TIMESTAMP');
CREATE STREAMING TABLE berlin AS SELECT * FROM STREAM(parts);
"""
READER = """
from pyspark import pipelines as dp

@dp.table(spark_conf={"spark.sql.session.timeZone": "America/New_York", "spark.jars.packages": "a:b:1"})
def new_york():
    return spark.readStream.table("parts")
"""
AT_START = "has no effect here, Spark takes it when it starts: write it as spark: {conf: {%s: ...}} in rivermouth.yml"


def test_a_view_in_sql_has_the_settings_of_its_reader_before_those_of_the_pipeline(folder, spark):
    settings = (folder.folder / "pipeline.yml").read_text()
    master = f"spark.master: '{spark.sparkContext.master}', spark.executor.memory: 8g"
    folder.write("pipeline.yml", f"{settings}configuration: {{{ZONE}: Europe/Berlin, {master}}}\n")
    folder.write("src/a.sql", f"SET spark.driver.cores = 3;{PARTS}")
    folder.write("src/b.py", READER)
    folder.feed("in/1.json", {"id": 1, "at": "2026-01-01T00:00:00Z"})
    assert {each.error for each in folder.run().values()} == {None}
    assert folder.rows("default.berlin") == [(1, 1, "Europe/Berlin")]
    assert folder.rows("default.new_york") == [(1, 19, OTHER)]
    said = [each.message for each in folder.events if "has no effect" in getattr(each, "message", "")]
    places = {
        "pipeline.yml:1": "spark.executor.memory",
        "src/a.sql:2": "spark.driver.cores",
        "src/b.py:4": "spark.jars.packages",
    }
    assert said == [f"{at}: {name} {AT_START % name}" for at, name in places.items()]


@pytest.fixture
def session(spark):
    return SessionOfFlows(spark.sparkContext, sessions.new_session(spark))


def test_settings_hold_in_one_thread_and_those_of_a_part_are_added(session):
    before, seen = session.conf.get(ZONE), []
    assert before != OTHER
    with session.with_settings({ZONE: OTHER, "spark.executor.memory": "3g"}):
        assert session.is_cloned
        frame = session.range(1)
        thread = threading.Thread(target=lambda: seen.append((session.conf.get(ZONE), session.is_cloned)))
        thread.start()
        thread.join()
        with session.with_settings({"a.b": "c"}, nested=True):
            assert [session.conf.get(each) for each in (ZONE, "spark.executor.memory", "a.b")] == [OTHER, "3g", "c"]
        with session.with_settings({}):
            assert (session.conf.get(ZONE), session.conf.get("a.b", None), session.is_cloned) == (before, None, False)
        assert session.conf.get("a.b", None) is None
    assert seen == [(before, False)]
    assert session.conf.get(ZONE) == before
    own = session.here(frame)
    assert own.sparkSession is session
    assert [row[0] for row in own.selectExpr("current_timezone()").collect()] == [before]


def test_settings_that_the_session_has_need_no_other_session(session):
    session.conf.set("spark.executor.memory", "2g")
    with session.with_settings({ZONE: session.conf.get(ZONE), "spark.executor.memory": "2g"}):
        assert not session.is_cloned
