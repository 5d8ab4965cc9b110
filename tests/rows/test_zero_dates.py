"""MySQL's dates whose year, month or day is zero, in the envelopes that may bring them."""

from __future__ import annotations

import datetime as dt
import json
from functools import reduce

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.extend import find_kind

SCHEMA = "id bigint, born date, seen timestamp, local timestamp_ntz, note string"
ENVELOPES = {
    "debezium": lambda row: {"op": "c", "after": row},
    "canal": lambda row: {"type": "INSERT", "data": [row]},
    "maxwell": lambda row: {"type": "insert", "data": row},
}
# By column: what is sent, and what is stored where zero dates are null; an exception for what is refused then, too.
ROWS = [
    {"born": "0000-00-00"},
    {"born": "2026-00-15"},
    {"born": "2026-01-00"},
    {"seen": "0000-00-00 00:00:00"},
    {"local": "0000-00-00 00:00:00.000000"},
    {"local": "2026-00-15 10:11:12"},
    {"seen": "0000-00-00T00:00:00Z"},
]
OTHERS = [
    ({"born": "2026-02-30"}, "FIELD_TYPE"),
    ({"born": "0000-00-00x"}, "FIELD_TYPE"),
    ({"born": "0000-01-01"}, "FIELD_ZERO_DATE"),
    ({"note": "0000-00-00"}, None),
    ({"born": "2026-01-31", "seen": "2026-01-31 10:00:00", "local": "2026-01-31 10:00:00"}, None),
]


def told(spark, kind, rows, schema=SCHEMA, **settings):
    form = find_kind("formats", kind).model_validate({"type": kind, "schema": schema, **settings})
    sent = [json.dumps(ENVELOPES[kind]({"id": "1" if kind == "canal" else 1, **row})).encode() for row in rows]
    explained = form.explain(form.decode(frame(spark, sent)))
    data = f"CASE WHEN {names.DECODED} THEN to_json({names.DATA}) END"
    case = f"'{kind}'", f"'{settings.get('zero_dates', 'refuse')}'", names.OFFSET
    return explained.selectExpr(
        *case, data, f"IF({names.DECODED}, NULL, struct({names.REASON}, {names.FIELD}, {names.MESSAGE}))"
    )


@pytest.mark.long
def test_they_are_null_where_it_is_said_and_else_refused(spark):
    rows = [*ROWS, *(row for row, _ in OTHERS)]
    frames = [
        told(spark, kind, rows, **settings)
        for kind in ENVELOPES
        for settings in ({}, {"zero_dates": "null"}, {"zero_dates": None})
    ]
    found = {
        (kind, setting, place): (data, verdict)
        for kind, setting, place, data, verdict in reduce(DataFrame.unionAll, frames).collect()
    }
    kinds = {"born": "date", "seen": "timestamp", "local": "timestamp_ntz"}
    for kind in ENVELOPES:
        for place, row in enumerate(ROWS):
            (column,) = row
            message = f"field {column} is declared {kinds[column]} and holds a zero date of MySQL, which is no date: "
            message += "zero_dates: null stores NULL for it"
            assert found[kind, "refuse", place] == (None, ("FIELD_ZERO_DATE", column, message))
            for setting in ("null", "None"):
                assert found[kind, setting, place] == ('{"id":1}', None)
        for place, (row, reason) in enumerate(OTHERS, len(ROWS)):
            for setting in ("refuse", "null"):
                data, verdict = found[kind, setting, place]
                expected = None if setting == "null" and reason == "FIELD_ZERO_DATE" else reason
                assert (verdict and verdict[0]) == expected, (kind, setting, row)
                if row.get("born") == "2026-01-31":
                    assert json.loads(data)["born"] == str(dt.date(2026, 1, 31))


def test_null_is_no_value_for_a_column_that_must_have_one(spark):
    frames = [told(spark, kind, [ROWS[0]], "id bigint, born date NOT NULL", zero_dates="null") for kind in ENVELOPES]
    verdicts = [row[4] for row in reduce(DataFrame.unionAll, frames).collect()]
    assert [(each[0], each[1]) for each in verdicts] == [("FIELD_MISSING", "born")] * len(ENVELOPES)


def test_a_message_of_several_rows_is_stored_whole(spark):
    form = find_kind("formats", "canal").model_validate({"type": "canal", "schema": SCHEMA, "zero_dates": "null"})
    rows = [{"id": "1", "born": "2000-02-29"}, {"id": "2", "born": "0000-00-00"}]
    sent = json.dumps({"type": "INSERT", "data": rows}).encode()
    found = (
        form.decode(frame(spark, [sent])).selectExpr(names.DECODED, f"{names.DATA}.id", f"{names.DATA}.born").collect()
    )
    assert sorted(map(tuple, found)) == [(True, 1, dt.date(2000, 2, 29)), (True, 2, None)]


@pytest.mark.parametrize(("kind", "settings"), [("ogg", {}), ("json", {})])
def test_other_sources_have_none(kind, settings):
    with pytest.raises(ValidationError, match="zero_dates"):
        find_kind("formats", kind).model_validate({"type": kind, "schema": SCHEMA, "zero_dates": "null", **settings})


def test_documents_have_none():
    with pytest.raises(ValidationError) as caught:
        find_kind("formats", "debezium").model_validate(
            {"type": "debezium", "schema": SCHEMA, "connector": "mongodb", "zero_dates": None}
        )
    assert "zero_dates is about dates of MySQL, and connector: mongodb has none: leave it out" in str(caught.value)
