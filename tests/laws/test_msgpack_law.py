"""What the library msgpack packs is what the columns hold; what is no map of such values is refused."""

from __future__ import annotations

import datetime as dt
import re
import struct
from decimal import Decimal

import msgpack
import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.rows.formats import outcomes

from rivermouth.formats.msgpack import Msgpack

DDL = (
    "flag boolean, tiny tinyint, big bigint, real float, dbl double, price decimal(10,2), wide decimal(20,0), "
    "note string, raw binary, day date, at timestamp, local timestamp_ntz, tags array<string>, "
    "counts map<string,int>, ids map<bigint,string>, deep struct<x:int,at:timestamp>"
)
REFUSED = "refused"
# PySpark cannot read the first day of year 1, and not the last of 9999 west of Greenwich.
FIRST = dt.datetime(1, 1, 2)
LAST = dt.datetime(9999, 12, 30)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.integers(-200, 200)
    | st.floats(allow_nan=False)
    | st.floats(width=32, allow_nan=False)
    | st.text(max_size=6)
    | st.binary(max_size=6)
    | st.decimals(-(10**9), 10**9, places=2).map(str)
    | st.dates().map(str)
    | st.datetimes(FIRST, LAST).map(lambda at: at.isoformat())
    | st.datetimes(FIRST, LAST, timezones=st.just(dt.UTC))
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20))
)
KEYS = st.sampled_from(["x", "at", "k", "ä"]) | st.integers(-5, 300) | st.booleans()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)
FITTING = {
    "flag": st.booleans(),
    "tiny": st.integers(-130, 130),
    "big": st.integers(-(2**63), 2**64 - 1),
    "real": st.floats(width=32, allow_nan=False),
    "dbl": st.floats(allow_nan=False) | st.integers(-(2**60), 2**60),
    "price": st.decimals(-(10**8), 10**8, places=2).map(str) | st.integers(-(10**9), 10**9),
    "wide": st.integers(-(2**63), 2**64 - 1),
    "note": st.text(max_size=40),
    "raw": st.binary(max_size=300),
    "day": st.dates().map(str),
    "at": st.datetimes(FIRST, LAST, timezones=st.just(dt.UTC)),
    "local": st.datetimes(FIRST, LAST).map(lambda at: at.isoformat()),
    "tags": st.lists(st.text(max_size=3), max_size=20),
    "counts": st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=20),
    "ids": st.dictionaries(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3), max_size=4),
    "deep": st.fixed_dictionaries({}, optional={"x": st.integers(), "at": SCALARS, "more": SCALARS}).filter(
        lambda found: -(2**63) <= found.get("x", 0) < 2**64
    ),
}


@st.composite
def maps(draw):
    """Packed maps where most fields fit, with foreign ones."""
    names = draw(st.lists(st.sampled_from([*FITTING, "foreign"]), max_size=4, unique=True))
    found = {name: draw(FITTING.get(name, VALUES) if draw(st.integers(0, 9)) else VALUES) for name in names}
    try:
        raw = msgpack.packb(found, datetime=True, use_single_float=draw(st.booleans()))
    except OverflowError:
        raw = msgpack.packb(found, datetime=True)
    if draw(st.integers(0, 9)):
        return raw
    place = draw(st.integers(0, len(raw)))
    return raw[:place] + draw(st.binary(max_size=2)) + raw[place + draw(st.integers(0, 2)) :]


def oracle(raw):
    """What the columns hold, by the library's own reader and a line a type; REFUSED if there is a misfit."""
    try:
        found = msgpack.unpackb(raw, timestamp=0, strict_map_key=False, object_pairs_hook=pairs)
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException):
        return REFUSED
    if type(found) is not dict or not found.keys() & {*FITTING}:
        return REFUSED
    try:
        return {name: None if found.get(name) is None else FIELDS[name](found[name]) for name in FITTING}
    except Misfit:
        return REFUSED


class Misfit(Exception):
    """A value is not of its column's type."""


def pairs(items):
    if any(type(key) not in {str, int, bool} for key, _ in items):
        raise ValueError
    keys = [(type(key) is bool, key) for key, _ in items]
    if len(set(keys)) < len(keys):
        raise ValueError
    return dict(items)


def of(*types):
    def read(value):
        return value if type(value) in types else misfit()

    return read


def misfit():
    raise Misfit


def whole(bits):
    return lambda value: value if type(value) is int and -(2**bits) <= value < 2**bits else misfit()


def real(value):
    if type(value) is int:
        return float(value) if int(float(value)) == value else misfit()
    return of(float)(value)


def single(value):
    try:
        narrow = struct.unpack("f", struct.pack("f", real(value)))[0]
    except OverflowError:
        misfit()
    return narrow if narrow == value else misfit()


def decimal(precision, scale):
    def read(value):
        if type(value) is str:
            value = (
                Decimal(value) if value.lstrip("-").replace(".", "", 1).isdecimal() and value[-1:] != "." else misfit()
            )
        elif type(value) is not int:
            misfit()
        exact = Decimal(value)
        shifted = exact.scaleb(scale)
        return exact if shifted == shifted.to_integral_value() and abs(shifted) < 10**precision else misfit()

    return read


def day(value):
    try:
        return dt.date.fromisoformat(value) if len(of(str)(value)) == 10 else misfit()
    except ValueError:
        misfit()


def instant(value):
    if type(value) is not msgpack.Timestamp:
        return local(value)
    if value.nanoseconds % 1000:
        misfit()
    try:
        return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=value.seconds, microseconds=value.nanoseconds // 1000)
    except OverflowError:
        misfit()


def local(value):
    if re.search(r":\d\d:\d\d[:,]", of(str)(value)):
        misfit()  # Python takes a fraction behind a colon or a comma too
    try:
        return dt.datetime.fromisoformat(value) if "T" in of(str)(value) else misfit()
    except ValueError:
        misfit()


def items(read):
    return lambda value: [None if each is None else read(each) for each in of(list)(value)]


def entries(key, read):
    return lambda value: {key(k): None if each is None else read(each) for k, each in of(dict)(value).items()}


def members(**reads):
    return lambda value: {
        name: None if of(dict)(value).get(name) is None else read(value[name]) for name, read in reads.items()
    }


FIELDS = {
    "flag": of(bool),
    "tiny": whole(7),
    "big": whole(63),
    "real": single,
    "dbl": real,
    "price": decimal(10, 2),
    "wide": decimal(20, 0),
    "note": of(str),
    "raw": of(bytes),
    "day": day,
    "at": instant,
    "local": local,
    "tags": items(of(str)),
    "counts": entries(of(str), whole(31)),
    "ids": entries(whole(63), of(str)),
    "deep": members(x=whole(31), at=instant),
}


def plain(data):
    return None if data is None else {name: bytes(v) if type(v) is bytearray else v for name, v in data.items()}


@pytest.mark.long
def test_columns_hold_what_the_library_reads(spark):
    values = gathered(maps(), 1500)
    found = outcomes(spark, Msgpack(schema=DDL), values)
    wanted = [oracle(raw) for raw in values]
    wrong = [
        (raw, plain(outcome.data), outcome.reason, expected)
        for raw, outcome, expected in zip(values, found, wanted, strict=True)
        if (plain(outcome.data) or REFUSED) != expected
    ]
    assert wrong[:5] == []
    refused = [outcome for outcome in found if outcome.data is None]
    assert [o for o in refused if o.reason in {None, "UNEXPLAINED"} or not o.message] == []
    assert 100 < len(refused) < len(values) - 300
