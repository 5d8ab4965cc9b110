"""Whatever google.protobuf reads is what the columns hold, as its own JSON view has it; what it refuses is refused."""

from __future__ import annotations

import datetime as dt
import math
import struct
from base64 import b64decode
from decimal import Decimal

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.rows.protobuf_files import descriptor_set

from rivermouth import names
from rivermouth.decoding.protobuf import protobuf_decode
from rivermouth.decoding.protobuf.protobuf_decode import Encoding
from rivermouth.decoding.protobuf.protobuf_descriptor import message_class
from rivermouth.formats.protobuf import Protobuf

WHOLE = ("int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64", "uint32", "fixed32", "uint64", "fixed64")
SCALARS = (*WHOLE, "float", "double", "bool", "string", "bytes", "Color")
COLORS = {0: "NONE", 1: "RED", 2: "BLUE"}
INNER = [f"optional {kind} {kind.lower()}_ = {number}" for number, kind in enumerate(SCALARS, start=1)]
OUTER = [
    *(f"{kind} {kind.lower()}_ = {number}" for number, kind in enumerate(SCALARS, start=1)),
    *(f"repeated {kind} {kind.lower()}_s = {number}" for number, kind in enumerate(SCALARS, start=31)),
    *(f"map<{kind}, Inner> by_{kind} = {number}" for number, kind in enumerate(("string", "int64", "bool"), start=61)),
    "Inner inner = 71",
    "repeated Inner inners = 72",
    "oneof kind string text = 73",
    "oneof kind Inner other = 74",
    "Timestamp at = 75",
    "Int64Value boxed = 76",
    "StringValue said = 77",
]
CONTENT = descriptor_set({"Inner": INNER, "Outer": OUTER}, enums={"Color": COLORS})
ENCODING = Encoding(CONTENT, "shop.Outer")
OUTER_CLASS = message_class(CONTENT, "shop.Outer")
INNER_CLASS = GetMessageClass(OUTER_CLASS.DESCRIPTOR.file.message_types_by_name["Inner"])

BEYOND_64_BITS = "a number has more than 64 bits"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
MICROS = st.integers(-62_135_596_800 * 10**6, 253_402_300_799 * 10**6)
VALUES = {
    **{kind: st.integers(-(1 << 31), (1 << 31) - 1) for kind in ("int32", "sint32", "sfixed32")},
    **{kind: st.integers(-(1 << 63), (1 << 63) - 1) for kind in ("int64", "sint64", "sfixed64")},
    **{kind: st.integers(0, (1 << 32) - 1) for kind in ("uint32", "fixed32")},
    **{kind: st.integers(0, (1 << 64) - 1) for kind in ("uint64", "fixed64")},
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": TEXTS,
    "bytes": st.binary(max_size=6),
    "Color": st.sampled_from(sorted(COLORS)),
}
INNERS = st.dictionaries(st.sampled_from(SCALARS), st.none()).flatmap(
    lambda chosen: st.fixed_dictionaries({f"{kind.lower()}_": VALUES[kind] for kind in chosen})
)


@st.composite
def messages(draw):
    """A message of ``Outer`` with some of its fields."""
    made = OUTER_CLASS()
    for kind in draw(st.lists(st.sampled_from(SCALARS), unique=True)):
        setattr(made, f"{kind.lower()}_", draw(VALUES[kind]))
    for kind in draw(st.lists(st.sampled_from(SCALARS), unique=True, max_size=4)):
        getattr(made, f"{kind.lower()}_s").extend(draw(st.lists(VALUES[kind], max_size=3)))
    for key in draw(st.lists(st.sampled_from(("string", "int64", "bool")), unique=True, max_size=2)):
        for each in draw(st.lists(VALUES[key], max_size=2, unique=True)):
            getattr(made, f"by_{key}")[each].MergeFrom(inner(draw(INNERS)))
    for name in draw(
        st.lists(st.sampled_from(("inner", "inners", "text", "other", "at", "boxed", "said")), unique=True)
    ):
        match name:
            case "inners":
                made.inners.extend(inner(each) for each in draw(st.lists(INNERS, max_size=2)))
            case "inner" | "other":
                target = getattr(made, name)
                target.SetInParent()
                target.MergeFrom(inner(draw(INNERS)))
            case "text":
                made.text = draw(TEXTS)
            case "at":
                made.at.FromMicroseconds(draw(MICROS))
            case "boxed":
                made.boxed.value = draw(VALUES["int64"])
            case "said":
                made.said.value = draw(TEXTS)
    return made


def inner(fields):
    return INNER_CLASS(**fields)


