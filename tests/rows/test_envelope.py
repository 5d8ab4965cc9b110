"""From a frame of Spark's Kafka source to envelope rows: nothing is added, lost or changed."""

from __future__ import annotations

import datetime as dt
from operator import itemgetter

import pytest

from rivermouth import names
from rivermouth.rows import envelope
from rivermouth.spec import Flow

SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)


def a_flow(**fields):
    return Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t", **fields})


def rows_of(frame):
    found = [row.asDict(recursive=True) for row in frame.collect()]
    return sorted(found, key=itemgetter(names.TOPIC, names.PARTITION, names.OFFSET))


def test_a_record_keeps_all_that_it_came_with(spark):
    source = [
        (b"k", b"\xff\x00", "t", 3, 2**40, AT, 1, [("h", b"1"), ("h", None)]),
        (None, None, "t", 3, 2**40 + 1, None, 0, None),
    ]
    found = rows_of(envelope.read(spark.createDataFrame(source, SOURCE)))
    assert list(found[0]) == list(names.ENVELOPE)
    assert [tuple(row.values()) for row in found] == [
        (
            "t",
            3,
            2**40,
            AT.replace(tzinfo=None),
            1,
            [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
            b"k",
            b"\xff\x00",
        ),
        ("t", 3, 2**40 + 1, None, 0, None, None, None),
    ]


def test_headers_that_were_not_read_are_null(spark):
    source = spark.createDataFrame([(b"k", b"v", "t", 0, 0, AT, 0, [("h", b"1")])], SOURCE).drop("headers")
    assert rows_of(envelope.read(source))[0][names.HEADERS] is None


def test_only_what_lies_in_the_ranges_is_kept(spark):
    source = [(None, None, t, p, o, AT, 0, None) for t in ("a", "b") for p in (0, 1) for o in range(6)]
    ranges = {"a": {0: (2, 4), 1: (5, 9)}, "b": {1: (0, 1)}}
    kept = rows_of(envelope.read(spark.createDataFrame(source, SOURCE), ranges))
    found = [(row[names.TOPIC], row[names.PARTITION], row[names.OFFSET]) for row in kept]
    assert found == [("a", 0, 2), ("a", 0, 3), ("a", 1, 5), ("b", 1, 0)]
    assert rows_of(envelope.read(spark.createDataFrame(source, SOURCE), {})) == []


@pytest.mark.parametrize(
    ("fields", "valid"),
    [
        ({"key_format": "text"}, [True, True, True, False, False]),
        ({"key_format": "raw"}, [True] * 5),
        ({"metadata_columns": ["kafka_offset"]}, [True] * 5),
    ],
)
def test_a_key_that_becomes_text_must_be_utf8(fields, valid, spark):
    keys = [None, b"", "grüße \N{REPLACEMENT CHARACTER}".encode(), b"\xff", b"ok\xc3"]
    source = [(key, b"v", "t", 0, offset, AT, 0, None) for offset, key in enumerate(keys)]
    rows = envelope.decode(envelope.read(spark.createDataFrame(source, SOURCE)), a_flow(**fields))
    assert [row[names.KEY_VALID] for row in rows_of(rows)] == valid
    assert {names.DATA, names.DECODED} <= set(rows.columns)


@pytest.mark.parametrize(
    ("partitions", "offsets", "min_partitions", "tasks"),
    [(4, 25, None, 1), (4, 250, None, 1), (4, 251, None, 2), (4, 1000, None, 4), (4, 25, 4, 4), (17, 1, None, 3)],
)
def test_a_small_batch_is_read_in_few_tasks(spark, partitions, offsets, min_partitions, tasks):
    flow = a_flow(trigger={"min_partitions": min_partitions})
    ranges = {"t": dict.fromkeys(range(partitions), (0, offsets))}
    rows = envelope.coalesce_small_batch(spark.range(0, 100, 1, partitions), ranges, flow)
    assert rows.rdd.getNumPartitions() == tasks
    assert rows.count() == 100
