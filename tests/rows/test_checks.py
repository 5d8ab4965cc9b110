"""A condition counts as met only if it is TRUE; rows without columns are not judged."""

from __future__ import annotations

import pytest

from rivermouth.rows import checks
from rivermouth.spec import Expectation

COLUMNS = "x int, __decoded boolean, __key_valid boolean, __value binary"


def expectation(condition):
    return Expectation(name=condition, condition=condition, action="drop")


def failed(spark, rows, *conditions):
    frame = checks.check(spark.createDataFrame(rows, COLUMNS), [expectation(each) for each in conditions])
    return [[row[checks.failed_column(i)] for i in range(len(conditions))] for row in frame.collect()]


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("x > 0", [False, True, True]),
        ("x IS NULL", [True, True, False]),
        ("NULL", [True, True, True]),
        ("true", [False, False, False]),
        ("x / 0 = 1", [True, True, True]),
        ("x > 0 -- at last", [False, True, True]),
        ("x > 0 OR true", [False, False, False]),
        ("CAST('no number' AS int) = x", [True, True, True]),
        # Whatever ANSI mode says, these throw.
        ("timestamp_seconds(x * 9000000000000000) > TIMESTAMP '2000-01-01'", [True, True, True]),
        ("x > 0 AND timestamp_seconds(x * 9000000000000000) IS NOT NULL", [True, True, True]),
        ("assert_true(x > 0) IS NULL", [False, True, True]),
        # What is left of the map that could not be made is in no other.
        ("size(map_from_arrays(array(x, 1), array(1, 2))) = 2", [True, False, True]),
        ("x < 0 OR to_number(CAST(x AS string), '9') = 1", [False, False, True]),
    ],
)
def test_false_and_null_fail_and_so_does_what_cannot_be_evaluated(condition, fails, spark):
    rows = [(1, True, True, b"v"), (-1, True, True, b"v"), (None, True, True, b"v")]
    assert failed(spark, rows, condition) == [[each] for each in fails]


def test_a_row_that_was_not_decoded_or_has_no_value_or_a_broken_key_fails_nothing(spark):
    rows = [(None, False, True, b"v"), (None, True, False, b"v"), (None, True, True, None)]
    assert failed(spark, rows, "x > 0", "false") == [[False, False]] * 3


def test_each_expectation_is_judged_for_itself(spark):
    assert failed(spark, [(5, True, True, b"v")], "x > 0", "x > 5", "x > 4") == [[False, True, False]]


def test_without_expectations_there_is_no_column_more(spark):
    frame = spark.createDataFrame([(1, True, True, b"v")], COLUMNS)
    assert checks.check(frame, []).columns == frame.columns