def row(value):
    """What the columns should hold, by google.protobuf's own JSON view; None where it refuses the bytes."""
    try:
        message = OUTER_CLASS.FromString(value)
        view = json_format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    except (DecodeError, ValueError, json_format.Error):
        return None
    return of_view(view, OUTER)


def of_view(view, declared):
    found = {}
    for text in declared:
        *kind, name, _, _ = text.replace(", ", ",").split(" ")
        kind = [each for each in kind if each not in ("optional", "oneof", "kind")]
        value = view.get(name)
        if value is None:
            found[name] = None
        elif kind[0] == "repeated":
            found[name] = [of_scalar(each, kind[1]) for each in value]
        elif kind[0].startswith("map"):
            key, item = kind[0][4:-1].split(",")
            keyed = {"true": True, "false": False} if key == "bool" else {}
            pairs = ((keyed.get(each, int(each) if key == "int64" else each), each) for each in value)
            found[name] = sorted((plain, of_scalar(value[each], item)) for plain, each in pairs) if value else []
        else:
            found[name] = of_scalar(value, kind[0])
    return found


def of_scalar(value, kind):
    match kind:
        case "Inner":
            return of_view(value, INNER)
        case "uint64" | "fixed64":
            return Decimal(value)
        case "float":
            return struct.unpack("<f", struct.pack("<f", float(value)))[0]
        case "double":
            return float(value)
        case "bytes":
            return b64decode(value)
        case "Timestamp":
            whole, _, fraction = value.removesuffix("Z").partition(".")
            at = dt.datetime.fromisoformat(whole).replace(tzinfo=dt.UTC)
            return at + dt.timedelta(microseconds=int(fraction.ljust(6, "0") or 0))
        case "int64" | "sint64" | "sfixed64" | "Int64Value":
            return int(value)
    return value


def told(values):
    """Of each value its row, or None."""
    outcome = protobuf_decode.decoded(ENCODING, pa.array(values, pa.binary()))
    rows = [] if outcome.rows is None else outcome.rows.to_pylist()
    found = dict(zip(outcome.places, map(in_order, rows), strict=True))
    assert sorted([*found, *outcome.refused]) == list(range(len(values)))
    return [found.get(place) for place in range(len(values))], outcome.refused


def in_order(found):
    """Maps have no order."""
    return {name: sorted(value) if name.startswith("by_") and value else value for name, value in found.items()}


def wounded(value, wound):
    """The bytes with one cut out, changed or added."""
    kind, place, byte = wound
    place %= len(value) + 1
    return (
        value[:place]
        + {"cut": b"", "change": bytes([byte]), "add": bytes([byte])}[kind]
        + value[place + (kind != "add") :]
    )


SEEN: list[bytes] = []


@settings(max_examples=150, deadline=None)
@given(
    st.lists(messages(), max_size=3),
    st.lists(st.tuples(st.sampled_from(("cut", "change", "add")), st.integers(0, 99), st.integers(0, 255)), max_size=4),
)
def test_columns_hold_what_google_reads(made, wounds):
    good = [each.SerializeToString() for each in made]
    bad = [wounded(value, wound) for value in good for wound in wounds]
    found, refused = told([*good, *bad])
    for value, mine in zip(good, found, strict=False):
        assert mine == row(value)
        assert mine is not None
    for place, value in enumerate(bad, start=len(good)):
        expected = row(value)
        if expected is None:
            assert found[place] is None
        elif found[place] is None:
            # What google takes all the same: enums without names, other wire types, nanoseconds, numbers cut off.
            assert refused[place].reason == "FIELD_TYPE" or str(refused[place]) == BEYOND_64_BITS
        else:
            assert has_nan(expected) or found[place] == expected
    SEEN.extend([*good, *bad])


def has_nan(value):
    match value:
        case float():
            return math.isnan(value)
        case dict():
            return any(map(has_nan, value.values()))
        case list() | tuple():
            return any(map(has_nan, value))
    return False


def test_spark_holds_the_same(spark, tmp_path):
    """Of all the values of the law above, in one job."""
    values = SEEN or [OUTER_CLASS().SerializeToString()]
    (tmp_path / "shop.desc").write_bytes(CONTENT)
    form = Protobuf(descriptor=str(tmp_path / "shop.desc"), message="shop.Outer")
    schema = StructType([StructField(names.VALUE, BinaryType())])
    rows = form.decode(spark.createDataFrame([(value,) for value in values], schema)).select(
        names.DECODED, f"{names.DATA}.*"
    )
    mine, _ = told(values)
    found = rows.toArrow().to_pylist()
    assert len(found) == len(values)
    for row_found, expected in zip(found, mine, strict=True):
        assert row_found.pop(names.DECODED) is (expected is not None)
        assert expected is None or has_nan(expected) or in_order(row_found) == expected
