"""Python values in declared columns: what fits is there as it was, all else is refused with its field."""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
import signal
import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from rivermouth.decoding.python import python_decode, python_values
from rivermouth.decoding.python.python_decode import Call, Outcome
from rivermouth.decoding.python.python_function import Reference
from rivermouth.decoding.python.python_values import Misfit

BYTE, SHORT, INT, LONG = T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType()
FLOAT, DOUBLE, TEXT, BYTES, BOOL = T.FloatType(), T.DoubleType(), T.StringType(), T.BinaryType(), T.BooleanType()
MONEY, BIG = T.DecimalType(5, 2), T.DecimalType(38, 0)
DATE, INSTANT, CLOCK = T.DateType(), T.TimestampType(), T.TimestampNTZType()
PAIR = T.StructType([T.StructField("a", INT), T.StructField("b", TEXT, nullable=False)])
NANOSECONDS = "a time with nanoseconds, which timestamp_precision: truncate cuts off"
UTC, EAST = dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))
WEST = dt.timezone(dt.timedelta(hours=-5))
SLOW = dt.timezone(dt.timedelta(hours=1, microseconds=5))
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
NOON = dt.datetime(2026, 1, 31, 12, 0, 0, 123456)


class Color(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


FIT = [
    (BOOL, True, True),
    (BOOL, np.bool_(False), False),
    *(
        (kind, value, value)
        for kind, bits in ((BYTE, 8), (SHORT, 16), (INT, 32), (LONG, 64))
        for value in (-(1 << bits - 1), (1 << bits - 1) - 1)
    ),
    (LONG, Number.ONE, 1),
    (LONG, np.int16(-3), -3),
    (LONG, np.uint64(3), 3),
    (DOUBLE, 0.1, 0.1),
    (DOUBLE, 1 << 53, float(1 << 53)),
    (DOUBLE, np.float32(0.1), float(np.float32(0.1))),
    (DOUBLE, math.inf, math.inf),
    (FLOAT, 0.5, 0.5),
    (FLOAT, np.float32(0.1), float(np.float32(0.1))),
    (FLOAT, -math.inf, -math.inf),
    (MONEY, Decimal("1.5"), Decimal("1.50")),
    (MONEY, Decimal("999.99000"), Decimal("999.99")),
    (MONEY, Decimal("1E+2"), Decimal("100.00")),
    (MONEY, Decimal("-0E+99999"), Decimal("0.00")),
    (MONEY, -999, Decimal("-999.00")),
    (BIG, 10**38 - 1, Decimal(10**38 - 1)),
    (TEXT, "größer\x00 ✓ 😀", "größer\x00 ✓ 😀"),
    (TEXT, Color.RED, "red"),
    (BYTES, b"\x00\xff", b"\x00\xff"),
    (BYTES, bytearray(b"a"), b"a"),
    (BYTES, memoryview(b"b"), b"b"),
    (DATE, dt.date(1, 1, 1), dt.date(1, 1, 1)),
    (DATE, dt.date(9999, 12, 31), dt.date(9999, 12, 31)),
    (INSTANT, NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC)),
    (INSTANT, NOON.replace(tzinfo=EAST), (NOON - dt.timedelta(hours=5, minutes=30)).replace(tzinfo=UTC)),
    (INSTANT, dt.datetime(9999, 12, 31, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC)),
    (INSTANT, pd.Timestamp("2026-01-31T12:00:00.000001+01:00"), dt.datetime(2026, 1, 31, 11, 0, 0, 1, tzinfo=UTC)),
    (INSTANT, NOON.replace(tzinfo=SLOW), NOON.replace(tzinfo=UTC) - SLOW.utcoffset(None)),
    (CLOCK, NOON, NOON),
    (CLOCK, dt.datetime(1, 1, 1), dt.datetime(1, 1, 1)),
    (PAIR, {"b": "x", "a": None}, {"a": None, "b": "x"}),
    (T.ArrayType(LONG), [1, None], [1, None]),
    (T.ArrayType(LONG), (), []),
    (T.ArrayType(PAIR), [{"a": 1, "b": ""}, None], [{"a": 1, "b": ""}, None]),
    (T.MapType(TEXT, T.ArrayType(LONG)), {"k": [1], "": None}, [("k", [1]), ("", None)]),
    (T.MapType(LONG, DOUBLE), {1: 2}, [(1, 2.0)]),
    (T.MapType(TEXT, LONG), {}, []),
]
HALF = "a string with half a character (a surrogate without its pair)"
DIGITS = "a number with more digits than that, before or after the point"
MISFITS = [
    (BOOL, 1, "an int"),
    (BOOL, "true", "a str"),
    *(
        (kind, 1 << bits - 1, "a value beyond its range")
        for kind, bits in ((BYTE, 8), (SHORT, 16), (INT, 32), (LONG, 64))
    ),
    (LONG, 10**400, "a value beyond its range"),
    (LONG, np.uint64(1 << 63), "a value beyond its range"),
    (LONG, 1.0, "a float"),
    (LONG, True, "a bool"),
    (LONG, "1", "a str"),
    (LONG, Decimal(1), "a Decimal"),
    (DOUBLE, (1 << 53) + 1, "a whole number that it would round"),
    (DOUBLE, 10**400, "a value beyond its range"),
    (DOUBLE, True, "a bool"),
    (DOUBLE, Decimal("0.5"), "a Decimal"),
    (FLOAT, 0.1, "a number that a float would round: declare double"),
    (FLOAT, 1e300, "a number that a float would round: declare double"),
    (MONEY, 1.5, "a float, which is no exact number: return a decimal.Decimal"),
    (MONEY, math.nan, "a float, which is no exact number: return a decimal.Decimal"),
    (MONEY, Decimal("NaN"), "a Decimal that is no finite number"),
    (MONEY, Decimal("sNaN"), "a Decimal that is no finite number"),
    (MONEY, Decimal("-Infinity"), "a Decimal that is no finite number"),
    (MONEY, Decimal("1.005"), DIGITS),
    (MONEY, Decimal(1000), DIGITS),
    (MONEY, Decimal("1" + "0" * 1_000_000), DIGITS),
    (MONEY, Decimal("1E+999999"), DIGITS),
    (MONEY, Decimal("1E-999999"), DIGITS),
    (MONEY, 1000, "a value beyond its range"),
    (MONEY, True, "a bool"),
    (MONEY, "1.50", "a str"),
    (TEXT, b"a", "a bytes"),
    (TEXT, 1, "an int"),
    (TEXT, "\ud800", HALF),
    (BYTES, "a", "a str"),
    (DATE, NOON, "a datetime"),
    (DATE, "2026-01-31", "a str"),
    (INSTANT, NOON, "a datetime without a time zone"),
    (INSTANT, dt.datetime(1, 1, 1, tzinfo=EAST), "a value beyond its range"),
    (INSTANT, dt.datetime(9999, 12, 31, 23, tzinfo=WEST), "a value beyond its range"),
    (INSTANT, dt.date(2026, 1, 31), "a date"),
    (INSTANT, 0, "an int"),
    (INSTANT, pd.NaT, "a NaTType"),
    (
        INSTANT,
        pd.Timestamp("2026-01-31T12:00:00.000000001Z"),
        NANOSECONDS,
    ),
    (CLOCK, NOON.replace(tzinfo=UTC), "a datetime with a time zone"),
    (PAIR, [1], "a list"),
    (T.ArrayType(LONG), "12", "a str"),
    (T.ArrayType(LONG), {1}, "a set"),
    (T.MapType(TEXT, LONG), [("k", 1)], "a list"),
    (T.MapType(DOUBLE, LONG), {float("nan"): 1, math.nan: 2}, "a key twice"),
]
DEEPER = [
    (PAIR, {"a": 1}, "FIELD_MISSING", "x.b", "field x.b is declared, and the dict lacks it"),
    (PAIR, {"a": 1, "b": None}, "FIELD_MISSING", "x.b", "field x.b is declared NOT NULL and is None"),
    (PAIR, {"a": 1, "b": "", "c": 1}, "FIELD_UNKNOWN", "x", "the dict of field x has a key that the schema lacks: 'c'"),
    (
        PAIR,
        {"a": 1, "b": "", 7: 1},
        "FIELD_UNKNOWN",
        "x",
        "the dict of field x has a key that the schema lacks: an int",
    ),
    (T.ArrayType(PAIR), [{"a": "1", "b": ""}], "FIELD_TYPE", "x[].a", "field x[].a is declared int and holds a str"),
    (T.ArrayType(LONG, False), [None], "FIELD_MISSING", "x[]", "field x[] is declared NOT NULL and is None"),
    (T.MapType(TEXT, LONG, False), {"k": None}, "FIELD_MISSING", "x[]", "field x[] is declared NOT NULL and is None"),
    (T.MapType(TEXT, LONG), {None: 1}, "FIELD_MISSING", "x[]", "field x[] is declared NOT NULL and is None"),
    (T.MapType(TEXT, LONG), {1: 1}, "FIELD_TYPE", "x[]", "field x[] is declared string and holds an int"),
]


