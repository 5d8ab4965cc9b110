"""The history of a key: what changes and a table's versions come to, where nothing else is remembered."""

from __future__ import annotations

import datetime as dt
import inspect
import re

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from rivermouth.engine.table.keyed_table import keyed_properties
from rivermouth.extend import find_kind
from rivermouth.rows import conform, envelope, reserved_names
from rivermouth.rows.keyed import changes, history, history_results
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.spec import Flow

AT = dt.datetime(2026, 1, 1)
ORDER = ChangeOrder(("k",), "__START_AT", "topic", "partition", "offset", "timestamp")
ROW = "k int, v int, topic string, partition int, offset bigint, timestamp timestamp, __START_AT int, __END_AT int"
SOURCE = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary"


def at_offset(offset):
    return "t", 0, offset, AT + dt.timedelta(seconds=offset)


FACTS = "k int, topic string, partition int, offset bigint, timestamp timestamp, __sequence int, __truncate boolean"


def come_to(spark, versions, log, order=ORDER, facts=None, lacking=(), **how):
    """What of the table must change: (key, start, end, value, offset), or (key, start) of a row that goes.

    ``versions`` are (key, start, end, value, offset), ``log`` has (key, sequence, value or None, offset).
    """
    table = spark.createDataFrame([(k, v, *at_offset(o), start, end) for k, start, end, v, o in versions], ROW)
    told = [(k, v, *at_offset(o), s, None, v is None, False, s) for k, s, v, o in log]
    batch = spark.createDataFrame(told, f"{ROW}, __delete boolean, __truncate boolean, __sequence int")
    points = history.points(batch, history.ExistingVersions(table.drop(*lacking), facts), order, **how)
    rows = history_results.written(points, history.columns_of(batch, order), order).collect()
    found = [
        (r.k, r["__START_AT"]) if r["__delete"] else (r.k, r["__START_AT"], r["__END_AT"], r.v, r.offset) for r in rows
    ]
    return sorted(found), points


def test_what_is_wrong_with_a_table_is_told_by_the_records_that_it_should_know(spark):
    versions = [
        (2, 10, None, 1, 3),
        (3, 10, None, 1, 5),
        (4, 10, 20, 1, 7),
        (4, 20, None, 2, 8),
        (5, 10, None, 1, 9),
        (5, 30, None, 1, 10),
        (6, 10, None, 1, 12),
        (7, 10, None, 1, 14),
        (8, 10, None, 1, 15),
    ]
    log = [
        (1, 10, 1, 1),  # not there
        (2, 10, 1, 3),
        (2, 20, None, 4),  # the row outlives its deletion
        (3, 10, 2, 6),  # the row is of an older record
        (4, 10, 1, 7),  # as it should be
        (4, 20, 2, 8),
        (5, 10, 1, 9),  # two are current
        (6, 10, None, 13),  # a deletion in its place
        (7, 10, None, 14),  # the same record, which is read as a deletion by now
        (8, 10, 7, 15),  # the same record, which is read with another value by now
    ]
    found, points = come_to(spark, versions, log)
    assert found == [
        (1, 10, None, 1, 1),
        (2, 10, 20, 1, 3),
        (3, 10, None, 2, 6),
        (5, 10, 30, 1, 9),
        (6, 10),
        (7, 10),
        (8, 10, None, 7, 15),
    ]
    assert {row.k: row.n for row in points.groupBy("k").agg(F.sum(history.RECORDS).alias("n")).collect()} == {
        1: 1,
        2: 2,
        3: 1,
        4: 2,
        5: 1,
        6: 1,
        7: 1,
        8: 1,
    }


def test_what_was_forgotten_is_deduced(spark):
    versions = [(1, 10, 20, 1, 1), (2, 10, 20, 1, 2), (3, 10, 10, 1, 3), (4, 10, 20, 1, 4)]
    log = [
        (1, 15, 2, 11),  # before a deletion that is forgotten
        (2, 20, 2, 12),  # at its place
        (3, 20, 2, 13),  # behind a version that a tombstone ended
        (4, None, None, 14),  # a tombstone behind it
    ]
    found, _ = come_to(spark, versions, log)
    assert found == [(1, 10, 15, 1, 1), (1, 15, 20, 2, 11), (2, 20, None, 2, 12), (3, 20, None, 2, 13)]


