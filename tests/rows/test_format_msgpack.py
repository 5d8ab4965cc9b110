"""MessagePack: what is refused, with which reason, field and message."""

from __future__ import annotations

import datetime as dt

import msgpack
import pytest
from tests.rows.formats import Outcome, outcomes

from rivermouth.formats.msgpack import Msgpack

SCHEMA = "id bigint NOT NULL, price decimal(10,2), at timestamp, tags array<string>, inner struct<x:int>"

MANY = "a number with more digits than that, before or after the point"


def one(spark, value):
    return outcomes(spark, Msgpack(schema=SCHEMA), [value])[0]


def packed(**fields):
    return msgpack.packb({"id": 1, **fields}, datetime=True)


def test_lists_that_claim_more_than_there_is_take_no_room(spark):
    claims = 6_000_000
    bomb = (b"\xdd" + claims.to_bytes(4, "big")) * 190 + b"\x00" * (claims + 1_000_000)
    assert one(spark, bomb).reason == "TRUNCATED"


REFUSED = [
    (b"", "TRUNCATED", None, "the value ends before a length in it is reached"),
    (packed()[:-1], "TRUNCATED", None, "the value ends before a length in it is reached"),
    (b"\xdd\xff\xff\xff\xff", "TRUNCATED", None, "the value ends before a length in it is reached"),
    (packed() + b"\x00", "TRAILING_BYTES", None, "bytes follow the value"),
    (b"\x91\x01", "NOT_AN_OBJECT", None, "the value is no map"),
    (b"\x81\xa1a\xc1", "INVALID_MSGPACK", None, "a byte begins no value"),
    (b"\x82\xa1a\x01\xa1a\x02", "INVALID_MSGPACK", None, "a key is there twice in one map"),
    (
        b"\x81\xc0\x01",
        "INVALID_MSGPACK",
        None,
        "a key is neither a string nor a whole number nor a boolean",
    ),
    (b"\x81\xa1a\xc7\x03\xff\x00\x00\x00", "INVALID_MSGPACK", None, "a timestamp has a length that it never has"),
    (
        b"\x81\xa1a\xd7\xff" + b"\xff" * 8,
        "INVALID_MSGPACK",
        None,
        "a timestamp has more nanoseconds than a second",
    ),
    (
        b"\x81\xa1a\xc7\x0c\xff" + bytes(4) + b"\x7f" + b"\xff" * 7,
        "INVALID_MSGPACK",
        None,
        "a timestamp is beyond all times",
    ),
    (b"\x81\xa1a\xa1\xff", "INVALID_UTF8", None, "a string is not valid UTF-8"),
    (b"\x91" * 1000 + b"\x01", "TOO_DEEP", None, "values are nested more than 200 deep"),
    (b"\x80", "FIELD_MISSING", "id", "field id is declared NOT NULL and is null"),
    (
        packed(price=1.5),
        "FIELD_TYPE",
        "price",
        "field price is declared decimal(10,2) and holds a floating-point number, which is no exact one",
    ),
    (
        packed(price="1.555"),
        "FIELD_TYPE",
        "price",
        f"field price is declared decimal(10,2) and holds {MANY}",
    ),
    (packed(at=5), "FIELD_TYPE", "at", "field at is declared timestamp and holds a whole number"),
    (packed(at="today"), "FIELD_TYPE", "at", "field at is declared timestamp and holds a string"),
    (packed(tags=["a", 1]), "FIELD_TYPE", "tags[]", "field tags[] is declared string and holds a whole number"),
    (
        packed(inner={"x": 2**31}),
        "FIELD_TYPE",
        "inner.x",
        "field inner.x is declared int and holds a value beyond its range",
    ),
    (
        packed(inner=msgpack.ExtType(5, b"")),
        "FIELD_TYPE",
        "inner",
        "field inner is declared struct<x:int> and holds an extension of an application's",
    ),
]


TIMES = [
    (dt.datetime(2026, 1, 2, 3, 4, 5, 600, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, 3, 4, 5, 600)),
    (dt.datetime(2500, 1, 2, tzinfo=dt.UTC), dt.datetime(2500, 1, 2)),
    (dt.datetime(1600, 1, 2, tzinfo=dt.UTC), dt.datetime(1600, 1, 2)),
    ("2026-01-02T03:04:05.6+01:00", dt.datetime(2026, 1, 2, 2, 4, 5, 600000)),
    ("2026-01-02T03:04", dt.datetime(2026, 1, 2, 3, 4)),
]


@pytest.fixture(scope="module")
def found(spark):
    """What becomes of each of the values below, in one job."""
    values = [*(value for value, *_ in REFUSED), *(packed(at=sent) for sent, _ in TIMES)]
    return dict(zip(values, outcomes(spark, Msgpack(schema=SCHEMA), values), strict=True))


@pytest.mark.parametrize(("value", "reason", "field", "message"), REFUSED)
def test_what_is_refused_and_why(found, value, reason, field, message):
    assert found[value] == Outcome(None, reason, field, message)


def test_further_keys_are_ignored_whatever_they_are(spark):
    value = msgpack.packb({"id": 1, "more": {1: msgpack.ExtType(5, b"x")}, 7: [1.5, None]})
    assert one(spark, value).data == {"id": 1, "price": None, "at": None, "tags": None, "inner": None}


@pytest.mark.parametrize(("sent", "stored"), TIMES)
def test_times_are_extensions_or_strings(found, sent, stored):
    assert found[packed(at=sent)].data["at"] == stored
