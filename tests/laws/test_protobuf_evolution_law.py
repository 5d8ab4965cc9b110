"""Whichever writer is first, the table gets the same columns, and they hold what google.protobuf reads of every record.

That is its JSON view, by the descriptor of the record's writer.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T
from tests.laws.gathering import gathered
from tests.laws.test_protobuf_law import TEXTS, VALUES
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.formats import frame
from tests.rows.protobuf_writers import EvolvingOrders, orders, told

from rivermouth import names
from rivermouth.decoding.protobuf import protobuf_descriptor, protobuf_writer_schemas
from rivermouth.decoding.protobuf.protobuf_descriptor import message_class
from rivermouth.decoding.registry.registry_references import ROOT
from rivermouth.schemas import column_policies, evolution
from rivermouth.schemas.evolution import FIELD_NUMBER, GROWN
from rivermouth.spec import Evolution

WHOLE = ("int32", "sint32", "sfixed32", "uint32", "int64", "fixed64", "uint64")
# For each field, by its number, the types that writers have of it: numbers, where Delta has a type that holds all.
KINDS = {
    1: [*WHOLE, *(f"optional {kind}" for kind in WHOLE)],
    2: ["float", "double", "optional float"],
    3: ["string", "optional string"],
    4: ["bool"],
    5: ["bytes", "optional bytes"],
    6: ["Color", "optional Color"],
    7: ["Inner"],
    8: [f"repeated {kind}" for kind in WHOLE],
    9: [f"map<string, {kind}>" for kind in WHOLE],
    10: ["oneof choice string"],
    11: [f"oneof choice {kind}" for kind in WHOLE],
    12: ["repeated Inner"],
    13: ["map<int64, Inner>"],
    14: ["repeated string"],
}
INNER = (1, 2, 3, 6, 8)
COLORS = {0: "NONE", 1: "RED", 2: "BLUE", 3: "GREEN"}
DECLARED = orders(
    "int32 f1 = 1",
    "optional string f3 = 3",
    "Color f6 = 6",
    "Inner f7 = 7",
    messages={"Inner": ["int32 f1 = 1", "repeated int32 f8 = 8"]},
    enums={"Color": {0: "NONE", 1: "RED"}},
)
POLICIES = Evolution(on_new_column="evolve", on_type_change="widen").with_defaults(infers=False)


@st.composite
def writers(draw):
    """A descriptor set, and its messages as the JSON of Protobuf has them."""

    def fields(numbers):
        # Descriptors have the oneofs of optional fields behind others.
        chosen = sorted(draw(st.sets(st.sampled_from(numbers), min_size=1)), reverse=True)
        return [(f"{draw(st.sampled_from(KINDS[number]))} f{number} = {number}") for number in chosen]

    inner, outer = fields(INNER), fields(sorted(KINDS))
    colors = {number: name for number, name in COLORS.items() if number < draw(st.integers(1, 4))} or {0: "NONE"}
    return orders(*outer, messages={"Inner": inner}, enums={"Color": {0: "NONE", **colors}})


@st.composite
def filled(draw, kind):
    """A message of a class, with values in some of its fields."""
    made = kind()
    fill(draw, made)
    return made.SerializeToString()


def fill(draw, message):
    for field in message.DESCRIPTOR.fields:
        if not draw(st.booleans()):
            continue
        target = getattr(message, field.name)
        if protobuf_descriptor.is_map(field):
            _, value = protobuf_descriptor.map_parts(field)
            for number in draw(st.lists(st.integers(0, 9), max_size=2)):
                if value.message_type is None:
                    target[str(number)] = draw(scalar(value))
                else:
                    fill(draw, target[number])
        elif protobuf_descriptor.is_repeated(field) and field.message_type is None:
            target.extend(draw(st.lists(scalar(field), max_size=3)))
        elif protobuf_descriptor.is_repeated(field):
            for _ in range(draw(st.integers(0, 2))):
                fill(draw, target.add())
        elif field.message_type is not None:
            target.SetInParent()
            fill(draw, target)
        else:
            setattr(message, field.name, draw(scalar(field)))


def scalar(field):
    if protobuf_descriptor.is_enum(field):
        return st.sampled_from(sorted(field.enum_type.values_by_number))
    kind = protobuf_descriptor.described(field).removeprefix("repeated ")
    return TEXTS if kind == "string" else VALUES[kind]


@st.composite
def scenes(draw):
    """Writers, some records of each, and another order in which they come."""
    contents = draw(st.lists(writers(), min_size=1, max_size=4))
    records = [
        (content, draw(st.lists(filled(message_class(content, "shop.Order")), min_size=1, max_size=3)))
        for content in contents
    ]
    return records, draw(st.permutations(range(len(records))))


def columns_by(contents):
    """The columns of the table, as these writers come one after the other."""
    declared = protobuf_descriptor.columns(DECLARED, "shop.Order")
    columns = declared
    for content in contents:
        found = protobuf_writer_schemas.written(content, "shop.Order", columns)
        grown = evolution.grown(columns, found, {}, POLICIES).schema
        kept = [
            T.StructField(each.name, each.dataType, True, {**each.metadata, GROWN: True})
            if each.name not in declared.names
            else each
            for each in grown
        ]
        columns = evolution.overlaid(declared, T.StructType(kept))
        again = protobuf_writer_schemas.written(content, "shop.Order", columns)
        assert evolution.grown(columns, again, {}, POLICIES).changes == ()
    return columns


def in_order(declared):
    """A type without the order of fields."""
    match declared:
        case T.StructType():
            return {each.name: (each.metadata.get(FIELD_NUMBER), in_order(each.dataType)) for each in declared}
        case T.ArrayType():
            return [in_order(declared.elementType)]
        case T.MapType():
            return declared.keyType, in_order(declared.valueType)
    return declared


def expected(value, writer, declared, columns):
    """What the columns hold of the JSON view of a message."""
    row = {}
    for column in columns:
        number = column.metadata[FIELD_NUMBER]
        field = writer.fields_by_number.get(number)
        mine = None if declared is None else declared.fields_by_number.get(number)
        # What is a default by the writer's descriptor alone is not sent.
        is_sent = field is not None and field.name in value
        is_sent = is_sent and (value[field.name] != "" or optional(field) or not optional(mine))
        if not is_sent:
            row[column.name] = absent(mine)
        else:
            row[column.name] = of_field(value[field.name], field, mine, column.dataType)
    return row


def optional(field):
    return field is not None and field.has_presence and not protobuf_descriptor.is_repeated(field)


def absent(field):
    if field is None or optional(field):
        return None
    if protobuf_descriptor.is_repeated(field):
        return []
    return "NONE" if protobuf_descriptor.is_enum(field) else 0


def of_field(value, field, declared, kind):
    if protobuf_descriptor.is_map(field):
        _, item = protobuf_descriptor.map_parts(field)
        number = int if isinstance(kind.keyType, T.LongType) else str
        return sorted(((number(key), of_value(each, item, None, kind.valueType)) for key, each in value.items()))
    if protobuf_descriptor.is_repeated(field):
        return [of_value(each, field, declared, kind.elementType) for each in value]
    return of_value(value, field, declared, kind)


def of_value(value, field, declared, kind):
    if field.message_type is not None:
        return expected(value, field.message_type, None if declared is None else declared.message_type, kind)
    match protobuf_descriptor.described(field).removeprefix("repeated "):
        case "float":
            return struct.unpack("<f", struct.pack("<f", float(value)))[0]
        case "double":
            return float(value)
        case "bytes":
            return b64decode(value)
        case name if name in WHOLE:
            return Decimal(value)
    return value


def plain(value):
    """Maps have no order, and whole numbers have one type."""
    match value:
        case bool():
            return value
        case int():
            return Decimal(value)
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case [(_, _), *_]:
            return sorted((key, plain(each)) for key, each in value)
        case list():
            return [plain(each) for each in value]
    return value


def view(content, body):
    kind = message_class(content, "shop.Order")
    told_of = json_format.MessageToDict(
        kind.FromString(body), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    return kind.DESCRIPTOR, told_of


def checked(rows, records, columns):
    """That the rows are those of the records, by what google.protobuf reads of them."""
    declared = message_class(DECLARED, "shop.Order").DESCRIPTOR
    for row, (content, body) in zip(rows, records, strict=True):
        writer, value = view(content, body)
        assert plain(row) == plain(expected(value, writer, declared, columns))


def framed(number, body):
    return struct.pack(">bI", 0, number) + b"\0" + body


def in_registry(content):
    """The descriptor set of a writer as it comes from the registry."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    found = FileDescriptorSet.FromString(content)
    found.file[0].name = ROOT
    return found.SerializeToString()


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(scenes())
def test_any_order_of_writers_makes_the_same_columns_and_nothing_is_lost(scene):
    records, other_order = scene
    one = columns_by([content for content, _ in records])
    columns = columns_by([records[place][0] for place in other_order])
    assert in_order(one) == in_order(columns)
    sent = [(place, content, body) for place, (content, bodies) in enumerate(records) for body in bodies]
    known = tuple((place, in_registry(content)) for place, (content, _) in enumerate(records))
    policies = column_policies.policies_of(columns, POLICIES)
    encoding = protobuf_writer_schemas.Encoding(in_registry(DECLARED), "shop.Order", policies, known=known)
    nothing = pa.array(
        [{"descriptors": None, "why": None}] * len(sent), pa.struct({"descriptors": pa.binary(), "why": pa.string()})
    )
    outcome = protobuf_writer_schemas.decoded(
        encoding, pa.array([framed(place, body) for place, _, body in sent]), nothing
    )
    assert (outcome.refused, outcome.beside["grows"]) == ({}, [False] * len(sent))
    checked(outcome.rows.to_pylist(), [each[1:] for each in sent], columns)


@pytest.mark.long
def test_spark_holds_the_same(spark):
    """In one job; the writers are asked for in a registry."""
    records, _ = max(gathered(scenes(), 20), key=lambda scene: len(scene[0]))
    sent = [(content, body) for content, bodies in records for body in bodies]
    with SchemaRegistry() as registry:
        table = EvolvingOrders(spark, registry, DECLARED, on_new_column="evolve", on_type_change="widen")
        ids = {content: registry.register("s", told(content), kind="PROTOBUF") for content, _ in sent}
        table.meet(sorted(ids.values()))
        form = table.flow.value_format
        decoded = form.decode(frame(spark, [framed(ids[content], body) for content, body in sent]).coalesce(1))
        new = form.rows_to_inspect(spark).alias("__new")
        rows = decoded.orderBy(names.OFFSET).select(names.DECODED, names.DATA, new)
        found = rows.toArrow().to_pylist()
    assert {(row[names.DECODED], row["__new"]) for row in found} == {(True, False)}
    checked([row[names.DATA] for row in found], sent, form.schema_as_declared())