def test_where_all_records_are_there_nothing_is_deduced_and_values_may_be_left_alone(spark):
    versions = [(1, 10, 15, 1, 1), (2, 10, 10, 1, 2), (3, 10, 20, 1, 3), (3, 20, None, 1, 4), (4, 10, None, 1, 5)]
    log = [(1, 10, 1, 1), (2, 10, 1, 2), (3, 10, 9, 3), (3, 20, 9, 4), (4, 10, None, 5)]
    found, _ = come_to(spark, versions, log, values=False, deduced=False)
    assert found == [(1, 10, None, 1, 1), (2, 10, None, 1, 2), (4, 10)]


def test_a_column_that_the_table_did_not_have_then_is_null(spark):
    found, _ = come_to(spark, [(1, 10, None, 1, 1)], [(1, 20, 2, 2)], lacking=["v"])
    assert found == [(1, 10, 20, None, 1), (1, 20, None, 2, 2)]


def test_a_tombstone_that_moves_takes_the_end_along(spark):
    facts = spark.createDataFrame(
        [(1, *at_offset(6), 10, False, "tombstone", 1)], f"{FACTS}, __kind string, __entry bigint"
    )
    # A late letter of an offset before the tombstone's.
    found, _ = come_to(spark, [(1, 10, 10, 1, 1)], [(1, 15, 5, 3)], facts=facts)
    assert found == [(1, 10, 15, 1, 1), (1, 15, 15, 5, 3)]


def test_a_tombstone_was_merged_if_it_or_a_newer_one_at_its_place_is_remembered(spark):
    facts = spark.createDataFrame(
        [(k, *at_offset(o), 10, False, "tombstone", 1) for k, o in ((1, 5), (2, 7), (4, 3))]
        + [(3, *at_offset(7), 20, False, "tombstone", 1)],
        f"{FACTS}, __kind string, __entry bigint",
    )
    versions = [(k, 10, 10, 1, 1) for k in (1, 2, 4)] + [(3, 10, 20, 1, 1), (3, 20, 20, 1, 6)]
    # The third was before the version of offset 6, and the fourth is newer than the one that is remembered.
    log = [(k, None, None, 5) for k in (1, 2, 3, 4)] + [(4, 10, None, 4), (5, None, None, 5)]
    table = spark.createDataFrame([(k, v, *at_offset(o), start, end) for k, start, end, v, o in versions], ROW)
    told = [(k, v, *at_offset(o), s, None, v is None, False, s) for k, s, v, o in log]
    batch = spark.createDataFrame(told, f"{ROW}, __delete boolean, __truncate boolean, __sequence int")
    known = history.ExistingVersions(table, facts)
    found = history_results.unmerged_tombstones(batch, known, ORDER).select("k", "offset").collect()
    assert sorted(tuple(row) for row in found) == [(3, 5), (4, 5), (5, 5)]
    # Of what has a place: no deletion of key 4 is remembered.
    found = history_results.unmerged(batch, known, ORDER).select("k", "offset").collect()
    assert [tuple(row) for row in found] == [(4, 4)]


def test_of_one_record_that_is_remembered_what_is_read_now_counts_and_else_what_was_remembered_last(spark):
    order = ChangeOrder(("k",), "__sequence", "topic", "partition", "offset", "timestamp", tracked=())
    keys = (1, 2, 3, 4)
    table = spark.createDataFrame([(k, 7, *at_offset(2), 10, None, 30) for k in keys], f"{ROW}, __sequence int")

    def hidden(k, v, entry):
        row = (k, v, *at_offset(5), 20, None, 20)
        return (k, *at_offset(5), 20, False, "version", entry, row)

    kinds = f"{FACTS}, __kind string, __entry bigint, __row struct<{ROW}, __sequence int>"
    remembered = [*(hidden(k, 5, 1) for k in keys[:3]), hidden(3, 6, 2)]
    # Of an entry that was not committed yet when the table was as it is here.
    remembered.append(hidden(4, 9, 3))
    facts = spark.createDataFrame(remembered, kinds)
    batch = spark.createDataFrame(
        [
            (1, 5, *at_offset(5), 20, None, 20, False, False),
            (2, 6, *at_offset(5), 20, None, 20, False, False),
            (3, None, *at_offset(6), 25, None, 25, True, False),
            (4, None, *at_offset(6), 25, None, 25, True, False),
        ],
        f"{ROW}, __sequence int, __delete boolean, __truncate boolean",
    )
    points = history.points(batch, history.ExistingVersions(table, history.until(facts, 2)), order).persist()
    rows = history_results.written(points, history.columns_of(batch, order), order).where("NOT __delete").collect()
    found = [(r.k, r["__START_AT"], r["__END_AT"], r["__sequence"], r.v) for r in rows]
    assert sorted(found) == [(3, 10, 25, 20, 6), (3, 30, None, 30, 7), (4, 10, 25, 10, 7), (4, 30, None, 30, 7)]
    told = history_results.to_remember(points, order).select("k", "__kind", "__row.v").collect()
    assert sorted(tuple(row) for row in told) == [(2, "version", 6), (3, "deletion", None), (4, "deletion", None)]
    points.unpersist()


