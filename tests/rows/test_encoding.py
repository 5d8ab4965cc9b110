"""Rows as values of Avro and Protobuf: what a format writes it reads again, and what it cannot write is told."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.types import StructType
from tests.rows.protobuf_files import descriptor_set

from rivermouth import names
from rivermouth.encoding import avro_misfits, protobuf_values
from rivermouth.encoding.fields import unwritable
from rivermouth.encoding.framing import frame
from rivermouth.formats.avro import Avro
from rivermouth.formats.protobuf import Protobuf
from rivermouth.schemas.refused import SchemaRefused

AT = dt.datetime(2026, 1, 31, 12, 0, 0, 123456)
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}]},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
        {"name": "stock", "type": ["null", {"type": "map", "values": "double"}]},
        {
            "name": "shop",
            "type": ["null", {"type": "record", "name": "Shop", "fields": [{"name": "code", "type": "string"}]}],
        },
    ],
}
DESCRIPTOR = descriptor_set(
    {
        "Order": [
            *("int64 id = 1", "uint64 price = 2", "optional string note = 3", "Timestamp at = 4", "Struct day = 5"),
            *("bytes raw = 6", "repeated string tags = 7", "map<string, double> stock = 8", "Shop shop = 9"),
            *("Status status = 10", "Int32Value count = 11", "repeated Shop shops = 12", "Empty cash = 13"),
            "map<int32, Shop> by_number = 14",
        ],
        "Shop": ["string code = 1"],
    },
    enums={"Status": {0: "UNKNOWN", 1: "SENT"}},
)
PROTO2 = descriptor_set({"Order": ["required int64 id = 1"]}, syntax="proto2")
# A table has more columns than the schema, narrower ones, and another order.
AVRO_TABLE = (
    "other string, raw binary, id int, price decimal(5,1), note string, at timestamp, day date, tags array<string>, "
    "stock map<string,double>, shop struct<code:string>"
)
PROTOBUF_TABLE = (
    "other string, raw binary, id smallint, price int, note string, at timestamp, day string, tags array<string>, "
    "stock map<string,double>, shop struct<code:string>, status string, count int, shops array<struct<code:string>>, "
    "cash boolean, by_number map<int,struct<code:string>>"
)
WHOLE = {
    "id": 7,
    "note": "ä",
    "at": AT,
    "raw": b"\0x",
    "tags": ["a", ""],
    "stock": {"k": 0.5},
    "shop": Row(code="north"),
}
AVRO_ROWS = [
    {**WHOLE, "price": Decimal("1234.5"), "day": dt.date(2026, 1, 31), "other": "no field"},
    {"id": 8},
]
PROTOBUF_ROWS = [
    {
        **WHOLE,
        "price": 5,
        "day": '{"a":[1.0,null]}',
        "other": "no field",
        "status": "SENT",
        "count": 0,
        "cash": True,
        "shops": [Row(code="a"), Row(code="")],
        "by_number": {3: Row(code="three")},
    },
    {"id": 8},
]


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory):
    path = tmp_path_factory.mktemp("protobuf") / "shop.desc"
    path.write_bytes(DESCRIPTOR)
    return str(path)


def avro(schema):
    return Avro.model_validate({"schema": json.dumps(schema)})


def table(spark, ddl, rows):
    schema = StructType.fromDDL(ddl)
    return spark.createDataFrame([[row.get(name) for name in schema.names] for row in rows], schema)


def written_and_read(spark, form, rows):
    """The rows that a format makes of what it wrote."""
    value = form.encoded(spark, rows.schema)
    envelope = {names.VALUE: value, names.HEADERS: F.lit(None).cast("array<struct<key:string,value:binary>>")}
    decoded = form.decode(rows.select(*(each.alias(name) for name, each in envelope.items())))
    return [row.asDict() for row in decoded.where(names.DECODED).select(f"{names.DATA}.*").collect()]


def test_avro_is_read_as_it_was_written(spark):
    form = avro(AVRO)
    whole, bare = written_and_read(spark, form, table(spark, AVRO_TABLE, AVRO_ROWS))
    assert whole == {**WHOLE, "price": Decimal("1234.50"), "day": dt.date(2026, 1, 31)}
    assert bare == dict.fromkeys(whole) | {"id": 8}


def test_protobuf_is_read_as_it_was_written(spark, descriptor):
    form = Protobuf(message="shop.Order", descriptor=descriptor)
    whole, bare = written_and_read(spark, form, table(spark, PROTOBUF_TABLE, PROTOBUF_ROWS))
    assert json.loads(whole.pop("day")) == {"a": [1.0, None]}
    expected = {name: value for name, value in PROTOBUF_ROWS[0].items() if name not in ("day", "other")}
    assert whole == expected
    defaults = {"id": 8, "price": 0, "raw": b"", "tags": [], "stock": {}, "shops": [], "by_number": {}}
    bare.pop("day")
    assert bare == dict.fromkeys(whole) | defaults | {"status": "UNKNOWN"}


@pytest.mark.parametrize(
    ("ddl", "told", "fix"),
    [
        ("ID bigint", "the schema has a field 'id', and there is no such column", "did you mean 'ID'?"),
        ("id string", "the field 'id' is bigint, and the column is string", "CAST(id AS bigint)"),
        ("id decimal(20,0)", "the field 'id' is bigint, and the column is decimal(20,0)", "CAST(id AS bigint)"),
    ],
)
def test_columns_that_are_not_the_fields_are_told(spark, ddl, told, fix):
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    with pytest.raises(SchemaRefused) as refused:
        avro(schema).encoded(spark, StructType.fromDDL(ddl))
    assert (str(refused.value), refused.value.fix) == (told, fix)


def failure(spark, form, rows):
    with pytest.raises(Exception, match="RIVERMOUTH_NOT_WRITABLE") as ended:
        rows.select(form.encoded(spark, rows.schema)).collect()
    return unwritable(str(ended.value))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"status": "GONE"}, "field status has a text that the enum shop.Status lacks"),
        ({"price": -1}, "field price takes numbers from 0 of 64 bits, and a row has another"),
        ({"tags": ["a", None]}, "field tags[] has a null, and a list or a map of Protobuf has none"),
        ({"by_number": {1: None}}, "field by_number[] has a null, and a list or a map of Protobuf has none"),
        ({"day": "no JSON"}, "field day is a JSON document, and a row has another text"),
    ],
)
def test_a_row_that_no_message_can_be_ends_the_job_with_a_reason(spark, descriptor, row, told):
    form = Protobuf(message="shop.Order", descriptor=descriptor)
    assert failure(spark, form, table(spark, PROTOBUF_TABLE, [row])) == told


def test_a_field_that_must_be_there_is_told(spark, tmp_path):
    (tmp_path / "old.desc").write_bytes(PROTO2)
    form = Protobuf(message="shop.Order", descriptor=str(tmp_path / "old.desc"))
    rows = table(spark, "id bigint", [{}])
    assert failure(spark, form, rows) == "the message needs field id, and a row has null there"
    schema = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    told = failure(spark, avro(schema), rows)
    assert told == "the schema has no null for field id, and a row has"
    assert unwritable("another error") is None


PAY = descriptor_set(
    {
        "Order": ["Pay pay = 1", "repeated Pay parts = 2", "Timestamp at = 3", "Struct more = 4", "Value one = 5"],
        "Pay": ["oneof by string card = 1", "oneof by string iban = 2", "optional string note = 3"],
    }
)
_PAY = pa.struct([(name, pa.string()) for name in ("card", "iban", "note")])
PAID = pa.struct(
    [
        *(("pay", _PAY), ("parts", pa.list_(_PAY)), ("at", pa.timestamp("us", tz="UTC"))),
        *(("more", pa.string()), ("one", pa.string())),
    ]
)
DOUBLES = "keeps numbers of its JSON as doubles, and a row has one that no double keeps"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, None),
        ({"pay": {"card": "4111", "note": "n"}, "parts": [{"iban": "DE12"}]}, None),
        (
            {"pay": {"card": "4111", "iban": "DE12"}},
            "fields pay.card and pay.iban are of one oneof, and a row has both",
        ),
        (
            {"parts": [{"card": "", "iban": ""}]},
            "fields parts[].card and parts[].iban are of one oneof, and a row has both",
        ),
        ({"more": '{"n": [0.1, 1E2, 1152921504606846976, -0.0]}', "one": "9007199254740992"}, None),
        ({"more": '{"n": [{"m": 9007199254740993}]}'}, f"field more {DOUBLES}"),
        ({"one": "123456789012345678.91"}, f"field one {DOUBLES}"),
        ({"one": "1e400"}, f"field one {DOUBLES}"),
        ({"more": '{"n": NaN}'}, "field more is a JSON document, and a row has another text"),
        ({"at": 253402300800000000}, "a row has a text or a time that no message of shop.Order can have"),
    ],
)
def test_a_row_that_would_lose_a_value_is_no_message(row, told):
    encoding, rows = protobuf_values.Encoding(PAY, "shop.Order"), pa.array([row], PAID)
    if told is None:
        assert protobuf_values.written(encoding, rows).null_count == 0
        return
    with pytest.raises(RuntimeError) as ended:
        protobuf_values.written(encoding, rows)
    assert unwritable(str(ended.value)) == told


def record(name, *fields, **more):
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields], **more}


MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
KIND = {"type": "enum", "name": "Kind", "symbols": ["NEW", "SENT"]}
LINE = record("Line", ("sku", "string"), ("kind", ["null", "shop.Kind"]))
STRICT = record(
    "Order",
    ("id", "long"),
    ("kind", KIND),
    ("kinds", ["null", {"type": "array", "items": "Kind"}]),
    ("code", [{"type": "fixed", "name": "Code", "namespace": "codes", "size": 2}, "null"]),
    ("code_again", ["null", "codes.Code"]),
    ("uid", ["null", {"type": "string", "logicalType": "uuid"}]),
    ("at", ["null", MILLIS]),
    ("local", ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]),
    ("times", ["null", {"type": "map", "values": ["null", {"type": "array", "items": ["null", MILLIS]}]}]),
    ("one", ["null", "string", "long", "Kind"]),
    ("other", ["string", "long"]),
    ("number", ["int", "long", "null"]),
    ("tags", ["null", {"type": "array", "items": "string"}]),
    ("shop", ["null", record("Shop", ("name", "string"), ("lines", {"type": "map", "values": LINE}))]),
    namespace="shop",
)
STRICT_TABLE = (
    "id int, kind string, kinds array<string>, code binary, code_again binary, uid string, at timestamp, "
    "local timestamp_ntz, times map<string,array<timestamp>>, "
    "one struct<member0:string,member1:bigint,member2:string>, other struct<member0:string,member1:bigint>, "
    "number bigint, tags array<string>, "
    "shop struct<name:string,lines:map<string,struct<sku:string,kind:string>>>"
)
MOMENT = AT.replace(microsecond=123000)
TAKEN = {
    "id": 1,
    "kind": "NEW",
    "kinds": ["SENT", "NEW"],
    "code": b"ab",
    "code_again": b"cd",
    "uid": "7D444840-9dc0-11d1-b245-5ffdce74fad2",
    "at": MOMENT,
    "local": MOMENT,
    "times": {"a": [MOMENT, None], "b": None},
    "one": Row(member0=None, member1=None, member2="NEW"),
    "other": Row(member0="", member1=None),
    "number": 5,
    "tags": ["a"],
    "shop": Row(name="north", lines={"a": Row(sku="s", kind=None)}),
}
MISFITS = [
    ({}, None),
    (dict.fromkeys(TAKEN) | {"id": 1, "kind": "SENT", "other": Row(member0=None, member1=5)}, None),
    ({"kinds": [], "tags": [], "times": {}}, None),
    ({"id": None}, "the schema has no null for field id, and a row has"),
    ({"kind": None}, "the schema has no null for field kind, and a row has"),
    ({"kind": "GONE"}, "field kind has a text that the enum shop.Kind lacks"),
    ({"kinds": ["NEW", "new"]}, "field kinds[] has a text that the enum shop.Kind lacks"),
    ({"kinds": ["NEW", None]}, "the schema has no null for field kinds[], and a row has"),
    ({"code": b"abc"}, "field code takes 2 bytes, and a row has another number of them"),
    ({"code_again": b""}, "field code_again takes 2 bytes, and a row has another number of them"),
    ({"uid": TAKEN["uid"] + "\n"}, "field uid takes UUIDs, and a row has another text"),
    ({"at": AT}, "field at takes times in milliseconds, and a row has one with microseconds"),
    (
        {"at": dt.datetime(1969, 1, 1, microsecond=1)},
        "field at takes times in milliseconds, and a row has one with microseconds",
    ),
    ({"local": AT}, "field local takes times in milliseconds, and a row has one with microseconds"),
    ({"times": {"a": [AT]}}, "field times[][] takes times in milliseconds, and a row has one with microseconds"),
    (
        {"one": Row(member0="a", member1=5, member2=None)},
        "field one is of one of several types, and a row has several",
    ),
    (
        {"one": Row(member0=None, member1=None, member2="GONE")},
        "field one.member2 has a text that the enum shop.Kind lacks",
    ),
    ({"other": Row(member0=None, member1=None)}, "field other is of one of several types, and a row has none"),
    ({"other": None}, "the schema has no null for field other, and a row has"),
    ({"tags": ["a", None]}, "the schema has no null for field tags[], and a row has"),
    ({"shop": Row(name=None, lines={})}, "the schema has no null for field shop.name, and a row has"),
    ({"shop": Row(name="a", lines=None)}, "the schema has no null for field shop.lines, and a row has"),
    ({"shop": Row(name="a", lines={"a": None})}, "the schema has no null for field shop.lines[], and a row has"),
    (
        {"shop": Row(name="a", lines={"a": Row(sku=None, kind=None)})},
        "the schema has no null for field shop.lines[].sku, and a row has",
    ),
    (
        {"shop": Row(name="a", lines={"a": Row(sku="s", kind="GONE")})},
        "field shop.lines[].kind has a text that the enum shop.Kind lacks",
    ),
]


def test_what_a_row_has_that_avro_would_lose_or_refuse_is_told_without_the_value(spark):
    """One job for all that is refused, one for what is written and read again, one that ends."""
    form, rows = avro(STRICT), table(spark, STRICT_TABLE, [TAKEN | changes for changes, _ in MISFITS])
    why = avro_misfits.misfit(STRICT, form.columns(spark), {name: F.col(name) for name in rows.columns})
    found = [row[0] for row in rows.coalesce(1).select(why).collect()]
    assert found == [told for _, told in MISFITS]
    taken = [TAKEN | changes for changes, told in MISFITS if told is None]
    assert written_and_read(spark, form, table(spark, STRICT_TABLE, taken)) == taken
    refused = table(spark, STRICT_TABLE, [TAKEN | {"kind": "GONE"}])
    assert failure(spark, form, refused) == "field kind has a text that the enum shop.Kind lacks"
    loose = record("Order", ("tags", ["null", {"type": "array", "items": ["null", "string"]}]))
    assert avro_misfits.misfit(loose, StructType.fromDDL("tags array<string>"), {}) is None


@pytest.mark.parametrize(
    ("kind", "row", "told"),
    [
        (KIND, {"kind": "line\nof to Avro because"}, "to_avro cannot write field 'kind' by its schema"),
        (
            {"type": "fixed", "name": "Two", "size": 2},
            {"code": b"a"},
            "to_avro cannot write field 'code' by its schema",
        ),
    ],
)
def test_what_to_avro_of_spark_refuses_is_told_without_the_value(spark, kind, row, told):
    [name] = row
    rows = table(spark, STRICT_TABLE, [row]).select(to_avro(F.struct(name), json.dumps(record("Order", (name, kind)))))
    with pytest.raises(Exception, match="cannot be written") as ended:
        rows.collect()
    assert unwritable(str(ended.value)) == told


@pytest.mark.parametrize(
    ("place", "framed"),
    [
        (None, b"\0\0\0\1\2"),
        ([0], b"\0\0\0\1\2\0"),
        ([1], b"\0\0\0\1\2\2\2"),
        ([0, 70], b"\0\0\0\1\2\4\0\x8c\1"),
    ],
)
def test_frames_are_confluents(place, framed):
    assert frame(258, place) == framed
