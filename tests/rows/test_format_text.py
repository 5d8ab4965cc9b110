"""The format text: valid UTF-8 becomes text, nothing else does."""

from __future__ import annotations

from pyspark.sql.types import StringType, StructField, StructType
from tests.rows.formats import Outcome, frame, outcomes

from rivermouth.extend import find_kind
from rivermouth.formats.text import Text

REFUSED = Outcome(None, "INVALID_UTF8", None, "the value is not valid UTF-8")


def test_the_name_in_the_yaml_finds_it():
    assert find_kind("formats", "text") is Text
    assert Text() == Text.model_validate({"type": "text"})


def test_there_is_one_string_column(spark):
    assert Text().columns(spark) == StructType([StructField("value", StringType())])


def test_utf8_is_kept_to_the_byte_and_the_rest_is_refused(spark):
    good = ["", " kept\n", "größer ✓ 😀", "\ufffd", "a\ufffd", "\ufeffmark", "a\x00b", "\uffff"]
    bad = [b"\xff", b"a\xc3", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\xbf\xbf\xbf", b"\xef\xbf\xbd\x80", b"\xfc\x80"]
    found = outcomes(spark, Text(), [*(text.encode() for text in good), *bad, None])
    assert found == [*(Outcome({"value": text}) for text in good), *[REFUSED] * len(bad), Outcome(None)]


def test_other_columns_stay(spark):
    rows = frame(spark, [b"x", b"\xff", None])
    decoded = Text().decode(rows)
    assert sorted(decoded.columns) == sorted([*rows.columns, "__data", "__decoded"])
    assert decoded.select(*rows.columns).collect() == rows.collect()
