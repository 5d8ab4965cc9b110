"""VARIANT in the format json: a part of a document of any shape, kept digit by digit, or refused by name."""

from __future__ import annotations

import json
from decimal import Decimal, localcontext

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal
from tests.rows.formats import Outcome, frame, outcomes

from rivermouth.decoding.declared.declared import variants_as_declared
from rivermouth.formats.json import Json

D = Decimal
# Our reader is not sure of a zone's name, and asks Spark's parser about the whole document.
UNSURE = '"2026-01-02T03:04:05 Europe/Berlin"'
SCHEMA = "a variant, t timestamp"

# JSON text to the value that is stored.
FITS = {
    "null": None,
    "true": True,
    "0": 0,
    "-0": 0,
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "9223372036854775808": D(2**63),
    "9" * 38: D("9" * 38),
    "1" + "0" * 38: 1e38,
    "1.10": D("1.1"),
    "-0.00": D(0),
    "0.1234567890123456789012345678": D("0.1234567890123456789012345678"),
    "0." + "0" * 37 + "1": D("1e-38"),
    "0." + "0" * 38 + "1": 1e-39,
    "12345678901234567890.123456789012345678": D("12345678901234567890.123456789012345678"),
    "1e2": 100.0,
    "1.5E-1": 0.15,
    "1e-400": 0.0,
    '""': "",
    '"null"': "null",
    '"{}"': "{}",
    '"a\\u0000b\\ud83d\\ude00\\"\\\\"': 'a\0b😀"\\',
    '"' + "x" * 100 + '"': "x" * 100,
    "[]": [],
    "{}": {},
    '[1, "1", null, [], {}, [1.50]]': [1, "1", None, [], {}, [D("1.5")]],
    '{"b" : {"y": null}, "a": [{"x": 1}, {"x": "1"}], "": 0}': {"b": {"y": None}, "a": [{"x": 1}, {"x": "1"}], "": 0},
    '{"a": {"x": 1, "x": {"y": 2, "y": 3}}, "a": {"x": 4, "z": 5, "x": 6}}': {"a": {"x": 6, "z": 5}},
    '{"' + "n" * 20_000 + '": 1}': {"n" * 20_000: 1},
    "[" * 210 + "]" * 210: json.loads("[" * 210 + "]" * 210),
    "1." + "0" * 500: 1.0,
}

RANGE = "field a is declared variant and holds a number beyond its range"
HALF = "an escape is half a character (a surrogate without its pair)"
LARGE = "field a is declared variant and holds more than 16,777,216 bytes of one"
REFUSED = {
    "1e400": ("FIELD_TYPE", "a", RANGE),
    '{"x": [-1e309]}': ("FIELD_TYPE", "a", RANGE),
    '{"x": 1e309, "x": 1}': ("FIELD_TYPE", "a", RANGE),
    "9" * 400: ("FIELD_TYPE", "a", RANGE),
    '"\\ud800"': ("LONE_SURROGATE", None, HALF),
    '{"\\udc00": 1}': ("LONE_SURROGATE", None, HALF),
    "[" * 1000 + "]" * 1000: ("TOO_DEEP", None, "the value is nested deeper than 1000 levels"),
    "1" * 1001: ("TOO_LONG", None, "a number is longer than 1000 characters"),
}


def plain(stored):
    """What a VARIANT holds, types and all; PySpark computes decimals with as many digits as the context has."""
    with localcontext(prec=100):
        return typed(stored.toPython() if isinstance(stored, VariantVal) else stored)


def typed(value):
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    return type(value), value


def documents(texts, more):
    return [f'{{"a":{text}{more}}}'.encode() for text in texts]


@pytest.mark.parametrize("more", ["", f', "t": {UNSURE}'], ids=["ours", "spark's"])
def test_what_is_in_a_document_is_stored_digit_by_digit(spark, more):
    found = outcomes(spark, Json(schema=SCHEMA), documents(FITS, more))
    assert [each.reason for each in found] == [None] * len(FITS)
    told = dict(zip(FITS, (plain(each.data["a"]) for each in found), strict=True))
    assert told == {text: typed(value) for text, value in FITS.items()}


