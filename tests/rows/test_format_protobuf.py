"""``format: protobuf``, value by value: what each field becomes, what is refused and why, whatever the bytes are."""

from __future__ import annotations

import datetime as dt
import importlib
import math
import struct
import subprocess
import sys
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf import protobuf_built_in, protobuf_decode, protobuf_descriptor
from rivermouth.decoding.protobuf.protobuf_decode import Encoding
from rivermouth.errors import DescriptorUnusable
from rivermouth.formats.protobuf import Protobuf

COLORS = {0: "NONE", 1: "RED", -1: "GONE"}
NUMBERS = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "sint32": (-(1 << 31), (1 << 31) - 1),
    "sfixed32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "sint64": (-(1 << 63), (1 << 63) - 1),
    "sfixed64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1),
    "fixed32": (0, (1 << 32) - 1),
}
TYPES = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), "bigint"),
}
AT = dt.datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=dt.UTC)


def one(kind, **more):
    """A descriptor whose message ``shop.M`` has one field ``x``; ``N`` is another message."""
    messages = {"M": [f"{kind} x = 1"], "N": ["int32 a = 1", "optional string b = 2"], "Nothing": []}
    return descriptor_set(messages, enums={"Color": COLORS}, **more)


def message(content, name="shop.M"):
    return protobuf_descriptor.message_class(content, name)


def outcome(content, *values, name="shop.M", framing="plain"):
    """Of each value its row, or (reason, field, message)."""
    found = protobuf_decode.decoded(Encoding(content, name, framing), pa.array(values, pa.binary()))
    rows = dict(zip(found.places, found.rows.to_pylist(), strict=True)) if found.rows is not None else {}
    told = {place: (each.reason, each.field, str(each)) for place, each in found.refused.items()}
    return [(rows | told)[place] for place in range(len(values))]


def filled(content, fill):
    made = message(content)()
    fill(made)
    return made.SerializeToString()


def set_x(value):
    return lambda made: setattr(made, "x", value)