def one(kind):
    return T.StructType([T.StructField("x", kind)])


@pytest.mark.parametrize(("kind", "value", "expected"), FIT)
def test_what_fits_is_there_as_it_was(kind, value, expected):
    # Next to others, and where some have none.
    for column in ([value], [value, None], [None, value, value]):
        found = python_values.rows([{"x": each} for each in column], one(kind))
        assert found.type == python_values.arrow_type(one(kind))
        assert found.null_count == 0
        found.validate(full=True)
        assert found.field("x").to_pylist() == [None if each is None else expected for each in column]


@pytest.mark.parametrize(("kind", "value", "holds"), MISFITS)
def test_what_does_not_fit_is_named(kind, value, holds):
    with pytest.raises(Misfit) as caught:
        python_values.rows([{"x": None}, {"x": value}], one(kind))
    told = (caught.value.reason, caught.value.field, str(caught.value))
    assert told == ("FIELD_TYPE", "x", f"field x is declared {kind.simpleString()} and holds {holds}")


@pytest.mark.parametrize(("kind", "value", "reason", "field", "message"), DEEPER)
def test_what_is_missing_or_more_is_named_by_its_path(kind, value, reason, field, message):
    with pytest.raises(Misfit) as caught:
        python_values.rows([{"x": value}], one(kind))
    assert (caught.value.reason, caught.value.field, str(caught.value)) == (reason, field, message)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ([1], ("FUNCTION_FAILED", None, "it returned a list, and no dict or None")),
        ({}, ("FIELD_MISSING", "x", "field x is declared, and the dict lacks it")),
        ({"x": 1, "y\ud800": 1}, ("FIELD_UNKNOWN", None, "the dict has a key that the schema lacks: 'y\\ud800'")),
        ({"x": 1, "y" * 999: 1}, ("FIELD_UNKNOWN", None, f"the dict has a key that the schema lacks: '{'y' * 100}'")),
    ],
)
def test_what_a_row_is_not(row, told):
    with pytest.raises(Misfit) as caught:
        python_values.rows([row], one(LONG))
    assert (caught.value.reason, caught.value.field, str(caught.value)) == told


