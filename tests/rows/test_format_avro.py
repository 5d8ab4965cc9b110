"""``format: avro``, value by value: what each type becomes, what is refused and why, whatever the bytes are."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import struct
from decimal import Decimal

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.formats import outcomes

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.formats.avro import Avro
from rivermouth.schemas.refused import SchemaRefused

CUT = ("TRUNCATED", "the value ends before what its schema announces")
DEEP = {"type": "record", "name": "Deep", "fields": [{"name": "in", "type": ["null", "Deep"]}]}


def zigzag(number):
    """A number as Avro writes it."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, "long", number)
    return content.getvalue()


def logical(kind, logical_type, /, **more):
    return {"type": kind, "logicalType": logical_type, **more}


MILLIS, MICROS = logical("long", "timestamp-millis"), logical("long", "timestamp-micros")
DECIMAL = logical("bytes", "decimal", precision=20, scale=2)
SHORT = logical("fixed", "decimal", name="S", size=5, precision=5, scale=1)
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
OPEN = {"type": "enum", "name": "O", "symbols": ["X", "Y"], "default": "Y"}
POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}]}
TABLE = {
    "flag": "boolean",
    "number": "int",
    "big": "long",
    "single": "float",
    "double": "double",
    "text": "string",
    "raw": "bytes",
    "day": logical("int", "date"),
    "at": MICROS,
    "local": logical("long", "local-timestamp-millis"),
    "nanos": logical("long", "timestamp-nanos"),
    "clock": logical("int", "time-millis"),
    "price": DECIMAL,
    "short": SHORT,
    "id": logical("fixed", "uuid", name="U", size=16),
    "token": logical("string", "uuid"),
    "span": logical("fixed", "duration", name="D", size=12),
    "kind": ENUM,
    "open": OPEN,
    "point": POINT,
    "list": {"type": "array", "items": ["null", "int"]},
    "map": {"type": "map", "values": "int"},
}


def table():
    """Every field may be missing; some can hold several types."""
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in TABLE.items()]
    fields += [{"name": "whole", "type": ["null", "int", "long"], "default": None}]
    fields += [{"name": "real", "type": ["double", "float"], "default": 0.5}]
    fields += [{"name": "mixed", "type": ["null", "float", "double"], "default": None}]
    fields += [{"name": "either", "type": ["null", "string", "P", "long"], "default": None}]
    fields += [{"name": "new", "type": {"type": "map", "values": "bytes"}, "default": {"a": "\u00ff"}}]
    fields += [{"name": "renamed", "aliases": ["former", "earlier"], "type": ["null", "int"], "default": None}]
    return {"type": "record", "name": "R", "fields": fields}


def shared(levels):
    """A type that holds the one below it twice, so often: a value of it would have 2 to the power of these bytes."""
    kind = {"type": "record", "name": "L0", "fields": [{"name": "x", "type": "boolean"}]}
    for level in range(1, levels + 1):
        fields = [{"name": "one", "type": kind}, {"name": "other", "type": f"L{level - 1}"}]
        kind = {"type": "record", "name": f"L{level}", "fields": fields}
    return kind


def other(symbols):
    return {"type": "enum", "name": "E", "symbols": symbols}


