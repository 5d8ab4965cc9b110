"""``format: csv``, value by value: what each field becomes, and what is refused and why."""

from __future__ import annotations

import base64
import datetime as dt
import re
from decimal import Decimal

import pytest
from pydantic import ValidationError
from tests.rows.formats import Outcome, of_several, outcomes

from rivermouth.extend import find_kind
from rivermouth.formats.csv import Csv

DDL = (
    "id bigint NOT NULL, name string, ok boolean, tiny tinyint, ratio double, price decimal(6,2), day date, "
    "at timestamp, raw binary"
)
BLANK = dict.fromkeys(("name", "ok", "tiny", "ratio", "price", "day", "at", "raw"))


def form(schema=DDL, **settings):
    return Csv.model_validate({"type": "csv", "schema": schema, **settings})


def test_the_name_in_the_yaml_finds_it():
    assert find_kind("formats", "csv") is Csv


HELD = [
    (b"1,,,,,,,,", {"id": 1}),
    (b"1,,,,,,,,\n", {"id": 1}),
    (b"1,,,,,,,,\r\n", {"id": 1}),
    (b"+7,\xc3\xa4 \xe2\x9c\x93 ,true,-128,2.5e3,1234.50,2026-02-28,2026-01-31T12:00:00+01:00,AAE=", None),
    (b'"1","",,,,,,,', {"id": 1, "name": ""}),
    (b'1,"a ""b"", c\r\nd",,,,,,,', {"id": 1, "name": 'a "b", c\r\nd'}),
    (b'1, "a" b,,,,,,,', {"id": 1, "name": ' "a" b'}),
    (b'1,5" pipe,,,,,,,', {"id": 1, "name": '5" pipe'}),
    (b"1,,,,.5,-.50,,,", {"id": 1, "ratio": 0.5, "price": Decimal("-0.50")}),
    (b"1,,,,5.,5.,,,", {"id": 1, "ratio": 5.0, "price": Decimal("5.00")}),
    (b"1,,,,,,,,//4=", {"id": 1, "raw": b"\xff\xfe"}),
    (b"1,,,,,,,," + base64.b64encode(b"\xfb" * 100), {"id": 1, "raw": b"\xfb" * 100}),
    (b"1,\x00\xef\xbb\xbf\xef\xbf\xbd\\,,,,,,,", {"id": 1, "name": "\x00\ufeff\ufffd\\"}),
]
FULL = {
    "id": 7,
    "name": "ä ✓ ",
    "ok": True,
    "tiny": -128,
    "ratio": 2500.0,
    "price": Decimal("1234.50"),
    "day": dt.date(2026, 2, 28),
    "at": dt.datetime(2026, 1, 31, 11),
    "raw": b"\x00\x01",
}


def unfit(field, kind):
    return ("FIELD_TYPE", field, f"field {field} is declared {kind} and holds a text that does not fit")


LINES = ("INVALID_LINE", None, "the value has more than one line")
BEHIND = "something follows the closing quote of a field"
REFUSED = [
    (b"", "FIELD_COUNT", None, "the line has 1 field, and the schema 9 columns"),
    (b"1,,,,,,,", "FIELD_COUNT", None, "the line has 8 fields, and the schema 9 columns"),
    (b"1,,,,,,,,,", "FIELD_COUNT", None, "the line has 10 fields, and the schema 9 columns"),
    (b"1,,,,,,,,\n2,,,,,,,,", *LINES),
    (b"1,,,,,,,,\n\n", *LINES),
    (b"1,a\rb,,,,,,,", *LINES),
    (b'1,"a', "INVALID_LINE", "name", "a quoted field is not closed"),
    (b'1,"a"" ,,,,,,,\n', "INVALID_LINE", "name", "a quoted field is not closed"),
    (b'1,"a"b,,,,,,,', "INVALID_LINE", "name", BEHIND),
    (b'1,"a" ,,,,,,,', "INVALID_LINE", "name", BEHIND),
    (b'1,,,,,,,,,"', "INVALID_LINE", None, "a quoted field is not closed"),
    (b"1,\xff,,,,,,,", "INVALID_UTF8", None, "the value is not valid UTF-8"),
    (b",,,,,,,,", "FIELD_MISSING", "id", "field id is declared NOT NULL and is null"),
    (b"1.0,,,,,,,,", *unfit("id", "bigint")),
    (b'"",,,,,,,,', *unfit("id", "bigint")),
    (b" 1,,,,,,,,", *unfit("id", "bigint")),
    (b"9223372036854775808,,,,,,,,", *unfit("id", "bigint")),
    (b"1,,yes,128,,,,,", *unfit("ok", "boolean")),
    (b"1,,,128,,,,,", *unfit("tiny", "tinyint")),
    (b"1,,,,NaN,,,,", *unfit("ratio", "double")),
    (b"1,,,,1e400,,,,", *unfit("ratio", "double")),
    (b"1,,,,,1.005,,,", *unfit("price", "decimal(6,2)")),
    (b"1,,,,,12345,,,", *unfit("price", "decimal(6,2)")),
    (b"1,,,,,,2026-02-29,,", *unfit("day", "date")),
    (b"1,,,,,,,12:00,", *unfit("at", "timestamp")),
    (b"1,,,,,.,,,", *unfit("price", "decimal(6,2)")),
    (b"1,,,,.,,,,", *unfit("ratio", "double")),
    (b"1,,,,,,, 2026-01-31T12:00:00Z,", *unfit("at", "timestamp")),
    (b"1,,,,,,,2026-01-31T12:00:00Z ,", *unfit("at", "timestamp")),
    (b"1,,,,,,,2026-01-31T12:00:00\x00,", *unfit("at", "timestamp")),
    (b'1,,,,,,,"2026-01-31T12:00:00\n",', *unfit("at", "timestamp")),
    (b"1,,,,,,,2026-01-31T12:00:00\x7f,", *unfit("at", "timestamp")),
    (b"1,,,,,,,,A", *unfit("raw", "binary")),
    # Without padding, with a blank, and with bits that are part of no byte.
    (b"1,,,,,,,,AAE", *unfit("raw", "binary")),
    (b"1,,,,,,,,AA E=", *unfit("raw", "binary")),
    (b"1,,,,,,,,AAF=", *unfit("raw", "binary")),
]