@pytest.mark.parametrize("more", ["", f', "t": {UNSURE}'], ids=["ours", "spark's"])
def test_what_no_variant_holds_is_refused_with_its_reason(spark, more):
    found = outcomes(spark, Json(schema=SCHEMA), documents(REFUSED, more))
    assert dict(zip(REFUSED, found, strict=True)) == {text: Outcome(None, *told) for text, told in REFUSED.items()}


@pytest.mark.long
@pytest.mark.parametrize("more", ["", f', "t": {UNSURE}'], ids=["ours", "spark's"])
def test_a_variant_that_is_too_large_is_refused(spark, more):
    text = '"' + "x" * (1 << 24) + '"'
    assert outcomes(spark, Json(schema=SCHEMA), documents([text], more)) == [Outcome(None, "TOO_LONG", "a", LARGE)]


@pytest.mark.parametrize("form", [{}, {"timestamp_format": "yyyy/MM/dd"}], ids=["ours", "spark's"])
def test_within_other_types_and_where_there_is_none(spark, form):
    schema = "s struct<v:variant NOT NULL>, l array<variant>, m map<string,variant>, v variant NOT NULL, t timestamp"
    values = [
        b'{"s":{"v":{"x":1}},"l":[1,null,"a",{"y":[2.50]}],"m":{"k":1,"j":null,"k":"2"},"v":false,"more":1}',
        b'{"s":null,"v":0}',
        b'{"v":null}',
        b"{}",
        b'{"s":{},"v":1}',
        b'{"l":[1e999],"v":1}',
        b'{"m":{"k":[{"x":1e999}]},"v":1}',
    ]
    first, second, *refused = outcomes(spark, Json(schema=schema, **form), values)
    assert plain(first.data["s"]["v"]) == typed({"x": 1})
    assert list(map(plain, first.data["l"])) == [typed(1), typed(None), typed("a"), typed({"y": [D("2.5")]})]
    assert {key: plain(value) for key, value in first.data["m"].items()} == {"k": typed("2"), "j": typed(None)}
    assert (plain(first.data["v"]), second.data["s"]) == (typed(False), None)
    assert first.data["l"][1] is None
    assert [(each.reason, each.field) for each in refused] == [
        ("FIELD_MISSING", "v"),
        ("FIELD_MISSING", "v"),
        ("FIELD_MISSING", "s.v"),
        ("FIELD_TYPE", "l[]"),
        ("FIELD_TYPE", "m[]"),
    ]


def test_queries_find_the_parts_by_their_paths(spark):
    value = b'{"a":{"total":{"amount":12.50},"tags":["x","y"],"n":null}}'
    decoded = Json(schema="a variant").decode(frame(spark, [value])).select(F.col("__data.a").alias("a"))
    [row] = decoded.selectExpr(
        "variant_get(a, '$.total.amount', 'decimal(10,2)')",
        "variant_get(a, '$.tags[1]', 'string')",
        "is_variant_null(variant_get(a, '$.n', 'variant'))",
        "to_json(a)",
        "schema_of_variant(a)",
    ).collect()
    assert tuple(row) == (
        D("12.50"),
        "y",
        True,
        '{"n":null,"tags":["x","y"],"total":{"amount":12.5}}',
        "OBJECT<n: VOID, tags: ARRAY<STRING>, total: OBJECT<amount: DECIMAL(3,1)>>",
    )


@pytest.mark.parametrize(
    ("declared", "names"),
    [
        ("id int, Payload VARIANT NOT NULL, `a variant` int, s struct<variant: variant>", {"payload"}),
        ("variant: variant COMMENT 'x, y variant', n decimal(10,2), `v v` variant", {"variant", "v v"}),
        ("infer", set()),
        (None, set()),
        (
            {"fields": [{"name": "a_2", "type": "variant", "metadata": {"json_name": "A"}}, {"name": "s", "type": {}}]},
            {"a"},
        ),
    ],
)
def test_variants_are_found_without_spark(declared, names):
    assert variants_as_declared(declared) == names
