"""``timestamp_precision``: what becomes of digits behind the microsecond, in each format that may have them."""

from __future__ import annotations

import datetime as dt
import json
from functools import reduce

import msgpack
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame
from tests.rows.formats import frame
from tests.rows.protobuf_files import descriptor_set

from rivermouth import names
from rivermouth.decoding.protobuf import protobuf_decode, protobuf_descriptor
from rivermouth.decoding.protobuf.protobuf_decode import Encoding
from rivermouth.decoding.python import python_precision
from rivermouth.decoding.python.python_decode import Call, _decoded
from rivermouth.decoding.python.python_function import Reference
from rivermouth.extend import find_kind
from rivermouth.formats.json import Json
from rivermouth.spec import Evolution

FINE = "1969-12-31T23:59:59.999999999Z"
FLOOR = "1969-12-31 23:59:59.999999"
WHOLE = "2026-01-31T10:00:00.123456000Z"
SAME = "2026-01-31 10:00:00.123456"
NANOS = {FINE: -1, WHOLE: 1_769_853_600_123_456_000}


def in_json(text):
    return json.dumps({"at": text}).encode()


def changed(form):
    """A change of one row in each envelope."""
    bodies = {
        "debezium": lambda row: {"op": "c", "after": row},
        "canal": lambda row: {"type": "INSERT", "data": [row]},
        "maxwell": lambda row: {"type": "insert", "data": row},
        "ogg": lambda row: {"op_type": "I", "table": "t", "after": row},
    }
    return lambda text: json.dumps(bodies[form]({"at": text})).encode()


def numbered(text):
    block = {"field": "at", "type": "int64", "name": "io.debezium.time.NanoTimestamp"}
    schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": [block]}]}
    return json.dumps({"schema": schema, "payload": {"op": "c", "after": {"at": NANOS[text]}}}).encode()


def in_mongo(text):
    return json.dumps({"op": "c", "after": json.dumps({"at": {"$date": text}})}).encode()


# By format: its settings, how a value says the time, and whether digits are cut unless it is said.
FORMS = {
    "json": ({"type": "json"}, in_json, True),
    "csv": ({"type": "csv"}, str.encode, True),
    "key_value": ({"type": "key_value"}, lambda text: f"at={text}".encode(), True),
    "regex": ({"type": "regex", "pattern": "<(?<at>.*)>"}, lambda text: f"<{text}>".encode(), True),
    "xml": ({"type": "xml"}, lambda text: f"<row><at>{text}</at></row>".encode(), False),
    "msgpack": ({"type": "msgpack"}, lambda text: msgpack.packb({"at": text}), False),
    "msgpack's own": (
        {"type": "msgpack"},
        lambda text: msgpack.packb({"at": msgpack.Timestamp.from_unix_nano(NANOS[text])}),
        False,
    ),
    "debezium": ({"type": "debezium"}, changed("debezium"), True),
    "debezium's numbers": ({"type": "debezium"}, numbered, True),
    "debezium's documents": ({"type": "debezium", "connector": "mongodb"}, in_mongo, True),
    "canal": ({"type": "canal"}, changed("canal"), True),
    "maxwell": ({"type": "maxwell"}, changed("maxwell"), True),
    "ogg": ({"type": "ogg"}, changed("ogg"), True),
}
SETTINGS = (None, "truncate", "refuse")


def made(settings, precision, schema="at timestamp"):
    kind = find_kind("formats", settings["type"])
    given = {} if precision is None else {"timestamp_precision": precision}
    return kind.model_validate({"schema": schema, **settings, **given})


@pytest.mark.long
def test_digits_behind_the_microsecond_are_cut_toward_the_past_or_refused(spark):
    frames, wanted = [], {}
    for name, (settings, said, is_cut) in FORMS.items():
        for precision in (None, "refuse" if is_cut else "truncate"):
            decoded = made(settings, precision).decode(frame(spark, [said(FINE), said(WHOLE)]).coalesce(1))
            at = f"CASE WHEN {names.DECODED} THEN CAST({names.DATA}.at AS STRING) END"
            case = f"{names.literal(name)} AS name", f"'{precision}' AS precision", f"{names.OFFSET} = 0 AS fine"
            frames.append(decoded.selectExpr(*case, at))
            cut = is_cut if precision is None else precision == "truncate"
            wanted[name, str(precision), True] = FLOOR if cut else None
            wanted[name, str(precision), False] = SAME
    found = {tuple(case): at for *case, at in reduce(DataFrame.unionAll, frames).collect()}
    assert found == wanted


@pytest.mark.parametrize("name", ["csv", "msgpack"])
def test_the_message_of_a_refused_time_names_the_setting(spark, name):
    settings, said, _ = FORMS[name]
    form = made(settings, "refuse")
    told = form.explain(form.decode(frame(spark, [said(FINE)])))
    ((reason, field, message),) = told.select(names.REASON, names.FIELD, names.MESSAGE).collect()
    assert (reason, field) == ("FIELD_TYPE", "at")
    assert "timestamp_precision: truncate cuts off" in message


