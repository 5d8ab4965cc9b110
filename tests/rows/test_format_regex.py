"""``format: regex``, value by value: what groups become, what is refused, and that no pattern holds a task."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from pydantic import ValidationError
from tests.rows.formats import Outcome, of_several, outcomes

from rivermouth.decoding.text.java_pattern import PatternRefused
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
        # No half of a character is matched, as no text could be made of it.
        (form(r"(?<a>[\ud83d]?).*"), "😀".encode(), Outcome({"a": ""})),
        (form(r"(?<a>\ud83d).*"), "😀".encode(), NO_MATCH),
        (form(r"(?<a>[^x]\B).*"), "😀".encode(), Outcome({"a": "😀"})),
        (form(r"(?<a>.*)"), b"a\nb", NO_MATCH),
        (form(r"(?s)(?<a>.*)"), b"a\nb\n", Outcome({"a": "a\nb\n"})),
        (form(r"(?<=^)(?<a>[^\\]*)\\(?!c)\(\\\(?b"), rb"x\(\b", Outcome({"a": "x"})),
        (form(r"(?i)\Qa.b\E(?<a>.)"), b"A.Bc", Outcome({"a": "c"})),
        (form(r"\Q(?<b>\\E\c(?(?<a>x)\Q)"), b"(?<b>\\x)", Outcome({"a": "x"})),
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


def test_names_of_groups_are_those_of_columns(spark):
    access = form(
        r"(?<user-agent>\S+) (?<größe>\d+) (?<a.b>\k<user-agent>)", "`größe` int, `user-agent` string, `a.b` string"
    )
    assert outcomes(spark, access, [b"x 1 x", b"x 1 y"]) == [
        Outcome({"größe": 1, "user-agent": "x", "a.b": "x"}),
        NO_MATCH,
    ]


@pytest.mark.parametrize(
    "schema",
    [
        "`a` string COMMENT 'one, two', b decimal(10,2) NOT NULL",
        "a: string, b: int",
        "a string, -- one, two\n b int /* three, */",
        " struct<a:string,b:int>",
        {"type": "struct", "fields": [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in "ab"]},
    ],
)
def test_ways_to_write_a_schema(spark, schema):
    assert form("(?<b>.)(?<a>.)", schema).columns(spark).names == ["a", "b"]


CLOSE_GROUP, OPEN_GROUP = r"write ) behind it, or \( for it", r"write ( before it, or \) for it"
NO_COLUMN = "its group {0} is no column of the schema: write (?: for (?<{0}>, or declare it"


@pytest.mark.parametrize(
    ("pattern", "schema", "told"),
    [
        ("x(?<a>", "a string", f"the ( at character 2 is not closed: {CLOSE_GROUP}"),
        ("(?<a>x))", "a string", f"the ) at character 8 closes nothing: {OPEN_GROUP}"),
        (r"\((?<a>x)[)]\Q)\E)", "a string", f"the ) at character 18 closes nothing: {OPEN_GROUP}"),
        ("(?<a>[^]x)", "a string", r"the [ at character 6 is not closed: write ] behind it, or \[ for it"),
        ("(?<a>x)\\", "a string", r"it ends with a \ that has nothing after it: write \\ for that sign itself"),
        (
            "(?<a>x)(?<a>y)",
            "a string",
            "it has two groups of the name a: give each group a name, and a column, of its own",
        ),
        (r"\k<a>(?<a>x)", "a string", r"\k<a> comes before any group of that name: write (?<a>...) before it"),
        (
            "(?P<a>x)",
            "a string",
            "(?P< at character 1 is Python's, and the pattern is one of Java's: write (?<name> instead",
        ),
        (
            "(?<a>x)(?P=a)",
            "a string",
            r"(?P= at character 8 is Python's, and the pattern is one of Java's: write \k<name> instead",
        ),
        ("(?<a>x)(?<b_c>y)", "a string", NO_COLUMN.format("b_c")),
        ("(?<a>x)", "A string", NO_COLUMN.format("a")),
        ("(?<a>x)(y)", "a int, b int", "it has no group for the column b: write (?<b>...) where its text is"),
        (
            "[(?<a>x]",
            "a string",
            r"(?<a> at character 2 is within [ and ] and is no group: write \(\?< for these signs, or ] before it",
        ),
        (r"\Q(?<a>x\E", "a string", "it has no group for the column a: write (?<a>...) where its text is"),
    ],
)
def test_a_pattern_that_is_refused_without_java(pattern, schema, told):
    with pytest.raises(ValidationError) as caught:
        form(pattern, schema)
    (error,) = caught.value.errors()
    assert (error["loc"], str(error["ctx"]["error"])) == (("pattern",), told)


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("(?<a>x)*+*", "it cannot be read: Dangling meta character '*', near character 10"),
        (r"(?<a>x)\k<a>\p{Foo}", "it cannot be read: Unknown character property name {Foo}, near character 19"),
        # What blanks and # mean is Java's to say.
        (r"(?x)(?<a>x)\k<bc>", "it cannot be read: named capturing group <bc> does not exist, near character 17"),
        ("(?x)(?<a>x", "it cannot be read: Unclosed group, near character 11"),
        ("(?x)(?<a>x)(?<a>y)", "it has two groups of the name a"),
        ("(?x)(?<a>x)(?<b>y)", "its group b is no column of the schema"),
        ("(?x)x", "it has no group for the column a"),
        ("(?x)x # (?<a>y)", r"(?<a> is no group here: write \(\?< for these signs"),
    ],
)
def test_a_pattern_that_java_refuses(spark, pattern, told):
    with pytest.raises(PatternRefused, match="^" + re.escape(told) + "$"):
        form(pattern).columns(spark)


def test_a_schema_that_no_text_has(spark):
    told = "column a: type struct<b:int> is not read from text: declare string"
    with pytest.raises(ValueError, match="^" + re.escape(told) + "$"):
        form("(?<a>x)", "a struct<b:int>").columns(spark)


def test_a_schema_that_lies_elsewhere_is_compared_when_it_is_read(spark, tmp_path):
    form("(?<a>x)", "a.json")
    (tmp_path / "a.json").write_text(
        '{"type": "struct", "fields": [{"name": "b", "type": "long", "nullable": true, "metadata": {}}]}'
    )
    with pytest.raises(PatternRefused, match=r"^its group a is no column of the schema$"):
        form("(?<a>x)", str(tmp_path / "a.json")).columns(spark)
