"""Of whatever Python values a function returns, a record has them in its row as they are, or is refused."""

from __future__ import annotations

import datetime as dt
import math
import pickle
from decimal import Decimal

from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StructField, StructType
from tests.laws.gathering import gathered

from rivermouth import names
from rivermouth.formats.python import Python

LONGS, TEXTS = st.integers(-(1 << 63), (1 << 63) - 1), st.text(st.characters(codec="utf-8"), max_size=6)
CENTS = st.integers(-99_999, 99_999).map(lambda unscaled: Decimal(unscaled).scaleb(-2))
INSTANTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))
OTHERS = st.one_of(
    st.booleans(), st.binary(max_size=3), st.complex_numbers(), st.just(object), st.just("\ud800"), st.just(math.nan)
)
# By column: its type, what fits, what does not.
COLUMNS = {
    "a": ("bigint NOT NULL", LONGS, st.one_of(st.none(), st.just(1 << 63), st.floats(), TEXTS)),
    "b": ("double", st.floats(allow_nan=False), st.one_of(st.just((1 << 60) + 1), TEXTS, CENTS)),
    "c": (
        "decimal(5,2)",
        CENTS,
        st.one_of(st.floats(), st.just(Decimal("0.001")), st.just(Decimal("NaN")), st.just(1000)),
    ),
    "d": ("string", TEXTS, st.one_of(LONGS, st.just("\ud800"), st.binary())),
    "e": ("date", st.dates(), st.one_of(INSTANTS, TEXTS)),
    "f": ("timestamp", INSTANTS, st.one_of(st.datetimes(), st.dates(), LONGS)),
    "g": ("array<bigint>", st.lists(st.none() | LONGS, max_size=3), st.one_of(LONGS, st.lists(TEXTS, min_size=1))),
    "h": (
        "struct<x: bigint, y: map<string, double>>",
        st.fixed_dictionaries(
            {"x": st.none() | LONGS, "y": st.none() | st.dictionaries(TEXTS, st.floats(allow_nan=False), max_size=2)}
        ),
        st.sampled_from(
            [{}, {"x": 1}, {"x": 1, "y": None, "z": 1}, {"x": "1", "y": None}, {"x": 1, "y": {1: 1.0}}, []]
        ),
    ),
}
GOOD = st.fixed_dictionaries(
    {name: fits if "NOT NULL" in kind else st.none() | fits for name, (kind, fits, _) in COLUMNS.items()}
)
BAD = st.sampled_from(sorted(COLUMNS)).flatmap(
    lambda name: st.tuples(GOOD, st.just(name), COLUMNS[name][2]).map(lambda it: {**it[0], it[1]: it[2]})
)
OTHER = st.one_of(
    LONGS.filter(bool), TEXTS.filter(bool), st.lists(LONGS, min_size=1), GOOD.map(lambda row: row | {"z": 1})
)
LESS = st.tuples(GOOD, st.sampled_from(sorted(COLUMNS))).map(lambda it: {k: v for k, v in it[0].items() if k != it[1]})
RETURNED = st.one_of(
    GOOD.map(lambda row: (True, row)), st.one_of(BAD, OTHER, LESS).map(lambda row: (False, row)), st.just((True, None))
)
SCHEMA = ", ".join(f"{name} {kind}" for name, (kind, _, _) in COLUMNS.items())


def test_a_row_has_what_was_returned_or_nothing(spark):
    returned = gathered(RETURNED, 150)
    form = Python.model_validate({"type": "python", "function": "pickle:loads", "schema": SCHEMA})
    values = [(pickle.dumps(row),) for _, row in returned]
    source = spark.createDataFrame(values, StructType([StructField(names.VALUE, BinaryType())])).coalesce(1)
    parts = (names.DECODED, names.DATA, f"{names.VERDICT}.skipped", f"{names.VERDICT}.reason")
    found = form.decode(source).select(*parts).toArrow().to_pylist()
    for told, (fits, row) in zip(found, returned, strict=True):
        assert told[names.DECODED] is fits, row
        assert (told["reason"] is None) is fits
        assert told["skipped"] is (row is None)
        expected = row if fits and row is not None else dict.fromkeys(COLUMNS)
        assert told[names.DATA] == as_arrow(expected)


def as_arrow(row):
    """Maps are lists of pairs there."""
    nested = row["h"]
    return row | {"h": nested and {**nested, "y": None if nested["y"] is None else list(nested["y"].items())}}
