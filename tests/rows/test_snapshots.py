"""Snapshots: taken apart into their rows, and whole or not at all."""

from __future__ import annotations

import datetime as dt

import pytest

from rivermouth.engine.batch.pipeline import transform
from rivermouth.rows import dead_letter, envelope
from rivermouth.spec import Flow

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary"


def flow(schema, table="silver.t", **more):
    sink = {"type": "upsert", "from": "snapshot", "keys": ["id"], **more}
    form = {"type": "json", "schema": schema}
    expectations = [{"name": "small", "condition": "v < 10", "action": "drop"}]
    return Flow(name="f", topics=("t",), format=form, table=table, sink=sink, expectations=expectations)


def judged(spark, one, values):
    rows = [("t", 0, offset, START, 0, b"k", value) for offset, value in enumerate(values)]
    return transform(envelope.read(spark.createDataFrame(rows, KINDS)), one)


def told(routed):
    """By offset: the ids in their order, the routes, and what is wrong with what was decoded: it alone has columns."""
    found = {}
    parts = ("__offset", "__ordinal", "id", "__truncate", "__route", "if(__decoded, __problem, NULL) AS __problem")
    for row in sorted(routed.selectExpr(*parts).collect()):
        ids, routes, problems = found.setdefault(row[0], ([], set(), set()))
        if not row["__truncate"]:
            ids.append(row["id"])
        routes.add(row["__route"])
        problems.add(row["__problem"])
    return {offset: (ids, *routes, *problems) for offset, (ids, routes, problems) in found.items()}


def test_a_snapshot_becomes_its_rows_or_a_dead_letter(spark):
    one = flow("at int, items array<struct<id int, v int>>", rows="items", sequence_by="at")
    values = [
        b'{"at": 1, "items": [{"id": 1, "v": 5}, {"id": 2, "v": 5}]}',
        b'{"at": 2, "items": []}',
        b'{"at": 3}',
        b'{"at": 3, "items": null}',
        b'{"at": 4, "items": [{"id": 1, "v": 5}, {"id": 1, "v": 6}]}',
        b'{"at": 5, "items": [{"v": 5}]}',
        b'{"at": 6, "items": [{"id": 1, "v": 5}, null]}',
        b'{"items": [{"id": 1, "v": 5}]}',
        b'{"at": 8, "items": {"id": 1}}',
        b'{"at": 9, "items": [{"id": "x"}]}',
        b'{"at": 9, "items": [{"id": 1, "v": 50}, {"id": 2, "v": 5}]}',
        None,
    ]
    assert told(judged(spark, one, values)) == {
        0: ([1, 2], "table", None),
        1: ([], "table", None),
        2: ([], "dead_letter", "ROWS_MISSING"),
        3: ([], "dead_letter", "ROWS_MISSING"),
        4: ([1, 1], "dead_letter", "KEY_TWICE"),
        5: ([None], "dead_letter", "KEY_NULL"),
        6: ([1, None], "dead_letter", "ROWS_MISSING"),
        7: ([1], "dead_letter", "SEQUENCE_NULL"),
        8: ([], "dead_letter", None),
        9: ([], "dead_letter", None),
        10: ([1, 2], "dropped", None),
        11: ([None], "dropped", "KEY_NULL"),
    }


@pytest.mark.parametrize(("v", "reason"), [(253_402_300_800, "TIME_RANGE"), (10**18, "EXPRESSION_FAILED")])
def test_a_partition_of_one_row_refuses_the_whole_snapshot(spark, v, reason):
    """It is counted and explained by its first row, which has nothing wrong."""
    table = {"name": "silver.t", "partition_by": [{"day": "date(timestamp_seconds(v))"}]}
    one = flow("id int, v bigint", table)
    routed = judged(spark, one, [b'[{"id": 1, "v": 5}, {"id": 2, "v": %d}, {"id": 3, "v": 5}]' % v])
    assert told(routed) == {0: ([1, 2, 3], "dead_letter", None)}
    letters = dead_letter.dead_letters(routed, one, target="silver.t", entry=1, topic_ids={})
    assert [tuple(row) for row in letters.select("reason", "field").collect()] == [(reason, "day")]


def test_a_value_may_be_nothing_but_the_array(spark):
    one = flow("id int, v int")
    values = [
        b' [{"id": 1, "v": 5}, {"id": 2, "v": 5}]\n',
        b"[]",
        None,
        b'{"id": 1, "v": 5}',
        b'{"rows": []}',
        b'[{"id": 1, "v": 5}], "rows": []',
        b'[{"id": 1, "v": 5}], "x": 1',
        b'[{"id": "x"}]',
        b"null",
        b"[[]]",
        b"[]]",
        b"",
    ]
    routed = judged(spark, one, values)
    letters = dead_letter.dead_letters(routed, one, target="silver.t", entry=1, topic_ids={})
    found = letters.select("kafka_offset", "reason", "field", "message", "kafka_value").collect()
    assert [bytes(row["kafka_value"]) for row in sorted(found)] == values[3:]
    assert [tuple(row)[:4] for row in sorted(found)] == [
        (3, "NOT_AN_ARRAY", None, "the value is an object, not an array"),
        (4, "NOT_AN_ARRAY", None, "the value is an object, not an array"),
        (5, "INVALID_JSON", None, "something follows the end of the JSON document, at character 19"),
        (6, "INVALID_JSON", None, "something follows the end of the JSON document, at character 19"),
        (7, "FIELD_TYPE", "rows[].id", "field rows[].id is declared int and holds a string"),
        (8, "ROWS_MISSING", None, "the snapshot has no array of rows, or one of its rows is null"),
        (9, "FIELD_TYPE", "rows[]", "field rows[] is declared struct<id:int,v:int> and holds an array"),
        (10, "INVALID_JSON", None, "something follows the end of the JSON document, at character 2"),
        (11, "INVALID_JSON", None, "the value is empty"),
    ]
    kept = {offset: one for offset, one in told(routed).items() if "dead_letter" not in one}
    assert kept == {
        0: ([1, 2], "table", None),
        1: ([], "table", None),
        2: ([None], "dropped", "KEY_NULL"),
    }
