"""``format: regex``, value by value: what groups become, what is refused, and that no pattern holds a task."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from tests.rows.formats import Outcome, of_several, outcomes

from rivermouth.formats.regex import Regex

NO_MATCH = Outcome(None, "NO_MATCH", None, "the pattern does not match the value as a whole")
TOO_MANY = Outcome(None, "TOO_MANY_READS", None, "the pattern looked at the value's characters too often")
TOO_DEEP = Outcome(None, "TOO_DEEP", None, "the pattern nests deeper on the value than Java's stack goes")


def form(pattern, schema="a string", **settings):
    return Regex.model_validate({"type": "regex", "pattern": pattern, "schema": schema, **settings})


ACCESS = form(
    r"(?<remote_addr>\S+) \S+ (?:-|(?<user>\S+)) \[(?<at>[^\]]+)\] "
    r'"(?<request>[^"]*)" (?<status>\d{3}) (?:-|(?<bytes>\d+))',
    "at timestamp, remote_addr string, user string, request string, status smallint NOT NULL, bytes bigint",
)
LINE = '192.0.2.1 - {} [2026-01-31T12:00:00Z] "GET /ä?q=✓ HTTP/1.1" {} {}'
ROW = {
    "at": dt.datetime(2026, 1, 31, 12),
    "remote_addr": "192.0.2.1",
    "user": None,
    "request": "GET /ä?q=✓ HTTP/1.1",
    "status": 200,
    "bytes": None,
}


def test_what_each_line_becomes_and_why_it_is_refused(spark):
    huge = "9223372036854775808"
    cases = [
        (LINE.format("-", 200, "-"), Outcome(ROW)),
        (LINE.format("ann", 404, "17"), Outcome(ROW | {"user": "ann", "status": 404, "bytes": 17})),
        (LINE.format("-", 200, "-") + "\n", NO_MATCH),
        ("x" + LINE.format("-", 20, "-"), NO_MATCH),
        ("", NO_MATCH),
        (
            LINE.format("-", 200, huge),
            Outcome(None, "FIELD_TYPE", "bytes", "field bytes is declared bigint and holds a text that does not fit"),
        ),
        (
            LINE.format("-", 200, "-").replace("T12", "T25"),
            Outcome(None, "FIELD_TYPE", "at", "field at is declared timestamp and holds a text that does not fit"),
        ),
    ]
    found = outcomes(spark, ACCESS, [*(value.encode() for value, _ in cases), b"\xff", None])
    utf8 = Outcome(None, "INVALID_UTF8", None, "the value is not valid UTF-8")
    assert found == [*(expected for _, expected in cases), utf8, Outcome(None)]


def test_groups(spark):
    missing = Outcome(None, "FIELD_MISSING", "a", "field a is declared NOT NULL and is null")
    cases = [
        (form("(?<a>x*)"), b"", Outcome({"a": ""})),
        (form("(?<a>x)?"), b"", Outcome({"a": None})),
        (form("(?<a>x)?", "a string NOT NULL"), b"", missing),
        (form(r"(?<a>.) \k<a>"), "😀 😀".encode(), Outcome({"a": "😀"})),
        (form(r"(?<a>.*)"), b"a\nb", NO_MATCH),
        (form(r"(?s)(?<a>.*)"), b"a\nb\n", Outcome({"a": "a\nb\n"})),
        (form(r"(?<=^)(?<a>[^\\]*)\\(?!c)\(\\\(?b"), rb"x\(\b", Outcome({"a": "x"})),
        (form(r"(?i)\Qa.b\E(?<a>.)"), b"A.Bc", Outcome({"a": "c"})),
    ]
    assert of_several(spark, [(each, value) for each, value, _ in cases]) == [told for *_, told in cases]


def test_a_pattern_that_tries_without_end_is_a_refusal_and_no_more(spark):
    # Java itself remembers where it was, but not in patterns with a reference to a group.
    endless, deep = form(r"(?<a>(x+)+\2y)"), form("(?<a>(x|y)*)z")
    value = b"x" * 24
    patient = form(endless.pattern, max_reads=1_000_000_000)
    cases = [
        (endless, b"x" * 5_000, TOO_MANY),
        (endless, b"xxy", Outcome({"a": "xxy"})),
        (endless, b"xy", NO_MATCH),
        (deep, b"x" * 5_000_000, TOO_DEEP),
        # The count is the flow's own.
        (endless, value, TOO_MANY),
        (patient, value, NO_MATCH),
    ]
    assert of_several(spark, [(each, value) for each, value, _ in cases]) == [told for *_, told in cases]


@pytest.mark.parametrize(
    ("pattern", "schema", "told"),
    [
        ("(?<a>", "a string", "the pattern cannot be read: Unclosed group"),
        ("(?<a>x)(?<a>y)", "a string", "the pattern has two groups of the name a"),
        ("(?<a>x)(?<b_c>y)", "a string", "the group b_c of the pattern is no column of the schema"),
        ("(?<a>x)(y)", "a string, b string", "the pattern has no group for the column b"),
        ("(?<a>x)", "A string", "the group a of the pattern is no column of the schema"),
        ("(?<a>x)", "a struct<b:int>", "column a: type struct<b:int> is not read from text: declare string"),
        ("[(?<a>x]", "a string", r"(?<a> is no group where it stands in the pattern: write \(\?< for these signs"),
        (r"x\k<a>", "a string", "the pattern cannot be read: named capturing group <g0> does not exist"),
        (r"\Q(?<a>x\E", "a string", r"(?<a> is no group where it stands in the pattern: write \(\?< for these signs"),
    ],
)
def test_a_pattern_that_is_not_of_the_schema(spark, pattern, schema, told):
    with pytest.raises(ValueError, match="^" + re.escape(told) + "$"):
        form(pattern, schema).columns(spark)
