"""The current time that a test sets: for queries, conditions, snapshots, deleted keys, events and records."""

from __future__ import annotations

import datetime as dt

import pytest

from rivermouth import RivermouthError
from rivermouth.testing import run_flow as plain_run_flow
from rivermouth.testing import run_pipeline as plain_run_pipeline

NOON = dt.datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
PYTHON = """
import dlt
from pyspark.sql import functions as F

def records(topic):
    return (spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nowhere:1")
            .option("subscribe", topic).load())

def values(topic, columns):
    return records(topic).select(F.from_json(F.col("value").cast("string"), columns).alias("v")).select("v.*")

spark.sql("SELECT current_timestamp() AS read_at").createOrReplaceTempView("clock")

@dlt.table
@dlt.expect_or_drop("of today", "at > current_timestamp() - INTERVAL 1 DAY")
@dlt.expect_or_dead_letter("not of tomorrow", "at <= now()")
def stamped():
    frame = records("visits").withColumn("v", F.from_json(F.col("value").cast("string"), "id bigint, at timestamp"))
    return (frame.select("v.*", "timestamp")
            .withColumn("taken_at", F.current_timestamp()).withColumn("day", F.current_date()))

@dlt.table
def constants():
    collected = spark.sql("SELECT current_timestamp() AS at").first()["at"]
    return spark.sql("SELECT now() AS n, localtimestamp() AS l, current_date AS d, current_timezone() AS z").withColumn(
        "collected", F.lit(collected)).crossJoin(spark.table("clock"))

dlt.create_streaming_table("customers", table_properties={"pipelines.cdc.tombstoneGCThresholdInSeconds": "7200"})

@dlt.view
def changes():
    return values("changes", "id bigint, name string, version int, gone boolean")

dlt.apply_changes(target="customers", source="changes", keys=["id"], sequence_by="version",
                  apply_as_deletes="gone", except_column_list=["version", "gone"])

@dlt.view
def countries():
    return spark.read.table("reference.countries")

dlt.create_streaming_table("histories")
dlt.apply_changes_from_snapshot(target="histories", source="countries", keys=["code"], stored_as_scd_type=2)
"""


def at(**later):
    return NOON + dt.timedelta(**later)


