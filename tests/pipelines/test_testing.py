"""``rivermouth.testing``: pipelines and flows on given rows and records."""

from __future__ import annotations

import datetime as dt
import json
import time

import pytest

from rivermouth import Record, RivermouthError
from rivermouth.testing import run_flow as plain_run_flow
from rivermouth.testing.sources import _record_of

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
@dp.expect_or_drop("has an id", "id IS NOT NULL")
@dp.expect_or_dead_letter("positive", "amount > 0")
def orders():
    raw = (spark.readStream.format("kafka").option("kafka.bootstrap.servers", "nowhere:1").option("subscribe", "orders")
           .option("startingOffsets", "latest").load())
    columns = "id bigint, amount double, country string"
    return (raw.select(F.from_json(F.col("value").cast("string"), columns).alias("v"),
                       F.col("key").cast("string").alias("key"), "offset")
            .select("v.*", "key", "offset"))

@dp.table(name="silver.named", path="/nowhere/named")
def named():
    return spark.readStream.table("orders").join(spark.read.table("reference.countries"), "country")

@dp.table
def files():
    return spark.readStream.schema("id bigint, note string").json("/Volumes/raw/notes")

dp.create_sink("out", "kafka", {"kafka.bootstrap.servers": "nowhere:1", "topic": "out"})

@dp.append_flow(target="out")
def to_out():
    return spark.readStream.table("orders").selectExpr("CAST(id AS STRING) AS value")
"""
SQL = """
CREATE MATERIALIZED VIEW by_country AS SELECT country, sum(amount) AS amount FROM orders GROUP BY country;
CREATE STREAMING TABLE copied AS SELECT * FROM STREAM other.sales.shop;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("shop")
    (found / "code").mkdir()
    (found / "code/orders.py").write_text(PYTHON)
    (found / "code/views.sql").write_text(SQL)
    (found / "pipeline.yml").write_text(
        "name: shop\ncatalog: main\nstorage: /nowhere/state\nlibraries: [{glob: {include: code/**}}]\n"
    )
    return found


def rows(frame, *columns):
    return sorted(tuple(row) for row in frame.select(*columns).collect())


@pytest.mark.long
def test_a_pipeline_runs_on_what_is_given(folder, run_pipeline, spark):
    shop = run_pipeline(
        folder,
        topics={
            "orders": [
                {"id": 1, "amount": 2.5, "country": "NL"},
                Record({"id": 2, "amount": -1, "country": "NL"}, key="k2"),
                {"amount": 7, "country": "BE"},
            ]
        },
        tables={
            "reference.countries": [{"country": "NL", "name": "Netherlands"}],
            "other.sales.shop": spark.createDataFrame([(1, "a")], "id int, what string"),
        },
        files={"/Volumes/raw/notes": [{"id": 1, "note": "first"}]},
    )
    assert rows(shop.table("orders"), "id", "amount", "key", "offset") == [(1, 2.5, None, 0)]
    assert rows(shop.table("silver.named"), "id", "name") == [(1, "Netherlands")]
    assert rows(shop.table("by_country"), "country", "amount") == [("NL", 2.5)]
    assert rows(shop.table("copied"), "id", "what") == [(1, "a")]
    assert rows(shop.table("files"), "id", "note") == [(1, "first")]
    assert rows(shop.sink("out"), "value") == [("1",)]
    assert rows(shop.table("reference.countries"), "name") == [("Netherlands",)]
    (letter,) = shop.dead_letters("orders").collect()
    assert (letter.row.id, letter.row.key, letter.failed_expectations, letter.status) == (2, "k2", ["positive"], "open")
    assert shop.dead_letters("copied").count() == 0
    counts = shop.counts("orders")
    assert (counts.read, counts.written, counts.dropped, counts.dead_lettered) == (3, 1, 1, 1)
    assert counts.expectations == {"has an id": 1, "positive": 1}
    assert {each.dataset: each.result for each in shop.outcomes} == dict.fromkeys(
        ("orders", "silver.named", "files", "out", "by_country", "copied"), "completed"
    )

    # what was given stays; what is new is read, once
    shop.update(
        topics={
            "orders": spark.createDataFrame(
                [("k3", '{"id": 3, "amount": 4, "country": "NL"}')], "key string, value string"
            )
        },
        tables={"other.sales.shop": [{"id": 2, "what": "b"}]},
        files={"/Volumes/raw/notes": {"more/second.json": '{"id": 2, "note": "second"}'}},
    )
    assert rows(shop.table("orders"), "id", "key", "offset") == [(1, None, 0), (3, "k3", 3)]
    assert rows(shop.table("by_country"), "amount") == [(6.5,)]
    assert rows(shop.table("copied"), "id", "what") == [(1, "a"), (2, "b")]
    assert rows(shop.sink("out"), "value") == [("1",), ("3",)]
    assert shop.counts("orders").read == 1
    kinds = {row.event_type for row in shop.events().select("event_type").distinct().collect()}
    assert kinds >= {"create_update", "flow_progress", "update_progress"}

    with pytest.raises(RivermouthError) as unknown:
        shop.table("ordres")
    assert (unknown.value.code, unknown.value.next_step) == ("DATASET_NOT_IN_PIPELINE", "did you mean 'orders'?")


