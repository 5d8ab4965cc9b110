"""Columns of a JSON Schema: by hand, and against jsonschema's own judgement of documents."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pyspark.sql import types as T
from tests.laws.gathering import gathered
from tests.rows.formats import outcomes

from rivermouth.decoding.json.json_schema_document import columns, is_json_schema
from rivermouth.formats.json import Json


def of(schema, **others):
    """The column of a property with this schema: its type, and whether it is NOT NULL."""
    found = columns({"type": "object", "properties": {"a": schema}, "required": ["a"]}, others)
    [field] = found.fields
    return field.dataType.simpleString() + (" not null" if not field.nullable else "")


DECIMAL = {
    "type": "number",
    "title": "org.apache.kafka.connect.data.Decimal",
    "connect.type": "bytes",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
}
NULL = {"type": "null"}
CASES = [
    ({"type": "string"}, "string not null"),
    ({"type": "string", "format": "date-time"}, "timestamp not null"),
    ({"type": "string", "format": "date"}, "date not null"),
    ({"type": "string", "format": "email"}, "string not null"),
    ({"type": "string", "format": ["date"]}, "string not null"),
    ({"type": "integer", "connect.type": {"is": "int8"}}, "bigint not null"),
    ({"type": "boolean"}, "boolean not null"),
    ({"type": "integer"}, "bigint not null"),
    ({"type": "integer", "maximum": 1 << 64}, "decimal(38,0) not null"),
    ({"type": "integer", "maximum": 1e20}, "decimal(38,0) not null"),
    ({"type": "integer", "maximum": 1e3}, "bigint not null"),
    ({"type": "integer", "exclusiveMaximum": 1 << 64}, "decimal(38,0) not null"),
    ({"type": "integer", "exclusiveMaximum": 1 << 63}, "bigint not null"),
    ({"type": "integer", "exclusiveMinimum": -1e20}, "decimal(38,0) not null"),
    ({"type": "integer", "exclusiveMaximum": True, "maximum": "9"}, "bigint not null"),
    ({"type": "number"}, "double not null"),
    ({"type": ["integer", "number"]}, "double not null"),
    ({"type": ["integer", "null"]}, "bigint"),
    ({"type": "null"}, "string"),
    ({"type": ["integer", "string"]}, "string not null"),
    ({}, "string"),
    (True, "string"),
    ({"enum": ["a", "b"]}, "string not null"),
    ({"enum": [1, 2, None]}, "bigint"),
    ({"const": 1.5}, "double not null"),
    ({"const": [1]}, "array<string> not null"),
    ({"type": "unknown"}, "string"),
    ({"type": "array"}, "array<string> not null"),
    ({"type": "array", "items": {"type": "integer"}}, "array<bigint> not null"),
    ({"items": {"type": ["integer", "null"]}}, "array<bigint> not null"),
    ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "number"}]}, "array<double> not null"),
    (
        {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "string"}},
        "array<string> not null",
    ),
    ({"type": "object"}, "string not null"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint> not null"),
    ({"type": "object", "patternProperties": {"^x": {"type": "boolean"}}}, "map<string,boolean> not null"),
    ({"properties": {"b": {"type": "integer"}, "gone": False}}, "struct<b:bigint> not null"),
    ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
    ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "double not null"),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string not null"),
    ({"type": "string", "oneOf": [{"const": "a"}, {"const": "b"}]}, "string not null"),
    (
        {"oneOf": [{"properties": {"b": {"type": "integer"}}}, {"properties": {"c": {"type": "string"}}}]},
        "struct<b:bigint,c:string> not null",
    ),
    (
        {"allOf": [{"properties": {"b": {"type": "integer"}}}, {"properties": {"c": {"type": "string"}}}]},
        "struct<b:bigint,c:string> not null",
    ),
    ({"allOf": [{"type": "integer"}, {"type": "string"}]}, "string not null"),
    ({"type": "number", "allOf": [{"type": "integer"}]}, "bigint not null"),
    ({"type": "integer", "connect.type": "int16"}, "smallint not null"),
    ({"type": "number", "connect.type": "float32"}, "float not null"),
    (DECIMAL, "decimal(10,2) not null"),
    ({"oneOf": [NULL, DECIMAL]}, "decimal(10,2)"),
    ({"oneOf": [DECIMAL, NULL]}, "decimal(10,2)"),
    ({"title": "Price", "anyOf": [{"const": None}, DECIMAL]}, "decimal(10,2)"),
    ({"oneOf": [NULL, DECIMAL, DECIMAL, NULL]}, "decimal(10,2)"),
    ({"oneOf": [NULL, DECIMAL, {"type": "number"}]}, "double"),
    ({"anyOf": [{"type": "string", "format": "date-time"}, NULL]}, "timestamp"),
    ({"anyOf": [{"type": "string", "format": "date"}, NULL]}, "date"),
    ({"anyOf": [{"type": "string", "format": "date"}, {"type": "string"}, NULL]}, "string"),
    ({"oneOf": [NULL, {"type": "integer", "connect.type": "int16"}]}, "smallint"),
    ({"oneOf": [NULL, {"type": "number", "connect.type": "float32"}]}, "float"),
    ({"oneOf": [NULL, {"type": "integer", "maximum": 1 << 64}]}, "decimal(38,0)"),
    ({"type": "array", "items": {"oneOf": [NULL, DECIMAL]}}, "array<decimal(10,2)> not null"),
    ({"type": "number", "title": "org.apache.kafka.connect.data.Decimal"}, "decimal(38,0) not null"),
    (
        {
            "type": "number",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"scale": math.inf},
        },
        "double not null",
    ),
    (
        {
            "type": "number",
            "title": "org.apache.kafka.connect.data.Decimal",
            "connect.parameters": {"scale": "-1"},
        },
        "double not null",
    ),
]


@pytest.mark.parametrize(("schema", "told"), CASES, ids=[json.dumps(schema) for schema, _ in CASES])
def test_a_property_becomes_a_column(schema, told):
    assert of(schema) == told


def test_what_a_schema_refers_to_counts():
    money = {"type": "object", "properties": {"cents": {"$ref": "#/definitions/a~1b%20c"}}}
    money |= {"definitions": {"a/b c": {"type": "integer"}}}
    assert of({"$ref": "money.json"}, **{"money.json": money}) == "struct<cents:bigint> not null"
    root = {"$defs": {"id": {"type": "integer"}}, "properties": {"id": {"$ref": "#/$defs/id"}}}
    assert columns(root).simpleString() == "struct<id:bigint>"
    assert columns({"$ref": "#/definitions/order", "definitions": {"order": root | {"$defs": {}}, "id": 1}} | root)


def test_required_columns_are_not_null_and_descriptions_are_comments():
    inner = {"type": "object", "required": ["y"], "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
    found = columns({"properties": {"a": inner, "b": {"type": "string", "description": "of it"}}, "required": ["b"]})
    assert [(field.name, field.nullable, field.metadata) for field in found] == [
        ("a", True, {}),
        ("b", False, {"comment": "of it"}),
    ]
    assert [(field.name, field.nullable) for field in found["a"].dataType] == [("x", True), ("y", False)]
    either = {"oneOf": [{"type": "null", "description": "none"}, {"type": "string", "description": "of it"}]}
    assert columns({"properties": {"a": either}})["a"].metadata == {"comment": "of it"}


DEEP = {"type": "integer"}
for _ in range(70):
    DEEP = {"type": "array", "items": DEEP}
LAUGHS = {
    "$defs": {f"l{n}": {"properties": {f"p{m}": {"$ref": f"#/$defs/l{n + 1}"} for m in range(9)}} for n in range(9)}
}
LAUGHS["$defs"]["l9"] = {"type": "integer"}
SIZE = "the JSON Schema has more than 20,000 values, or nests more than 60 levels"
NO_OBJECT = "the JSON Schema describes no object with properties"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "array", "items": {}}, NO_OBJECT),
        ({"type": "object"}, NO_OBJECT),
        ({"properties": {"a": False}}, NO_OBJECT),
        ({"type": ["object", "array"], "properties": {"a": {}}}, NO_OBJECT),
        ({"properties": {"a": {"$ref": "#"}}}, "the JSON Schema refers to itself by '#': no table is as deep"),
        ({"$ref": "other.json"}, "the JSON Schema refers to 'other.json', which is not there"),
        ({"$ref": "#/definitions/a"}, "the JSON Schema refers to '#/definitions/a', which is not there"),
        ({"$ref": "#anchor"}, "the JSON Schema refers to '#anchor', which is not there"),
        ({"properties": {"a": DEEP}}, SIZE),
        ({**LAUGHS, "$ref": "#/$defs/l0"}, SIZE),
    ],
)
def test_what_no_table_can_be_made_of_is_refused(schema, told):
    with pytest.raises(ValueError, match="the JSON Schema") as caught:
        columns(schema)
    assert str(caught.value) == told


def test_a_file_that_nests_deeper_than_can_be_read_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"properties":' * 100_000)
    with pytest.raises(ValueError, match="is not JSON") as caught:
        Json.model_validate({"type": "json", "schema": str(path)}).schema_as_declared()
    assert str(caught.value) == f"the schema file {path} is not JSON"


def test_a_schema_of_spark_is_none():
    assert not is_json_schema(T.StructType([T.StructField("properties", T.LongType())]).jsonValue())
    assert is_json_schema({"$schema": "https://json-schema.org/draft/2020-12/schema"})


SCALARS = st.sampled_from(
    [{"type": kind} for kind in ("string", "boolean", "integer", "number")]
    + [{"type": ["string", "null"]}, {"enum": ["a", "b"]}, {"type": "string", "format": "date"}, {}]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each}),
        inner.map(lambda each: {"type": "object", "additionalProperties": each}),
        inner.map(lambda each: {"oneOf": [{"type": "null"}, each]} if each else each),
        st.builds(
            lambda properties, needed: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if name in needed],
                "additionalProperties": False,
            },
            st.dictionaries(st.sampled_from("xyz"), inner, min_size=1, max_size=3),
            st.sets(st.sampled_from("xyz")),
        ),
    ),
    max_leaves=5,
)
NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.floats(allow_nan=False, allow_infinity=False, width=32)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["a", "b", "2026-01-31", "zoë"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyzw"), inner, max_size=3),
    max_leaves=5,
)


def document_of(schema, draw):
    """A document that the schema takes, or anything."""
    if draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    if "oneOf" in schema:
        return None if draw(st.booleans()) else document_of(schema["oneOf"][1], draw)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    match kind if isinstance(kind, str) else None:
        case "array":
            return [document_of(schema["items"], draw) for _ in range(draw(st.integers(0, 2)))]
        case "object" if "properties" in schema:
            names = [name for name in schema["properties"] if name in schema["required"] or draw(st.booleans())]
            return {name: document_of(schema["properties"][name], draw) for name in names}
        case "object":
            return {name: document_of(schema["additionalProperties"], draw) for name in draw(st.sets(st.just("k")))}
        case "string":
            return draw(st.sampled_from(["a", "2026-01-31"]))
        case "boolean":
            return draw(st.booleans())
        case "integer":
            return draw(st.integers(-9, 9))
        case "number":
            return draw(st.sampled_from([0.5, 1, -2.25]))
    return draw(VALUES)


@st.composite
def pairs(draw):
    """A schema, and a document."""
    schema = draw(SCHEMAS)
    return schema, document_of(schema, draw)


def test_what_a_schema_takes_the_table_takes_value_by_value(spark):
    """One Spark job: a column a pair, a record a document."""
    checked = [(schema, value) for schema, value in gathered(pairs(), 150) if valid(schema, value)]
    assert len(checked) > 30
    whole = {"type": "object", "properties": {f"c{n}": schema for n, (schema, _) in enumerate(checked)}}
    form = Json.model_validate({"type": "json", "schema": whole})
    documents = [{f"c{n}": value} for n, (_, value) in enumerate(checked)]
    found = outcomes(spark, form, [json.dumps(each).encode() for each in documents])
    assert [(each.reason, each.field) for each in found] == [(None, None)] * len(documents)
    for number, (schema, value) in enumerate(checked):
        held = found[number].data[f"c{number}"]
        assert same(held, value, schema), (schema, value, held)


def valid(schema, value):
    """As jsonschema has it, without what Spark and JSON Schema call by one word: 1.0 is no integer to a table."""
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return checker.is_valid(value) and not has_whole_float(value)


def has_whole_float(value):
    if isinstance(value, dict):
        return any(map(has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_float, value))
    return isinstance(value, float) and value == math.trunc(value)


def same(held, value, schema):
    """Whether a table's value is a document's; text of JSON where the schema says nothing of the kind."""
    if "oneOf" in schema:
        return held is None if value is None else same(held, value, schema["oneOf"][1])
    kind = schema.get("type")
    if not schema or (kind is None and "enum" not in schema):
        return held is None if value is None else (held == value or json.loads(held) == value)
    if isinstance(value, list):
        return len(held) == len(value) and all(same(*two, schema["items"]) for two in zip(held, value, strict=True))
    if isinstance(value, dict) and "properties" in schema:
        kept = {name: each for name, each in held.items() if name in value}
        return all(same(kept[name], each, schema["properties"][name]) for name, each in value.items())
    if isinstance(value, dict):
        return all(same(held[name], each, schema["additionalProperties"]) for name, each in value.items())
    if schema.get("format") == "date" and value is not None:
        return str(held) == value
    return held == value