FIT = [
    *((kind, TYPES[kind], set_x(value), value) for kind, ends in NUMBERS.items() for value in ends),
    *((kind, "decimal(20,0)", set_x((1 << 64) - 1), Decimal((1 << 64) - 1)) for kind in ("uint64", "fixed64")),
    ("double", "double", set_x(0.1), 0.1),
    ("double", "double", set_x(-math.inf), -math.inf),
    ("float", "float", set_x(0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("bool", "boolean", set_x(True), True),
    ("string", "string", set_x("ä😀"), "ä😀"),
    ("bytes", "binary", set_x(b"\xff"), b"\xff"),
    ("Color", "string", set_x(-1), "GONE"),
    ("int32", "int", lambda _: None, 0),
    ("string", "string", lambda _: None, ""),
    ("Color", "string", lambda _: None, "NONE"),
    ("optional int32", "int", lambda _: None, None),
    ("optional int32", "int", set_x(0), 0),
    ("oneof kind string", "string", lambda _: None, None),
    ("oneof kind string", "string", set_x(""), ""),
    ("N", "struct<a:int,b:string>", lambda _: None, None),
    ("N", "struct<a:int,b:string>", lambda made: made.x.SetInParent(), {"a": 0, "b": None}),
    ("repeated N", "array<struct<a:int,b:string>>", lambda made: made.x.add(b="y"), [{"a": 0, "b": "y"}]),
    ("repeated int32", "array<int>", lambda made: made.x.extend([3, -1]), [3, -1]),
    ("repeated string", "array<string>", lambda _: None, []),
    ("repeated Color", "array<string>", lambda made: made.x.extend([1, 0]), ["RED", "NONE"]),
    ("map<string, int64>", "map<string,bigint>", lambda made: made.x.update({"a": 1}), [("a", 1)]),
    ("map<bool, Color>", "map<boolean,string>", lambda made: made.x.update({True: 1}), [(True, "RED")]),
    (
        "map<uint64, N>",
        "map<decimal(20,0),struct<a:int,b:string>>",
        lambda made: made.x[7].SetInParent(),
        [(Decimal(7), {"a": 0, "b": None})],
    ),
    ("Timestamp", "timestamp", lambda made: made.x.FromDatetime(AT), AT),
    ("Timestamp", "timestamp", lambda made: made.x.SetInParent(), dt.datetime(1970, 1, 1, tzinfo=dt.UTC)),
    ("Timestamp", "timestamp", lambda made: made.x.FromSeconds(-62135596800), dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    ("repeated Timestamp", "array<timestamp>", lambda made: made.x.add().FromDatetime(AT), [AT]),
    (
        "Duration",
        "struct<seconds:bigint,nanos:int>",
        lambda made: made.x.FromNanoseconds(1_000_000_001),
        {"seconds": 1, "nanos": 1},
    ),
    ("Int64Value", "bigint", lambda _: None, None),
    ("Int64Value", "bigint", lambda made: made.x.SetInParent(), 0),
    ("UInt64Value", "decimal(20,0)", lambda made: setattr(made.x, "value", 5), Decimal(5)),
    ("StringValue", "string", lambda made: setattr(made.x, "value", "s"), "s"),
    ("Struct", "string", lambda made: made.x.update({"a": [1, None, "ä"]}), '{"a": [1.0, null, "ä"]}'),
    ("Value", "string", lambda made: setattr(made.x, "bool_value", True), "true"),
    (
        "Any",
        "struct<type_url:string,value:binary>",
        lambda made: setattr(made.x, "type_url", "u"),
        {"type_url": "u", "value": b""},
    ),
    ("FieldMask", "struct<paths:array<string>>", lambda made: made.x.paths.append("a.b"), {"paths": ["a.b"]}),
    ("Empty", "boolean", lambda _: None, None),
    ("oneof kind Empty", "boolean", lambda made: made.x.SetInParent(), True),
    ("Nothing", "boolean", lambda made: made.x.SetInParent(), True),
]


@pytest.mark.parametrize(("kind", "declared", "fill", "expected"), FIT)
def test_each_type_and_its_ends(kind, declared, fill, expected):
    content = one(kind)
    assert protobuf_descriptor.columns(content, "shop.M").simpleString() == f"struct<x:{declared}>"
    assert outcome(content, filled(content, fill), filled(content, fill)) == [{"x": expected}] * 2


def varint(number):
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


BITS = "field x came with a number that has more bits than it"
WIRE = "field x came with another wire type, or a number that its enum lacks"
END = "the value ends before what a length in it announces"
NANOS = "field x holds a time with nanoseconds, which timestamp_precision: truncate cuts off"
YEARS = "field x holds a time that is none of the years 1 to 9999"
NO_JSON = "field x holds what JSON has no word for"
FRAMED_ONE = "the value begins with a zero, and no message does: framing: confluent is for those of a schema registry"
HEADER = b"\0\0\0\1\x2c"
# Before the number of {"a": ...} in a Struct.
OF_A = b"\x0a\x0e\x0a\x01a\x12\x09\x11"
REFUSED = [
    ("int32", b"\x08" + varint(1 << 32), "FIELD_TYPE", "x", BITS),
    ("int32", b"\x08" + varint(1 << 31), "FIELD_TYPE", "x", BITS),
    ("uint32", b"\x08" + varint(1 << 32), "FIELD_TYPE", "x", BITS),
    ("sint32", b"\x08" + varint(1 << 32), "FIELD_TYPE", "x", BITS),
    ("bool", b"\x08\x02", "FIELD_TYPE", "x", BITS),
    ("repeated int32", b"\x0a\x05" + varint(1 << 32), "FIELD_TYPE", "x", BITS),
    ("repeated bool", b"\x08\x02", "FIELD_TYPE", "x", BITS),
    ("N", b"\x0a\x06\x08" + varint(1 << 32), "FIELD_TYPE", "x.a", BITS.replace("x", "x.a")),
    ("int32", b"\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("string", b"\x08\x01", "FIELD_TYPE", "x", WIRE),
    ("double", b"\x0d\x00\x00\x00\x00", "FIELD_TYPE", "x", WIRE),
    ("N", b"\x0a\x02\x0a\x00", "FIELD_TYPE", "x.a", WIRE.replace("x", "x.a")),
    ("Color", b"\x08\x07", "FIELD_TYPE", "x", "field x has a number that the enum shop.Color lacks"),
    ("repeated Color", b"\x08\x07", "FIELD_TYPE", "x[]", "field x[] has a number that the enum shop.Color lacks"),
    ("string", b"\x0a\x01\xff", "INVALID_UTF8", "x", "field x is not valid UTF-8"),
    ("string", b"\x0a\x02a", "TRUNCATED", "x", END),
    ("double", b"\x09\x00", "TRUNCATED", "x", END),
    ("int64", b"\x08\x80", "TRUNCATED", "x", END),
    ("int64", b"\x08", "TRUNCATED", "x", END),
    ("N", b"\x0a\x02\x12\x05", "TRUNCATED", "x.b", END),
    ("int64", b"\x08" + b"\xff" * 10, "INVALID_PROTOBUF", None, "a number has more than 64 bits"),
    ("int64", b"\x00\x01", "INVALID_PROTOBUF", None, FRAMED_ONE),
    ("int64", b"\x0f", "INVALID_PROTOBUF", None, "a field has a number or a wire type that is none"),
    ("int64", b"\x14", "INVALID_PROTOBUF", None, "a group ends that did not begin"),
    ("int64", b"\x13\x08\x01", "TRUNCATED", None, END),
    ("int64", b"\x13" * 200, "TOO_DEEP", None, "the value is nested deeper than 100 levels"),
    ("Timestamp", b"\x0a\x02\x10\x01", "FIELD_TYPE", "x", NANOS),
    ("Timestamp", b"\x0a\x06\x10" + varint(10**9), "FIELD_TYPE", "x", YEARS),
    ("Timestamp", b"\x0a\x07\x08" + varint(253402300800), "FIELD_TYPE", "x", YEARS),
    # What is in the place of a message with a meaning of its own was another message.
    ("Timestamp", b"\x0a\x03\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("repeated Timestamp", b"\x0a\x03\x0a\x01a", "FIELD_TYPE", "x[]", WIRE.replace("x", "x[]", 1)),
    ("Int64Value", b"\x0a\x03\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("StringValue", b"\x0a\x02\x08\x05", "FIELD_TYPE", "x", WIRE),
    ("Struct", b"\x0a\x02\x08\x05", "FIELD_TYPE", "x", WIRE),
    ("Value", b"\x0a\x03\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("ListValue", b"\x0a\x05\x0a\x03\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("Struct", b"\x0a\x0a\x0a\x08\x0a\x01a\x12\x03\x0a\x01a", "FIELD_TYPE", "x", WIRE),
    ("map<string, Timestamp>", b"\x0a\x08\x0a\x01k\x12\x03\x0a\x01a", "FIELD_TYPE", "x[]", WIRE.replace("x", "x[]", 1)),
    ("map<string, int32>", b"\x0a\x06\x0a\x01k\x12\x01a", "FIELD_TYPE", "x", WIRE),
    ("map<string, int32>", b"\x0a\x09\x0a\x01k\x10" + varint(1 << 32), "FIELD_TYPE", "x[]", BITS.replace("x", "x[]")),
    ("int32", HEADER + b"\x00\x08\x05", "INVALID_PROTOBUF", None, FRAMED_ONE),
    ("Struct", b"\x0a\x10" + OF_A + struct.pack("<d", math.nan), "FIELD_TYPE", "x", NO_JSON),
]


@pytest.mark.parametrize(("kind", "value", "reason", "field", "text"), REFUSED)
def test_what_is_refused(kind, value, reason, field, text):
    content = one(kind)
    good = message(content)().SerializeToString()
    assert outcome(content, good, value)[1] == (reason, field, text)


TAKEN = [
    # Fields of others, the last of several, packed or not, a number with more bytes than it needs.
    ("int32", b"\x10\x05\x08\x01", 1),
    ("int32", b"\x08\x01\x08\x02", 2),
    ("int32", b"\x08\x81\x80\x00", 1),
    ("repeated int32", b"\x08\x01\x0a\x02\x02\x03\x08\x04", [1, 2, 3, 4]),
    ("N", b"\x0a\x02\x08\x01\x0a\x03\x12\x01b", {"a": 1, "b": "b"}),
    ("int32", b"\x13\x08\x05\x14\x08\x01", 1),
    ("map<string, int32>", b"\x0a\x02\x10\x01\x0a\x02\x0a\x00", [("", 0)]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), TAKEN)
def test_what_the_encoding_allows_is_taken(kind, value, expected):
    assert outcome(one(kind), value) == [{"x": expected}]


def test_messages_of_proto2():
    fields = ["required int32 x = 1", "optional string s = 2", "optional Color c = 3", "repeated Color many = 4"]
    content = descriptor_set({"M": fields}, enums={"Color": COLORS}, syntax="proto2")
    missing = ("FIELD_MISSING", "x", "field x is required, and not set")
    enum = "field c came with another wire type, or a number that its enum lacks"
    many = enum.replace(" c ", " many ")
    assert outcome(content, b"", b"\x08\x01", b"\x08\x01\x12\x01\xff", b"\x08\x01\x18\x07", b"\x08\x01\x20\x07") == [
        missing,
        {"x": 1, "s": None, "c": None, "many": []},
        ("INVALID_UTF8", "s", "field s is not valid UTF-8"),
        ("FIELD_TYPE", "c", enum),
        ("FIELD_TYPE", "many", many),
    ]


def test_keys_of_maps_of_proto2_that_are_no_utf_8():
    content = descriptor_set({"M": ["map<string, int32> x = 1"]}, syntax="proto2")
    told = ("INVALID_UTF8", None, "a string in the value is not valid UTF-8")
    assert outcome(content, b"\x0a\x05\x0a\x01\xff\x10\x07", b"") == [told, {"x": []}]


def test_fields_are_columns_in_the_order_of_their_numbers():
    content = descriptor_set({"M": ["int32 c = 3", "int32 a = 1", "string class = 2"]})
    assert protobuf_descriptor.columns(content, "shop.M").names == ["a", "class", "c"]
    assert outcome(content, b"\x18\x03\x12\x01x") == [{"a": 0, "class": "x", "c": 3}]


MAGIC = "the value does not begin with a zero, the id of a schema and the place of a message"
LENGTH = "the place of the message in its file has a length that is none"
OTHER = "the value is another message of its file than shop.N"
FRAMED = [
    (HEADER + b"\x02\x02\x08\x05", {"a": 5, "b": None}),
    (HEADER + b"\x02\x02", {"a": 0, "b": None}),
    (HEADER + b"\x00\x08\x05", ("SCHEMA_MISMATCH", None, OTHER)),
    (HEADER + b"\x04\x02\x00\x08\x05", ("SCHEMA_MISMATCH", None, OTHER)),
    (HEADER + b"\x02\x02\x08", ("TRUNCATED", "a", END)),
    (HEADER + b"\x04\x02", ("TRUNCATED", None, END)),
    (HEADER + b"\x01", ("WRONG_MAGIC", None, LENGTH)),
    (HEADER + b"\xff\xff\x7f", ("WRONG_MAGIC", None, LENGTH)),
    (HEADER, ("WRONG_MAGIC", None, MAGIC)),
    (b"", ("WRONG_MAGIC", None, MAGIC)),
    (b"\x08\x05\x08\x05\x08\x05", ("WRONG_MAGIC", None, MAGIC)),
]


@pytest.mark.parametrize(("value", "expected"), FRAMED)
def test_the_framing_of_confluent(value, expected):
    assert outcome(one("int32"), value, name="shop.N", framing="confluent") == [expected]


def test_the_first_message_of_a_file_is_a_zero():
    for place in (b"\x00", b"\x02\x00"):
        assert outcome(one("int32"), HEADER + place + b"\x08\x05", framing="confluent") == [{"x": 5}]


# Names that google.protobuf's own methods have.
METHODS = ("HasField", "IsInitialized", "SerializeToString", "DESCRIPTOR", "FromString")


def test_fields_may_be_called_as_methods_are():
    content = descriptor_set({"M": [f"optional int32 {name} = {at}" for at, name in enumerate(METHODS, start=1)]})
    assert outcome(content, b"\x08\x01\x10\x02") == [dict.fromkeys(METHODS) | {"HasField": 1, "IsInitialized": 2}]


def test_a_message_that_only_bears_the_name_of_a_timestamp_is_one_like_others():
    mine = descriptor_set({"Timestamp": ["string seconds = 1"]}, package="google.protobuf")
    files = descriptor_pb2.FileDescriptorSet.FromString(mine)
    files.file[0].name = "google/protobuf/timestamp.proto"
    files.MergeFromString(one("Timestamp"))
    content = files.SerializeToString()
    assert protobuf_descriptor.columns(content, "shop.M").simpleString() == "struct<x:struct<seconds:string>>"
    assert outcome(content, b"\x0a\x03\x0a\x01a") == [{"x": {"seconds": "a"}}]


IMPORTS = "protoc --include_imports --descriptor_set_out=FILE ..."
CANNOT = [
    (one("int32").replace(b"shop.proto", b"shop.prot\xff"), "shop.M", "it holds no FileDescriptorSet", IMPORTS),
    (b"", "shop.M", "it holds no FileDescriptorSet", "protoc --include_imports --descriptor_set_out=FILE ..."),
    (b"\xff\xff", "shop.M", "it holds no FileDescriptorSet", "protoc --include_imports --descriptor_set_out=FILE ..."),
    (one("int32"), "shop.Nothin", "it has no message shop.Nothin", "did you mean 'shop.Nothing'?"),
    (
        descriptor_set({"M": ["int32 x = 1"]}, imports=["other.proto"]),
        "shop.M",
        "it lacks other.proto",
        "protoc --include_imports --descriptor_set_out=FILE ...",
    ),
    (
        descriptor_set({"M": ["O o = 1"], "O": ["repeated M m = 1"]}),
        "shop.M",
        "column o.m[] is the message shop.M within itself, and no table is as deep as its values",
        "name another message, or leave the field out of it",
    ),
    (
        descriptor_set({"M": ["int32 a = 1", "int32 A = 2"]}),
        "shop.M",
        "columns 'a' and 'A' are the same to Spark and Delta",
        "name another message, or leave the field out of it",
    ),
    (
        descriptor_set({"M": []}),
        "shop.M",
        "the schema has no fields",
        "name another message, or leave the field out of it",
    ),
]


@pytest.mark.parametrize(("content", "name", "detail", "fix"), CANNOT)
def test_descriptor_files_that_cannot_be_used(tmp_path, content, name, detail, fix):
    (tmp_path / "shop.desc").write_bytes(content)
    form = Protobuf(descriptor="shop.desc", message=name).with_base_dir(tmp_path)
    with pytest.raises(DescriptorUnusable) as caught:
        form.with_loaded_files(None).columns(None)
    file = tmp_path / "shop.desc"
    told = f"[DESCRIPTOR_UNUSABLE] the descriptor {file} cannot be used: {detail}; nothing was run\n  hint: {fix}"
    assert str(caught.value) == told


def test_a_schema_of_the_registry_that_lacks_an_import_is_told_what_takes_its_place():
    form = Protobuf(message="shop.M", framing="confluent", subject="orders", version=3)
    form._content = descriptor_set({"M": ["int32 x = 1"]}, imports=["other.proto"])
    with pytest.raises(DescriptorUnusable) as caught:
        form.columns(None)
    assert str(caught.value) == (
        "[DESCRIPTOR_UNUSABLE] the descriptor of version 3 of subject orders cannot be used: it lacks other.proto; "
        "nothing was run\n  hint: descriptor: FILE in place of subject and version; protoc --include_imports "
        "--descriptor_set_out=FILE ... makes it"
    )


OF_CONFLUENT = "confluent_kafka.schema_registry.confluent"
OF_REGISTRY = [
    *(f"{OF_CONFLUENT}.{name}_pb2" for name in ("meta", "type.decimal", "type.variant", "types.decimal")),
    *(f"google.type.{name}_pb2" for name in ("calendar_period", "color", "date", "datetime", "dayofweek", "expr")),
    *(f"google.type.{name}_pb2" for name in ("fraction", "latlng", "money", "month", "postal_address", "quaternion")),
    "google.type.timeofday_pb2",
    "google.protobuf.descriptor_pb2",
]


@pytest.mark.parametrize("module", OF_REGISTRY)
def test_what_confluents_registry_brings_along_is_known_as_its_owners_have_it(module):
    theirs = descriptor_pb2.FileDescriptorProto()
    importlib.import_module(module).DESCRIPTOR.CopyToProto(theirs)
    ours = protobuf_built_in.file(theirs.name)
    for part in ("package", "message_type", "enum_type", "public_dependency"):
        assert getattr(ours, part) == getattr(theirs, part), part
    # The registry does not give what a schema imports of these.
    first = descriptor_pb2.FileDescriptorSet.FromString(one("int32"))
    first.file[0].dependency.append(theirs.name)
    content = first.SerializeToString()
    assert protobuf_descriptor.columns(content, "shop.M").simpleString() == "struct<x:int>"


def test_a_message_of_the_registrys_own_files_is_a_struct():
    files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set({"M": ["Decimal x = 1", "Date y = 2"]}))
    files.file[0].dependency.extend(["confluent/type/decimal.proto", "google/type/date.proto"])
    price, day = files.file[0].message_type[0].field
    price.type_name, day.type_name = ".confluent.type.Decimal", ".google.type.Date"
    content = files.SerializeToString()
    assert protobuf_descriptor.columns(content, "shop.M").simpleString() == (
        "struct<x:struct<value:binary,precision:bigint,scale:int>,y:struct<year:int,month:int,day:int>>"
    )
    assert outcome(content, b"\x0a\x07\x0a\x01\x7b\x10\x0c\x18\x02") == [
        {"x": {"value": b"\x7b", "precision": 12, "scale": 2}, "y": None}
    ]


def test_a_descriptor_file_that_is_not_there(tmp_path):
    with pytest.raises(DescriptorUnusable) as caught:
        Protobuf(descriptor="shop.desc", message="M").with_base_dir(tmp_path).with_loaded_files(None)
    assert str(caught.value) == (
        f"[DESCRIPTOR_UNUSABLE] the descriptor {tmp_path / 'shop.desc'} cannot be used: it cannot be read: "
        "No such file or directory; nothing was run\n  hint: protoc --include_imports --descriptor_set_out=FILE ..., "
        "and its path: descriptor: FILE"
    )


def test_files_stand_in_any_order():
    first = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set({"M": ["O o = 1"]}, imports=["base.proto"]))
    other = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set({"O": ["int32 a = 1"]}))
    other.file[0].name = "base.proto"
    first.MergeFrom(other)
    assert protobuf_descriptor.columns(first.SerializeToString(), "shop.M").simpleString() == "struct<o:struct<a:int>>"


def test_without_the_library_it_is_refused_by_name():
    code = """
import sys
sys.modules["google.protobuf"] = sys.modules["google.protobuf.descriptor_pool"] = None
from rivermouth.formats.protobuf import Protobuf
from rivermouth.engine.flow import task_failures
try:
    Protobuf(descriptor="x", message="y").columns(None)
except Exception as error:
    print(error)
print(task_failures.failure("RuntimeError: RIVERMOUTH_PROTOBUF_MISSING|").code)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "[PROTOBUF_MISSING] format: protobuf needs the package protobuf, here and on Spark's workers; no record was "
        "refused for it\n  hint: pip install protobuf\nPROTOBUF_MISSING\n"
    )