def test_one_view_is_tried_on_rows_and_what_is_not_given_is_said(folder, run_pipeline, tmp_path):
    assert_not_given(folder, run_pipeline)
    (tmp_path / "view.sql").write_text(SQL.partition("CREATE STREAMING")[0])
    orders = [{"country": "NL", "amount": 1.0}, {"country": "NL", "amount": 2.0}]
    found = run_pipeline([tmp_path / "view.sql"], tables={"orders": orders})
    assert rows(found.table("by_country"), "country", "amount") == [("NL", 3.0)]


def assert_not_given(folder, run_pipeline):
    with pytest.raises(RivermouthError) as missing:
        run_pipeline(folder)
    assert str(missing.value) == (
        "[TOPIC_NOT_GIVEN] the pipeline reads Kafka topic orders, and the test gives no records of it; "
        'no broker was asked\n  at: code/orders.py:10\n  hint: run_pipeline(..., topics={"orders": []})'
    )


@pytest.mark.long
def test_a_dataset_is_replaced_by_rows_and_nothing_else_is_asked(folder, run_pipeline):
    assert_not_given(folder, run_pipeline)
    silver = run_pipeline(
        [folder / "code/views.sql"],
        tables={
            "orders": [{"country": "NL", "amount": 1.0}, {"country": "NL", "amount": 2.0}],
            "other.sales.shop": [{"id": 1}],
        },
    )
    assert rows(silver.table("by_country"), "country", "amount") == [("NL", 3.0)]
    with pytest.raises(RivermouthError) as nothing:
        silver.sink("out")
    assert str(nothing.value) == (
        "[TABLE_NOT_WRITTEN] sink out was not written by any update of the test; nothing was read\n"
        "  hint: look at outcomes of the update, which say what was refreshed"
    )
    with pytest.raises(RivermouthError) as no_rows:
        silver.update(tables={"new": []})
    assert no_rows.value.code == "ARGUMENT_INVALID"


FLOW = {
    "lake": "/nowhere/lake",
    "kafka": {"bootstrap_servers": "nowhere:1"},
    "flows": {
        "orders": {
            "topics": ["orders"],
            "starting_offsets": "latest",
            "format": {"type": "json", "schema": "id bigint, amount decimal(10,2)"},
            "sink": {"type": "upsert", "keys": ["id"]},
            "expectations": [{"name": "positive", "condition": "amount > 0", "action": "dead_letter"}],
            "table": "silver.orders",
        },
        "inferred": {"topics": ["orders"], "format": {"type": "json", "schema": "infer"}, "table": "silver.inferred"},
        "copy": {"source": {"table": "silver.raw"}, "format": "text", "table": "silver.copy"},
        "raw": {"topics": ["orders"], "format": "raw", "table": "silver.raw"},
    },
}


def test_a_flow_writes_its_table_and_another_source_is_refused(run_flow, spark):
    appends = {name: value for name, value in FLOW["flows"]["orders"].items() if name != "sink"}
    records = [{"id": 1, "amount": 1}, {"id": 2, "amount": -1}, {"id": 1, "amount": 3}]
    orders = run_flow({**FLOW, "flows": {**FLOW["flows"], "orders": appends}}, "orders", records)
    assert rows(orders.table().selectExpr("id", "string(amount) AS amount"), "id", "amount") == [
        (1, "1.00"),
        (1, "3.00"),
    ]
    assert rows(orders.dead_letters(), "kafka_offset", "reason") == [(1, "EXPECTATION")]
    assert (orders.counts.consumed, orders.counts.written, orders.counts.dead_lettered) == (3, 2, 1)
    assert_no_records(spark)


def test_a_flow_with_an_archive_leaves_that_of_production_alone_and_reads_its_partitions(run_flow, tmp_path):
    sink = {"type": "files", "format": "json", "path": str(tmp_path / "archive")}
    flow = {"assign": {"orders": [1]}, "format": "text", "table": "silver.texts", "sink": sink}
    texts = run_flow({**FLOW, "flows": {"texts": flow}}, "texts", [Record("a"), Record("b", partition=1)])
    assert rows(texts.table(), "value") == [("b",)]
    assert not (tmp_path / "archive").exists()


def assert_no_records(spark):
    with pytest.raises(RivermouthError) as refused:
        plain_run_flow(FLOW, "copy", [], spark=spark)
    assert refused.value.message == (
        "flow: flow copy reads a table or snapshots, and a test gives Kafka records; nothing was run"
    )


