"""Fields that had no value yet: no column is made of them, and nothing is refused for them."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import types as T
from tests.rows.formats import outcomes

from rivermouth.formats.json import Json
from rivermouth.schemas import open_fields
from rivermouth.schemas.evolution import difference
from rivermouth.schemas.inference import Limits, Shape
from rivermouth.schemas.inferred import schema_of
from rivermouth.spec import Evolution, Flow


def inferred(*documents, is_open=lambda _field, _column: True):
    shape = Shape(Limits(max_fields=3))
    for number, document in enumerate(documents):
        shape.add(json.dumps({"id": 1, **document}).encode(), ("t", 0, number))
    return schema_of(shape, is_open=is_open)


def ddl(schema):
    return schema.simpleString().removeprefix("struct<").removesuffix(">")


NO_VALUE = [None, {}, [], [None], [{}], [[]], [{}, None, []], {"a": {"b": {}}}, {"a": [], "b": None}, [{"a": [None]}]]
PARTLY = [
    ({"v": {"a": None, "b": 1}}, "id:bigint,v:struct<b:bigint>", ("v.a",)),
    ({"v": {"a": {"b": {}}, "c": {"d": [], "e": "x"}}}, "id:bigint,v:struct<c:struct<e:string>>", ("v.a", "v.c.d")),
    ({"v": [{"a": {}}, {"b": True}]}, "id:bigint,v:array<struct<b:boolean>>", ("v.[].a",)),
    ({"v": [[], [1]]}, "id:bigint,v:array<array<bigint>>", ()),
    ({"v": [None, {}, {"b": 2}]}, "id:bigint,v:array<struct<b:bigint>>", ()),
    # The names of a map are lost, so that its values would never come to a column.
    ({"v": {"a": None, "b": None, "c": None, "d": None}}, "id:bigint,v:map<string,string>", ()),
    # A value and an empty one are of two kinds.
    ({"v": ["x", {}]}, "id:bigint,v:array<string>", ()),
]


@pytest.mark.parametrize("value", NO_VALUE, ids=json.dumps)
def test_what_has_no_value_is_open_and_comes_with_its_first_value(value):
    found = inferred({"v": value}, {})
    assert (ddl(found.schema), found.open) == ("id:bigint", (("v",),))
    [field] = [each for each in found.fields if each.path == ("v",)]
    assert (field.type, field.note.partition(": ")[2]) == ("void", "no column until a value comes")
    # Where a flow adds no columns it is text, as before.
    kept = inferred({"v": value}, {}, is_open=lambda _field, _column: False)
    assert kept.schema.names == ["id", "v"]
    assert (kept.open, kept.complete) == ((), found.complete)
    # The same again brings nothing; a value does.
    assert difference(found.schema, found.found).changes == ()
    later = inferred({"v": value}, {"v": 5})
    assert difference(found.schema, later.found, numbers=later.numbers).schema.names == ["id", "v"]


@pytest.mark.parametrize(("document", "schema", "paths"), PARTLY)
def test_parts_without_a_value_are_left_out_of_what_has_one(document, schema, paths):
    found = inferred(document)
    assert ddl(found.schema) == schema
    assert tuple(".".join(path) for path in found.open) == paths
    assert difference(found.schema, found.found, numbers=found.numbers) == difference(found.schema, found.schema)


def test_open_fields_stay_open_until_they_are_in_the_schema(spark):
    paths = (("a",), ("b", "c"), ("b", "[]", "d"), ("e.f",))
    schema = T.StructType.fromDDL("id bigint, b struct<x: int>")
    assert open_fields.still_open(paths, schema) == paths
    grown = T.StructType.fromDDL("a string, b array<struct<d: int>>, `e.f` int")
    assert open_fields.still_open((("b", "[]", "d"), *paths), grown) == ()


FLOW = {"name": "f", "topics": ["t"], "format": {"type": "json", "schema": "infer"}, "table": "s.t"}


@pytest.mark.parametrize(
    ("more", "is_open"),
    [
        ({}, True),
        ({"evolution": {"on_type_change": "widen_or_rescue"}}, True),
        ({"select": ["*", "id + 1 AS next"]}, True),
        ({"sink": {"type": "upsert", "keys": ["id"]}}, True),
        # No column would ever be added.
        ({"evolution": {"on_new_column": "ignore"}}, False),
        ({"evolution": {"columns": {"V": {"on_new_column": "rescue"}}}}, False),
        ({"select": ["id"]}, False),
        ({"explode": "tags AS tag"}, False),
        # The flow names it, and cannot start without it.
        ({"expectations": [{"name": "e", "condition": "id > 0 OR `v` IS NULL"}]}, False),
        ({"select": ["*", "upper(V) AS w"]}, False),
        ({"sink": {"type": "upsert", "keys": ["id"], "sequence_by": "v"}}, False),
        ({"sink": {"type": "upsert", "keys": [{"k": "id % v"}]}}, False),
        ({"table": {"name": "s.t", "partition_by": [{"day": "date(v)"}]}}, False),
        ({"table": {"name": "s.t", "cluster_by": ["v"]}}, False),
        ({"format": {"type": "json", "schema": "infer", "schema_hints": "v timestamp"}}, False),
    ],
)
def test_which_fields_a_flow_leaves_open(more, is_open):
    assert open_fields.open_for(Flow.model_validate({**FLOW, **more}))("v", "v") is is_open


def test_a_record_with_nothing_in_its_new_fields_is_no_reason_to_grow(spark):
    form = Json(schema="id int, s struct<x: int>, l array<struct<x: int>>")
    values = [each for value in NO_VALUE for each in ({"new": value}, {"s": {"new": value}}, {"l": [{"new": value}]})]
    texts = [json.dumps({"id": 1, **each}).encode() for each in values]
    filled = [b'{"id": 1, "new": {"a": [null, {"b": 0}]}}', b'{"id": 1, "s": {"new": [[false]]}}']
    grows = Evolution(on_new_column="evolve").with_defaults(infers=False)
    found = outcomes(spark, form.with_policies(grows), texts + filled)
    assert [each.reason for each in found] == [None] * len(texts) + ["FIELD_UNDECLARED"] * 2
    # Where a new field is refused, an empty one is too: it is there.
    refuses = Evolution(on_new_column="dead_letter").with_defaults(infers=False)
    found = outcomes(spark, form.with_policies(refuses), texts[3:] + filled)
    assert [each.reason for each in found] == ["FIELD_UNDECLARED"] * (len(texts) - 3 + 2)
    # And where single columns differ, each goes by its own policy.
    mixed = {"on_new_column": "dead_letter", "columns": {"new": {"on_new_column": "evolve"}}}
    found = outcomes(spark, form.with_policies(Evolution.model_validate(mixed).with_defaults(infers=False)), texts[3:5])
    assert [each.reason for each in found] == [None, "FIELD_UNDECLARED"]