@settings(max_examples=60)
@given(st.lists(st.sampled_from([1, 2, None, "no", 3.5]), max_size=40))
def test_those_that_fit_are_sifted_from_the_others(values):
    found, misfits = python_values.sifted([{"x": value} for value in values], one(LONG))
    assert sorted(misfits) == [place for place, value in enumerate(values) if isinstance(value, str | float)]
    assert found.field("x").to_pylist() == [value for place, value in enumerate(values) if place not in misfits]


class Odd(dt.tzinfo):
    def __init__(self, error):
        self.error = error

    def utcoffset(self, _):
        raise self.error


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_values_of_classes_that_raise_refuse_their_records_alone(error):
    good, odd = NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=Odd(error))
    found, misfits = python_values.sifted([{"x": good}, {"x": odd}, {"x": good}], one(INSTANT))
    assert found.field("x").to_pylist() == [good, good]
    assert [(place, each.reason, str(each)) for place, each in misfits.items()] == [
        (1, "FUNCTION_FAILED", f"what it returned cannot be read: {error.__name__}")
    ]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (T.VariantType(), "column x: no values of Python become type variant"),
        (T.VarcharType(3), "column x: no values of Python become type varchar(3)"),
        (T.StringType("UNICODE"), "column x: no values of Python become type string collate UNICODE"),
        (T.ArrayType(T.NullType()), "column x[]: no values of Python become type void"),
        (T.MapType(PAIR, LONG), "column x: the keys of a dict are no struct<a:int,b:string>"),
        (T.StructType([]), "column x has no fields"),
        (
            T.StructType([T.StructField("a", INT), T.StructField("A", INT)]),
            "columns 'a' and 'A' are the same to Spark and Delta",
        ),
        (
            T.StructType([T.StructField("a", INT, metadata={"json_name": "b"})]),
            "column x.a: json_name is for columns of the table itself, in the format json",
        ),
    ],
)
def test_types_that_python_has_no_values_for(kind, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        python_values.check(one(kind))
    assert str(caught.value) == message


NUMBERS, TEXTS = pa.int64(), pa.string()
MAP, LARGE_MAP = pa.map_(TEXTS, NUMBERS), pa.map_(pa.large_string(), pa.int32())

# --- functions over whole arrays: what they return, in which types, and what they raise -------------------

SCHEMA = T.StructType([T.StructField("x", LONG, nullable=False), T.StructField("y", TEXT)])


def made(function, values, schema=SCHEMA):
    """By value: the row, "skipped", or reason, field and message."""
    outcome = python_decode._by_arrays(function, pa.array(values, pa.binary()), {}, schema)
    assert isinstance(outcome, Outcome)
    rows = [] if outcome.rows is None else outcome.rows.to_pylist()
    assert outcome.rows is None or outcome.rows.type == python_values.arrow_type(schema)
    told = dict(zip(outcome.places, rows, strict=True)) | dict.fromkeys(outcome.skipped, "skipped")
    told |= {place: (each.reason, each.field, str(each)) for place, each in outcome.refused.items()}
    assert sorted(told) == list(range(len(values)))
    return [told[place] for place in range(len(values))]


def numbers(kind=NUMBERS, text=TEXTS):
    """A function that reads numbers; ``null`` is left out, a number of two digits raises."""

    def function(values):
        said = values.to_pylist()
        if any(len(each) == 2 for each in said):
            raise Misfit("FUNCTION_FAILED", None, "two digits")
        mask = pa.array([each == b"null" for each in said])
        given = [0 if each == b"null" else None if each == b"none" else int(each) for each in said]
        return pa.StructArray.from_arrays(
            [pa.array(given).cast(kind), pa.nulls(len(said), text)], ["x", "y"], mask=mask
        )

    return function


def test_a_batch_that_raises_is_halved_until_what_raises_stands_alone():
    values = [b"1", b"22", b"3", b"null", b"none", *([b"4"] * 50), b"55"]
    missing = ("FIELD_MISSING", "x", "field x is declared NOT NULL and is None")
    failed = ("FUNCTION_FAILED", None, "two digits")
    rows = [{"x": 4, "y": None}] * 50
    expected = [{"x": 1, "y": None}, failed, {"x": 3, "y": None}, "skipped", missing, *rows, failed]
    assert made(numbers(), values) == expected
    assert made(numbers(pa.int8(), pa.large_string()), values) == expected


@pytest.mark.parametrize("values", [[b"22"] * 9, [b"null"] * 9, [b"1"]])
def test_a_batch_may_be_all_of_one_kind(values):
    assert len(set(map(str, made(numbers(), values)))) == 1


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array([1, 300], pa.uint64()), BYTE, [1, "a value beyond its range"]),
        (pa.array([1.0, 2.5]), LONG, ["a float"] * 2),
        (pa.array([0.5, 0.1], pa.float64()), FLOAT, [0.5, "a number that a float would round: declare double"]),
        (pa.array([0.5, 0.1], pa.float32()), DOUBLE, [0.5, float(np.float32(0.1))]),
        (pa.array([1, 2]), DOUBLE, [1.0, 2.0]),
        (pa.array([Decimal("1.00"), Decimal("1.01")]), T.DecimalType(3, 1), [Decimal("1.0"), DIGITS]),
        (pa.array([Decimal("1.0"), Decimal("99.0")]), MONEY, [Decimal("1.00"), Decimal("99.00")]),
        (pa.array([0, 1], pa.timestamp("s", "Europe/Berlin")), INSTANT, [EPOCH, EPOCH + dt.timedelta(seconds=1)]),
        (pa.array([0, 1], pa.timestamp("us")), INSTANT, ["a datetime without a time zone"] * 2),
        (
            pa.array([1000, 1], pa.timestamp("ns", "UTC")),
            INSTANT,
            [dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC), NANOSECONDS],
        ),
        (pa.array(["a", "b"]).dictionary_encode(), TEXT, ["a", "b"]),
        (pa.array([b"a", b"b"]), TEXT, ["a bytes"] * 2),
        (pa.array([[1], [2, 300]]), T.ArrayType(BYTE), [[1], "!"]),
        (pa.nulls(2), PAIR, [None, None]),
        (pa.array([[("a", 1)], [("a", 1), ("a", 2)]], MAP), T.MapType(TEXT, LONG), [[("a", 1)], "!"]),
        (pa.array([[("a", 1)], None], LARGE_MAP), T.MapType(TEXT, LONG), [[("a", 1)], None]),
        (pa.array([[[("a", 1)]], []], pa.list_(LARGE_MAP)), T.ArrayType(T.MapType(TEXT, LONG)), [[[("a", 1)]], []]),
        (pa.array([0, 1 << 62], pa.timestamp("us", "UTC")), INSTANT, [EPOCH, "cannot be read"]),
        (pa.array([0, 1 << 30], pa.date32()), DATE, [EPOCH.date(), "cannot be read"]),
        (pa.array([{"b": "", "a": 1}, {"a": 2, "b": None}]), PAIR, [{"a": 1, "b": ""}, "!"]),
    ],
)  # fmt: skip
def test_arrays_of_other_types_are_taken_as_far_as_nothing_is_lost(column, kind, expected):
    found = made(lambda _: pa.StructArray.from_arrays([column], ["x"]), [b"", b""], one(kind))
    for told, wanted in zip(found, expected, strict=True):
        if wanted == "cannot be read":
            assert told[0] == "FUNCTION_FAILED"
        elif (isinstance(wanted, str) and kind != TEXT) or wanted == "a bytes":
            assert told[0] in ("FIELD_TYPE", "FIELD_MISSING")
            assert wanted == "!" or told[2] == f"field x is declared {kind.simpleString()} and holds {wanted}"
        else:
            assert told == {"x": wanted}


