"""Names and texts as they stand in SQL."""

from __future__ import annotations

import pytest

from rivermouth import names

TEXTS = ["plain", "", "it's", 'say "x"', "back\\slash", "\\'", "two\nlines", "\x00", "grün 🦀", "${var}", "a--b /* c"]


@pytest.mark.parametrize("raw_backslashes", ["false", "true"])
def test_a_literal_is_the_text_however_the_session_reads_backslashes(spark, raw_backslashes):
    session = spark.newSession()
    session.conf.set("spark.sql.parser.escapedStringLiterals", raw_backslashes)
    found = session.range(1).selectExpr(*(f"{names.literal(text)} AS t{i}" for i, text in enumerate(TEXTS)))
    assert list(found.collect()[0]) == TEXTS


def test_a_quoted_column_is_that_column(spark):
    odd = ["a b", "a.b", "a`b", "ä"]
    frame = spark.createDataFrame([(1, 2, 3, 4)], odd)
    assert frame.selectExpr(*map(names.quoted, odd)).columns == odd
