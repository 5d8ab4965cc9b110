"""Erased records are known again, also where the same offsets are other records by now."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from rivermouth.domain.ledger.ledger import first_entry
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.side_tables.erased_records import COLUMNS, Erased, without

BEFORE = first_entry("f", {"t": {0: 9}}, {"t": "id"})
CUT = dataclasses.replace(BEFORE, number=5, epochs={"t": {0: (4,)}})
RANGES = {"t": {0: (0, 9)}}
READ = "__topic string, __partition int, __offset bigint, __timestamp timestamp"


def at(second):
    return dt.datetime(2026, 1, 31, 12, 0, second, tzinfo=dt.UTC)


def row(offset, epoch, time):
    return ("t", 0, offset, epoch, "table", None, 3, "m", "request", None, None, None, time, None)


@pytest.fixture
def location(spark, tmp_path):
    """What was erased before the log was cut: with a timestamp, and, of a table without them, without one."""
    erased = Erased(LocalFiles(), str(tmp_path / "records"), "mine")
    rows = [row(1, 0, at(1)), row(2, 0, at(2)), row(3, 0, None)]
    erased.remember(spark.createDataFrame(rows, COLUMNS), BEFORE)
    erased.confirm(spark, "m")
    return erased.location


@pytest.mark.parametrize(
    ("table", "entry", "left"),
    [
        pytest.param("mine", BEFORE, {4}, id="the-same", marks=pytest.mark.long),
        # The log holds offset 1 still; what is at 2 and 3 was written after the cut.
        pytest.param("mine", CUT, {2, 3, 4}, id="cut"),
        pytest.param("another", BEFORE, {2, 4}, id="made-anew", marks=pytest.mark.long),
        pytest.param(
            *("another", dataclasses.replace(BEFORE, topic_ids={"t": "new"}), {2, 3, 4}),
            id="made-anew-of-another",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_read_again_is_held_against_them(table, entry, left, location, spark):
    second = at(2) if (table, entry) == ("mine", BEFORE) else at(7)
    held = [("t", 0, 1, at(1)), ("t", 0, 2, second), ("t", 0, 3, at(3)), ("t", 0, 4, at(4))]
    gone = Erased(LocalFiles(), location, table).within(spark, entry, RANGES)
    assert {each["__offset"] for each in without(spark.createDataFrame(held, READ), gone).collect()} == left
