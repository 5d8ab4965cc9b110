"""``format: avro`` under ``evolution``: what a writer's schema adds, record by record, and what no column takes."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pytest
from pyspark.sql import types as T
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import Evolving, check_widened, maybe, record
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.engine.schema.writer_schemas import grown_by


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as found:
        yield found


def logical(kind, logical_type, /, **more):
    return {"type": kind, "logicalType": logical_type, **more}


CITY = record(("city", "string"), name="Place")
V1 = record(("id", "int"), ("place", CITY), ("items", {"type": "array", "items": record(("sku", "string"), name="I")}))
V2 = record(
    ("coupon", maybe("string")),
    ("id", "long"),
    ("place", maybe(record(("zip", "string"), ("city", "string"), name="Place"))),
    (
        "items",
        {
            "type": "array",
            "items": record(
                ("sku", "string"), ("n", "int"), ("box", maybe(record(("w", "float"), name="Box"))), name="I"
            ),
        },
    ),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
    ("due", logical("int", "date")),
    ("either", ["null", "string", "long"]),
    ("second", maybe(record(("city", "string"), ("extra", "boolean"), name="Second"))),
    ("more", {"type": "map", "values": "Second"}),
    ("nothing", "null"),
)
OLD = {"id": 1, "place": {"city": "Ulm"}, "items": [{"sku": "a"}]}
NEW = {
    "coupon": None,
    "id": 1 << 40,
    "place": {"zip": "89073", "city": "Ulm"},
    "items": [{"sku": "b", "n": 2, "box": {"w": 0.5}}],
    "kind": "B",
    "due": dt.date(2026, 1, 31),
    "either": 5,
    "second": {"city": "Bern", "extra": True},
    "more": {"x": {"city": "Kiel", "extra": False}},
    "nothing": None,
}
OLD_ROW = {
    "id": 1,
    "place": {"city": "Ulm", "zip": None},
    "items": [{"sku": "a", "n": None, "box": None}],
    **dict.fromkeys(("coupon", "kind", "due", "either", "second", "more")),
}
NEW_ROW = {**NEW, "either": {"member0": None, "member1": 5}}
del NEW_ROW["nothing"]


def test_a_writers_new_fields_become_columns_and_its_wider_numbers_wider_ones(spark, registry):
    table = Evolving(spark, registry, V1, on_new_column="evolve", on_type_change="widen")
    old, late = table.sent(V1, OLD), table.sent(V2, NEW)
    assert table.suspects(old, late, None, b"\x00\x00\x00\x00\xff", b"") == [False, True, False, False, False]
    assert table.grow(old, late) == (
        "adds column coupon string",
        "widens id to bigint",
        "adds place.zip string",
        "adds items[].n int",
        "adds items[].box struct<w:float>",
        "adds column kind string",
        "adds column due date",
        "adds column either struct<member0:string,member1:bigint>",
        "adds column second struct<city:string,extra:boolean>",
        "adds column more map<string,struct<city:string,extra:boolean>>",
    )
    assert table.suspects(old, late) == [False, False]
    found = table.outcomes(late, old, late[:-1], None)
    assert [each.data for each in found] == [NEW_ROW, OLD_ROW, None, None]
    assert (found[2].reason, found[2].field) == ("TRUNCATED", "more")
    # What came and what is declared next to it hold what they held, whichever of them comes first.
    third = record(
        *((f["name"], f["type"]) for f in V2["fields"][:2]), ("place", CITY), ("items", V2["fields"][3]["type"])
    )
    assert table.outcomes(table.sent(third, {**NEW, "coupon": "x"}))[0].data["coupon"] == "x"


# Of the table, of a writer, what becomes of it; a value of each, and what they are read as.
PRICE, FINER = (logical("bytes", "decimal", precision=p, scale=s) for p, s in ((5, 2), (9, 4)))
EXACT = Decimal("1.25")
WIDER = [
    ("int", "long", "bigint", (5, 5), (1 << 40, 1 << 40)),
    ("int", "double", "double", (5, 5.0), (0.5, 0.5)),
    ("int", "float", "double", (5, 5.0), (0.5, 0.5)),
    ("float", "double", "double", (0.5, 0.5), (0.1, 0.1)),
    (PRICE, FINER, "decimal(9,4)", (EXACT, EXACT), (Decimal("1.2345"), Decimal("1.2345"))),
    (FINER, logical("bytes", "decimal", precision=12, scale=2), "decimal(14,4)", (EXACT, EXACT), (EXACT, EXACT)),
    ("int", PRICE, "decimal(12,2)", (5, Decimal(5)), (EXACT, EXACT)),
    (PRICE, "int", "decimal(12,2)", (EXACT, EXACT), (5, Decimal(5))),
    (maybe("int"), ["long", "null"], "bigint", (None, None), (None, None)),
    (maybe("int"), ["int", "long"], "bigint", (5, 5), (1 << 40, 1 << 40)),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "[] to bigint", ([1], [1]), ([2], [2])),
    (
        {"type": "map", "values": "int"},
        {"type": "map", "values": "long"},
        "[] to bigint",
        ({}, {}),
        ({"a": 2}, {"a": 2}),
    ),
]
NOT_WIDER = [
    (FINER, PRICE),
    ("long", "double"),
    ("double", "long"),
    ("string", "int"),
    ("long", logical("long", "timestamp-micros")),
    (logical("int", "date"), logical("long", "local-timestamp-micros")),
    ({"type": "map", "values": "int"}, record(("a", "long"), name="M")),
    ("int", ["int", "string"]),
    (["null", "int", "string"], ["null", "int", "string", "double"]),
]


def test_a_column_is_widened_where_delta_can_and_nothing_is_lost_by_it(spark, registry):
    before = record(*((f"x{place}", mine) for place, (mine, *_) in enumerate(WIDER)))
    behind = record(*((f"x{place}", others) for place, (_, others, *_) in enumerate(WIDER)))
    table = Evolving(spark, registry, before, on_type_change="widen")
    check_widened(table, before, behind, WIDER)


def test_what_delta_cannot_widen_stays_as_it_is(spark, registry):
    before = record(*((f"x{place}", mine) for place, (mine, _) in enumerate(NOT_WIDER)))
    behind = record(*((f"x{place}", others) for place, (_, others) in enumerate(NOT_WIDER)))
    table = Evolving(spark, registry, before, on_new_column="evolve", on_type_change="widen")
    assert grown_by(table.flow, spark, [registry.register("s", behind)], T.StructType()) is None


def test_a_symbol_that_the_table_does_not_know_is_one_of_its_texts(spark, registry):
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    later = {**enum, "symbols": ["A", "C"]}
    for policy, data in (("widen", {"x": "C"}), ("dead_letter", None)):
        table = Evolving(spark, registry, record(("x", enum)), on_new_column="evolve", on_type_change=policy)
        value = table.sent(record(("x", later)), {"x": "C"})
        assert table.suspects(value) == [False]
        assert table.outcomes(value)[0].data == data


def test_a_field_that_no_column_takes_refuses_its_record_if_it_has_a_value(spark, registry):
    policies = {
        "on_new_column": "dead_letter",
        "columns": {"note": {"on_new_column": "ignore"}, "free": {"on_new_column": "ignore"}},
    }
    place, free = record(("city", "string"), name="P"), record(("a", "int"), name="F")
    table = Evolving(spark, registry, record(("id", "int"), ("place", place), ("free", free)), **policies)
    writer = record(
        ("id", "int"),
        ("place", record(("city", "string"), ("zip", maybe("int")), name="P")),
        ("free", record(("a", "int"), ("b", "int"), name="F")),
        ("note", "string"),
        ("void", "null"),
        ("new", ["string", "null"]),
    )

    def of(zip_code, late):
        told = {"id": 1, "place": {"city": "", "zip": zip_code}, "free": {"a": 1, "b": 2}}
        return table.sent(writer, {**told, "note": "", "void": None, "new": late})

    found = table.outcomes(of(None, None), of(5, None), of(None, ""))
    said = "the value has a field that is not in the schema"
    assert [(each.reason, each.field, each.message) for each in found] == [
        (None, None, None),
        ("FIELD_UNDECLARED", "place.zip", said),
        ("FIELD_UNDECLARED", "new", said),
    ]
    assert found[0].data == {"id": 1, "place": {"city": ""}, "free": {"a": 1}}
    assert table.suspects(of(5, "")) == [False]


def test_what_no_column_can_be_refuses_its_records_and_stops_a_batch_once(spark, registry):
    table = Evolving(spark, registry, record(("id", "int")), on_new_column="evolve", max_columns=2)
    deep = {"type": "record", "name": "D", "fields": [{"name": "down", "type": ["null", "D"]}]}
    wide = logical("bytes", "decimal", precision=60, scale=0)
    full = table.sent(
        record(("id", "int"), ("big", record(("a", "int"), ("b", "int"), name="B"))), {"id": 1, "big": {"a": 1, "b": 2}}
    )
    never = table.sent(record(("id", "int"), ("d", maybe(deep)), ("w", maybe(wide))), {"id": 2, "d": None, "w": None})
    value = table.sent(
        record(("id", "int"), ("d", maybe(deep)), ("w", maybe(wide))), {"id": 2, "d": {"down": None}, "w": None}
    )
    assert table.suspects(full, never) == [True, False]
    assert table.grow(full, never) == ()
    assert table.suspects(full, never) == [False, False]
    found = table.outcomes(full, never, value)
    assert [(each.reason, each.field) for each in found] == [
        ("FIELD_UNDECLARED", "big"),
        (None, None),
        ("FIELD_UNDECLARED", "d"),
    ]


def test_what_a_writer_lacks_is_as_avro_says_or_null_or_stops_the_flow(spark, registry):
    declared = record(("id", "int"), ("tag", "string", "none"), ("need", "string"), ("may", maybe("string"), None))
    lacks = record(("id", "int"))
    nulls = record(("id", "int"), ("tag", maybe("string")), ("need", maybe("string")))
    silent = Evolving(spark, registry, declared, on_new_column="evolve")
    values = silent.sent(lacks, {"id": 1}), silent.sent(nulls, {"id": 1, "tag": None, "need": None})
    found = silent.outcomes(*values)
    assert [(each.reason, each.field, each.message) for each in found] == [
        ("SCHEMA_MISMATCH", None, "the writer's schema lacks the field need, which has no default"),
        ("SCHEMA_MISMATCH", "tag", "the writer's type null is not string"),
    ]
    free = Evolving(spark, registry, declared, on_missing_column="null")
    assert [each.data for each in free.outcomes(*values)] == [
        {"id": 1, "tag": "none", "need": None, "may": None},
        {"id": 1, "tag": None, "need": None, "may": None},
    ]
    strict = Evolving(spark, registry, declared, columns={"need": {"on_missing_column": "fail"}})
    assert [(each.reason, each.field) for each in strict.outcomes(*values)] == [
        ("FIELD_MISSING", "need"),
        ("SCHEMA_MISMATCH", "tag"),
    ]
    assert strict.suspects(*values) == [True, True]
    # What stops the flow comes after what refuses the record.
    assert strict.stops(*values) == [(0, "FIELD_MISSING", "need"), (1, "FIELD_MISSING", "need")]


def test_what_stops_the_flow_is_found_behind_what_does_not(spark, registry):
    declared = record(("a", "int"), ("list", {"type": "array", "items": "int"}), ("b", "int"))
    policies = {
        "on_new_column": "dead_letter",
        "columns": {"c": {"on_new_column": "fail"}, "b": {"on_type_change": "fail"}},
    }
    table = Evolving(spark, registry, declared, **policies)
    of_list = {"type": "array", "items": "string"}
    both = record(("a", "string"), ("x", "int"), ("list", of_list), ("b", "string"), ("c", "int"))
    last = record(("a", "string"), ("list", of_list), ("b", "int"), ("c", "int"))
    none = record(("a", "string"), ("list", of_list), ("b", "int"), ("d", "int"))
    values = (
        table.sent(both, {"a": "", "x": 1, "list": ["y"], "b": "", "c": 1}),
        table.sent(last, {"a": "", "list": ["y"], "b": 1, "c": 1}),
        table.sent(none, {"a": "", "list": ["y"], "b": 1, "d": 1}),
    )
    assert table.stops(*values) == [(0, "FIELD_TYPE", "b"), (1, "FIELD_UNDECLARED", "c")]
    assert table.suspects(*values, values[0][:-1]) == [True, True, False, True]


def test_columns_that_the_table_cannot_name_so_get_another_name(spark, registry):
    table = Evolving(spark, registry, record(("id", "int")), on_new_column="evolve")
    writer = record(
        ("id", "int"), ("ID", "string"), ("kafka_key", "string"), ("in", record(("a", "int"), ("A", "int"), name="I"))
    )
    value = table.sent(writer, {"id": 1, "ID": "x", "kafka_key": "k", "in": {"a": 1, "A": 2}})
    assert table.grow(value) == (
        "adds column ID_2 string",
        "adds column kafka_key_2 string",
        "adds column in struct<a:int>",
    )
    found = table.outcomes(value, table.sent(record(("id", "int"), ("ID", "string")), {"id": 2, "ID": "y"}))
    assert (found[0].reason, found[0].field) == ("FIELD_UNDECLARED", "in.A")
    assert found[1].data == {"id": 2, "ID_2": "y", "kafka_key_2": None, "in": None}


def test_aliases_of_the_table_name_a_writers_fields_also_as_it_grows(spark, registry):
    fields = [{"name": "id", "type": "int", "aliases": ["number"]}]
    declared = {"type": "record", "name": "R", "fields": fields}
    table = Evolving(spark, registry, declared, on_new_column="evolve", on_type_change="widen")
    value = table.sent(record(("number", "long"), ("x", "int")), {"number": 5, "x": 6})
    assert table.grow(value) == ("widens id to bigint", "adds column x int")
    assert table.outcomes(value)[0].data == {"id": 5, "x": 6}


def test_ignored_fields_of_a_record_are_named(spark, registry):
    fields = [{"name": "id", "type": "int", "aliases": ["number"]}]
    declared = {"type": "record", "name": "R", "fields": fields}
    writer = record(("number", "int"), ("x", "int"), ("y", maybe("int")))
    policies = {"on_type_change": "widen", "columns": {"y": {"on_new_column": "evolve"}}}
    for more, named in (({}, ["x", "y"]), (policies, ["x"])):
        table = Evolving(spark, registry, declared, **more)
        values = [table.sent(writer, {"number": 1, "x": 2, "y": None}), b"", None]
        decoded = table.flow.value_format.decode(frame(spark, values))
        told = decoded.orderBy(names.OFFSET).select(names.UNDECLARED).collect()
        assert [row[0] for row in told] == [named, [], []]


def test_ignored_fields_within_records_are_named_by_their_paths(spark, registry):
    def part(name, column, *, has_more):
        more = (("note", "int"), ("inner", record(("x", "int"), name=f"{name}Inner"))) if has_more else ()
        return record(column, *more, name=name)

    def writer(*, has_more):
        return record(
            ("at", maybe(part("Place", ("city", "string"), has_more=has_more))),
            ("items", {"type": "array", "items": maybe(part("Item", ("sku", "int"), has_more=has_more))}),
            ("tags", {"type": "map", "values": part("Tag", ("weight", "int"), has_more=has_more)}),
        )

    sent = {"note": 1, "inner": {"x": 2}}
    content = {
        "at": {"city": "Ulm", **sent},
        "items": [None, {"sku": 1, **sent}],
        "tags": {"a": {"weight": 1, **sent}},
    }
    named = [f"{path}.{name}" for path in ("at", "items[]", "tags[]") for name in ("note", "inner")]
    policies = {"on_type_change": "widen", "columns": {"items": {"on_new_column": "dead_letter"}}}
    for form, told in (({}, named), ({"on_type_change": "widen"}, named), (policies, [[], "FIELD_UNDECLARED"])):
        table = Evolving(spark, registry, writer(has_more=False), **form)
        value = table.sent(writer(has_more=True), content)
        decoded = table.flow.value_format.decode(frame(spark, [value]))
        (row,) = decoded.select(names.UNDECLARED, f"{names.VERDICT}.reason").collect()
        assert (row[0] if row[1] is None else [*row]) == told


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"id.x": {"on_new_column": "ignore"}}, "names 'id.x': policies are for whole columns, so name 'id'"),
        ({"idd": {"on_type_change": "widen"}}, "names 'idd', which is no column: did you mean 'id'?"),
    ],
)
def test_a_policy_for_a_column_that_there_never_is_is_refused(columns, told, spark, registry):
    table = Evolving(spark, registry, record(("id", "int")), columns=columns)
    with pytest.raises(ValueError, match=r"^evolution\.columns ") as error:
        table.flow.value_format.columns(spark)
    assert str(error.value) == f"evolution.columns {told}"


def test_a_writer_that_is_no_record_and_one_that_is_not_there_make_nothing_grow(spark, registry):
    table = Evolving(spark, registry, record(("id", "int")), on_new_column="evolve", on_type_change="widen")
    text = registry.register("s", "string")
    value = struct.pack(">bI", 0, text) + b"\x00"
    assert table.suspects(value) == [False]
    assert table.outcomes(value)[0].reason == "SCHEMA_MISMATCH"
    assert table.flow.value_format.writer_columns(spark, text).names == []
    with pytest.raises(ValueError, match=r"^the schema registry has no Avro schema with the id 999$"):
        table.flow.value_format.writer_columns(spark, 999)


def test_records_that_hold_each_other_more_often_than_can_be_counted_are_no_column(spark, registry):
    """Each holds the next one twice, 30 deep; anyone who may register a schema can write that."""
    kind = record(("x", "int"), name="W30")
    for number in reversed(range(30)):
        kind = record(("a", kind), ("b", kind["name"]), name=f"W{number}")
    table = Evolving(spark, registry, record(("id", "int")), on_new_column="evolve")
    writer = record(("id", "int"), ("wide", maybe(kind)), ("small", "int"))
    value = table.sent(writer, {"id": 1, "wide": None, "small": 2})
    assert table.grow(value) == ("adds column small int",)
    assert table.suspects(value) == [False]
    assert table.outcomes(value)[0].data == {"id": 1, "small": 2}