@pytest.mark.long
def test_it_is_said_for_times_within_columns_too(spark):
    schema = "id int, deep struct<at: timestamp_ntz>, items array<timestamp>, named map<string, timestamp>"
    local = FINE.removesuffix("Z")
    fields = {"deep": {"at": local}, "items": [WHOLE, FINE], "named": {"k": FINE}}
    values = [json.dumps({"type": "insert", "data": {"id": 1, name: value}}).encode() for name, value in fields.items()]
    found = []
    for kind, sent in (
        ("json", [json.dumps({name: value}).encode() for name, value in fields.items()]),
        ("maxwell", values),
    ):
        for precision in SETTINGS:
            form = made({"type": kind}, precision, schema)
            told = form.explain(form.decode(frame(spark, sent)))
            found.append(told.selectExpr(f"'{kind}'", f"'{precision}'", names.DECODED, names.REASON))
    rows = {
        (kind, precision, decoded, None if decoded else reason)
        for kind, precision, decoded, reason in reduce(DataFrame.unionAll, found).collect()
    }
    assert rows == {
        (kind, str(precision), precision != "refuse", "FIELD_TYPE" if precision == "refuse" else None)
        for kind in ("json", "maxwell")
        for precision in SETTINGS
    }


def test_columns_that_may_evolve_are_cut_where_it_is_said(spark):
    policies = Evolution(on_type_change="dead_letter").with_defaults(infers=False)
    frames = []
    for precision in SETTINGS:
        form = made({"type": "json"}, precision, "at timestamp, d double").with_policies(policies)
        sent = [in_json(FINE), b'{"d": 0.1234567890123456789}']
        told = form.explain(form.decode(frame(spark, sent)))
        frames.append(told.selectExpr(f"'{precision}'", names.OFFSET, names.DECODED))
    found = {tuple(row) for row in reduce(DataFrame.unionAll, frames).collect()}
    # Digits of numbers are another matter.
    assert found == {(str(each), 0, each == "truncate") for each in SETTINGS} | {
        (str(each), 1, False) for each in SETTINGS
    }


def of_protobuf(**settings):
    content = descriptor_set({"M": ["Timestamp x = 1", "repeated Timestamp y = 2"]})
    kind = protobuf_descriptor.message_class(content, "shop.M")
    one, other = kind(), kind()
    one.x.FromNanoseconds(-1)
    other.y.add().FromNanoseconds(1_769_853_600_123_456_789)
    values = pa.array([one.SerializeToString(), other.SerializeToString()], pa.binary())
    found = protobuf_decode.decoded(Encoding(content, "shop.M", **settings), values)
    return found, [found.refused[place].reason for place in sorted(found.refused)]


def test_protobufs_own_times_are_cut_or_refused():
    _, refused = of_protobuf()
    assert refused == ["FIELD_TYPE", "FIELD_TYPE"]
    found, refused = of_protobuf(truncates_times=True)
    floor = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    assert refused == []
    assert [(row["x"], row["y"]) for row in found.rows.to_pylist()] == [
        (floor, []),
        (None, [dt.datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=dt.UTC)]),
    ]


def as_pandas(_value):
    return {"at": pd.Timestamp(FINE), "all": [pd.Timestamp(FINE)], "named": {"k": pd.Timestamp(FINE)}}


def as_arrays(values):
    fine = pa.array([-1] * len(values), pa.timestamp("ns", "UTC"))
    listed = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), fine)
    maps = pa.MapArray.from_arrays(listed.offsets, pa.array(["k"] * len(values)), fine)
    return pa.StructArray.from_arrays([fine, listed, maps], ["at", "all", "named"])


@pytest.mark.parametrize("arrow", [False, True])
@pytest.mark.parametrize("truncates", [False, True])
def test_what_python_returns_is_cut_or_refused(arrow, truncates):
    kind = {"type": "map", "keyType": "string", "valueType": "timestamp", "valueContainsNull": True}
    array = {"type": "array", "elementType": "timestamp", "containsNull": True}
    fields = [
        {"name": name, "type": each, "nullable": True, "metadata": {}}
        for name, each in (("at", "timestamp"), ("all", array), ("named", kind))
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    reference = Reference(__name__, "as_arrays" if arrow else "as_pandas")
    found = _decoded(Call(reference, schema, (), arrow, 30, truncates), pa.array([b"1", b"2"]))
    if not truncates:
        assert [each.reason for each in found.refused.values()] == ["FIELD_TYPE"] * 2
        return
    floor = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
    assert found.rows.to_pylist() == [{"at": floor, "all": [floor], "named": [("k", floor)]}] * 2


def test_parts_of_arrays_are_cut_as_whole_ones():
    whole = as_arrays(range(5))
    assert python_precision.cut_arrays(whole.slice(1, 3)).equals(python_precision.cut_arrays(whole).slice(1, 3))
    without = pa.array([{"at": None}, None])
    assert python_precision.cut_arrays(without).equals(without)


@pytest.mark.parametrize(
    "kind", ["raw", "text", {"type": "avro", "schema": {"type": "record", "name": "R", "fields": []}}]
)
def test_formats_without_such_times_do_not_know_it(kind):
    settings = {"type": kind} if isinstance(kind, str) else kind
    with pytest.raises(ValidationError, match="timestamp_precision"):
        find_kind("formats", settings["type"]).model_validate({**settings, "timestamp_precision": "truncate"})


def test_it_is_refused_where_no_column_is_a_timestamp_or_a_pattern_reads_more(spark):
    with pytest.raises(ValueError) as caught:
        Json(schema="day date", timestamp_precision="refuse").columns(spark)
    assert str(caught.value) == (
        "timestamp_precision is about timestamps, and no column is one: declare one, or leave it out"
    )
    finer = {"schema": "at timestamp", "timestamp_format": "yyyy-MM-dd HH:mm:ss.SSSSSSSSS"}
    with pytest.raises(ValueError) as caught:
        Json(**finer, timestamp_precision="refuse").columns(spark)
    assert str(caught.value) == (
        "timestamp_format reads more digits of a second than column at keeps, and timestamp_precision: refuse says "
        "that none is cut off: write SSSSSS, or declare the column string"
    )
    assert Json(**finer, timestamp_precision="truncate").columns(spark).names == ["at"]
