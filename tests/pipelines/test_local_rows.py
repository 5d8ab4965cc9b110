"""Rows of Python with whole numbers in columns of floats."""

from __future__ import annotations

import pytest
from pyspark.sql import Row
from pyspark.sql import types as T

from rivermouth.pipelines.session.local_rows import with_floats

SCHEMA = T.StructType(
    [
        T.StructField("f", T.FloatType()),
        T.StructField("n", T.LongType()),
        T.StructField("a", T.ArrayType(T.DoubleType())),
        T.StructField("m", T.MapType(T.StringType(), T.DoubleType())),
        T.StructField("s", T.StructType([T.StructField("d", T.DoubleType())])),
    ]
)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ((1, 2, [3, 4.5, None], {"k": 5}, (6,)), (1.0, 2, [3.0, 4.5, None], {"k": 5.0}, (6.0,))),
        ([1, 2, None, None, None], (1.0, 2, None, None, None)),
        ({"f": 1, "n": 2, "s": {"d": 3}, "x": 4}, {"f": 1.0, "n": 2, "s": {"d": 3.0}, "x": 4}),
        ((True, 1, None, None, None), (True, 1, None, None, None)),
        (Row(f=1, n=2), Row(f=1, n=2)),
        ((1, 2), (1, 2)),
    ],
)
def test_whole_numbers_become_floats_where_the_schema_says_so(row, wanted):
    (found,) = with_floats([row], SCHEMA)
    assert repr(found) == repr(wanted)


def test_what_is_no_list_of_rows_stays():
    rows = iter([(1,)])
    assert with_floats(rows, SCHEMA) is rows
    assert with_floats([(1,)], None) == [(1,)]