def test_a_map_is_taken_whatever_the_columns_beside_it_hold():
    both = T.StructType([T.StructField("m", T.MapType(TEXT, LONG)), T.StructField("x", FLOAT)])
    arrays = [pa.array([[("a", 1)]] * 2, MAP), pa.array([0.5, 0.1], pa.float64())]
    found = made(lambda _: pa.StructArray.from_arrays(arrays, ["m", "x"]), [b"", b""], both)
    assert found[0] == {"m": [("a", 1)], "x": 0.5}
    assert found[1][:2] == ("FIELD_TYPE", "x")


def test_a_function_may_fill_the_same_memory_again():
    buffer = np.zeros(1, dtype="int64")

    def function(values):
        if len(values) > 1:
            raise Misfit("FUNCTION_FAILED", None, "one at a time")
        buffer[0] = int(values[0].as_py())
        return pa.StructArray.from_arrays([pa.array(buffer)], ["x"])

    assert made(function, [b"1", b"2", b"3"], one(LONG)) == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_strings_that_are_no_utf_8_are_refused():
    bad = pa.StringArray.from_buffers(2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff"))
    failed = ("FUNCTION_FAILED", None, "what it returned cannot be read: UnicodeDecodeError")
    assert made(lambda _: pa.StructArray.from_arrays([bad], ["x"]), [b"", b""], one(TEXT)) == [{"x": "a"}, failed]


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ([1], ("FUNCTION_FAILED", None, "it returned a list, and no pyarrow.StructArray")),
        (pa.array([{"x": 1}]), ("FUNCTION_FAILED", None, "it returned 1 rows for 2 values")),
        (pa.array([{"x": 1, "z": 1}] * 2), ("FIELD_MISSING", "y", "field y is declared, and the dict lacks it")),
        (
            pa.array([{"x": 1, "y": None, "z": 1}] * 2),
            ("FIELD_UNKNOWN", None, "the dict has a key that the schema lacks: 'z'"),
        ),
        (
            pa.StructArray.from_arrays([pa.array([1, 1])] * 2, ["x", "x"]),
            ("FUNCTION_FAILED", None, "what it returned cannot be read: ValueError"),
        ),
    ],
)
def test_what_is_no_array_of_the_declared_columns(result, told):
    assert made(lambda _: result, [b"", b""]) == [told, told]


