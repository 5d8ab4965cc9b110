"""What is said of a pattern without Java is what Java says: what is refused it refuses, and groups are its groups."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.text import java_pattern

SIGNS = [
    *("(", "(", ")", ")", "[", "]", "[^", "\\", "(?<a>", "(?<b>", "(?:", "(?=", "(?<=", "(?<!", "(?>", "(?i)", "(?x)"),
    *("\\k<a>", "\\k<b>", "\\Q", "\\E", "\\(", "\\]", "\\c", "a", "b", "&&", "-", "|", "*", "?", "^", "#", "\n", " "),
]
PATTERNS = st.lists(st.sampled_from(SIGNS), min_size=1, max_size=12).map("".join)
WHOLE = st.tuples(PATTERNS, PATTERNS, PATTERNS).map(lambda parts: "(?<a>{})|(?:{}){}".format(*parts))


@pytest.mark.long
def test_what_is_said_without_java_is_what_java_says(spark):
    java, ours = spark._jvm.java.util.regex.Pattern, jvm_classes.found(spark, "values.Regex")
    told = {"refused": 0, "read": 0, "not told": 0}

    def taken(make, *arguments):
        try:
            make(*arguments)
        except jvm_classes.JAVA_ERRORS:
            return False
        return True

    def said(pattern):
        try:
            return java_pattern.groups(pattern), None
        except ValueError as error:
            return None, str(error)

    @settings(max_examples=1000, suppress_health_check=list(HealthCheck))
    @given(PATTERNS | WHOLE)
    def holds(pattern):
        groups, refusal = said(pattern)
        if refusal is not None:
            told["refused"] += 1
            # To Java these are the signs themselves.
            assert "within [ and ]" in refusal or not taken(java.compile, pattern)
        elif groups is None:
            told["not told"] += 1
        elif taken(java.compile, pattern):
            told["read"] += 1
            assert taken(ours, pattern, list(groups), 1000)

    holds()
    assert min(told.values()) > 50