def test_a_version_that_was_changed_in_place_is_parted_by_its_ends(spark):
    order = ChangeOrder(("k",), "__sequence", "topic", "partition", "offset", "timestamp", tracked=("v",))
    table = spark.createDataFrame([(1, 7, *at_offset(2), 10, None, 30)], f"{ROW}, __sequence int")
    batch = spark.createDataFrame(
        [(1, 8, *at_offset(5), 20, None, 20, False, False)],
        f"{ROW}, __sequence int, __delete boolean, __truncate boolean",
    )
    points = history.points(batch, history.ExistingVersions(table), order)
    rows = history_results.written(points, history.columns_of(batch, order), order).collect()
    assert sorted((r["__START_AT"], r["__END_AT"], r["__sequence"], r.v, r.offset, r["__delete"]) for r in rows) == [
        (10, 20, 10, 7, 2, False),
        (20, 30, 20, 8, 5, False),
        (30, None, 30, 7, 2, False),
    ]


@pytest.mark.parametrize("sequence_by", ["at", "`at`", " AT ", ["`A``b`", "At"]])
def test_the_column_that_is_the_sequence_makes_no_version(sequence_by):
    sink = find_kind("sinks", "history").model_validate(
        {"type": "history", "sequence_by": sequence_by, "track_history_except_columns": ["seen"]}
    )
    others = () if isinstance(sequence_by, list) else ("a`b",)
    assert sink.tracked(["city", "seen", "at", "a`b"]) == ("city", *others)


def test_in_which_order_tracked_columns_are_named_is_all_one():
    def said(columns):
        sink = {"type": "history", "keys": "k", "sequence_by": "s", "track_history_columns": columns}
        form = {"type": "json", "schema": "k int"}
        return keyed_properties(Flow(name="f", topics="t", format=form, table="a.t", sink=sink))

    assert said(["a", "b"]) == said(["b", "a"]) != said(["a"])


def test_no_name_of_the_fold_may_be_that_of_a_column():
    words = set(re.findall(r"\b__[a-z_]+", inspect.getsource(history).lower())) - {"__future__"}
    payload = StructType([StructField(word, StringType()) for word in ("a", *words)])
    flow = Flow(name="f", topics="t", format={"type": "json", "schema": "a int"}, table="a.t", sink={"type": "append"})
    of_all = {word for word in words if reserved_names.is_of_the_way(word)}
    assert words - of_all <= history.RESERVED
    # Other tables may have them.
    others = StructType([field for field in payload if field.name not in of_all])
    assert conform.table_columns(flow, others, StringType()).names[: len(others)] == others.names


def test_tombstones_have_a_sequence_where_kafka_says_it(spark):
    def told(sequence):
        sink = {"type": "history", "keys": "id", "sequence_by": sequence}
        flow = Flow(name="f", topics="t", format={"type": "json", "schema": "id int, s int"}, table="a.t", sink=sink)
        rows = spark.createDataFrame([("t", 0, 7, AT, 0, b"1", None)], SOURCE)
        rows = conform.conform(envelope.decode(envelope.read(rows), flow), flow)
        [row] = changes.with_changes(rows, flow).select("__START_AT", "__END_AT", "__delete", "__problem").collect()
        return tuple(row)

    assert told("kafka_timestamp") == (AT, None, True, None)
    assert told(["kafka_timestamp", "kafka_offset"])[0] == (AT, 7)
    assert told("s") == (None, None, True, None)
