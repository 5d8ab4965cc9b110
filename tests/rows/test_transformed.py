"""The transform that is prepared once gives each batch the frame that it would give if it were built for it alone."""

from __future__ import annotations

import datetime as dt
from operator import itemgetter
from types import SimpleNamespace

import pytest
from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.engine.batch.pipeline import has_current_date, transform, transformed
from rivermouth.rows import envelope
from rivermouth.spec import Flow

AT = dt.datetime(2026, 1, 2, 3, 4, 5)
SOURCE = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
VALUES = (
    [b'{"id": 1, "name": "a", "at": "2026-01-02T03:04:05Z"}', b'{"id": -1}', b"{bad", None],
    [b'{"id": 2, "name": null}', b"[]", b'{"id": "x"}', b'{"id": 3, "parts": [{"a": 1.5}]}', b"\xff"],
    [],
)
CHANGES = (
    [b'{"op": "c", "after": {"id": 1, "price": 1.5, "at": "2026-01-02T03:04:05Z"}}', b'{"op": "t"}', b'{"ts_ms": 1}'],
    [b'{"type": "UPDATE", "data": [{"id": "1", "name": "x"}, {"id": "2"}], "old": [{"id": "3"}]}', b'{"isDdl": true}'],
    [],
)
METADATA = ("topic", "partition", "offset", "timestamp", "key", "headers", "timestamp_type")
EXPECTATIONS = [
    {"name": f"{action}_{index}", "condition": condition, "action": action}
    for index, (action, condition) in enumerate(
        [("warn", "id <> 1"), ("drop", "id > 0"), ("dead_letter", "name IS NOT NULL"), ("fail", "id < 100")]
    )
]
JSON = {
    "format": {
        "type": "json",
        "schema": "id bigint, name string, at timestamp, parts array<struct<a: decimal(10,2)>>",
    },
    "expectations": EXPECTATIONS,
    "table": {"name": "silver.orders", "partition_by": [{"day": "date(kafka_timestamp)"}, "date(at)"]},
    "metadata_columns": [f"kafka_{name}" for name in METADATA],
    "null_values": "dead_letter",
}
FLOWS = {
    "raw": {"format": "raw", "table": "bronze.orders"},
    "text": {"format": "text", "table": "bronze.orders", "null_values": "keep"},
    "json": JSON,
    "debezium": {
        "format": {"type": "debezium", "schema": "id bigint, price decimal(9,2), at timestamp"},
        "table": "silver.orders",
        "sink": "upsert",
    },
    "canal": {
        "format": {"type": "canal", "schema": "id bigint, name string"},
        "table": "silver.orders",
        "sink": {"type": "upsert", "keys": ["id"]},
        "expectations": [{"name": "known", "condition": "name <> 'x'", "action": "dead_letter"}],
    },
}


def a_flow(**fields):
    return Flow.model_validate({"name": "orders", "topics": ["orders"], **fields})


def a_run(flow):
    reached = []
    return SimpleNamespace(flow=flow, prepared={}, reached=reached.append, steps=reached)


def batch(spark, values, *, first=0):
    rows = [
        (b"k", value, "orders", offset % 2, first + offset, AT, 0, [("h", b"v")] if offset % 3 == 0 else None)
        for offset, value in enumerate(values)
    ]
    return envelope.read(spark.createDataFrame(rows, SOURCE))


def content(frame):
    """Names, types and rows; when it was ingested aside."""
    kept = frame.drop("ingested_at")
    return kept.dtypes, sorted(map(str, kept.collect()))


@pytest.mark.parametrize(
    "kind",
    [kind if kind not in {"canal", "debezium"} else pytest.param(kind, marks=pytest.mark.long) for kind in FLOWS],
)
def test_each_batch_is_judged_as_if_its_frames_were_built_for_it(spark, kind):
    run = a_run(a_flow(**FLOWS[kind]))
    all_values = CHANGES if run.flow.change_envelope else VALUES
    for number, values in enumerate(all_values):
        rows = batch(spark, values, first=100 * number)
        assert content(transformed(rows, run)) == content(transform(rows, run.flow, ()))
    assert run.steps == ["decode", "conform", "check", "route"] * len(all_values)
    assert [prepared.lasts for prepared in run.prepared.values()] == [True]


@pytest.mark.parametrize("kind", ["text", pytest.param("json", marks=pytest.mark.long)])
def test_columns_that_stay_beside_have_frames_of_their_own(spark, kind):
    run = a_run(a_flow(**FLOWS[kind]))
    plain = batch(spark, VALUES[0])
    more = plain.select("*", F.lit(7).alias("__batch"), (F.col(names.OFFSET) + 1).alias(names.EPOCH))
    beside = ("__batch", names.EPOCH)
    for _ in range(2):
        assert content(transformed(more, run, beside)) == content(transform(more, run.flow, beside))
        assert content(transformed(plain, run)) == content(transform(plain, run.flow, ()))


def routes(frame):
    return [row[names.ROUTE] for row in sorted(frame.collect(), key=itemgetter(names.OFFSET))]


def test_a_condition_that_draws_lots_draws_them_anew_for_each_batch(spark):
    draw = {"name": "lot", "condition": "rand() < 0.5", "action": "drop"}
    run = a_run(a_flow(format="raw", table="bronze.orders", expectations=[draw]))
    rows = batch(spark, [b"x"] * 64)
    assert routes(transformed(rows, run)) != routes(transformed(rows, run))


def test_a_condition_that_looks_into_a_table_sees_it_as_it_is(spark, tmp_path):
    wanted = tmp_path / "wanted"
    spark.range(1, 2).write.parquet(str(wanted))
    look = {"name": "wanted", "condition": f"id IN (SELECT id FROM parquet.`{wanted}`)", "action": "drop"}
    run = a_run(a_flow(**{**JSON, "expectations": [look]}))
    rows = batch(spark, [b'{"id": 1}', b'{"id": 2}'])
    assert routes(transformed(rows, run)) == ["table", "dropped"]
    spark.range(2, 3).write.mode("append").parquet(str(wanted))
    assert routes(transformed(rows, run)) == ["table", "table"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("at < TIMESTAMP 'tomorrow'", True),
        ('day >= date"Yesterday"', True),
        ("at > timestamp_ntz r'today UTC'", True),
        ("at <= TIMESTAMP'now'", True),
        ("at <= now()", False),
        ("status IN ('known', 'unknown')", False),
        ("at < current_timestamp() + INTERVAL 1 DAY", False),
    ],
)
def test_literals_that_the_parser_fills_in_are_filled_in_for_each_batch(condition, expected):
    flow = a_flow(format="raw", table="b.t", expectations=[{"name": "e", "condition": condition, "action": "drop"}])
    assert has_current_date(flow) is expected
    derived = {"name": "b.t", "partition_by": [{"d": condition}]}
    assert has_current_date(a_flow(format="raw", table=derived)) is expected


def test_such_a_flow_keeps_nothing_ready(spark):
    late = {"name": "late", "condition": "kafka_timestamp < TIMESTAMP 'tomorrow'", "action": "drop"}
    run = a_run(a_flow(format="raw", table="bronze.orders", expectations=[late]))
    assert routes(transformed(batch(spark, [b"x"]), run)) == ["table"]
    assert run.prepared == {}
