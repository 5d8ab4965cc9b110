"""Documents in strings: what is read in their place, in Spark and in samples, and what is refused by path."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.decoding.json import nested_documents
from rivermouth.decoding.wrapped import unwrap
from rivermouth.decoding.wrapped.unwrap_in_python import unwrap_of
from rivermouth.formats.json import Json
from rivermouth.schemas.inference import Corrupt
from rivermouth.spec import Flow

PATHS = ("payload", "to.payload", "items[].body", "by[].x[]", "outer", "outer.inner")
LONE = "holds an escape that is half a character (a surrogate without its pair)"

# The value to what is read.
OPENED = {
    b'{"id":1}': b'{"id":1}',
    b'{ "payload" : "{\\"amount\\": 1.10}" , "id": 1 }': b'{ "payload" : {"amount": 1.10} , "id": 1 }',
    b'{"payload":null,"to":{"payload":null,"x":"{}"}}': b'{"payload":null,"to":{"payload":null,"x":"{}"}}',
    b'{"payload":"null"}': b'{"payload":null}',
    b'{"payload":" [1e400, \\"\\\\ud800\\"] "}': b'{"payload": [1e400, "\\ud800"] }',
    b'{"payload":"\\"\\\\u00e9\\""}': b'{"payload":"\\u00e9"}',
    '{"payload":"{\\"ä\\":\\"\\ud83d\\ude00ö\\"}"}'.encode(): '{"payload":{"ä":"😀ö"}}'.encode(),
    b'{"payload":"1","payload":"{\\"a\\":1,\\"a\\":2}"}': b'{"payload":1,"payload":{"a":1,"a":2}}',
    b'{"to":{"payload":"[]"},"payload2":"[]"}': b'{"to":{"payload":[]},"payload2":"[]"}',
    b'{"to":[{"payload":"[]"}],"items":{"body":"[]"}}': b'{"to":[{"payload":"[]"}],"items":{"body":"[]"}}',
    b'{"items":[{"body":"{}"},{"body":"1"},null,5]}': b'{"items":[{"body":{}},{"body":1},null,5]}',
    b'{"by":{"k":{"x":["1","[2]"]},"j":{}}}': b'{"by":{"k":{"x":[1,[2]]},"j":{}}}',
    b'{"outer":"{\\"inner\\":\\"{\\\\\\"x\\\\\\":1}\\"}"}': b'{"outer":{"inner":{"x":1}}}',
    # What is wrong with these is found where they are read.
    b'{"payload":"{}"} x': b'{"payload":"{}"} x',
    b'{"payload":"{}"': b'{"payload":"{}"',
    b'{"payload":{},': b'{"payload":{},',
    b"": b"",
    b"[]": b"[]",
    b'"{}"': b'"{}"',
}
REFUSED = {
    b'{"payload":{}}': ("FIELD_TYPE", "payload", "field payload is a document in a string and holds an object"),
    b'{"payload":[1]}': ("FIELD_TYPE", "payload", "field payload is a document in a string and holds an array"),
    b'{"payload":true}': ("FIELD_TYPE", "payload", "field payload is a document in a string and holds a boolean"),
    b'{"payload":1}': ("FIELD_TYPE", "payload", "field payload is a document in a string and holds a whole number"),
    b'{"to":{"payload":1.5}}': (
        "FIELD_TYPE",
        "to.payload",
        "field to.payload is a document in a string and holds a number with a fraction or an exponent",
    ),
    **{
        b'{"payload":' + json.dumps(text).encode() + b"}": (
            "INVALID_JSON",
            "payload",
            "field payload holds a string that is no JSON document",
        )
        for text in ("", " ", "{", "{} {}", "1, 2", '1, "id": 2', "NaN", "{'a':1}", "\ufeff{}", "[" * 1001 + "]" * 1001)
    },
    b'{"payload":"\\"\\ud800\\""}': ("LONE_SURROGATE", "payload", f"field payload {LONE}"),
    b'{"outer":"{\\"inner\\":1}"}': (
        "FIELD_TYPE",
        "outer.inner",
        "field outer.inner is a document in a string and holds a whole number",
    ),
    b'{"items":[{"body":"{}"},{"body":"}"}],"payload":1}': (
        "INVALID_JSON",
        "items[].body",
        "field items[].body holds a string that is no JSON document",
    ),
}


def flow(**more):
    form = {"type": "json", "schema": "infer", "documents_in_strings": PATHS}
    return Flow(name="orders", topics=("orders",), format=form, table="silver.orders", **more)


def in_python(value):
    try:
        return unwrap_of(flow())(value), None
    except Corrupt as refused:
        return None, str(refused)


def same(one, other):
    """The same bytes, or the same JSON: samples are written again."""
    return one == other or json.loads(one, object_pairs_hook=list) == json.loads(other, object_pairs_hook=list)


def test_documents_stand_where_their_strings_stood(spark):
    values = [*OPENED, *REFUSED, b'{"payload":"{}","x":"\xff"}', None]
    rows = unwrap.unwrapped(frame(spark, values), flow()).orderBy(names.OFFSET)
    found = [tuple(row) for row in rows.select(names.VALUE, "__wrapping.*").collect()]
    assert dict(zip(OPENED, found[: len(OPENED)], strict=True)) == {
        value: (bytearray(opened), None, None, None) for value, opened in OPENED.items()
    }
    assert dict(zip(REFUSED, found[len(OPENED) : -2], strict=True)) == {
        value: (None, *told) for value, told in REFUSED.items()
    }
    assert found[-2:] == [
        (None, "INVALID_UTF8", None, "the value is not valid UTF-8"),
        (None, None, None, None),
    ]


def test_samples_are_read_in_the_same_way():
    assert [value for value, opened in OPENED.items() if not same(in_python(value)[0], opened)] == []
    assert {value: in_python(value) for value in REFUSED} == {value: (None, told[0]) for value, told in REFUSED.items()}
    deep = b'{"payload":"[]","x":' + b"[" * 900 + b"]" * 900 + b"}"
    assert in_python(deep)[1] in (None, "TOO_DEEP")


@pytest.mark.parametrize("path", ["", ".", "a.", "a..b", "[]", "a[", "a[0]", "a]"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValidationError) as caught:
        Json(schema="a int", documents_in_strings=[path])
    [error] = caught.value.errors()
    assert error["msg"] == (
        f"Value error, {path!r} is no path of a field: write payload, order.payload or items[].payload"
    )


EACH = "[] is only for elements of arrays and values of maps"
SCHEMA = (
    "id int, payload struct<a:int>, v variant, to struct<payload:map<string,array<int>>>, items array<struct<x:int>>"
)


@pytest.mark.parametrize("path", ["payload", "v", "v.a.b[]", "to.payload", "to.payload[]", "items", "items[]"])
def test_a_path_is_one_of_a_part_that_is_declared(spark, path):
    assert Json(schema=SCHEMA, documents_in_strings=path).columns(spark).names == ["id", "payload", "v", "to", "items"]


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("id", "'id', which is of type int: declare what is in its document, a struct, array, map or variant"),
        (
            "payload.a",
            "'payload.a', which is of type int: declare what is in its document, a struct, array, map or variant",
        ),
        ("payloads", "'payloads', which is no field of the schema: did you mean 'payload'?"),
        ("to.paylod", "'to.paylod', which is no field of the schema: did you mean 'payload'?"),
        ("items.x", f"'items.x', which is no field of the schema: {EACH}"),
        ("payload[]", f"'payload[]', which is no field of the schema: {EACH}"),
    ],
)
def test_a_path_of_anything_else_is_refused(spark, path, told):
    with pytest.raises(ValueError) as caught:
        Json(schema=SCHEMA, documents_in_strings=[path]).columns(spark)
    assert str(caught.value) == f"documents_in_strings names {told}"


def test_the_tree_of_paths():
    assert nested_documents.tree(["a", "a.b", "c[].d[]", "c"]) == {
        "fields": {
            "a": {"document": True, "fields": {"b": {"document": True}}},
            "c": {"document": True, "each": {"fields": {"d": {"each": {"document": True}}}}},
        }
    }
