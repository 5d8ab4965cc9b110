"""The table's shape, and rows that take it on."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.errors import ColumnCollision, ColumnReserved
from rivermouth.rows import conform
from rivermouth.rows.columns import table_columns
from rivermouth.spec import Flow

PAYLOAD = StructType([StructField("id", LongType()), StructField("odd name", StringType())])
KEY = StringType()
AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def a_flow(**fields):
    return Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t", **fields})


def shape(flow):
    found = conform.table_columns(flow, PAYLOAD, record_keys.column_type(None, flow))
    return [(field.name, field.dataType.simpleString()) for field in found]


def test_the_payload_comes_first_then_the_metadata():
    assert shape(a_flow()) == [
        ("id", "bigint"),
        ("odd name", "string"),
        ("kafka_topic", "string"),
        ("kafka_partition", "int"),
        ("kafka_offset", "bigint"),
        ("kafka_timestamp", "timestamp"),
        ("kafka_key", "string"),
        ("ingested_at", "timestamp"),
    ]


def test_metadata_columns_are_picked_and_renamed_and_the_coordinates_are_always_there():
    picked = {"kafka_headers": "headers", "kafka_timestamp_type": None, "kafka_key": "k"}
    assert shape(a_flow(metadata_columns=picked, key_format="raw"))[2:] == [
        ("kafka_topic", "string"),
        ("kafka_partition", "int"),
        ("kafka_offset", "bigint"),
        ("kafka_timestamp_type", "int"),
        ("k", "binary"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_a_payload_column_of_the_same_name_is_refused_in_any_case_of_letters():
    with pytest.raises(ColumnCollision) as caught:
        conform.table_columns(a_flow(), StructType([StructField("Kafka_Offset", LongType())]), KEY)
    assert str(caught.value) == (
        "[COLUMN_COLLISION] flow f: column 'Kafka_Offset' is both in the payload and in the metadata columns; "
        "nothing was run\n"
        "  hint: metadata_columns: {kafka_topic: kafka_topic, kafka_partition: kafka_partition, "
        "kafka_offset: record_kafka_offset, kafka_timestamp: kafka_timestamp, kafka_key: kafka_key, "
        "ingested_at: ingested_at}"
    )


RESERVED = ["__epoch", "__Timestamp", "__offset", "__key", "__value", "__data", "__route", "__failed_0", "__batch"]


@pytest.mark.parametrize("name", RESERVED)
def test_a_column_with_a_name_of_the_way_is_refused(name):
    with pytest.raises(ColumnReserved) as caught:
        conform.table_columns(a_flow(), StructType([StructField(name, LongType())]), KEY)
    assert str(caught.value) == (
        f"[COLUMN_RESERVED] flow f: column {name!r} has a name that rivermouth keeps for itself; nothing was run\n"
        f"  hint: leave {name} out of the schema, or write the value whole: format: text"
    )
    with pytest.raises(ColumnReserved) as caught:
        conform.table_columns(a_flow(metadata_columns={"kafka_offset": name}), PAYLOAD, KEY)
    assert str(caught.value).endswith(
        "  hint: metadata_columns: {kafka_topic: kafka_topic, kafka_partition: kafka_partition, "
        "kafka_offset: record_kafka_offset}"
    )


def test_other_names_with_two_underscores_are_the_users():
    payload = StructType([StructField(name, StringType()) for name in ("__op", "__deleted", "__source_ts_ms")])
    assert conform.table_columns(a_flow(), payload, KEY).names[:3] == payload.names


def test_partition_columns_are_plain_derived_by_name_or_named_after_their_expression():
    table = {"name": "s.t", "partition_by": ["id", {"day": "date(kafka_timestamp)"}, "date(kafka_timestamp)"]}
    flow = a_flow(table=table)
    assert table_columns.partition_columns(flow) == ["id", "day", "date_kafka_timestamp"]
    assert table_columns.derived_columns(flow) == {
        "day": "date(kafka_timestamp)",
        "date_kafka_timestamp": "date(kafka_timestamp)",
    }


def test_rows_take_on_the_shape_and_keep_what_is_needed_on_the_way(spark):
    flow = a_flow(
        metadata_columns={
            "kafka_offset": "off",
            "kafka_timestamp": "ts",
            "kafka_key": "k",
            "ingested_at": "ingested_at",
        },
        table={"name": "s.t", "partition_by": [{"day": "date(ts)"}]},
    )
    columns = "__topic string, __partition int, __offset bigint, __timestamp timestamp, __timestamp_type int, "
    columns += "__headers array<struct<key:string,value:binary>>, __key binary, __value binary, "
    columns += "__data struct<id:bigint,`odd name`:string>, __decoded boolean, __key_valid boolean"
    rows = [
        ("t", 1, 2, AT, 0, None, "grün".encode(), b"v", (7, "x"), True, True),
        ("t", 1, 3, AT, 0, None, None, None, None, True, True),
    ]
    found = conform.conform(spark.createDataFrame(rows, columns), flow)
    visible = [name for name in found.columns if not name.startswith("__")]
    assert visible == ["id", "odd name", "kafka_topic", "kafka_partition", "off", "ts", "k", "ingested_at", "day"]
    assert {name for name in found.columns if name.startswith("__")} == set(columns.replace(",", " ").split()) & {
        *names.ENVELOPE,
        names.DATA,
        names.DECODED,
        names.KEY_VALID,
    } | {names.UNMADE}
    first, second = (row.asDict() for row in found.orderBy("off").collect())
    assert first["ingested_at"] is not None
    at = AT.replace(tzinfo=None)
    assert [first[name] for name in ("id", "odd name", "kafka_topic", "kafka_partition", "off", "ts", "k", "day")] == [
        7,
        "x",
        "t",
        1,
        2,
        at,
        "grün",
        at.date(),
    ]
    assert [second[name] for name in ("id", "odd name", "off", "k")] == [None, None, 3, None]
