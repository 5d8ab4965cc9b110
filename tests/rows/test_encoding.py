"""Rows as values of Avro and Protobuf: what a format writes it reads again, and what it cannot write is told."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from tests.rows.protobuf_files import descriptor_set

from rivermouth import names
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