def test_what_each_line_becomes_and_why_it_is_refused(spark):
    found = outcomes(spark, form(), [value for value, *_ in HELD + REFUSED] + [None])
    held = [Outcome(FULL if row is None else BLANK | row) for _, row in HELD]
    assert found == [*held, *(Outcome(None, *told) for _, *told in REFUSED), Outcome(None)]


NOT_ESCAPED = ("INVALID_LINE", "b", "an escape comes before something that is not to be escaped")
# Settings, value: what the columns a and b hold, or why it is refused.
DIALECTS = [
    ({"delimiter": "\t"}, b"1\t, ", ("1", ", ")),
    ({"delimiter": "||"}, b'"a||b"||c|', ("a||b", "c|")),
    ({"delimiter": "§", "quote": "ü"}, "üa§üüü§b".encode(), ("a§ü", "b")),
    ({"quote": None}, b'"a,b"', ('"a', 'b"')),
    ({"escape": "\\"}, rb'"a\"\\,",b\,\"', ('a"\\,', 'b,"')),
    ({"escape": "\\"}, rb'"a""",b', ("INVALID_LINE", "a", BEHIND)),
    ({"escape": "\\"}, rb"a,b\n", NOT_ESCAPED),
    ({"escape": "\\"}, b"a,b\\", NOT_ESCAPED),
    ({"escape": "\\"}, rb'a,"b\n"', NOT_ESCAPED),
    ({"escape": "\\", "null_value": "\\N"}, rb'\N,"N"', (None, "N")),
    ({"quote": None, "escape": "\\"}, rb"a\,b,\\", ("a,b", "\\")),
    ({"escape": None}, b'"a",b"', ("a", 'b"')),
    ({"escape": None}, b'"a""",b', ("INVALID_LINE", "a", BEHIND)),
    ({"null_value": "NULL"}, b'NULL,"NULL"', (None, "NULL")),
    ({"null_value": "NULL"}, b",null", ("", "null")),
    ({"null_value": None}, b",", ("", "")),
]


def test_dialects(spark):
    found = of_several(spark, [(form("a string, b string", **settings), value) for settings, value, _ in DIALECTS])
    told = [told for *_, told in DIALECTS]
    assert found == [Outcome(None, *t) if len(t) > 2 else Outcome({"a": t[0], "b": t[1]}) for t in told]


def test_a_time_without_an_offset_ends_where_it_says(spark):
    values = [b"2026-01-31T12:00:00.5", b'"2026-01-31T12:00:00\n"']
    at = Outcome({"at": dt.datetime(2026, 1, 31, 12, 0, 0, 500_000)})
    assert outcomes(spark, form("at timestamp_ntz"), values) == [at, Outcome(None, *unfit("at", "timestamp_ntz"))]


def test_names_of_columns_are_anything_that_a_table_may_have(spark):
    names = ("a.b", "ä ö", "`", "__texts", "kafka'")
    schema = ", ".join(f"`{name.replace('`', '``')}` int" for name in names)
    found = outcomes(spark, form(schema), [b"1,2,3,4,5", b"1,2,3,4,x"])
    assert found == [Outcome(dict(zip(names, range(1, 6), strict=True))), Outcome(None, *unfit("kafka'", "int"))]


def test_one_column_may_be_empty(spark):
    assert outcomes(spark, form("a string"), [b"", b'""', b"\n"]) == [Outcome({"a": each}) for each in (None, "", None)]


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ("a array<int>", "column a: type array<int> is not read from text: declare string"),
        ("a varchar(3)", "column a: type varchar(3) is not read from text: declare string"),
        ("a variant", "column a: type variant is not read from text: declare string"),
        ("a string, A int", "columns 'a' and 'A' are the same to Spark and Delta"),
    ],
)
def test_a_schema_that_no_text_has(spark, schema, told):
    with pytest.raises(ValueError, match="^" + re.escape(told) + "$"):
        form(schema).columns(spark)


def test_signs_are_single_characters():
    for settings in ({"quote": "''"}, {"quote": ""}, {"escape": "\\\\"}, {"delimiter": ""}):
        with pytest.raises(ValidationError):
            form(**settings)