# --- verdicts as Spark gets them -----------------------------------------------------------------------


class Silent(Exception):
    def __str__(self):
        raise self.args[0]


def worst(value):
    match value:
        case b"exit":
            raise SystemExit(4)
        case b"silent":
            raise Silent(ZeroDivisionError)
        case b"mute":
            raise Silent(SystemExit)
        case b"interrupt":
            raise KeyboardInterrupt("told")
        case b"long":
            raise ValueError("ä" * 1000)
        case b"odd":
            raise ValueError("\ud800")
        case b"empty":
            raise KeyError
        case b"deep":
            raise RecursionError("too deep")
    return {"x": 1, "y": value.decode()}


def test_whatever_a_function_raises_is_a_verdict():
    values = [b"exit", None, b"silent", b"long", b"odd", b"empty", b"deep", b"ok", b"mute", b"interrupt"]
    call = Call(Reference(__name__, "worst"), SCHEMA.json(), (), arrow=False, timeout_s=30)
    python_decode.python_function.loaded.cache_clear()
    outcome = python_decode._decoded(call, pa.array(values, pa.binary()))
    assert {place: str(each) for place, each in outcome.refused.items()} == {
        0: "SystemExit: 4",
        2: "Silent",
        3: f"ValueError: {'ä' * 487}…",
        4: "ValueError: \\ud800",
        5: "KeyError",
        6: "RecursionError: too deep",
        8: "Silent",
        9: "KeyboardInterrupt: told",
    }
    parts = T.StructType(
        [
            T.StructField("decoded", BOOL),
            T.StructField("data", SCHEMA),
            T.StructField("verdict", python_decode.VERDICT),
        ]
    )
    found = outcome.to_arrow(python_values.arrow_type(parts))
    found.validate(full=True)
    none = {"x": None, "y": None}
    assert found.field("decoded").to_pylist() == [False, True, False, False, False, False, False, True, False, False]
    assert found.field("data").to_pylist() == [none] * 7 + [{"x": 1, "y": "ok"}] + [none] * 2
    assert pc.all(found.field("verdict").is_valid()).as_py()


