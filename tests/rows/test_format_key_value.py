"""``format: key_value``, value by value: what each pair becomes, and what is refused and why."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pydantic import ValidationError
from tests.rows.formats import Outcome, of_several

from rivermouth.extend import find_kind
from rivermouth.formats.key_value import KeyValue


def form(schema="id bigint NOT NULL, msg string, price decimal(6,2), at timestamp", **settings):
    return KeyValue.model_validate({"type": "key_value", "schema": schema, **settings})


def row(**values):
    return Outcome({"id": 1, "msg": None, "price": None, "at": None, **values})


def unread(message, field=None, reason="INVALID_LINE"):
    return Outcome(None, reason, field, message)


LOGFMT = {
    b'at=2026-01-31T12:00:00Z level=info msg="two words" id=1 price=2.50': row(
        at=dt.datetime(2026, 1, 31, 12), msg="two words", price=Decimal("2.50")
    ),
    b"  id=1   msg=a=b  \r\n": row(msg="a=b"),
    b"id=1 msg=": row(),
    b'id=1 msg=""': row(msg=""),
    b'id=1 msg="a \\"b\\" \\\\ \\n\\t\\/ \\u00e4\\ud83d\\ude00 c=d\ne"': row(msg='a "b" \\ \n\t/ ä😀 c=d\ne'),
    b"id=1 msg=C:\\new": row(msg="C:\\new"),
    "id=1 msg=größer ✓=5 more=x more=y".encode(): row(msg="größer"),
    b"id=1 MSG=a": row(),
    b"": unread("the line has no pairs"),
    b" \n": unread("the line has no pairs"),
    b"id=1 verbose": unread("a key has no value"),
    b"id=1 msg": unread("a key has no value", "msg"),
    b"id=1 =2": unread("a pair has no key"),
    b'id=1 "msg"=a': unread("a quote is where no value begins"),
    b'id=1 msg=say"x"': unread("a quote is within a value that does not begin with one", "msg"),
    b'id=1 msg="a': unread("a quoted value is not closed", "msg"),
    b'id=1 msg="a\\"': unread("a quoted value is not closed", "msg"),
    b'id=1 msg="a"b': unread("something follows the closing quote of a value", "msg"),
    b'id=1 msg="\\x"': unread("an escape comes before something that is not to be escaped", "msg"),
    b'id=1 msg="\\ud83d"': unread("an escape comes before something that is not to be escaped", "msg"),
    b'id=1 msg="\\u00"': unread("an escape comes before something that is not to be escaped", "msg"),
    b"id=1\nid=2": unread("the value has more than one line"),
    b"id=1 id=1": unread("field id is there twice in the line", "id", "FIELD_TWICE"),
    b"id=1 msg=a msg=": unread("field msg is there twice in the line", "msg", "FIELD_TWICE"),
    b"id=1 msg=\xff": unread("the value is not valid UTF-8", reason="INVALID_UTF8"),
    b"msg=a": unread("field id is declared NOT NULL and is null", "id", "FIELD_MISSING"),
    b"id= msg=a": unread("field id is declared NOT NULL and is null", "id", "FIELD_MISSING"),
    b"id=1.0": unread("field id is declared bigint and holds a text that does not fit", "id", "FIELD_TYPE"),
    b"id=1 price=1.005": unread(
        "field price is declared decimal(6,2) and holds a text that does not fit", "price", "FIELD_TYPE"
    ),
}
OTHERS = [
    ({"pair_separator": ";", "key_value_separator": ":"}, b"id:1;msg:a b;", row(msg="a b")),
    ({"pair_separator": ";", "key_value_separator": ":"}, b"id:1;;msg:a", unread("a pair has no key")),
    ({"pair_separator": "&", "quote": None}, b'id=1&msg="a"&', row(msg='"a"')),
    ({"pair_separator": ", ", "key_value_separator": ": "}, b'id: 1, msg: "a, b"', row(msg="a, b")),
    ({"quote": "'", "escape": "'"}, b"id=1 msg='it''s'", row(msg="it's")),
    ({"escape": "~"}, b'id=1 msg="~"~~ \\n"', row(msg='"~ \\n')),
    ({"escape": None}, b'id=1 msg="a\\"', row(msg="a\\")),
    ({"null_value": "-"}, b'id=1 msg=- price="-"', None),
    ({"null_value": None}, b"id=1 msg=", row(msg="")),
    ({"pair_separator": "\t"}, b"\tid=1\t\tmsg=a b\t", row(msg="a b")),
]


def test_the_name_in_the_yaml_finds_it():
    assert find_kind("formats", "key_value") is KeyValue


def test_each_line_is_held_or_refused_with_its_reason(spark):
    cases = [(form(), value, wanted) for value, wanted in LOGFMT.items()]
    cases += [(form(**settings), value, wanted) for settings, value, wanted in OTHERS]
    found = of_several(spark, [(one, value) for one, value, _ in cases])
    missed = unread("field price is declared decimal(6,2) and holds a text that does not fit", "price", "FIELD_TYPE")
    wrong = [
        (value, got, wanted or missed)
        for (_, value, wanted), got in zip(cases, found, strict=True)
        if got != (wanted or missed)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"pair_separator": "\n"}, "the pair_separator is a line break, and a value is one line"),
        ({"pair_separator": "=="}, "one separator has the other in it, so they cannot be distinguished"),
        ({"key_value_separator": '="'}, "the key_value_separator has the quote or the escape in it"),
        ({"quote": None, "escape": "~"}, "the escape is for quoted values, and none is quoted"),
        ({"null_value": "a b"}, "null_value has the pair_separator or a line break in it"),
        ({"null_value": '""'}, "null_value has the quote in it, and what is quoted is never null"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, text):
    with pytest.raises(ValidationError, match=text):
        form(**settings)
