"""A partition value is kept as it was sent, or its record is a dead letter that says why; never a null."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F
from tests.crashes.oracle import rows_of as read_by_rust

from rivermouth import names
from rivermouth.domain.project.table_per_value import found_of
from rivermouth.engine.batch.pipeline import transform
from rivermouth.rows import dead_letter, envelope, partition_values, routing
from rivermouth.spec import Flow

SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
REPORT = Path(__file__).parents[1] / "data/reports/02/messages.1.jsonl"
NULL = "__HIVE_DEFAULT_PARTITION__"
ODD = [
    json.loads(line)["value"]["json"]["p"]
    for line in REPORT.read_text(encoding="utf-8").splitlines()
    if '"topic": "c02"' in line
]
# The folder of a value is "p=" and the value.
FIT = [
    *(value for value in ODD if value != NULL),
    *("x" * 253, "/" * 84, "\x01" * 84, "ü" * 126, "日" * 84, "😀" * 63, "/" * 83 + "xxxx", "€" * 70 + "%" * 14),
    *(" ", "(empty)", "\ufffd", "\x7f", "\x85", "\u2028", "__hive_default_partition__", f"{NULL} ", "[]^{}", "~"),
    *("Ä", "ä", "a\u0308", "NaN", "-0.0", "1e3", "2026-01-01", "true", "p=x", "../..", "e\u0301", "é"),
]
LONG = "needs a folder whose name has more than 255 bytes"
UNFIT = "holds a NUL, or bytes that are not UTF-8, and no folder has that in its name"
REFUSED = {
    "": "is an empty text, which Delta keeps as null",
    NULL: f"is {NULL}, which Delta keeps as null",
    **dict.fromkeys(["a\0b", "\0", "\0" * 300], UNFIT),
    **dict.fromkeys(["x" * 254, "x" * 300, "/" * 90, "/" * 85, "/" * 84 + "xx", "\x01" * 85, "x" * 70_000], LONG),
    **dict.fromkeys(["ü" * 127, "ü" * 130, "日" * 85, "😀" * 64, "€" * 70 + "%" * 15], LONG),
}
VALUES = [*dict.fromkeys(FIT), *REFUSED, None]


def a_flow(partition_by, **fields):
    body = {
        "name": "f",
        "topics": ["t"],
        "format": {"type": "json", "schema": "id bigint, p string"},
        "table": {"name": "s.t", "partition_by": partition_by},
        **fields,
    }
    return Flow.model_validate(body)


def rows_of(spark, records):
    source = [(key, value, "t", 0, offset, AT, 0, None) for offset, (key, value) in enumerate(records)]
    return envelope.read(spark.createDataFrame(source, SOURCE))


def sent(values):
    return [(b"k", json.dumps({"id": place, "p": value}).encode()) for place, value in enumerate(values)]


def letters(routed, flow):
    found = dead_letter.dead_letters(routed, flow, target="s.t", entry=1, topic_ids={}).collect()
    return {row["kafka_offset"]: row for row in found}


def read_back(spark, folder, column):
    """What Spark and delta-rs read, each as a value by its number."""
    by_spark = {row["id"]: row[1] for row in spark.read.format("delta").load(folder).select("id", column).collect()}
    return by_spark, {row["id"]: row[column] for row in read_by_rust(folder)}


@pytest.mark.parametrize(
    ("partition_by", "column", "sink"),
    [
        (["p"], "p", None),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ([{"q": "concat(p, '')"}], "q", None),
                (["p"], "p", {"type": "upsert", "keys": ["id"]}),
                (["p"], "p", {"type": "history", "keys": ["id"], "sequence_by": "kafka_offset"}),
            )
        ),
    ],
    ids=["declared", "derived", "upsert", "history"],
)
def test_a_value_comes_back_as_it_was_sent_or_its_record_is_refused(spark, tmp_path, partition_by, column, sink):
    flow = a_flow(partition_by, **({"sink": sink} if sink else {}))
    values = [value and value.replace("p=", f"{column}=") for value in VALUES]
    routed = transform(rows_of(spark, sent(values)), flow).persist()
    try:
        kept = routed.where(F.col(names.ROUTE) == routing.TABLE).select("id", column)
        kept.coalesce(1).write.format("delta").partitionBy(column).save(str(tmp_path / "t"))
        found = letters(routed, flow)
    finally:
        routed.unpersist()
    expected = {place: value for place, value in enumerate(values) if value not in REFUSED}
    for read in read_back(spark, str(tmp_path / "t"), column):
        assert read == expected
    assert {values[place]: row["message"].partition(": write")[0] for place, row in found.items()} == {
        value: f"the value of the partition column {column} {what}" for value, what in REFUSED.items()
    }
    assert {(row["stage"], row["reason"], row["field"]) for row in found.values()} == {
        ("conform", "PARTITION_VALUE_INVALID", column)
    }


def test_folders_have_the_length_that_spark_gives_them(spark):
    text = spark._jvm.org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
    escapes = {chr(code) for code in range(1, 0x250) if text.escapePathName(f"a{chr(code)}") != f"a{chr(code)}"}
    assert escapes == set(partition_values.ESCAPED)
    for value in VALUES:
        if value:
            assert partition_values.folder_bytes(value) == len(text.escapePathName(value).encode())
    assert text.DEFAULT_PARTITION_NAME() == partition_values.NULL_FOLDER


@pytest.mark.parametrize(
    ("column", "part"),
    [("kafka_key", "kafka_key"), pytest.param("k", {"k": "CAST(kafka_key AS STRING)"}, marks=pytest.mark.long)],
)
def test_bytes_are_a_partition_where_they_are_text(spark, tmp_path, column, part):
    keys = [b"ab", b"", b"\x00\xff", b"a\xff", b"a\x00", "ü".encode(), NULL.encode(), None]
    flow = a_flow([part], format="raw")
    routed = transform(rows_of(spark, [(key, b"v") for key in keys]), flow)
    found = letters(routed, flow)
    assert {place: row["field"] for place, row in found.items()} == dict.fromkeys([1, 2, 3, 4, 6], column)
    assert found[1]["message"].partition(": write")[0].endswith(REFUSED[""])
    assert {found[place]["message"].partition(": write")[0][-len(UNFIT) :] for place in (2, 3, 4)} == {UNFIT}
    kept = routed.where(F.col(names.ROUTE) == routing.TABLE).select(F.col("kafka_offset").alias("id"), column)
    kept.write.format("delta").partitionBy(column).save(str(tmp_path / column))
    back = spark.read.format("delta").load(str(tmp_path / column)).selectExpr("id", f"CAST({column} AS BINARY) v")
    assert {row["id"]: row["v"] and bytes(row["v"]) for row in back.collect()} == {0: b"ab", 5: keys[5], 7: None}


def test_many_folders_have_a_length_together(spark):
    columns = "abcd"
    schema = ", ".join(f"{name} string" for name in columns)
    flow = a_flow(["a", {"day": "date(kafka_timestamp)"}, "b", "c", "d"], format={"type": "json", "schema": schema})
    lengths = [(200, 200, 200, 2), (200, 200, 200, 50), (100, 200, None, 200), (10, 10, 10, 254), (250, 250, 170, None)]
    values = [
        json.dumps({name: size and "x" * size for name, size in zip(columns, each, strict=True)}).encode()
        for each in lengths
    ]
    found = letters(transform(rows_of(spark, [(None, value) for value in values]), flow), flow)
    assert {
        place: (row["field"], row["message"].partition(": write")[0].partition(" needs ")[2])
        for place, row in found.items()
    } == {
        1: ("d", "folders that have more than 700 bytes together"),
        3: ("d", "a folder whose name has more than 255 bytes"),
        4: ("c", "folders that have more than 700 bytes together"),
    }


@pytest.mark.parametrize(
    ("partition_by", "value", "instead"),
    [
        (["p"], "", [{"p_part": "coalesce(nullif(p, ''), '(empty)')"}]),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (
                ([{"q": "concat(p, '')"}], "", [{"q": "coalesce(nullif(concat(p, ''), ''), '(empty)')"}]),
                (["concat(p, '')"], "", [{"concat_p": "coalesce(nullif(concat(p, ''), ''), '(empty)')"}]),
                (["id", "p"], "x" * 300, ["id", {"p_part": "sha2(p, 256)"}]),
            )
        ),
        (
            [{"day": "date(kafka_timestamp)", "q": "concat(p, '')"}],
            NULL,
            [
                {"day": "date(kafka_timestamp)"},
                {"q": f"CASE WHEN concat(p, '') <> '{NULL}' THEN concat(p, '') ELSE '(other)' END"},
            ],
        ),
        (
            [{"q": "concat(p, '')"}],
            "x" * 300,
            [{"q": "CASE WHEN octet_length(url_encode(concat(p, ''))) <= 253 THEN concat(p, '') ELSE '(other)' END"}],
        ),
        (["p"], "a\0b", [{"p_part": "sha2(p, 256)"}]),
    ],
)
def test_the_partitions_that_the_message_names_keep_the_value(spark, partition_by, value, instead):
    refused = a_flow(partition_by)
    records = sent([value, "de", None])
    message = letters(transform(rows_of(spark, records), refused), refused)[0]["message"]
    assert message.partition("partition_by: ")[2] == json.dumps(instead)
    flow = a_flow(json.loads(message.partition("partition_by: ")[2]))
    routed = transform(rows_of(spark, records), flow).orderBy(names.OFFSET).collect()
    assert [(row[names.ROUTE], row["p"]) for row in routed] == [("table", value), ("table", "de"), ("table", None)]


def test_the_remedies_lead_each_value_that_names_no_table_to_the_rest(spark):
    """Pasted one after the other into the raw flow, as a user would; those that name a table go on to name it."""
    named, other = ["conn", "a.b_c-d", "x" * 200], ["a/b", "...", "a b", "é", None]
    sent_as = [*named, *other, *REFUSED]
    event = "get_json_object(CAST(value AS STRING), '$.p')"
    partition_by, messages = [{"event": event}], []
    for _ in range(len(REFUSED)):
        flow = a_flow(partition_by, format="raw")
        routed = transform(rows_of(spark, sent(sent_as)), flow).persist()
        refused = letters(routed, flow)
        if not refused:
            break
        messages.append(refused[min(refused)]["message"])
        partition_by = json.loads(messages[-1].partition("write into a new table with partition_by: ")[2])
        routed.unpersist()
    assert len(messages) == 4, messages
    events = {row[names.OFFSET]: row["event"] for row in routed.collect()}
    routed.unpersist()
    tables = {value: found_of([events[place]]) for place, value in enumerate(sent_as)}
    assert tables == {value: (value,) if value in named else ("_rest",) for value in sent_as}


@pytest.mark.parametrize(
    ("policy", "routes"),
    [
        pytest.param("drop", ["dropped", "dead_letter", "dropped", "dead_letter"], marks=pytest.mark.long),
        ("keep", ["dead_letter", "dead_letter", "table", "dead_letter"]),
        pytest.param("dead_letter", ["dead_letter"] * 4, marks=pytest.mark.long),
    ],
)
def test_only_what_would_be_stored_is_refused(spark, policy, routes):
    records = [(b"", None), (b"", b'{"p": ""}'), (b"k", None), (b"", b"{bad")]
    flow = a_flow(
        ["kafka_key"], null_values=policy, expectations=[{"name": "no", "condition": "false", "action": "fail"}]
    )
    routed = transform(rows_of(spark, records), flow)
    assert [row[names.ROUTE] for row in routed.orderBy(names.OFFSET).collect()] == routes
    reasons = {place: row["reason"] for place, row in letters(routed, flow).items()}
    assert reasons.get(0) == {"drop": None, "keep": "PARTITION_VALUE_INVALID", "dead_letter": "NULL_VALUE"}[policy]
    assert (reasons[1], reasons[3]) == ("PARTITION_VALUE_INVALID", "INVALID_JSON")


def test_a_deletion_stores_nothing_and_passes(spark):
    sink = {"type": "upsert", "keys": ["p", "id"], "apply_as_deletes": "v < 0"}
    form = {"type": "json", "schema": "p string, id bigint, v int"}
    flow = a_flow(["p"], format=form, sink=sink)
    records = [
        (b'{"p": "", "id": 1}', b'{"p": "", "id": 1, "v": 1}'),
        (b'{"p": "", "id": 1}', b'{"p": "", "id": 1, "v": -1}'),
        (b'{"p": "", "id": 1}', None),
        (b'{"id": 1}', b'{"p": "", "v": 1}'),
    ]
    routed = transform(rows_of(spark, records), flow)
    assert [row[names.ROUTE] for row in routed.orderBy(names.OFFSET).collect()] == [
        "dead_letter",
        "table",
        "table",
        "dead_letter",
    ]


def test_what_refuses_a_row_of_a_record_refuses_the_record(spark):
    form = {"type": "canal", "schema": "id bigint, p string"}
    flow = a_flow(["p"], format=form, sink={"type": "upsert", "keys": ["id"]})
    values = [
        {"type": "INSERT", "data": [{"id": "1", "p": "a"}, {"id": "2", "p": ""}]},
        {"type": "DELETE", "data": [{"id": "1", "p": ""}]},
        {"type": "UPDATE", "data": [{"id": "2", "p": "b"}], "old": [{"p": ""}]},
    ]
    routed = transform(rows_of(spark, [(None, json.dumps(value).encode()) for value in values]), flow)
    rows = routed.select(names.OFFSET, names.ROUTE).collect()
    assert sorted(map(tuple, rows)) == [(0, "dead_letter"), (0, "dead_letter"), (1, "table"), (2, "table")]
    assert [(row["reason"], row["field"]) for row in letters(routed, flow).values()] == [
        ("PARTITION_VALUE_INVALID", "p")
    ]