@pytest.mark.long
def test_a_flow_writes_its_table(run_flow, spark):
    orders = run_flow(
        FLOW,
        "orders",
        [{"id": 1, "amount": 1}, {"id": 2, "amount": -1}, Record({"id": 1, "amount": 3}, key="k", partition=0)],
    )
    assert rows(orders.table().selectExpr("id", "string(amount) AS amount"), "id", "amount") == [(1, "3.00")]
    assert rows(orders.dead_letters(), "kafka_offset", "reason") == [(1, "EXPECTATION")]
    assert (orders.counts.consumed, orders.counts.merged, orders.counts.dead_lettered) == (3, 2, 1)
    at = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
    orders.update([Record({"id": 2, "amount": 5}, timestamp=at)])
    assert rows(orders.table(), "id", "kafka_offset") == [(1, 2), (2, 3)]
    assert orders.counts.consumed == 1

    inferred = run_flow(FLOW, "inferred", [{"id": 1, "note": "x"}])
    assert rows(inferred.table(), "id", "note") == [(1, "x")]
    assert inferred.dead_letters().count() == 0
    assert_no_records(spark)


SINKS = """
from pyspark import pipelines as dp

dp.create_sink("totals", "kafka", {"kafka.bootstrap.servers": "nowhere:1", "topic": "totals"})
dp.create_sink("files", "parquet", {"path": "/Volumes/out/files"})

def orders():
    options = {"kafka.bootstrap.servers": "nowhere:1", "subscribe": "orders"}
    read = spark.readStream.format("kafka").options(**options).load()
    return read.selectExpr("CAST(key AS STRING) AS country", "CAST(CAST(value AS STRING) AS INT) AS amount")

@dp.update_flow(target="totals")
def to_totals():
    totals = orders().groupBy("country").sum("amount")
    return totals.selectExpr("country AS key", "CAST(`sum(amount)` AS STRING) AS value")

@dp.append_flow(target="files", once=True)
def to_files():
    return spark.range(2)
"""


@pytest.mark.long
def test_sinks_take_what_they_take_outside_of_tests(tmp_path, run_pipeline):
    (tmp_path / "a.py").write_text(SINKS)
    shop = run_pipeline(tmp_path / "a.py", topics={"orders": [Record(b"1", key=b"a"), Record(b"2", key=b"b")]})
    assert rows(shop.sink("totals"), "key", "value") == [("a", "1"), ("b", "2")]
    shop.update(topics={"orders": [Record(b"5", key=b"a")]})
    assert rows(shop.sink("totals"), "key", "value") == [("a", "1"), ("a", "6"), ("b", "2")]
    assert rows(shop.sink("files"), "id") == [(0,), (1,)]
    assert shop.counts("files").written == 0  # in the second update
    (tmp_path / "a.py").write_text(SINKS.replace("AS STRING) AS value", "AS STRING) AS total"))
    with pytest.raises(RivermouthError, match="value"):
        run_pipeline(tmp_path / "a.py", topics={"orders": []})


READS = """
from pyspark import pipelines as dp

def loader(path):
    options = {"format": "json", "cleanSource": "DELETE", "cleanSource.retentionDuration": "0 seconds"}
    options = {f"cloudFiles.{name}": value for name, value in options.items()}
    return spark.readStream.format("cloudFiles").schema("id bigint").options(**options).load(path)

@dp.table
def given():
    return loader("/Volumes/raw/notes/new")

@dp.table
def loaded():
    return loader("landed")

@dp.table
def read():
    return spark.readStream.schema("id bigint").option("cleanSource", "delete").json("landed")

@dp.table
def assigned():
    options = {"kafka.bootstrap.servers": "nowhere:1", "assign": '{"orders": [1]}'}
    return spark.readStream.format("kafka").options(**options).load().selectExpr("CAST(value AS STRING) AS value")
"""


@pytest.mark.long
def test_files_that_are_given_win_over_settings_and_no_source_is_cleaned(tmp_path, run_pipeline):
    (tmp_path / "a.py").write_text(READS)
    paths = {"/Volumes/raw/notes": "./data", "/Volumes/raw/notes/new": "./data/new"}
    settings = {"name": "shop", "libraries": [{"file": {"path": "a.py"}}]}
    settings["configuration"] = {f"rivermouth.paths.{path}": place for path, place in paths.items()}
    (tmp_path / "pipeline.yml").write_text(json.dumps(settings))
    for place in ("data/new", "landed"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "1.json").write_text('{"id": 1}')
    files = {"dbfs:/Volumes/raw/notes": {"new/9.json": '{"id": 9}'}}
    shop = run_pipeline(tmp_path, files=files, topics={"orders": [Record("a"), Record("b", partition=1)]})
    assert rows(shop.table("given"), "id") == [(9,)]
    assert rows(shop.table("assigned"), "value") == [("b",)]
    (tmp_path / "landed/2.json").write_text('{"id": 2}')
    shop.update()
    for name in ("loaded", "read"):
        assert rows(shop.table(name), "id") == [(1,), (2,)]
    assert sorted(each.name for each in (tmp_path / "landed").iterdir()) == ["1.json", "2.json"]


def test_the_time_of_a_row_does_not_depend_on_the_zone_of_the_machine(spark, monkeypatch):
    frame = spark.sql("SELECT CAST('a' AS BINARY) AS value, TIMESTAMP '2026-01-01 03:00:00' AS timestamp")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        (record,) = (_record_of(row.asDict()) for row in frame.collect())
    finally:
        monkeypatch.undo()
        time.tzset()
    assert record.timestamp == dt.datetime(2026, 1, 1, 3, tzinfo=dt.UTC)
