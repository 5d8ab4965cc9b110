"""What a record does to a keyed table: its key, its place in the order, whether it deletes, and what it lacks."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from operator import itemgetter

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rivermouth import names
from rivermouth.decoding import key_parts
from rivermouth.engine.batch.pipeline import transform
from rivermouth.rows import conform, envelope, routing
from rivermouth.rows.checks import check
from rivermouth.rows.columns.table_columns import key_columns, sequence_column
from rivermouth.rows.conform import kept_columns
from rivermouth.rows.keyed import change_order, changes
from rivermouth.spec import Flow

AT = dt.datetime(2026, 1, 1)
SOURCE = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary"
DECLARED = "id bigint, name string, v double, seq int, op string"


def flow_of(*, form=DECLARED, **sink):
    form = {"type": "json", "schema": form} if form != "raw" else "raw"
    return Flow(name="f", topics=("t",), format=form, table="silver.t", sink={"type": "upsert", **sink})


def of_ddl(kind):
    return T.StructType.fromDDL(f"c {kind}")["c"].dataType


def told(spark, flow, *records):
    """Each (key, value) as a routed change: a dict of its columns."""
    rows = [
        ("t", 0, offset, AT, 0, key, value if value is None or isinstance(value, bytes) else json.dumps(value).encode())
        for offset, (key, value) in enumerate(records)
    ]
    read = envelope.read(spark.createDataFrame(rows, SOURCE))
    rows = changes.with_changes(conform.conform(envelope.decode(read, flow), flow), flow)
    routed = routing.route(check(rows, flow.expectations), flow)
    return sorted((row.asDict() for row in routed.collect()), key=itemgetter("__offset"))


def test_a_flow_without_keys_is_left_alone(spark):
    flow = Flow(name="f", topics=("t",), format="raw", table="silver.t", sink="append")
    frame = spark.range(1)
    assert changes.with_changes(frame, flow) is frame
    assert change_order.order_of(flow, ["value"]) is None
    assert key_columns(flow) == []


def test_deletions_sequences_and_what_a_change_lacks(spark):
    flow = flow_of(keys="id", sequence_by="seq", apply_as_deletes="op = 'D'", apply_as_truncates="op = 'T'")
    found = told(
        spark,
        flow,
        (b"1", {"id": 1, "seq": 3, "op": "U"}),
        (b"1", {"id": 1, "seq": 4, "op": "D"}),
        (b"1", {"id": 1, "seq": 5}),  # a condition that is null is not true
        (b"1", {"id": None, "seq": 6}),
        (b"1", {"id": 1, "seq": None}),
        (b"1", {"seq": 7, "op": "T"}),  # a truncation needs no key
        (b"1", None),
        (b"{bad", b"{bad"),
    )
    parts = ("__delete", "__truncate", "__sequence", "__problem", "__route")
    assert [tuple(row[part] for part in parts) for row in found] == [
        (False, False, 3, None, "table"),
        (True, False, 4, None, "table"),
        (False, False, 5, None, "table"),
        (False, False, 6, "KEY_NULL", "dead_letter"),
        (False, False, None, "SEQUENCE_NULL", "dead_letter"),
        (False, True, 7, None, "table"),
        (True, False, None, None, "table"),
        (False, False, None, "KEY_NULL", "dead_letter"),
    ]


def test_what_throws_refuses_its_record(spark):
    flow = flow_of(
        keys=[{"key": "element_at(array('a'), CAST(id AS int))"}],
        sequence_by="element_at(array(1), seq)",
        apply_as_deletes="assert_true(op <> 'x') IS NULL AND op = 'D'",
        apply_as_truncates="op = 'T' AND element_at(array(true), CAST(name AS int))",
    )
    found = told(
        spark,
        flow,
        (b"1", {"id": 1, "seq": 1, "op": "U"}),
        (b"1", {"id": 0, "seq": 1, "op": "U"}),
        (b"1", {"id": 1, "seq": 0, "op": "U"}),
        (b"1", {"id": 1, "seq": 1, "op": "x"}),
        (b"1", {"id": 1, "seq": 1, "op": "T", "name": "0"}),
        (b"1", {"id": 1, "seq": 1, "op": "D"}),
    )
    parts = ("key", "__delete", "__truncate", "__problem", "__unmade", "__route")
    wrong = {name: ("EXPRESSION_FAILED", name) for name in ("key", "apply_as_deletes", "apply_as_truncates")}
    assert [tuple(row[part] for part in parts) for row in found] == [
        ("a", False, False, None, None, "table"),
        (None, False, False, "KEY_NULL", wrong["key"], "dead_letter"),
        ("a", False, False, "SEQUENCE_NULL", None, "dead_letter"),
        ("a", False, False, None, wrong["apply_as_deletes"], "dead_letter"),
        ("a", False, False, None, wrong["apply_as_truncates"], "dead_letter"),
        ("a", True, False, None, None, "table"),
    ]


@pytest.mark.parametrize("sequence", ["v", ["seq", "v"]])
def test_a_sequence_that_is_no_number_or_partly_null_has_no_place(sequence, spark):
    flow = flow_of(keys="id", sequence_by=sequence)
    [part, whole] = told(spark, flow, (b"1", {"id": 1, "seq": 1}), (b"1", {"id": 1, "seq": 1, "v": 2.0}))
    assert (part["__problem"], part["__route"]) == ("SEQUENCE_NULL", "dead_letter")
    assert (whole["__problem"], whole["__route"]) == (None, "table")


def test_tombstones_bring_the_key_in_kafkas_key(spark):
    flow = flow_of(keys="id")
    keys = (b"7", b'{"id": 8}', b' {"id": 9, "more": 1}', b"seven", b'{"other": 1}', None, b"")
    found = told(spark, flow, *((key, None) for key in keys))
    assert [row["id"] for row in found] == [7, 8, 9, None, None, None, None]
    assert [row["__route"] for row in found] == ["table"] * 3 + ["dead_letter"] * 4
    flow = flow_of(keys=["id", "name"])
    found = told(spark, flow, (b'{"id": 1, "name": "a"}', None), (b'{"id": 1}', None), (b"1", None))
    assert [(row["id"], row["name"], row["__problem"]) for row in found] == [
        (1, "a", None),
        (1, None, "KEY_NULL"),
        (None, None, "KEY_NULL"),
    ]


# Type, a key that is the value of its only column, and what that column has.
ALONE = [
    ("tinyint", "127", 127),
    ("tinyint", "200", None),
    ("bigint", " 7", 7),
    ("bigint", "7.9", None),
    ("bigint", str(2**63), None),
    ("decimal(5,2)", "9.990", Decimal("9.99")),
    ("decimal(5,2)", "9.999", None),
    ("decimal(5,2)", "1000", None),
    ("double", "1e309", None),
    ("date", "2026-01-31", dt.date(2026, 1, 31)),
    ("date", "2026", None),
    ("date", "+10000-01-01", None),
    ("timestamp_ntz", "2026-01-31T10:00:00", dt.datetime(2026, 1, 31, 10)),
    ("timestamp_ntz", "2026-01-31T10:00:00Z", None),
    ("string", " 7", " 7"),
    ("binary", "7", bytearray(b"7")),
]
# Type, SQL of a part of a key in another type, and what the column has.
OF_OTHER_TYPES = [
    ("int", "7L", 7),
    ("int", "2147483648L", None),
    ("bigint", "7.9D", None),
    ("double", "9007199254740993L", None),
    ("decimal(5,2)", "9.9900BD", Decimal("9.99")),
    ("decimal(5,2)", "9.999BD", None),
    ("date", "TIMESTAMP '2026-01-31 10:00:00'", None),
    ("string", "7L", "7"),
    ("bigint", "'7'", 7),
    ("bigint", "'7.9'", None),
]


def test_a_part_of_a_key_is_in_its_column_as_it_was_sent_or_null(spark):
    alone = (key_parts.of_text(names.literal(text), of_ddl(kind)) for kind, text, _ in ALONE)
    kinds = spark.range(0).selectExpr(*(f"{sql} AS c{place}" for place, (_, sql, _) in enumerate(OF_OTHER_TYPES)))
    others = (
        key_parts.of_value(f"({sql})", field.dataType, of_ddl(kind))
        for field, (kind, sql, _) in zip(kinds.schema, OF_OTHER_TYPES, strict=True)
    )
    parts = [f"{sql} AS c{place}" for place, sql in enumerate([*alone, *others])]
    (found,) = spark.range(1).selectExpr(*parts).collect()
    wanted = [*ALONE, *OF_OTHER_TYPES]
    assert [(*case[:2], value) for case, value in zip(wanted, found, strict=True)] == wanted


def test_a_tombstone_whose_key_does_not_fit_deletes_no_other_row(spark):
    flow = flow_of(form="n tinyint, p decimal(5,2), at timestamp, v int", keys=["n", "p", "at"])
    at = "2026-01-31T10:00:00Z"
    keys = [
        {"n": 56, "p": 9.99, "at": at},
        {"n": 200, "p": 9.99, "at": at},
        {"n": 56, "p": 9.999, "at": at},
        {"n": 56, "p": 9.99, "at": 1_769_853_600},
    ]
    found = told(spark, flow, *((json.dumps(key).encode(), None) for key in keys))
    assert [row["__problem"] for row in found] == [None, *["KEY_NULL"] * 3]
    assert (found[0]["n"], found[0]["p"], found[0]["at"]) == (56, Decimal("9.99"), dt.datetime(2026, 1, 31, 10))


def test_tombstones_that_are_ignored_are_dropped_whatever_their_key(spark):
    flow = flow_of(keys="id", tombstones="ignore")
    found = told(spark, flow, (b"7", None), (None, None), (b"1", {"id": 1}))
    assert [row["__route"] for row in found] == ["dropped", "dropped", "table"]


def test_kafkas_key_is_the_key_where_none_is_named(spark):
    flow = flow_of()
    found = told(spark, flow, (b"a", {"id": 1}), (None, {"id": 1}), (b"\xff", {"id": 1}), (b"", None))
    assert [(row["kafka_key"], row["__problem"], row["__route"]) for row in found] == [
        ("a", None, "table"),
        (None, "KEY_NULL", "dead_letter"),
        ("\ufffd", None, "dead_letter"),
        ("", None, "table"),
    ]
    assert told(spark, flow_of(form="raw"), (b"\xff", b"x"))[0]["kafka_key"] == b"\xff"


def test_a_key_may_be_derived(spark):
    flow = flow_of(keys=[{"low": "lower(name)"}, "id"])
    assert key_columns(flow) == ["low", "id"]
    [row] = told(spark, flow, (b"1", {"id": 1, "name": "Ab"}))
    assert (row["low"], row["id"], row["__problem"]) == ("ab", 1, None)


def test_deletions_are_judged_by_no_expectation(spark):
    flow = flow_of(keys="id", apply_as_deletes="op = 'D'").model_copy(
        update={
            "expectations": Flow(
                name="f",
                topics=("t",),
                format="raw",
                table="s.t",
                expectations=({"name": "v", "condition": "v > 0", "action": "drop"},),
            ).expectations
        }
    )
    found = told(spark, flow, (b"1", {"id": 1, "op": "D"}), (b"1", None), (b"1", {"id": 1}), (b"1", {"v": -1}))
    assert [(row["__failed_0"], row["__route"]) for row in found] == [
        (False, "table"),
        (False, "table"),
        (True, "dropped"),
        (False, "dead_letter"),
    ]


def test_columns_that_a_table_keeps(spark):
    payload = flow_of().format.columns(spark)
    assert kept_columns(flow_of(keys="id", columns=["v"]), payload) == ["id", "v"]
    assert kept_columns(flow_of(keys="id", except_columns=["op", "id"]), payload) == ["id", "name", "v", "seq"]
    assert sequence_column(flow_of(keys="id", sequence_by="seq"), ["id", "seq"]) == "seq"
    assert sequence_column(flow_of(keys="id", sequence_by="seq"), ["id"]) == "__sequence"
    assert sequence_column(flow_of(keys="id", sequence_by="seq + 1"), ["id", "seq"]) == "__sequence"
    assert sequence_column(flow_of(keys="id"), ["id", "seq"]) is None


PLACES = [  # topic, partition, epoch, offset, seconds, sequence
    ("a", 0, 0, 5, 50, 1),
    ("a", 0, 0, 6, 40, 1),
    ("a", 0, 1, 2, 60, 1),
    ("a", 1, 0, 9, 45, 1),
    ("b", 0, 0, 1, 45, 1),
    ("b", 0, 0, 2, 45, 2),
    ("b", 0, 0, 3, 1, None),
]


def newer(one, other, *, sequenced):
    """By the rule, in Python."""
    if sequenced and None not in (one[5], other[5]) and one[5] != other[5]:
        return one[5] > other[5]
    if one[:2] == other[:2]:
        return one[2:4] >= other[2:4]
    return (one[4], *one[:2]) >= (other[4], *other[:2])


@pytest.mark.parametrize("sequenced", [True, False])
def test_which_of_two_is_newer(sequenced, spark):
    order = change_order.ChangeOrder(
        ("k",), "seq" if sequenced else None, "topic", "partition", "offset", "time", epochs=True
    )
    kinds = "topic string, partition int, kafka_epoch int, offset bigint, time int, seq int"
    rows = spark.createDataFrame(PLACES, kinds).withColumn("__sequence", F.col("seq"))
    pairs = rows.alias("s").crossJoin(rows.alias("t"))
    columns = [
        f"{side}.{name}" for side in "st" for name in ("topic", "partition", "kafka_epoch", "offset", "time", "seq")
    ]
    found = pairs.select(*columns, F.expr(order.newer("s", "t"))).collect()
    assert len(found) == len(PLACES) ** 2
    for row in found:
        one, other, said = tuple(row[:6]), tuple(row[6:12]), row[12]
        assert said is newer(one, other, sequenced=sequenced), (one, other)


def test_a_row_of_unknown_origin_is_older_than_any_change(spark):
    order = change_order.ChangeOrder(("k",), None, "topic", "partition", "offset", "time")
    rows = spark.sql("SELECT 'a' topic, 0 partition, 1L offset, 5 time").alias("s")
    there = spark.sql("SELECT CAST(NULL AS string) topic, CAST(NULL AS int) partition, NULL offset, NULL time").alias(
        "t"
    )
    assert rows.crossJoin(there).select(F.expr(order.newer("s", "t"))).collect()[0][0] is True


def test_the_changes_of_one_record_count_once_where_a_sequence_orders_them(spark):
    form = {"type": "canal", "schema": "id int, v int"}
    sink = {"type": "upsert", "keys": "id", "sequence_by": "v"}
    flow = Flow(name="f", topics=("t",), format=form, table="silver.t", sink=sink)
    rows = [{"id": "1", "v": "5"}, {"id": "2", "v": "6"}, {"id": "1", "v": "7"}]
    value = json.dumps({"type": "INSERT", "database": "d", "table": "t", "data": rows}).encode()
    sent = spark.createDataFrame([("t", 0, 3, AT, 0, None, value)], SOURCE)
    order = change_order.order_of(flow, ["id", "v"])
    told = transform(envelope.read(sent), flow).select("id", "v", *order.columns, "__delete", "__sequence", "__ordinal")
    found = changes.newest(changes.by_partition(told, order), order).select("id", "v", changes.RECORDS)
    assert sorted(tuple(row) for row in found.collect()) == [(1, 7, 1), (2, 6, 0)]