def change(number, version, **more):
    return {"id": number, "name": f"v{version}", "version": version, "gone": False, **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("clock")
    (found / "visits.py").write_text(PYTHON)
    (found / "pipeline.yml").write_text("name: visits\nlibraries: [{file: {path: visits.py}}]\n")
    return found


def utc(value):
    return value.astimezone(dt.UTC)


def run_at_noon(folder, run_pipeline):
    return run_pipeline(
        folder,
        now=NOON,
        topics={
            "visits": [
                {"id": 1, "at": at(hours=-23).isoformat()},
                {"id": 2, "at": at(hours=-25).isoformat()},
                {"id": 3, "at": at(hours=1).isoformat()},
            ],
            "changes": [change(1, 1), change(1, 5, gone=True)],
        },
        tables={"reference.countries": [{"code": "NL", "name": "Holland"}]},
    )


def test_a_query_its_condition_and_events_have_the_time_that_is_set(tmp_path, run_pipeline):
    text = (
        "import dlt\n"
        "@dlt.table\n"
        "@dlt.expect_or_drop('past', 'at <= now()')\n"
        "def clock():\n"
        "    later = 'current_timestamp() + make_interval(0, 0, 0, id) AS at'\n"
        "    return spark.range(2).selectExpr(later, 'current_date AS day')\n"
    )
    (tmp_path / "clock.py").write_text(text)
    (tmp_path / "pipeline.yml").write_text("name: clock\nlibraries: [{file: {path: clock.py}}]\n")
    clock = run_pipeline(tmp_path, now=NOON)
    (row,) = clock.table("clock").collect()
    assert (utc(row.at), row.day) == (NOON, NOON.date())
    assert {utc(each.timestamp) for each in clock.events().select("timestamp").collect()} == {NOON}


@pytest.mark.long
def test_queries_conditions_and_snapshots_have_the_time_that_is_set(folder, run_pipeline):
    visits = run_at_noon(folder, run_pipeline)
    (row,) = visits.table("stamped").collect()
    # Kafka's timestamps have milliseconds.
    assert (row.id, utc(row.taken_at), row.day) == (1, NOON, NOON.date())
    assert utc(row.timestamp).replace(microsecond=0) == NOON.replace(microsecond=0)
    (letter,) = visits.dead_letters("stamped").collect()
    assert (letter.row.id, utc(letter.dead_lettered_at)) == (3, NOON)
    assert visits.counts("stamped").dropped == 1
    (row,) = visits.table("constants").collect()
    assert [utc(each) for each in (row.n, row.collected, row.read_at)] == [NOON] * 3
    assert (row.l, row.d, row.z) == (NOON.replace(tzinfo=None), NOON.date(), "UTC")
    (row,) = visits.table("histories").collect()
    assert (row.name, utc(row["__START_AT"]), row["__END_AT"]) == ("Holland", NOON, None)
    assert {utc(each.timestamp) for each in visits.events().select("timestamp").collect()} == {NOON}


@pytest.mark.long
def test_each_update_and_deleted_keys_have_the_time_that_is_set(folder, run_pipeline):
    visits = run_at_noon(folder, run_pipeline)
    # The deleted key is remembered for two hours.
    visits.update(now=at(hours=1), topics={"changes": [change(1, 3), change(2, 1)]}, refresh=["customers"])
    assert [row.id for row in visits.table("customers").collect()] == [2]
    visits.update(
        now=at(hours=4),
        topics={"changes": [change(3, 1, gone=True)], "visits": [{"id": 3, "at": at(hours=1).isoformat()}]},
        tables={"reference.countries": [{"code": "BE", "name": "Belgium"}]},
    )
    visits.update(topics={"changes": [change(1, 3)]}, refresh=["customers"])
    assert sorted(row.id for row in visits.table("customers").collect()) == [1, 2]
    assert {(row.id, utc(row.taken_at)) for row in visits.table("stamped").collect()} == {(1, NOON), (3, at(hours=4))}
    spans = {(row.code, utc(row["__START_AT"])) for row in visits.table("histories").collect()}
    assert spans == {("NL", NOON), ("BE", at(hours=4))}


PROJECT = {
    "lake": "./lake",
    "kafka": {"bootstrap_servers": "nowhere:1"},
    "flows": {
        "visits": {
            "topics": ["visits"],
            "format": {"type": "json", "schema": "id bigint, at timestamp"},
            "expectations": [{"name": "past", "condition": "at <= current_timestamp()", "action": "dead_letter"}],
            "table": {"name": "bronze.visits", "partition_by": [{"day": "current_date()"}]},
        }
    },
}


def test_a_flow_has_the_time_that_is_set(run_flow):
    later = at(days=1)
    records = [{"id": 1, "at": NOON.isoformat()}, {"id": 2, "at": later.isoformat()}]
    visits = run_flow(PROJECT, "visits", records, now="2026-03-01T13:00:00.123456+01:00")
    visits.update(records, now=later)
    found = {(row.id, row.day, utc(row.ingested_at)) for row in visits.table().collect()}
    assert found == {(1, NOON.date(), NOON), (1, later.date(), later), (2, later.date(), later)}
    assert [utc(each.dead_lettered_at) for each in visits.dead_letters().collect()] == [NOON]


@pytest.mark.parametrize("now", ["yesterday", dt.datetime(2026, 1, 1), "2026-01-31T12:00:00", 12])
def test_a_time_without_a_zone_is_refused(now, folder, spark):
    for run in (
        lambda: plain_run_flow(PROJECT, "visits", spark=spark, now=now),
        lambda: plain_run_pipeline(folder, spark=spark, now=now),
    ):
        with pytest.raises(RivermouthError) as refused:
            run()
        assert str(refused.value) == (
            "[ARGUMENT_INVALID] now: it is no time with a time zone; nothing was run\n"
            '  hint: now="2026-01-31T12:00:00Z"'
        )
