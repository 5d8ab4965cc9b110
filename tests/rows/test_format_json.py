"""The format json: what fits its declared type exactly is stored, all else is refused by name."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal

import pytest
from pydantic import ValidationError
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.plans import plan_text
from tests.rows.formats import Outcome, frame, outcome, outcomes

from rivermouth.extend import find_kind
from rivermouth.formats.json import Json

UTC = dt.UTC
D = Decimal

# By type: JSON text to the value that is stored. (Collected timestamps are naive, in UTC.)
FITS = {
    "boolean": {"true": True, "false": False, "null": None},
    "tinyint": {"127": 127, "-128": -128, "0": 0, "-0": 0},
    "smallint": {"32767": 32767, "-32768": -32768},
    "int": {"2147483647": 2147483647, "-2147483648": -2147483648},
    "bigint": {"9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808},
    "float": {"1.5": 1.5, "3": 3.0, "3.4e38": 3.3999999521443642e38, "1e-400": 0.0, "-2E0": -2.0},
    "double": {"1.5": 1.5, "3": 3.0, "1e308": 1e308, "1e-400": 0.0, "9007199254740993": 9007199254740992.0},
    "decimal(10,2)": {
        "9.99": D("9.99"),
        "9.9900000": D("9.99"),
        "-99999999.99": D("-99999999.99"),
        "12": D("12.00"),
        "1e2": D("100.00"),
        "1.5E-1": D("0.15"),
        '"9.99"': D("9.99"),
        '"-0.10"': D("-0.10"),
        '"1E2"': D("100.00"),
        # As producers write it whose fields have a width.
        '"     9.99 "': D("9.99"),
        '"9.9\\u0000"': D("9.90"),
        '"1.00 "': D("1.00"),
        '"-1.5e1\\n "': D("-15.00"),
        '" 12 "': D("12.00"),
        "0.000": D("0.00"),
        "0e-400": D("0.00"),
        "9.990" + "0" * 30: D("9.99"),
    },
    "decimal(38,18)": {
        "12345678901234567890.123456789012345678": D("12345678901234567890.123456789012345678"),
        '"12345678901234567890.123456789012345678"': D("12345678901234567890.123456789012345678"),
        "0.100000000000000000": D("0.1"),
        "1e5": D("100000"),
        "1.23456781234567E7": D("12345678.1234567"),
        '"1E-7"': D("0.0000001"),
        '"1.50E+2"': D("150"),
        "7": D("7"),
    },
    "decimal(38,0)": {"9" * 38: D("9" * 38), "1.0": D(1)},
    "string": {
        '"text"': "text",
        '""': "",
        '"a\\u0000b"': "a\0b",
        '"\\ud83d\\ude00"': "😀",
        '"\\\\ud800"': "\\ud800",
        '"\\"Infinity\\""': '"Infinity"',
        "12": "12",
        "123456789012345678901234567890": "123456789012345678901234567890",
        "1.10": "1.10",
        "-0": "-0",
        "1e400": "1e400",
        "0.1234567890123456789012345678901234567890": "0.1234567890123456789012345678901234567890",
        "true": "true",
        '{"b" : [1, "x", null], "b":2}': '{"b":[1,"x",null],"b":2}',
        '{"x": "Infinity"}': '{"x":"Infinity"}',
        '{"x": "Infinity", "y": [1e400, -0.10, "a\\u0001\\"\\\\u0041"]}': (
            '{"x":"Infinity","y":[1e400,-0.10,"a\\u0001\\"\\\\u0041"]}'
        ),
        "null": None,
    },
    "binary": {'"QQ=="': b"A", '""': b""},
    "date": {'"2026-02-28"': dt.date(2026, 2, 28), '"0001-01-01"': dt.date(1, 1, 1)},
    "timestamp": {
        '"2026-01-02T03:04:05Z"': dt.datetime(2026, 1, 2, 3, 4, 5),
        '"2026-01-02 03:04:05"': dt.datetime(2026, 1, 2, 3, 4, 5),
        '"2026-01-02T03:04"': dt.datetime(2026, 1, 2, 3, 4),
        '"2026-01-02T03:04:05.123456789+01:00"': dt.datetime(2026, 1, 2, 2, 4, 5, 123456),
        '"2026-01-02T03:04:05-0130"': dt.datetime(2026, 1, 2, 4, 34, 5),
        '"2026-01-02"': dt.datetime(2026, 1, 2),
        '"2026-1-2T03:04:05Z"': dt.datetime(2026, 1, 2, 3, 4, 5),
        '"2026-01-02T03:04:05 Europe/Berlin"': dt.datetime(2026, 1, 2, 2, 4, 5),
    },
    "timestamp_ntz": {
        '"2026-01-02T03:04:05.5"': dt.datetime(2026, 1, 2, 3, 4, 5, 500000),
        '"2026-01-02"': dt.datetime(2026, 1, 2),
    },
    "struct<x:tinyint,t:timestamp>": {
        '{"x":1,"t":"2026-01-02"}': {"x": 1, "t": dt.datetime(2026, 1, 2)},
        '{"y":1}': {"x": None, "t": None},
    },
    "array<struct<d:date,m:decimal(5,1)>>": {
        '[{"d":"2026-01-02","m":1.5},null,{}]': [
            {"d": dt.date(2026, 1, 2), "m": D("1.5")},
            None,
            {"d": None, "m": None},
        ],
        "[]": [],
    },
    "array<array<timestamp>>": {'[["2026-01-02"],null,[null]]': [[dt.datetime(2026, 1, 2)], None, [None]]},
    "map<string,tinyint>": {'{"k":1,"j":null,"k":3}': {"j": None, "k": 3}, "{}": {}},
    "map<string,struct<m:map<string,bigint>>>": {'{"k":{"m":{"a":1,"a":2}}}': {"k": {"m": {"a": 2}}}},
}

# By type: JSON text to what the message calls it.
A_NUMBER, FRACTION = "a whole number", "a number with a fraction or an exponent"
STRING, OBJECT, ARRAY, BOOLEAN = "a string", "an object", "an array", "a boolean"
BEYOND, OVERFLOW = "a whole number beyond its range", "a number beyond its range"
DIGITS = "a number with more digits than that, before or after the point"
NO_DECIMAL, NO_BASE64 = "a string that is no decimal number", "a string that is no base64"
NO_DATE = "a string that is no date (YYYY-MM-DD)"
NO_TIMESTAMP = "a string that is no timestamp (YYYY-MM-DDThh:mm:ss, with an offset or in UTC)"
NO_NTZ = "a string that is no timestamp without an offset (YYYY-MM-DDThh:mm:ss)"
WHOLE = {"1.0": FRACTION, "1e3": FRACTION, '"12"': STRING, '""': STRING, "true": BOOLEAN, "{}": OBJECT, "[]": ARRAY}
MISFITS = {
    "boolean": {"1": A_NUMBER, '"true"': STRING, "0.0": FRACTION},
    # Spark's own parser makes -56 of 200.
    "tinyint": {"128": BEYOND, "200": BEYOND, "255": BEYOND, "-129": BEYOND, "70000": BEYOND, **WHOLE},
    "smallint": {"32768": BEYOND, **WHOLE},
    "int": {"2147483648": BEYOND, **WHOLE},
    "bigint": {"9223372036854775808": BEYOND, "1" * 400: BEYOND, **WHOLE},
    "float": {"1e39": OVERFLOW, "-1e400": OVERFLOW, '"1"': STRING, '"NaN"': STRING, '"Infinity"': STRING},
    "double": {
        "1e400": OVERFLOW,
        "-1e309": OVERFLOW,
        "9" * 400: OVERFLOW,
        '"1"': STRING,
        '""': STRING,
        "true": BOOLEAN,
    },
    "decimal(10,2)": {
        "9.999": DIGITS,  # Spark's own parser makes 10.00 of it
        "9.990000000000000001": DIGITS,  # to a double it is 9.99
        "0.000000000000000000001": DIGITS,
        "1e-400": DIGITS,  # to a double it is 0
        "1e-999999999": DIGITS,  # Spark's own parser takes hours for it
        "100000000": DIGITS,
        "1e-300": DIGITS,
        "1e400": DIGITS,
        "1e999999999": DIGITS,  # Spark's own parser takes hours for it
        '"1e-999999999"': NO_DECIMAL,
        '"1,234"': NO_DECIMAL,  # Spark's own parser makes 1234 of it
        '"\u0661"': NO_DECIMAL,
        '"0x1"': NO_DECIMAL,
        '""': NO_DECIMAL,
        '"NaN"': NO_DECIMAL,
        '"9.999 "': DIGITS,
        '" "': NO_DECIMAL,
        '"9. 9"': NO_DECIMAL,
        '"9.99\\u007f"': NO_DECIMAL,
        '"1e 2"': NO_DECIMAL,
        "true": BOOLEAN,
        "{}": OBJECT,
        "[1]": ARRAY,
    },
    "decimal(38,18)": {
        "1.0000000000000000001": DIGITS,
        "1" + "0" * 20: DIGITS,
        "12345678901234567890.1234567890123456789": DIGITS,
        "1.2345678123456789E7": DIGITS,  # more than a double is sure of
        "12345.67890123456789012345678901234567890": DIGITS,
        '"1.0000000000000000001E0"': DIGITS,
        "1e999999999": DIGITS,
        "1.2345678901234567e-5": DIGITS,
        '"1e-999999999"': NO_DECIMAL,
        "false": BOOLEAN,
        '{"a":1,"a":2}': OBJECT,
        '"x"': NO_DECIMAL,
    },
    "binary": {'"QQ"': NO_BASE64, '"!!"': NO_BASE64, "12": A_NUMBER, '"Q\\nQ=="': NO_BASE64},
    "date": {
        "1": A_NUMBER,
        '"2026"': NO_DATE,
        '"12345"': NO_DATE,
        '"2026-02-30"': NO_DATE,
        '"2026-1-2"': NO_DATE,
        '"2026-01-02T00:00:00"': NO_DATE,
        '" 2026-01-02"': NO_DATE,
        '"2026-01-2 "': NO_DATE,
        '""': NO_DATE,
    },
    "timestamp": {
        "1767225600": A_NUMBER,
        "1.5": FRACTION,
        '"2026"': NO_TIMESTAMP,
        '"1767225600"': NO_TIMESTAMP,
        '"12:30"': NO_TIMESTAMP,  # Spark's own parser makes it a time of today
        '"T12:30:00"': NO_TIMESTAMP,
        '"2026-01-02T25:00:00"': NO_TIMESTAMP,
        '"2026-02-30T00:00:00Z"': NO_TIMESTAMP,
        '"2026-01-02T03:04:05+18:01"': NO_TIMESTAMP,
        '"2026-01-02T03:04:05.5-23:59"': NO_TIMESTAMP,
        '"2026-01-02T03:04:05+0160"': NO_TIMESTAMP,
        '"2026-01"': NO_TIMESTAMP,
        '"2026-1-2"': NO_TIMESTAMP,
        '"now"': NO_TIMESTAMP,
        '""': NO_TIMESTAMP,
        "{}": OBJECT,
    },
    "timestamp_ntz": {
        '"2026-01-02T03:04:05Z"': NO_NTZ,
        '"2026-01-02T03:04:05+01:00"': NO_NTZ,
        '"12:30"': NO_NTZ,
        '"2026-01-02T03:04:05\\n"': NO_NTZ,
    },
    "struct<x:int>": {"[]": ARRAY, '"{}"': STRING, "1": A_NUMBER},
    "array<int>": {"{}": OBJECT, '"[]"': STRING},
    "map<string,int>": {"[]": ARRAY},
}

DEEPER = [
    ("s struct<x:tinyint>", '{"s":{"x":300}}', "FIELD_TYPE", "s.x"),
    ("l array<struct<m:decimal(5,1)>>", '{"l":[{"m":1.5},{"m":1.55}]}', "FIELD_TYPE", "l[].m"),
    ("l array<int>", '{"l":[1,"2"]}', "FIELD_TYPE", "l[]"),
    ("l array<struct<x:int>>", '{"l":[[]]}', "FIELD_TYPE", "l[]"),
    ("m map<string,double>", '{"m":{"a":1e999}}', "FIELD_TYPE", "m[]"),
    ("m map<string,array<date>>", '{"m":{"a":["2026-02-30"]}}', "FIELD_TYPE", "m[][]"),
    ("a int, b int", '{"b":"x","a":"y"}', "FIELD_TYPE", "a"),
    ("a int", '{"a":"x","a":1}', "FIELD_TYPE", "a"),
    ("a int not null", "{}", "FIELD_MISSING", "a"),
    ("a int not null", '{"a":null}', "FIELD_MISSING", "a"),
    ("a int not null", '{"a":1,"a":null}', "FIELD_MISSING", "a"),
    ("s struct<x:int not null>", '{"s":{}}', "FIELD_MISSING", "s.x"),
]

WHOLE_VALUES = [
    (b"", "INVALID_JSON", "the value is empty"),
    (b" \n", "INVALID_JSON", "the value is empty"),
    (b'{"a":1', "INVALID_JSON", "the value is not JSON: expecting ',' delimiter at character 6"),
    (b'{"a":1} {"a":2}', "INVALID_JSON", "something follows the end of the JSON document, at character 8"),
    (b'{"a":1}x', "INVALID_JSON", "something follows the end of the JSON document, at character 7"),
    (b'{"a":1},{"a":2}', "INVALID_JSON", "something follows the end of the JSON document, at character 7"),
    (b'{"a":1}]}', "INVALID_JSON", "something follows the end of the JSON document, at character 7"),
    (
        b"{'a':1}",
        "INVALID_JSON",
        "the value is not JSON: expecting property name enclosed in double quotes at character 1",
    ),
    (b'{"a":NaN}', "INVALID_JSON", "the value is not JSON: NaN and Infinity are no JSON numbers"),
    (b"\xef\xbb\xbf{}", "INVALID_JSON", "the value begins with a byte order mark, which is not JSON"),
    (b'{"z":"\xff"}', "INVALID_UTF8", "the value is not valid UTF-8"),
    ("{}".encode("utf-16"), "INVALID_UTF8", "the value is not valid UTF-8"),
    (b"[]", "NOT_AN_OBJECT", "the value is an array, not an object"),
    (b'[{"a":1}]', "NOT_AN_OBJECT", "the value is an array, not an object"),
    (b"null", "NOT_AN_OBJECT", "the value is null, not an object"),
    (b"1", "NOT_AN_OBJECT", "the value is a whole number, not an object"),
    (b'"{}"', "NOT_AN_OBJECT", "the value is a string, not an object"),
    (b"true", "NOT_AN_OBJECT", "the value is a boolean, not an object"),
    (b'{"z":' + b"[" * 1000 + b"]" * 1000 + b"}", "TOO_DEEP", "the value is nested deeper than 1000 levels"),
    (b'{"z":' + b"1" * 1001 + b"}", "TOO_LONG", "a number is longer than 1000 characters"),
    (b'{"' + b"n" * 50_001 + b'":1}', "TOO_LONG", "a field's name is longer than 50000 characters"),
    (
        b'{"z":"\\ud800"}',
        "LONE_SURROGATE",
        "an escape is half a character (a surrogate without its pair)",
    ),
    (
        b'{"z":"\\\\ud800\\udc00"}',
        "LONE_SURROGATE",
        "an escape is half a character (a surrogate without its pair)",
    ),
]


def docs(texts):
    return [f'{{"a":{text}}}'.encode() for text in texts]


def test_the_name_in_the_yaml_finds_it():
    assert find_kind("formats", "json") is Json
    assert Json(schema="a int") == Json.model_validate({"type": "json", "schema": "a int"})


def of_all_types(cases):
    """The format with a column of each type, and of each text its column, type, document, and what becomes of it."""
    columns = {declared: f"c{place}" for place, declared in enumerate(cases)}
    sent = [
        (columns[declared], declared, f'{{"{columns[declared]}":{text}}}'.encode(), wanted)
        for declared, texts in cases.items()
        for text, wanted in texts.items()
    ]
    return Json(schema=", ".join(f"{name} {declared}" for declared, name in columns.items())), sent


def test_what_fits_columns_of_all_types_is_stored_exactly(spark):
    form, sent = of_all_types(FITS)
    found = outcomes(spark, form, [document for *_, document, _ in sent])
    nothing = {f"c{place}": None for place in range(len(FITS))}
    wrong = [
        (document, each)
        for (name, _, document, value), each in zip(sent, found, strict=True)
        if each != Outcome(nothing | {name: value})
    ]
    assert wrong == []


def test_what_does_not_fit_columns_of_all_types_is_refused_with_field_and_kind(spark):
    form, sent = of_all_types(MISFITS)
    found = outcomes(spark, form, [document for *_, document, _ in sent])
    wrong = [
        (document, each)
        for (name, declared, document, kind), each in zip(sent, found, strict=True)
        if each != Outcome(None, "FIELD_TYPE", name, f"field {name} is declared {declared} and holds {kind}")
    ]
    assert wrong == []


# Each alone in its schema; the schema above has them together.
ALONE = {"decimal(10,2)", "string"}


def alone(cases):
    return [each if each in ALONE else pytest.param(each, marks=pytest.mark.long) for each in cases]


@pytest.mark.parametrize("declared", alone(FITS))
def test_what_fits_is_stored_exactly(spark, declared):
    texts = FITS[declared]
    found = outcomes(spark, Json(schema=f"a {declared}"), docs(texts))
    assert dict(zip(texts, found, strict=True)) == {text: Outcome({"a": value}) for text, value in texts.items()}


@pytest.mark.parametrize("declared", alone(MISFITS))
def test_what_does_not_fit_is_refused_with_field_and_kind(spark, declared):
    texts = MISFITS[declared]
    found = outcomes(spark, Json(schema=f"a {declared}"), docs(texts))
    expected = {
        text: Outcome(None, "FIELD_TYPE", "a", f"field a is declared {declared} and holds {kind}")
        for text, kind in texts.items()
    }
    assert dict(zip(texts, found, strict=True)) == expected


NESTED = (
    "s struct<x:tinyint>, l array<struct<m:decimal(5,1)>>, i array<int>, o array<struct<x:int>>, m map<string,double>, "
    "d map<string,array<date>>, a int, b int"
)
TOGETHER = [
    (NESTED, '{"s":{"x":300}}', "FIELD_TYPE", "s.x"),
    (NESTED, '{"l":[{"m":1.5},{"m":1.55}]}', "FIELD_TYPE", "l[].m"),
    (NESTED, '{"i":[1,"2"]}', "FIELD_TYPE", "i[]"),
    (NESTED, '{"o":[[]]}', "FIELD_TYPE", "o[]"),
    (NESTED, '{"m":{"a":1e999}}', "FIELD_TYPE", "m[]"),
    (NESTED, '{"d":{"a":["2026-02-30"]}}', "FIELD_TYPE", "d[][]"),
    (NESTED, '{"b":"x","a":"y"}', "FIELD_TYPE", "a"),
    (NESTED, '{"a":"x","a":1}', "FIELD_TYPE", "a"),
    ("a int not null, s struct<x:int not null>", "{}", "FIELD_MISSING", "a"),
    ("a int not null, s struct<x:int not null>", '{"a":null}', "FIELD_MISSING", "a"),
    ("a int not null, s struct<x:int not null>", '{"a":1,"a":null}', "FIELD_MISSING", "a"),
    ("a int not null, s struct<x:int not null>", '{"a":1,"s":{}}', "FIELD_MISSING", "s.x"),
]


def test_of_several_columns_the_first_misfit_is_named_by_its_path(spark):
    for declared in dict.fromkeys(schema for schema, *_ in TOGETHER):
        cases = [each[1:] for each in TOGETHER if each[0] == declared]
        found = outcomes(spark, Json(schema=declared), [text.encode() for text, *_ in cases])
        assert [(each.data, each.reason, each.field) for each in found] == [(None, *told) for _, *told in cases]


@pytest.mark.long
@pytest.mark.parametrize(("declared", "text", "reason", "field"), DEEPER)
def test_the_first_misfit_is_named_by_its_path(spark, declared, text, reason, field):
    found = outcome(spark, Json(schema=declared), text.encode())
    assert (found.data, found.reason, found.field) == (None, reason, field)


def test_of_an_inferred_column_and_a_number_in_it_no_digit_is_lost(spark):
    form = Json(schema="infer").with_schema(StructType.fromDDL("d double, l array<struct<t:timestamp_ntz>>"))
    values = [b'{"d": 0.30000000000000004}', b'{"d": 0.1234567890123456789}']
    values.append(b'{"l": [{}, {"t": "2026-01-02T03:04:05.1234567"}]}')
    kept, *lost = outcomes(spark, form, values)
    assert (kept.reason, kept.data["d"]) == (None, 0.30000000000000004)
    assert [(each.reason, each.field) for each in lost] == [("FIELD_TYPE", "d"), ("FIELD_TYPE", "l[].t")]


@pytest.mark.long
def test_of_an_inferred_column_no_digit_is_lost(spark):
    kept = [b'{"d": 0.30000000000000004, "l": [{"t": "2026-01-02T03:04:05.100000000"}], "n": 0.1234567890123456789}']
    # Java writes two digits of it, and others one.
    kept += [b'{"d": 5e-324}', b'{"d": -1e-323}']
    lost = [
        b'{"d": 0.1234567890123456789}',
        b'{"l": [{}, {"t": "2026-01-02T03:04:05.1234567"}]}',
        b'{"l": [{"m": {"a": 1e-400}}]}',
        b'{"d": 3e-324}',
    ]
    schema = StructType.fromDDL("d double, l array<struct<t:timestamp_ntz,m:map<string,double>>>, n double")
    form = Json(schema="infer", schema_hints="n double").with_schema(schema)
    first, *least, one, two, three, four = outcomes(spark, form, kept + lost)
    others, said = (
        (one, two, three),
        "field d is declared double and holds a number with more digits than a double keeps",
    )
    assert [each.data["d"] for each in least] == [5e-324, -1e-323]
    assert (first.reason, first.data["d"], first.data["n"]) == (None, 0.30000000000000004, 0.12345678901234568)
    assert [(each.reason, each.field, each.message) for each in others] == [
        ("FIELD_TYPE", "d", said),
        (
            "FIELD_TYPE",
            "l[].t",
            (
                "field l[].t is declared timestamp_ntz and holds a time with digits behind the microsecond, which "
                "timestamp_precision: truncate cuts off"
            ),
        ),
        (
            "FIELD_TYPE",
            "l[].m[]",
            "field l[].m[] is declared double and holds a number with more digits than a double keeps",
        ),
    ]
    assert (four.reason, four.field, four.message) == ("FIELD_TYPE", "d", said)
    # As declared, they are what their types make of them.
    assert [each.reason for each in outcomes(spark, Json(schema=schema.jsonValue()), kept + lost)] == [None] * 7
    found = outcomes(spark, form.as_array(), [b"[%s]" % each for each in kept + lost])
    assert [each.reason for each in found] == [*[None] * 3, *["FIELD_TYPE"] * 4]


def test_numbers_that_json_lacks_are_texts_in_documents_of_rows(spark):
    form = Json(schema="d double, f float, a array<double>, s struct<m: map<string, float>>, t string, n decimal(3,1)")
    kept = [
        b'[{"d":"NaN","f":"-Infinity","a":["Infinity",1e-5,null],"s":{"m":{"k":"NaN"}},"t":"NaN","n":1.5},{"d":1.5}]',
        b'[{"d":0.30000000000000004,"f":0.1,"a":[12345678901234567890,-2.0E300],"s":null,"t":1.5}, {"d":null}]',
        b'[{"d":1,"f":2}]',
    ]
    lost = [b'"nan"', b'"1.5"', b'"+Infinity"', b'" NaN"', b"1e400", b"true", b"{}", b"[]", b"NaN"]
    refused = [b'[{"d":%s}]' % each for each in lost] + [b'[{"d":"NaN","f":1e39}]', b'[{"d":"NaN","n":"NaN"}]']
    found = outcomes(spark, form.as_array(of_rows=True), kept + refused)
    nan, infinity = pytest.approx(math.nan, nan_ok=True), math.inf
    first, second = found[0].data["rows"]
    assert first["s"]["m"] == {"k": nan}
    assert first == {
        "d": nan,
        "f": -infinity,
        "a": [infinity, 1e-5, None],
        "s": {"m": {"k": nan}},
        "t": "NaN",
        "n": Decimal("1.5"),
    }
    assert second["d"] == 1.5
    assert found[1].data["rows"][0]["a"] == [12345678901234567890.0, -2.0e300]
    assert found[1].data["rows"][0]["d"] == 0.30000000000000004
    assert found[2].data["rows"][0]["f"] == 2.0
    assert [each.reason for each in found[3:]] == ["FIELD_TYPE"] * 8 + ["INVALID_JSON"] + ["FIELD_TYPE"] * 2
    assert [each.field for each in found[-2:]] == ["rows[].f", "rows[].n"]
    # Of documents that others wrote they are strings.
    assert [each.reason for each in outcomes(spark, form.as_array(), kept)] == ["FIELD_TYPE", None, None]


def test_values_that_are_no_object_are_refused_with_the_reason(spark):
    found = outcomes(spark, Json(schema="a int"), [value for value, _, _ in WHOLE_VALUES])
    assert found == [Outcome(None, reason, None, message) for _, reason, message in WHOLE_VALUES]


def test_depth_and_digits_up_to_the_limits_are_read(spark):
    deepest = b'{"z":' + b"[" * 999 + b"]" * 999 + b"}"
    longest = b'{"z":' + b"1" * 1000 + b',"a":1}'
    form = Json(schema="a int", no_declared_field="keep")
    assert outcomes(spark, form, [deepest, longest]) == [Outcome({"a": None}), Outcome({"a": 1})]


def test_a_null_value_passes_by(spark):
    decoded = Json(schema="a int not null").decode(frame(spark, [None, b'{"a":1}']))
    rows = decoded.orderBy("__offset").select("__decoded", "__data").collect()
    assert [(row[0], row[1].asDict()) for row in rows] == [(True, {"a": None}), (True, {"a": 1})]


def test_keys_are_compared_case_and_all_under_either_setting(spark):
    values = [b'{"A":1}', b'{"a":1,"A":2}', b'{"A":1,"a":2}']
    for setting in ("true", "false"):
        session = spark.newSession()
        session.conf.set("spark.sql.caseSensitive", setting)
        found = outcomes(session, Json(schema="a int", no_declared_field="keep"), values)
        assert found == [Outcome({"a": None}), Outcome({"a": 1}), Outcome({"a": 2})]


def test_the_wrapper_cannot_be_forged_without_its_key(spark):
    values = [b'{}]},"x":[{}', b'{},{"k":1}]}', b"{},null]}", b'{}],"k":[{}', b',"a":1', b"{}],[{}"]
    assert {found.reason for found in outcomes(spark, Json(schema="a int"), values)} == {"INVALID_JSON"}


def test_names_of_any_kind_are_columns(spark):
    names = ["id.orig_h", "with space", "back`tick", "it's", "größe", "__value", "_corrupt_record", "k", "select"]
    schema = StructType([StructField(name, LongType()) for name in names])
    value = {name: number for number, name in enumerate(names)}
    form = Json(schema=json.loads(schema.json()))
    assert form.columns(spark) == schema
    assert outcome(spark, form, json.dumps(value).encode()) == Outcome(value)


def test_every_other_column_stays(spark):
    rows = frame(spark, [b'{"a":1}', b"x", None])
    decoded = Json(schema="a int, mine string").decode(rows)
    assert sorted(decoded.columns) == sorted([*rows.columns, "__data", "__decoded"])
    assert decoded.select(*rows.columns).collect() == rows.collect()


def test_a_frame_made_of_an_rdd_decodes_like_any(spark):
    rows = frame(spark, [b'{"a":1}', b"x"])
    again = spark.createDataFrame(rows.rdd, rows.schema)
    decoded = Json(schema="a int").decode(again)
    assert [row[0] for row in decoded.orderBy("__offset").select("__decoded").collect()] == [True, False]


@pytest.mark.parametrize(
    ("form", "call"),
    [({}, "document.read("), ({"timestamp_format": "yyyy/MM/dd"}, "from_json(")],
    ids=["ours", "spark's"],
)
def test_the_value_is_parsed_once_however_many_columns_are_taken(spark, form, call):
    decoded = Json(schema="a int, b decimal(10,2), c timestamp, d array<date>", **form).decode(frame(spark, [b"{}"]))
    written = decoded.where("__decoded").select("__data.*", "__offset")
    plan = plan_text(written, "optimizedPlan")
    assert (plan.count(call), plan.count("from_json(") + plan.count("document.read(")) == (1, 1)


def test_the_schema_as_ddl_mapping_and_file_is_the_same(spark, tmp_path):
    schema = StructType(
        [StructField("id", LongType(), nullable=False), StructField("name", StringType(), metadata={"comment": "c"})]
    )
    file = tmp_path / "orders.json"
    file.write_text(schema.json())
    forms = [
        Json(schema="id bigint not null, name string comment 'c'"),
        Json(schema=json.loads(schema.json())),
        Json(schema=str(file)),
    ]
    wanted = StructType([StructField("id", LongType()), StructField("name", StringType(), metadata={"comment": "c"})])
    for form in forms:
        assert form.columns(spark) == wanted
        assert outcome(spark, form, b"{}").reason == "FIELD_MISSING"


def test_undeclared_fields_are_named_in_a_sample(spark):
    values = [b'{"a":1,"b":2,"c":{"d":1}}', b'{"x":1}', b"broken", None, b'{"a":1}', b'{"a":1,"\\u00e4":{},"b":null}']
    form = Json(schema="a int", no_declared_field="keep")
    decoded = form.decode(frame(spark, values))
    # All of the first records of a partition are looked at, and one in 1,024 of those behind them.
    for shift, seen in ((0, True), (1018, True), (1024, False), (5 * 1024, False)):
        told = decoded.selectExpr(f"__offset + {shift} AS __offset", "* EXCEPT (__offset)")
        told = told.selectExpr("__offset", f"{form.undeclared_names()} AS told").orderBy("__offset").collect()
        named = [["b", "c"], ["x"], None, None, [], ["ä", "b"]]
        assert [row.told for row in told] == (named if seen else [named[0], *[None] * 5])


def test_undeclared_fields_within_structs_are_named_by_their_paths(spark):
    schema = "a struct<b int, c struct<d int>>, items array<struct<x int>>, m map<string, struct<y int>>, v variant"
    values = {
        b'{"a":{"b":1,"e":2,"c":{"d":1,"f":null}},"z":{"q":1}}': ["a.e", "a.c.f", "z"],
        b'{"items":[{"x":1,"p":2},null,{"p":1,"q.r":[{"s":1}]}],"m":{"k":{"y":1,"w":2},"l":null}}': [
            *("items[].p", "items[].q.r", "m[].w"),
        ],
        b'{"a":null,"items":[],"m":{},"v":{"free":1}}': [],
        b'{"a":{"b":"no int","e":2}}': None,
        b"broken": None,
    }
    form = Json(schema=schema)
    decoded = form.decode(frame(spark, [*values, None]))
    told = decoded.orderBy("__offset").selectExpr(f"{form.undeclared_names()} AS told").collect()
    assert [row.told for row in told] == [*values.values(), None]
    later = decoded.selectExpr(f"{form.undeclared_names()} IS NULL AS passed").where("passed").count()
    assert later == 3


REFUSED_SCHEMAS = [
    ("a whatever", "[UNSUPPORTED_DATATYPE]"),
    ("a int,", "[PARSE_SYNTAX_ERROR]"),
    ("", "the schema has no fields"),
    ("int", "it names a type and no columns: write 'name type, name type'"),
    ("a int, A int", "columns 'a' and 'A' are the same to Spark and Delta"),
    ("s struct<a:int,A:int>", "columns 'a' and 'A' are the same to Spark and Delta"),
    ("a struct<>", "column a has no fields"),
    ("m map<int,int>", "column m: keys in JSON are strings, so declare map<string, ...>"),
    ("a array<map<bigint,int>>", "column a[]: keys in JSON are strings, so declare map<string, ...>"),
    ("a varchar(10)", "column a: type varchar(10) is not read from JSON: declare string"),
    ("a string collate UTF8_LCASE", "column a: a collation cannot be read from JSON: declare string"),
    ("m map<variant,int>", "column m: keys in JSON are strings, so declare map<string, ...>"),
    ("a interval", "column a: type interval is not read from JSON"),
    ("a void", "column a: type void is not read from JSON"),
    ("/nowhere/schema.json", "the schema file /nowhere/schema.json cannot be read: No such file or directory"),
]


@pytest.mark.parametrize(("declared", "text"), REFUSED_SCHEMAS)
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(spark, declared, text):
    with pytest.raises(ValueError) as caught:
        Json(schema=declared).columns(spark)
    found = str(caught.value)
    assert found.startswith(text) if text.startswith("[") else found == text
    assert "\n" not in found


def test_schema_files_that_are_none_are_refused(spark, tmp_path):
    texts = {
        "{": "the schema file {path} is not JSON",
        "[]": "the schema file {path} holds no JSON object",
        '{"type":"object"}': "this is not Spark's JSON form of a schema "
        '({"type": "struct", "fields": [{"name": ..., "type": ...}]})',
    }
    for number, (content, text) in enumerate(texts.items()):
        path = tmp_path / f"{number}.json"
        path.write_text(content)
        with pytest.raises(ValueError) as caught:
            Json(schema=str(path)).columns(spark)
        assert str(caught.value) == text.replace("{path}", str(path))


def test_a_schema_is_needed():
    with pytest.raises(ValidationError, match="schema"):
        Json()
