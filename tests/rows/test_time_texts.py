"""Which instant a text says: one table for our reader of JSON, for the SQL next to it, and for formats of text."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from pyspark.sql import types as T
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.decoding.json import json_fast_path, json_types
from rivermouth.decoding.text import text_types
from rivermouth.formats.json import Json
from rivermouth.schemas import inferred_times, type_limits


def at(text):
    """A time of the table."""
    return dt.datetime.fromisoformat(text)


def in_words(said):
    """As Spark writes it; PySpark itself makes no datetime of the first day of year 1."""
    if said is None or type(said) is dt.date:
        return said and str(said)
    return said.isoformat(" ").rstrip("0") if said.microsecond else said.isoformat(" ")


# By text: the instant, or None where the text is refused; and whether our own reader is sure of it.
INSTANTS = {
    # An offset says the instant.
    "2026-01-31T10:00:00Z": ("2026-01-31T10:00:00", True),
    "2026-01-31T10:00:00.123456+00:00": ("2026-01-31T10:00:00.123456", True),
    "2026-01-31T10:00:00.123456+0530": ("2026-01-31T04:30:00.123456", True),
    "2026-01-31T10:00:00+00": ("2026-01-31T10:00:00", True),
    "2026-01-31T10:00:00-00:00": ("2026-01-31T10:00:00", False),
    "2026-01-31T10:00:00 +01:00": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00+01:00:30": ("2026-01-31T08:59:30", False),
    "2026-01-31T10:00:00+1:00": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00+24:00": (None, False),
    "2026-01-31T10:00:00-18:30": (None, False),
    "2026-01-31T10:00:00+01:60": (None, False),
    # Also behind hours, or hours and minutes.
    "2026-01-31T10:00Z": ("2026-01-31T10:00:00", True),
    "2026-01-31 10:00+0100": ("2026-01-31T09:00:00", True),
    "2026-01-31T10Z": ("2026-01-31T10:00:00", False),
    "2026-01-31T10+01:00": ("2026-01-31T09:00:00", False),
    # Whatever zone is named in brackets behind it.
    "2026-03-29T03:30:00+02:00[Europe/Berlin]": ("2026-03-29T01:30:00", True),
    "2026-10-25T02:30:00+01:00[Europe/Berlin]": ("2026-10-25T01:30:00", True),
    "2026-03-29T02:30:00+01:00[Europe/Berlin]": ("2026-03-29T01:30:00", True),
    "2026-01-31T10:00:00Z[UTC]": ("2026-01-31T10:00:00", True),
    "2026-01-31T10:00-05:00[EST]": ("2026-01-31T15:00:00", True),
    "2026-01-31T10:00:00+01:00[]": (None, False),
    "2026-01-31T10:00:00+01:00[!Europe/Berlin]": (None, False),
    "2026-01-31T10:00:00+01:00[Europe/Berlin": (None, False),
    # UTC and GMT, and offsets from them.
    "2026-01-31 10:00:00 UTC": ("2026-01-31T10:00:00", False),
    "2026-01-31T10:00:00GMT": ("2026-01-31T10:00:00", False),
    "2026-01-31T10:00:00UTC+1": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00GMT+01:00": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00[UTC]": ("2026-01-31T10:00:00", False),
    # A zone's name needs a local time that exists once there.
    "2026-01-31T10:00:00[Europe/Berlin]": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00 Europe/Berlin": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00Europe/Berlin": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00 Europe/Berlin": ("2026-01-31T09:00:00", False),
    "2026-01-31T10:00:00.123456789 America/Argentina/Buenos_Aires": ("2026-01-31T13:00:00.123456", False),
    "2026-01-31T10:00:00 Etc/GMT+1": ("2026-01-31T11:00:00", False),
    "2026-03-29T01:59:59 Europe/Berlin": ("2026-03-29T00:59:59", False),
    "2026-03-29T02:00:00 Europe/Berlin": (None, False),
    "2026-03-29T02:30:00 Europe/Berlin": (None, False),
    "2026-03-29T03:00:00 Europe/Berlin": ("2026-03-29T01:00:00", False),
    "2026-10-25T01:59:59 Europe/Berlin": ("2026-10-24T23:59:59", False),
    "2026-10-25T02:00:00 Europe/Berlin": (None, False),
    "2026-10-25T02:30:00 Europe/Berlin": (None, False),
    "2026-10-25T03:00:00 Europe/Berlin": ("2026-10-25T02:00:00", False),
    "2026-04-05T01:29:59 Australia/Lord_Howe": ("2026-04-04T14:29:59", False),
    "2026-04-05T01:45:00 Australia/Lord_Howe": (None, False),
    "2011-12-30T10:00:00 Pacific/Apia": (None, False),
    "1883-11-18T12:03:57 America/New_York": (None, False),
    "1883-11-18T12:03:58 America/New_York": ("1883-11-18T17:03:58", False),
    "2026-01-31T10:00:00 Mars/Base": (None, False),
    "2026-01-31T10:00:00 europe/berlin": (None, False),
    # Names that are several zones, or an offset of half of the year.
    **{
        f"2026-01-31T10:00:00 {name}": (None, False)
        for name in ("IST", "EST", "CST", "PST", "BST", "AST", "CET", "PST8PDT")
    },
    "2026-01-31T10:00:00EST": (None, False),
    "2026-01-31T10:00:00[IST]": (None, False),
    # Without an offset it is UTC.
    "2026-01-31": ("2026-01-31T00:00:00", True),
    "2026-01-31T10": ("2026-01-31T10:00:00", False),
    "2026-01-31T10:00": ("2026-01-31T10:00:00", True),
    "2026-01-31 10:00:00": ("2026-01-31T10:00:00", True),
    "2026-1-5T9:05:07": ("2026-01-05T09:05:07", False),
    "1582-10-10T00:00:00Z": ("1582-10-10T00:00:00", True),
    # Digits behind the microsecond are cut off.
    "2026-01-31T10:00:00.1234567Z": ("2026-01-31T10:00:00.123456", True),
    "1969-12-31T23:59:59.999999999Z": ("1969-12-31T23:59:59.999999", True),
    "2026-01-31T10:00:00.Z": ("2026-01-31T10:00:00", False),
    # The years 1 to 9999.
    "0001-01-01T00:00:00Z": ("0001-01-01T00:00:00", True),
    "0001-01-01T00:00:00+00:01": (None, False),
    "0001-01-01T00:01:00+00:01": ("0001-01-01T00:00:00", True),
    "9999-12-31T23:59:59.999999Z": ("9999-12-31T23:59:59.999999", True),
    "9999-12-31T23:59:59.999999-00:01": (None, False),
    "9999-12-31T23:58:59.999999-00:01": ("9999-12-31T23:59:59.999999", True),
    "0001-01-01T00:00:00+00:01[Europe/Berlin]": (None, False),
    "9999-12-31T23:00:00 America/New_York": (None, False),
    "0000-01-01T00:00:00Z": (None, False),
    "-0044-03-15T12:00:00Z": (None, False),
    "+2026-01-31T10:00:00Z": (None, False),
    "10000-01-01T00:00:00Z": (None, False),
    "294247-01-10T04:00:25.200000Z": (None, False),
    "infinity": (None, False),
    # What is no such time, or is not in the form.
    "2016-12-31T23:59:60Z": (None, False),
    "2026-01-31T10:00:60Z": (None, False),
    "2026-01-31T24:00:00Z": (None, False),
    "2026-02-30T00:00:00Z": (None, False),
    "2026-01-31T10:00:00,5Z": (None, False),
    "2026-01-31t10:00:00z": (None, False),
    "20260131T100000Z": (None, False),
    "2026-01-31Z": (None, False),
    "2026-1-5": (None, False),
    "12:30": (None, False),
}
# What Spark's cast takes away at both ends: in JSON alone.
BLANKS = {" 2026-01-31T10:00:00Z ": "2026-01-31T10:00:00", "\t2026-01-31T10:00Z": "2026-01-31T10:00:00"}

LOCALS = {
    "2026-01-31": "2026-01-31T00:00:00",
    "2026-01-31T10:00": "2026-01-31T10:00:00",
    "2026-01-31 10:00:00.123456789": "2026-01-31T10:00:00.123456",
    "0001-01-01T00:00:00": "0001-01-01T00:00:00",
    "9999-12-31T23:59:59.999999": "9999-12-31T23:59:59.999999",
    **dict.fromkeys(
        (
            *("0000-12-31T23:59:59", "10000-01-01T00:00:00", "+10000-01-01T00:00:00", "-001-01-01T00:00:00"),
            *("2026-01-31T10:00:00Z", "2026-01-31T10:00:00[Europe/Berlin]", "2026-01-31T10:00:00 Europe/Berlin"),
        )
    ),
}
DATES = {
    "2026-01-31": "2026-01-31",
    "0001-01-01": "0001-01-01",
    "9999-12-31": "9999-12-31",
    **dict.fromkeys(
        ("0000-01-01", "0000-00-00", "10000-01-01", "+10000-01-01", "-0001-01-01", "-001-01-01", "2026-1-5", "2026-01")
    ),
}


def wanted(kind):
    """By text: what is stored of a column of the type, None where it is refused."""
    match kind:
        case "timestamp":
            table = {text: instant for text, (instant, _) in INSTANTS.items()}
            return {text: instant and at(instant) for text, instant in (table | BLANKS).items()}
        case "timestamp_ntz":
            return {text: said and at(said) for text, said in LOCALS.items()}
    return {text: said and dt.date.fromisoformat(said) for text, said in DATES.items()}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_json_reads_the_instant_that_a_text_says_or_refuses_it(spark, kind):
    table = wanted(kind)
    form = Json(schema=f"t {kind}")
    texts = list(table)
    told = form.explain(form.decode(frame(spark, [json.dumps({"t": text}).encode() for text in texts])))
    stored = f"CASE WHEN {names.DECODED} THEN CAST({names.DATA}.t AS STRING) END AS stored"
    rows = told.selectExpr(names.OFFSET, stored, names.REASON, names.FIELD).collect()
    found = {texts[row[0]]: tuple(row)[1:] if row.stored is None else (row.stored, None, None) for row in rows}
    refused = (None, "FIELD_TYPE", "t")
    assert found == {text: refused if said is None else (in_words(said), None, None) for text, said in table.items()}


def test_our_reader_of_json_is_sure_of_the_usual_forms(spark):
    reader = json_fast_path.reader(spark, T.StructType([T.StructField("t", T.TimestampType())]), {})
    sure = {text: bool(reader.isSure(json.dumps({"t": text}).encode())) for text in INSTANTS}
    assert sure == {text: ours for text, (_, ours) in INSTANTS.items()}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "date"])
def test_sql_reads_the_same_from_json_and_from_text(spark, kind):
    table = wanted(kind)
    declared = T._parse_datatype_string(kind)
    done = json_types.convert("t", declared)
    of_json = f"CASE WHEN NOT coalesce({json_types.misfit('t', declared)}, false) THEN {done} END"
    rows = spark.createDataFrame([(text,) for text in table], "t string")
    both = (f"CAST({sql} AS STRING)" for sql in (of_json, text_types.of_text("t", declared)))
    found = {row[0]: tuple(row)[1:] for row in rows.selectExpr("t", *both).collect()}
    words = {text: in_words(said) for text, said in table.items()}
    assert found == {text: (said, None if text in BLANKS else said) for text, said in words.items()}


def test_the_time_zone_of_the_session_does_not_move_what_has_an_offset_or_a_zone(spark):
    table = {text: said for text, said in wanted("timestamp").items() if said and any(c in text for c in "Z+[/")}
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = elsewhere.createDataFrame([(text,) for text in table], "t string")
    micros = f"unix_micros({json_types.convert('t', T.TimestampType())}) AS us"
    since = dt.timedelta(microseconds=1)
    epoch = dt.datetime(1970, 1, 1)
    assert {r.t: r.us for r in rows.selectExpr("t", micros).collect()} == {
        text: (said - epoch) // since for text, said in table.items()
    }


def test_what_is_inferred_as_a_time_is_read_as_that_time():
    for text in (*INSTANTS, *BLANKS):
        form = inferred_times.form_of(text)
        if form != inferred_times.OTHER:
            assert wanted("timestamp")[text] is not None, text
    # Other forms that are read stay strings where nobody declares them.
    assert inferred_times.form_of("2026-01-31T10:00Z") == inferred_times.OTHER
    assert inferred_times.form_of("2026-01-31T10:00:00+01:00[Europe/Berlin]") == inferred_times.OTHER


def test_the_bound_is_that_of_the_years_1_to_9999():
    epoch = dt.datetime(1970, 1, 1)
    micro = dt.timedelta(microseconds=1)
    assert (at("0001-01-01") - epoch) // micro == type_limits.FIRST_US
    assert (at("9999-12-31T23:59:59.999999") - epoch) // micro == type_limits.LAST_US
    assert (dt.date.min - epoch.date()).days == type_limits.FIRST_DAY
    assert (dt.date.max - epoch.date()).days == type_limits.LAST_DAY
    assert type_limits.time_range(1000) == (-62_135_596_800_000, 253_402_300_799_999)