class Slow(Exception):
    def __str__(self):
        time.sleep(60)
        return ""


def slow(value):
    raise Slow


def test_a_call_ends_in_time_whatever_its_exception_does():
    call = Call(Reference(__name__, "slow"), SCHEMA.json(), (), arrow=False, timeout_s=0.2)
    outcome = python_decode._decoded(call, pa.array([b"1"]))
    assert [str(each) for each in outcome.refused.values()] == ["it did not return within 0.2 s"]


def test_a_worker_that_is_told_to_end_refuses_no_record():
    before = signal.getsignal(signal.SIGINT)
    with python_decode._limited(30) as limit:
        told = signal.getsignal(signal.SIGINT)
        call = python_decode._Limited(lambda _: told(signal.SIGINT, None), limit)
        with pytest.raises(KeyboardInterrupt):
            call(b"")
    assert signal.getsignal(signal.SIGINT) is before


SAME = {"a": [], "m": {"k": [0]}, "s": {"x": 0}, "b": bytearray(1)}


def again(value):
    """The same dict each time, and the same values in it."""
    number = int(value)
    SAME["a"].append({"x": number})
    SAME["m"]["k"][0] = SAME["s"]["x"] = SAME["b"][0] = number
    return SAME


def test_a_function_may_return_the_same_object_again():
    inner = T.StructType([T.StructField("x", LONG)])
    fields = {"a": T.ArrayType(inner), "m": T.MapType(TEXT, T.ArrayType(LONG)), "s": inner, "b": BYTES}
    schema = T.StructType([T.StructField(name, kind) for name, kind in fields.items()])
    call = Call(Reference(__name__, "again"), schema.json(), (), arrow=False, timeout_s=30)
    outcome = python_decode._decoded(call, pa.array([b"1", b"2"]))
    assert outcome.rows.to_pylist() == [
        {"a": [{"x": 1}], "m": [("k", [1])], "s": {"x": 1}, "b": b"\x01"},
        {"a": [{"x": 1}, {"x": 2}], "m": [("k", [2])], "s": {"x": 2}, "b": b"\x02"},
    ]
