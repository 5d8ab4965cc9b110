"""``format: protobuf`` under ``evolution``: what a writer's descriptor adds, and what its messages are by then."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from pyspark.sql import types as T
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import check_widened
from tests.rows.formats import frame
from tests.rows.protobuf_files import descriptor_set
from tests.rows.protobuf_writers import EvolvingOrders, orders, told

from rivermouth import names
from rivermouth.decoding.protobuf.protobuf_descriptor import message_class
from rivermouth.decoding.protobuf.protobuf_writer_columns import MOST_LEVELS
from rivermouth.engine.schema.writer_schemas import grown_by
from rivermouth.errors import DescriptorUnusable


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as found:
        yield found


V1 = orders(
    "int32 id = 1",
    "Place place = 2",
    "repeated Item items = 3",
    "Status status = 4",
    messages={"Place": ["string city = 1"], "Item": ["string sku = 1"]},
    enums={"Status": {0: "NEW", 1: "SENT"}},
)
V2 = orders(
    "int64 number = 1",
    "Place place = 2",
    "repeated Item items = 3",
    "Status status = 4",
    "oneof paid string card = 5",
    "oneof paid Empty cash = 6",
    "map<int64, Box> boxes = 7",
    "Status before = 8",
    "repeated double prices = 9",
    "Place second = 10",
    "Node tree = 11",
    messages={
        "Place": ["uint64 zip = 2", "string city = 1"],
        "Item": ["string sku = 1", "optional int32 count = 2", "Box box = 3"],
        "Box": ["float weight = 1"],
        "Node": ["Node down = 1"],
    },
    enums={"Status": {0: "NEW", 1: "POSTED", 2: "LOST"}},
)
OLD = {"id": 1, "place": {"city": "Ulm"}, "items": [{"sku": "a"}], "status": "SENT"}
NEW = {
    "number": 1 << 40,
    "place": {"zip": str((1 << 64) - 1), "city": "Ulm"},
    "items": [{"sku": "b", "count": 2, "box": {"weight": 0.5}}, {}],
    "status": "LOST",
    "cash": {},
    "boxes": {"7": {"weight": 1.5}},
    "before": "LOST",
    "prices": [0.5],
    "second": {"city": "Bern"},
}


def test_what_a_writers_descriptor_has_besides_becomes_columns(spark, registry):
    table = EvolvingOrders(spark, registry, V1, on_new_column="evolve", on_type_change="widen")
    writer = orders(
        "int64 number = 1", "Place place = 2", "repeated double prices = 9", messages={"Place": ["int64 zip = 2"]}
    )
    old, new = table.sent(V1, OLD), table.sent(writer, {"number": 1 << 40, "place": {"zip": 5}, "prices": [0.5]})
    assert table.grow(old, new) == ("widens id to bigint", "adds place.zip bigint", "adds column prices array<double>")
    first, second = table.outcomes(old, new)
    items = [{"sku": "a"}]
    place = {"city": "Ulm", "zip": None}
    assert first.data == {"id": 1, "place": place, "items": items, "status": "SENT", "prices": None}
    place = {"city": "", "zip": 5}
    assert second.data == {"id": 1 << 40, "place": place, "items": [], "status": "NEW", "prices": [0.5]}


@pytest.mark.long
def test_what_a_writers_descriptor_has_besides_becomes_columns_and_old_writers_are_read_on(spark, registry):
    table = EvolvingOrders(spark, registry, V1, on_new_column="evolve", on_type_change="widen")
    old, new = table.sent(V1, OLD), table.sent(V2, NEW)
    assert table.suspects(old, new) == [False, True]
    assert table.grow(old, new) == (
        "widens id to bigint",
        "adds place.zip decimal(20,0)",
        "adds items[].count int",
        "adds items[].box struct<weight:float>",
        "adds column card string",
        "adds column cash boolean",
        "adds column boxes map<bigint,struct<weight:float>>",
        "adds column before string",
        "adds column prices array<double>",
        "adds column second struct<city:string,zip:decimal(20,0)>",
    )
    assert table.suspects(old, new) == [False, False]
    first, second = table.outcomes(old, new)
    nothing = dict.fromkeys(("card", "cash", "boxes", "before", "prices", "second"))
    assert first.data == {
        "id": 1,
        "place": {"city": "Ulm", "zip": None},
        "items": [{"sku": "a", "count": None, "box": None}],
        "status": "SENT",
        **nothing,
    }
    assert second.data == {
        "id": 1 << 40,
        "place": {"city": "Ulm", "zip": Decimal((1 << 64) - 1)},
        "items": [{"sku": "b", "count": 2, "box": {"weight": 0.5}}, {"sku": "", "count": None, "box": None}],
        "status": "LOST",
        **nothing,
        "cash": True,
        "boxes": {7: {"weight": 1.5}},
        "before": "LOST",
        "prices": [0.5],
        "second": {"city": "Bern", "zip": Decimal(0)},
    }
    # The tree is a message within itself: no column, and its records are refused where it is sent.
    assert [(each.reason, each.field) for each in table.outcomes(table.sent(V2, {"tree": {}}))] == [
        ("FIELD_UNDECLARED", "tree")
    ]


WIDER = [
    ("int32", "int64", "bigint", (5, 5), (1 << 40, 1 << 40)),
    ("sint32", "fixed32", "bigint", (-5, -5), ((1 << 32) - 1, (1 << 32) - 1)),
    ("int64", "uint64", "decimal(20,0)", (-5, Decimal(-5)), ((1 << 64) - 1, Decimal((1 << 64) - 1))),
    ("int32", "double", "double", (5, 5.0), (0.1, 0.1)),
    ("int32", "float", "double", (5, 5.0), (0.5, 0.5)),
    ("float", "double", "double", (0.5, 0.5), (0.1, 0.1)),
    ("optional int32", "Int64Value", "bigint", (0, 0), (5, 5)),
    ("repeated int32", "repeated int64", "[] to bigint", ([1], [1]), ([2], [2])),
    ("repeated int32", "int64", "[] to bigint", ([1], [1]), (2, [2])),
    ("map<string, int32>", "map<string, int64>", "[] to bigint", ({}, {}), ({"a": 2}, {"a": 2})),
]
NOT_WIDER = [
    ("int64", "double", 5, 0.5),
    ("double", "int64", 0.5, (1 << 53) + 1),
    ("string", "bytes", "a", "YQ=="),
    ("string", "int32", "a", 5),
    ("E", "int32", 0, 5),
    ("E", "string", 0, "A"),
    ("int32", "repeated int32", 5, [5]),
    ("N", "int32", {"a": 1}, 5),
    ("N", "string", {"a": 1}, "x"),
    ("N", "Timestamp", {"a": 1}, "2026-01-31T00:00:00Z"),
    ("map<string, int32>", "repeated N", {"a": 1}, [{"a": 1}]),
    ("map<int32, int32>", "map<int64, int32>", {"5": 1}, {str(1 << 40): 1}),
    ("map<int32, int32>", "map<string, int32>", {"5": 1}, {"a": 1}),
]


def test_a_column_is_widened_where_delta_can_and_each_writer_is_read_as_it_wrote(spark, registry):
    before = orders(*(f"{mine} x{place} = {place + 1}" for place, (mine, *_) in enumerate(WIDER)))
    behind = orders(*(f"{others} x{place} = {place + 1}" for place, (_, others, *_) in enumerate(WIDER)))
    table = EvolvingOrders(spark, registry, before, on_type_change="widen")
    check_widened(table, before, behind, WIDER)


def test_what_delta_cannot_widen_stays_and_a_value_that_is_none_of_it_refuses_its_record(spark, registry):
    names = [f"x{place}" for place in range(len(NOT_WIDER))]
    before, behind = (
        orders(
            *(
                f"{case[which]} {name} = {place + 1}"
                for place, (name, case) in enumerate(zip(names, NOT_WIDER, strict=True))
            ),
            messages={"N": ["int32 a = 1"]},
            enums={"E": {0: "A"}},
        )
        for which in (0, 1)
    )
    table = EvolvingOrders(spark, registry, before, on_new_column="evolve", on_type_change="widen")
    assert grown_by(table.flow, spark, [table.id_of(behind)], T.StructType()) is None
    nothing, *values = (
        table.sent(behind, each) for each in ({}, *({n: c[3]} for n, c in zip(names, NOT_WIDER, strict=True)))
    )
    assert table.suspects(nothing) == [False]
    first, *others = table.outcomes(nothing, *values)
    # What was not sent is what the table's descriptor says of it.
    assert first.data == {
        "x0": 0,
        "x1": 0.0,
        "x2": "",
        "x3": "",
        "x4": "A",
        "x5": "A",
        "x6": 0,
        **dict.fromkeys(("x7", "x8", "x9")),
        "x10": {},
        "x11": {},
        "x12": {},
    }
    assert [(each.reason, each.field) for each in others] == [
        *(
            ("FIELD_TYPE" if place in (1, 11) else "SCHEMA_MISMATCH", f"x{place}{'[]' * (place == 11)}")
            for place in range(len(NOT_WIDER))
        )
    ]
    said = "field x3 is int32 in the writer's schema, which is not string"
    assert others[3].message == said


def test_fields_are_known_by_their_numbers_whatever_they_are_called(spark, registry):
    table = EvolvingOrders(spark, registry, orders("int32 id = 1"), on_new_column="evolve")
    first = orders("int32 key = 1", "string note = 2", "string ID = 3", "string kafka_key = 4")
    second = orders("int32 id = 1", "string remark = 2", "string note = 5")
    one, other = (
        table.sent(first, {"key": 1, "note": "n", "ID": "i", "kafka_key": "k"}),
        table.sent(second, {"id": 2, "remark": "r", "note": "m"}),
    )
    assert table.grow(one, other) == (
        "adds column note string",
        "adds column ID_2 string",
        "adds column kafka_key_2 string",
        "adds column note_2 string",
    )
    assert [each.data for each in table.outcomes(one, other)] == [
        {"id": 1, "note": "n", "ID_2": "i", "kafka_key_2": "k", "note_2": None},
        {"id": 2, "note": "r", "ID_2": None, "kafka_key_2": None, "note_2": "m"},
    ]


def test_policies_say_what_becomes_of_values_that_no_column_takes(spark, registry):
    policies = {
        "on_new_column": "dead_letter",
        "columns": {"note": {"on_new_column": "ignore"}, "free": {"on_new_column": "ignore"}},
    }
    places = {"P": ["string city = 1"], "F": ["int32 a = 1"]}
    declared = orders("int32 id = 1", "P place = 2", "F free = 3", "E kind = 4", messages=places, enums={"E": {0: "A"}})
    table = EvolvingOrders(spark, registry, declared, **policies)
    writer = orders(
        "int32 id = 1",
        "P place = 2",
        "F free = 3",
        "E kind = 4",
        "string note = 5",
        "int32 new = 6",
        messages={"P": ["string city = 1", "optional int32 zip = 2"], "F": ["int32 a = 1", "int32 b = 2"]},
        enums={"E": {0: "A", 1: "B"}},
    )
    told_of = {"id": 1, "free": {"a": 1, "b": 2}, "note": "n"}
    values = [
        table.sent(writer, told_of | more) for more in ({"new": 0}, {"place": {"zip": 0}}, {"new": 1}, {"kind": "B"})
    ]
    found = table.outcomes(*values)
    said = "the value has a field that is not in the schema"
    assert [(each.reason, each.field, each.message) for each in found] == [
        (None, None, None),
        ("FIELD_UNDECLARED", "place.zip", said),
        ("FIELD_UNDECLARED", "new", said),
        ("FIELD_TYPE", "kind", "field kind has a number that the enum shop.E lacks"),
    ]
    assert found[0].data == {"id": 1, "place": None, "free": {"a": 1}, "kind": "A"}
    assert table.suspects(*values) == [False] * 4
    # What stops the flow is found behind what does not.
    strict = EvolvingOrders(
        spark,
        registry,
        orders("int32 a = 1", "int32 b = 2"),
        on_new_column="dead_letter",
        columns={"c": {"on_new_column": "fail"}, "b": {"on_type_change": "fail"}},
    )
    both = orders("string a = 1", "string b = 2", "int32 x = 3", "int32 c = 4")
    sent = [strict.sent(both, each) for each in ({"a": "y", "x": 1, "b": "y"}, {"a": "y", "c": 1}, {"a": "y", "x": 1})]
    assert strict.suspects(*sent) == [True, True, False]
    assert strict.stops(*sent) == [(0, "FIELD_TYPE", "b"), (1, "FIELD_UNDECLARED", "c")]


def test_what_a_writer_lacks_is_as_protobuf_says_or_null_or_stops_the_flow(spark, registry):
    declared = orders("int32 id = 1", "string tag = 2", "repeated int32 many = 3", "optional int32 may = 4")
    lacks = orders("int32 id = 1", "optional string tag = 2")
    silent = EvolvingOrders(spark, registry, declared, on_new_column="evolve")
    value = silent.sent(lacks, {"id": 1})
    assert silent.outcomes(value)[0].data == {"id": 1, "tag": "", "many": [], "may": None}
    free = EvolvingOrders(spark, registry, declared, on_missing_column="null")
    assert free.outcomes(value)[0].data == {"id": 1, "tag": "", "many": None, "may": None}
    strict = EvolvingOrders(spark, registry, declared, columns={"many": {"on_missing_column": "fail"}})
    assert [(each.reason, each.field) for each in strict.outcomes(value)] == [("FIELD_MISSING", "many")]
    assert strict.suspects(value) == [True]
    assert strict.stops(value) == [(0, "FIELD_MISSING", "many")]
    # What proto2 requires is required.
    needs = orders("required int32 id = 1", "required int32 need = 2", syntax="proto2")
    table = EvolvingOrders(spark, registry, needs, on_new_column="evolve")
    assert [(each.reason, each.field) for each in table.outcomes(table.sent(lacks, {"id": 1}))] == [
        ("FIELD_MISSING", "need")
    ]


def test_who_wrote_a_record_is_asked_for_and_nothing_is_read_as_what_it_is_not(spark, registry):
    declared = orders("int32 id = 1")
    table = EvolvingOrders(spark, registry, declared, on_new_column="evolve")
    of_avro, body = registry.register("s", {"type": "string"}), b"\x08\x05"
    # The message in another place of the writer's file; the file without it; and only referred to.
    moved = descriptor_set({"Other": ["int32 x = 1"], "Order": ["int32 id = 1"]})
    without = descriptor_set({"Other": ["int32 id = 1"]})
    registry.register("orders.proto", told(declared), kind="PROTOBUF")
    references = ({"name": "orders.proto", "subject": "orders.proto", "version": 1},)
    refers = registry.register(
        "s",
        told(descriptor_set({"Other": ["Order x = 1"]}, imports=["orders.proto"])),
        kind="PROTOBUF",
        references=references,
    )
    broken = registry.register("s", "AAAA", kind="PROTOBUF")
    order = {"Order": ["int32 id = 1"]}
    lacks = registry.register("s", told(descriptor_set(order, imports=["away.proto"])), kind="PROTOBUF")
    # Confluent's registry has these files for all schemas, and says nothing of them.
    brings = descriptor_set(order, imports=["confluent/meta.proto", "google/type/date.proto"])

    def framed(number, place=b"\0"):
        return struct.pack(">bI", 0, number) + place + body

    found = table.outcomes(
        framed(table.id_of(moved), b"\2\2"),
        framed(table.id_of(moved)),
        framed(table.id_of(without)),
        framed(refers),
        framed(of_avro),
        framed(999),
        framed(broken),
        framed(lacks),
        framed(table.id_of(brings)),
        b"\1",
        None,
        # A number that its writer's schema lacks, and the table has a column for.
        struct.pack(">bI", 0, table.id_of(orders("string note = 2"))) + b"\0" + body,
    )
    assert found[0].data == {"id": 5}
    unusable = "the schema registry has no Protobuf schema with the id {} that can be used"
    assert [(each.reason, each.message) for each in found[1:]] == [
        ("SCHEMA_MISMATCH", "the value is another message of its file than shop.Order"),
        ("SCHEMA_MISMATCH", "the writer's schema has no message shop.Order"),
        ("SCHEMA_MISMATCH", "the writer's schema only refers to the message shop.Order"),
        ("UNKNOWN_SCHEMA", f"the schema registry has no Protobuf schema with the id {of_avro}"),
        ("UNKNOWN_SCHEMA", "the schema registry has no Protobuf schema with the id 999"),
        ("UNKNOWN_SCHEMA", f"{unusable.format(broken)}: it holds no FileDescriptorSet"),
        ("UNKNOWN_SCHEMA", f"{unusable.format(lacks)}: it lacks away.proto"),
        (None, None),
        ("WRONG_MAGIC", "the value does not begin with a zero, the id of a schema and the place of a message"),
        (None, None),
        ("SCHEMA_MISMATCH", "the value has the field id, which the schema of its writer lacks"),
    ]


def test_a_schema_grows_no_wider_and_no_deeper_than_a_table_whatever_a_writer_registers(spark, registry):
    """Messages that hold the next one twice, 30 deep, have more fields than can be counted."""
    wide = {f"W{n}": [f"W{n + 1} a = 1", f"W{n + 1} b = 2"] for n in range(30)} | {"W30": ["int32 x = 1"]}
    deep = {f"D{n}": ["int32 x = 1", f"repeated D{n + 1} down = 2"] for n in range(60)} | {"D60": ["int32 x = 1"]}
    writer = orders("W0 wide = 2", "D0 deep = 3", "int32 small = 4", messages=wide | deep)
    table = EvolvingOrders(spark, registry, orders("int32 id = 1"), on_new_column="evolve")
    levels = MOST_LEVELS // 2

    def value(depth):
        return {"x": depth, "down": [value(depth - 1)]} if depth else {"x": 0}

    fits, too_deep, too_wide = (
        table.sent(writer, {"small": 1, **more})
        for more in ({"deep": value(levels - 1)}, {"deep": value(levels)}, {"wide": {}})
    )
    first, second = table.grow(fits)
    assert (first.count("struct"), second) == (levels, "adds column small int")
    kept, *refused = table.outcomes(fits, too_deep, too_wide)
    assert (kept.data["small"], kept.data["deep"]["x"]) == (1, levels - 1)
    assert [(each.reason, each.field) for each in refused] == [
        ("FIELD_UNDECLARED", f"deep{'.down[]' * (levels - 1)}.down"),
        ("FIELD_UNDECLARED", "wide"),
    ]


def with_an_odd_map():
    found = FileDescriptorSet.FromString(orders("map<string, int32> tags = 1"))
    found.file[0].message_type[0].nested_type[0].field[0].name = "name"
    return found.SerializeToString()


def with_a_chain(files):
    found = FileDescriptorSet.FromString(orders("int32 id = 1", imports=["0.proto"]))
    for number in range(files):
        found.file.add(name=f"{number}.proto", dependency=[f"{number + 1}.proto"] if number + 1 < files else [])
    return found.SerializeToString()


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (with_an_odd_map(), "shop.proto has a map without key and value"),
        (with_a_chain(2_000), "100.proto is imported through more than 100 others"),
        (
            orders("M0 m = 1", messages={f"M{n}": [f"M{(n + 1) % 3_000} m = 1"] for n in range(3_000)}),
            "shop.Order has messages within each other that are too deep for google.protobuf",
        ),
    ],
)
def test_what_google_protobuf_would_stumble_over_is_no_descriptor(content, detail):
    with pytest.raises(DescriptorUnusable) as error:
        message_class(content, "shop.Order")
    assert error.value.facts["detail"] == detail


OF_NUMBERS = orders("int32 id = 1", "string note = 100", "P place = 3", messages={"P": ["string city = 1"]})
# An extension that is a column by now, one that is none, and a field that nobody knows, here and within another.
EXTENDED = (b"\xa2\x06\x01n", b"\xaa\x06\x01m", b"\x48\x01", b"\x1a\x02\x48\x01")


def with_extensions():
    """A writer of such messages, to which others are extensions."""
    file = FileDescriptorSet.FromString(
        orders("optional int32 id = 1", "optional P place = 3", messages={"P": []}, syntax="proto2")
    )
    file.file[0].message_type[0].extension_range.add(start=100, end=300)
    for name, number in (("note", 100), ("more", 101)):
        file.file[0].extension.add(name=name, number=number, label=1, type=9, extendee=".shop.Order")
    return file.SerializeToString()


def test_what_no_descriptor_names_is_refused_and_stops_the_flow(spark, registry):
    table = EvolvingOrders(spark, registry, OF_NUMBERS, on_new_column="fail")
    writer = with_extensions()
    sent = [table.sent(writer, each) for each in (*EXTENDED, b"\x08\x05")]
    assert [(each.reason, each.field) for each in table.outcomes(*sent)] == [
        ("SCHEMA_MISMATCH", "note"),
        *(("FIELD_UNDECLARED", field) for field in ("101", "9", "place.9")),
        (None, None),
    ]
    assert table.stops(*sent) == [(at, "FIELD_UNDECLARED", name) for at, name in ((1, "101"), (2, "9"), (3, "place.9"))]


@pytest.mark.long
def test_what_no_descriptor_names_is_refused_or_counted(spark, registry):
    declared, writer = OF_NUMBERS, with_extensions()
    note, more, unknown, within = EXTENDED
    said = "which the schema of its writer lacks"
    for policy in ("evolve", "dead_letter", "fail"):
        table = EvolvingOrders(spark, registry, declared, on_new_column=policy)
        sent = [table.sent(writer, each) for each in (note, more, unknown, within, b"\x08\x05")]
        found = table.outcomes(*sent)
        assert [(each.reason, each.field, each.message) for each in found[:4]] == [
            ("SCHEMA_MISMATCH", "note", f"the value has the field note, {said}"),
            ("FIELD_UNDECLARED", "101", f"the value has a field of the number 101, {said}"),
            ("FIELD_UNDECLARED", "9", f"the value has a field of the number 9, {said}"),
            ("FIELD_UNDECLARED", "place.9", f"the value has a field of the number 9, {said}"),
        ]
        assert found[4].data["id"] == 5
    assert table.stops(*sent) == [(at, "FIELD_UNDECLARED", name) for at, name in ((1, "101"), (2, "9"), (3, "place.9"))]
    for table in (
        EvolvingOrders(spark, registry, declared, on_type_change="widen"),
        EvolvingOrders(spark, registry, writer),
    ):
        sent = [table.sent(writer, each) for each in (more + unknown, within)]
        assert [each.reason for each in table.outcomes(*sent)] == [None, None]
        decoded = table.flow.value_format.decode(frame(spark, sent))
        assert [row[0] for row in decoded.orderBy(names.OFFSET).select(names.UNDECLARED).collect()] == [
            ["number 9", "number 101"],
            [],
        ]


def test_ignored_fields_of_a_message_are_named(spark, registry):
    fields = ["int32 id = 1", "repeated Item items = 4"]
    declared = orders(*fields, messages={"Item": ["int32 id = 1"]})
    item = {"Item": ["int32 id = 1", "string note = 2"]}
    writer = orders(*fields, "string note = 2", "repeated int32 many = 3", messages=item)
    sent = {"note": "n", "many": [1, 2], "items": [{"id": 1}, {"note": "a"}, {"note": "b"}]}
    # Where no writer's schema is looked up, there are numbers alone, and those of the message itself.
    looked_up = ["note", "many", "items[].note"]
    for more, named in (({}, ["number 2", "number 3"]), ({"on_type_change": "widen"}, looked_up)):
        table = EvolvingOrders(spark, registry, declared, **more)
        values = [table.sent(writer, each) for each in (sent, {"id": 1, "items": [{"id": 2}]})]
        decoded = table.flow.value_format.decode(frame(spark, values))
        assert [row[0] for row in decoded.orderBy(names.OFFSET).select(names.UNDECLARED).collect()] == [named, []]


@pytest.mark.parametrize(
    ("columns", "told_of"),
    [
        ({"id.x": {"on_new_column": "ignore"}}, "names 'id.x': policies are for whole columns, so name 'id'"),
        ({"idd": {"on_type_change": "widen"}}, "names 'idd', which is no column: did you mean 'id'?"),
    ],
)
def test_a_policy_for_a_column_that_there_never_is_is_refused(columns, told_of, spark, registry):
    table = EvolvingOrders(spark, registry, orders("int32 id = 1"), columns=columns)
    with pytest.raises(ValueError, match=r"^evolution\.columns ") as error:
        table.flow.value_format.columns(spark)
    assert str(error.value) == f"evolution.columns {told_of}"