# Field, the writer's type, the bytes of the value: what the column holds.
HELD = [
    ("flag", "boolean", b"\x01", True),
    ("number", "int", b"\xff\xff\xff\xff\x0f", -(2**31)),
    ("big", "long", b"\xff" * 9 + b"\x01", -(2**63)),
    ("big", "int", b"\x03", -2),
    ("single", "long", b"\x04", 2.0),
    ("double", "float", b"\x00\x00\x80\x7f", float("inf")),
    ("double", "long", b"\x80" * 7 + b"\x20", float(2**53)),
    ("text", "bytes", b"\x04\xc3\xa4", "ä"),
    ("text", "string", b"\x08\xf0\x9f\x98\x80", "\U0001f600"),
    ("raw", "string", b"\x02\x00", b"\x00"),
    ("day", logical("int", "date"), b"\x01", dt.date(1969, 12, 31)),
    ("day", "int", b"\x02", dt.date(1970, 1, 2)),
    ("at", MILLIS, b"\x02", dt.datetime(1970, 1, 1, microsecond=1000)),
    ("at", MICROS, b"\x01", dt.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("at", "long", b"\x02", dt.datetime(1970, 1, 1, microsecond=1)),
    ("local", logical("long", "local-timestamp-micros"), b"\x02", dt.datetime(1970, 1, 1, microsecond=1)),
    ("nanos", logical("long", "timestamp-nanos"), b"\x02", 1),
    ("clock", logical("int", "time-millis"), b"\x02", 1),
    ("price", DECIMAL, b"\x02\xff", Decimal("-0.01")),
    ("price", DECIMAL, b"\x12\x05\x6b\xc7\x5e\x2d\x63\x0f\xff\xff", Decimal("999999999999999999.99")),
    ("short", SHORT, b"\x00\x00\x01\x86\x9f", Decimal("9999.9")),
    ("id", logical("fixed", "uuid", name="U", size=16), bytes(range(16)), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    (
        "token",
        "string",
        b"\x48" + b"0aB" * 2 + b"00-1234-1234-1234-" + b"0" * 12,
        "0aB0aB00-1234-1234-1234-000000000000",
    ),
    ("span", logical("fixed", "duration", name="D", size=12), bytes(12), bytes(12)),
    ("kind", other(["B", "C", "A"]), b"\x04", "A"),
    ("open", {"type": "enum", "name": "O", "symbols": ["Z"]}, b"\x00", "Y"),
    ("point", POINT, b"\x02\x02a", {"x": 1, "y": "a"}),
    ("list", {"type": "array", "items": ["int", "null"]}, b"\x03\x06\x00\x02\x02\x02\x00\x04\x00", [1, None, 2]),
    ("map", {"type": "map", "values": "int"}, b"\x04\x02a\x02\x02a\x04\x00", {"a": 2}),
    ("whole", "int", b"\x02", 1),
    ("whole", ["long", "int"], b"\x02\x04", 2),
    ("real", "float", b"\x00\x00\x00\x3f", 0.5),
    ("either", "string", b"\x02a", {"member0": "a", "member1": None, "member2": None}),
    ("either", ["long", POINT], b"\x02\x02\x00", {"member0": None, "member1": {"x": 1, "y": ""}, "member2": None}),
    ("mixed", "long", zigzag(2**24 + 1), float(2**24 + 1)),
    ("mixed", ["int", "float"], b"\x00" + zigzag(2**24 + 1), float(2**24 + 1)),
    ("mixed", "float", b"\x00\x00\x00\x3f", 0.5),
    ("former", "int", b"\x02", 1),
    ("former renamed", "int", b"\x02\x04", 2),
    ("big", "long", b"\x82\x80\x00", 1),
    ("gone", {"type": "map", "values": DEEP}, b"\x02\x02a\x02\x00\x00", None),
    ("gone", {"type": "array", "items": "null"}, b"\x02\x00", None),
    ("gone", {"type": "array", "items": shared(60)}, b"\x00", None),
    ("gone", {"type": "map", "values": shared(20)}, b"\x00", None),
]
LONG = b"\x80" * 9
# Field, the writer's type, the bytes of the value: reason, field and message.
REFUSED = [
    ("flag", "boolean", b"", *CUT),
    ("flag", "boolean", b"\x02", "INVALID_AVRO", "a boolean is neither 0 nor 1"),
    ("number", "int", b"\x80\x80\x80\x80\x10", "INVALID_AVRO", "an int has more than 32 bits"),
    ("big", "long", LONG + b"\x02", "INVALID_AVRO", "a number has more than 64 bits"),
    ("big", "long", LONG, *CUT),
    ("single", "long", b"\x82\x80\x80\x10", "FIELD_TYPE", "a number is not exactly one of the column's type"),
    (
        "double",
        "long",
        b"\xfe" + b"\xff" * 8 + b"\x01",
        "FIELD_TYPE",
        "a number is not exactly one of the column's type",
    ),
    ("double", "double", b"\x00" * 7, *CUT),
    ("text", "string", b"\x02\xff", "INVALID_UTF8", "a string is not valid UTF-8"),
    ("text", "string", b"\x01", "INVALID_AVRO", "a length is negative"),
    ("text", "string", b"\x04a", *CUT),
    ("raw", "bytes", b"\xfe\xff\xff\xff\x0f", *CUT),
    ("raw", "bytes", b"\xfe" + b"\xff" * 8 + b"\x01", *CUT),
    ("day", "int", zigzag(2_932_897), "FIELD_TYPE", "a date is not in the years 1 to 9999"),
    ("at", MILLIS, b"\xfe" + b"\xff" * 8 + b"\x01", "FIELD_TYPE", "a timestamp is not in the years 1 to 9999"),
    (
        *("at", logical("long", "timestamp-nanos"), b"\x02", "SCHEMA_MISMATCH"),
        "the writer's type timestamp-nanos is not timestamp-micros",
    ),
    (
        *("at", logical("long", "local-timestamp-micros"), b"\x02", "SCHEMA_MISMATCH"),
        "the writer's type local-timestamp-micros is not timestamp-micros",
    ),
    (
        *("price", logical("bytes", "decimal", precision=20, scale=3), b"\x02\x01", "SCHEMA_MISMATCH"),
        "the writer's type decimal(20,3) is not decimal(20,2)",
    ),
    ("price", "string", b"\x0412", "SCHEMA_MISMATCH", "the writer's type string is not decimal(20,2)"),
    ("price", "bytes", b"\x02\x01", "SCHEMA_MISMATCH", "the writer's type bytes is not decimal(20,2)"),
    ("text", DECIMAL, b"\x0212", "SCHEMA_MISMATCH", "the writer's type decimal(20,2) is not string"),
    ("raw", DECIMAL, b"\x02\x01", "SCHEMA_MISMATCH", "the writer's type decimal(20,2) is not bytes"),
    (
        *("text", logical("bytes", "big-decimal"), b"\x0212", "SCHEMA_MISMATCH"),
        "the writer's type big-decimal is not string",
    ),
    ("token", DECIMAL, b"\x02\x01", "SCHEMA_MISMATCH", "the writer's type decimal(20,2) is not uuid"),
    ("big", MILLIS, b"\x02", "SCHEMA_MISMATCH", "the writer's type timestamp-millis is not long"),
    ("big", MICROS, b"\x02", "SCHEMA_MISMATCH", "the writer's type timestamp-micros is not long"),
    ("big", logical("int", "time-millis"), b"\x02", "SCHEMA_MISMATCH", "the writer's type time-millis is not long"),
    ("mixed", MILLIS, b"\x02", "SCHEMA_MISMATCH", "the writer's type timestamp-millis is not double"),
    ("number", logical("int", "date"), b"\x02", "SCHEMA_MISMATCH", "the writer's type date is not int"),
    (
        *("former earlier", "int", b"\x02\x04", "SCHEMA_MISMATCH"),
        "aliases of the table's fields name several fields of the writer",
    ),
    ("price", DECIMAL, b"\x00", "INVALID_AVRO", "a decimal has no bytes"),
    ("price", DECIMAL, b"\x28" + b"\x7f" * 20, "FIELD_TYPE", "a decimal has more digits than the column"),
    ("short", SHORT, b"\x00\x00\x01\x86\xa0", "FIELD_TYPE", "a decimal has more digits than the column"),
    ("token", "string", b"\x02a", "FIELD_TYPE", "a uuid is not written as one"),
    ("kind", other(["C"]), b"\x00", "FIELD_TYPE", "a symbol is unknown to the schema, which has no default"),
    ("kind", ENUM, b"\x04", "INVALID_AVRO", "symbol 2 of 2"),
    (
        "number",
        "string",
        b"\x00",
        "SCHEMA_MISMATCH",
        "the writer's schema does not resolve: Found string, expecting union[null, int]",
    ),
    (
        "list",
        {"type": "array", "items": "int"},
        b"\x03\x06\x02\x02\x02\x00",
        "INVALID_AVRO",
        "a block is not so long as it says",
    ),
    ("list", {"type": "array", "items": "int"}, b"\x01\x01", "INVALID_AVRO", "the length of a block is negative"),
    (
        "list",
        {"type": "array", "items": "int"},
        b"\xff" * 9 + b"\x01\x00",
        "INVALID_AVRO",
        "the length of a block is negative",
    ),
    ("list", {"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x02", *CUT),
    (
        "list",
        {"type": "array", "items": "null"},
        zigzag(100_001) + b"\x00",
        "TOO_LONG",
        "more than 100000 items have no bytes",
    ),
    (
        "gone",
        {"type": "array", "items": "null"},
        b"\xfe" + b"\xff" * 8 + b"\x01\x00",
        "TOO_LONG",
        "more than 100000 items have no bytes",
    ),
    ("gone", DEEP, b"\x02" * 501 + b"\x00", "TOO_DEEP", "more than 500 levels of nesting"),
    ("gone", ["null", "int"], b"\x04", "INVALID_AVRO", "branch 2 of 2"),
    ("gone", ["null", "int"], b"\x01", "INVALID_AVRO", "branch -1 of 2"),
]


def one(field, kind):
    """A record with a field; or with several of the type, by their names with spaces between."""
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name in field.split()]}


def test_what_each_value_becomes_and_why_it_is_refused(spark):
    with SchemaRegistry() as registry:
        cases = [(field, registry.register("s", one(field, kind)), value) for field, kind, value, *_ in HELD + REFUSED]
        form = Avro.model_validate({"type": "avro", "schema": table(), "framing": "confluent"})
        form = form.with_registry(RegistryAccess(url=registry.url))
        found = outcomes(spark, form, [struct.pack(">bI", 0, number) + value for _, number, value in cases])
    blank = dict.fromkeys(column["name"] for column in table()["fields"]) | {"real": 0.5, "new": {"a": b"\xff"}}
    for (field, _, _, value), outcome in zip(HELD, found, strict=False):
        assert outcome.reason is None, (field, outcome)
        column = "renamed" if field.startswith("former") else field
        assert outcome.data == blank | ({column: value} if column in blank else {})
    refused = [(each.field, each.reason, each.message) for each in found[len(HELD) :]]
    # What is wrong with two fields is wrong with the record.
    expected = [(None if " " in field else field, reason, message) for field, _, _, reason, message in REFUSED]
    assert refused == expected


REFUSED_SCHEMAS = [
    ("{", "it is no Avro schema: "),
    ('{"type": "reccord"}', "it is no Avro schema: a type in it is not known"),
    (one("x", "foo"), "it is no Avro schema: Undefined schema: foo"),
    ('"string"', "the schema is of type string: a table takes the fields of a record"),
    ({"type": "record", "name": "R", "fields": []}, "the record has no fields"),
    (one("x", "null"), "field x has no type but null"),
    (one("x", ["null"]), "field x has no type but null"),
    (one("x", {"type": "array", "items": DEEP}), "field x[].in holds itself, and no column does"),
    (
        one("x", logical("bytes", "decimal", precision=39)),
        "field x is a decimal of 39 digits, and a column has at most 38",
    ),
    (
        {"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in ("id", "Id")]},
        "fields 'id' and 'Id' are the same to Spark and Delta",
    ),
]


@pytest.mark.parametrize(("schema", "told"), REFUSED_SCHEMAS)
def test_a_schema_that_no_table_has(spark, schema, told, tmp_path):
    file = tmp_path / "r.avsc"
    file.write_text(schema if isinstance(schema, str) else json.dumps(schema))
    with pytest.raises(ValueError, match="^" + re.escape(told)) as caught:
        Avro.model_validate({"type": "avro", "schema": "r.avsc"}).with_base_dir(tmp_path).columns(spark)
    assert "\n" not in str(caught.value)


def test_columns_as_for_other_formats_are_no_schema_of_avro(spark, tmp_path):
    form = Avro.model_validate({"type": "avro", "schema": "id bigint, name string"}).with_base_dir(tmp_path)
    with pytest.raises(
        SchemaRefused, match=r"^'id bigint, name string' is no schema of Avro's and no file with one$"
    ) as caught:
        form.with_loaded_files(spark)
    assert caught.value.fix == "schema: orders.avsc, a file with the schema as Avro's JSON has it"


def test_a_schema_file_that_cannot_be_read(spark, tmp_path):
    form = Avro.model_validate({"type": "avro", "schema": "r.avsc"}).with_base_dir(tmp_path)
    with pytest.raises(
        ValueError, match=f"^the schema file {tmp_path}/r.avsc cannot be read: No such file or directory$"
    ):
        form.with_loaded_files(spark)
    (tmp_path / "r.avsc").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=f"^the schema file {tmp_path}/r.avsc is no UTF-8$"):
        form.with_loaded_files(spark)


def test_single_objects(spark):
    millis, micros = one("at", MILLIS), one("at", MICROS)
    settings = {"type": "avro", "schema": millis, "framing": "single_object"}
    form = Avro.model_validate(settings | {"writer_schemas": [one("at", "int")]})
    mark, other_mark = (
        bytes.fromhex(fingerprint(to_parsing_canonical_form(each), "CRC-64-AVRO")) for each in (millis, one("x", "int"))
    )
    values = [
        b"\xc3\x01" + mark + b"\x02",
        b"\xc3\x01" + other_mark + b"\x02",
        b"\xc3\x02" + mark,
        b"\xc3\x01",
        b"Obj\x01",
    ]
    found = outcomes(spark, form, values)
    assert found[0].data == {"at": dt.datetime(1970, 1, 1, microsecond=1000)}
    begins = ("WRONG_MAGIC", None, "the value does not begin with C3 01 and a fingerprint")
    name = other_mark[::-1].hex()
    unknown = ("UNKNOWN_SCHEMA", None, f"no schema of the flow has the fingerprint {name}")
    assert [(each.reason, each.field, each.message) for each in found[1:]] == [unknown, begins, begins, begins]
    # The fingerprint says nothing of logical types.
    with pytest.raises(ValueError, match=r"^two schemas of one fingerprint differ in their logical types: "):
        outcomes(spark, Avro.model_validate(settings | {"writer_schemas": [micros]}), values)


ONE_VALUE = {
    "boolean": ("boolean", b"\1", True),
    "int": ("int", zigzag(-5), -5),
    "long": ("bigint", zigzag(1 << 40), 1 << 40),
    "float": ("float", struct.pack("<f", 0.5), 0.5),
    "double": ("double", struct.pack("<d", 0.1), 0.1),
    "string": ("string", b"\4\xc3\xa4", "ä"),
    "bytes": ("binary", b"\2\0", bytearray(b"\0")),
    '["null", "long"]': ("bigint", b"\2" + zigzag(7), 7),
    '["null", "string"]': ("string", b"\0", None),
    json.dumps(DECIMAL): ("decimal(20,2)", b"\2\5", Decimal("0.05")),
    json.dumps(ENUM): ("string", b"\2", "B"),
    json.dumps(MILLIS): ("timestamp", zigzag(0), dt.datetime(1970, 1, 1)),
}


def test_keys_of_one_value_are_of_its_type(spark):
    for schema, (kind, value, made) in ONE_VALUE.items():
        form = Avro(type="avro", schema=schema)
        assert form.key_type(spark).simpleString() == kind
        rows = spark.createDataFrame([(value,), (b"",), (None,)], f"{names.KEY} binary")
        found = record_keys.decode(rows, form).selectExpr(names.KEY_DATA, names.KEY_VALID).collect()
        assert [tuple(row) for row in found] == [(made, True), (None, False), (None, True)], schema
