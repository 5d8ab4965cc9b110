"""Whatever Python's csv module reads strictly of one line is what the columns hold; what it refuses is refused."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.rows.formats import of_several

from rivermouth.formats.csv import Csv

REFUSED, OTHERWISE = "refused", "otherwise"
COLUMNS = ("a", "b", "c")
# Ours, and Python's.
DIALECTS = [
    ({}, {}),
    ({"delimiter": "\t", "quote": "'", "escape": "'"}, {"delimiter": "\t", "quotechar": "'"}),
    ({"delimiter": "§", "quote": "ä", "escape": "ä"}, {"delimiter": "§", "quotechar": "ä"}),
    ({"escape": "\\"}, {"doublequote": False, "escapechar": "\\"}),
    ({"quote": None, "escape": "\\"}, {"quoting": csv.QUOTE_NONE, "escapechar": "\\", "quotechar": None}),
    ({"quote": None}, {"quoting": csv.QUOTE_NONE, "quotechar": None}),
]
SIGNS = [",", '"', "'", "\t", "§", "ä", "\\", "\n", "\r", " ", "a", "\ufeff", "\x00", "😀"]
TEXTS = st.text(st.sampled_from(SIGNS) | st.characters(codec="utf-8"), max_size=6)


def written(dialect, fields):
    """A line as Python writes it; None where the dialect cannot hold the fields."""
    line = io.StringIO(newline="")
    try:
        csv.writer(line, lineterminator="", **dialect).writerow(fields)
    except csv.Error:
        return None
    return line.getvalue()


@st.composite
def lines(draw):
    """The number of a dialect, and a line: one that Python writes, one that was wounded since, or any text."""
    number = draw(st.integers(0, len(DIALECTS) - 1))
    line = written(DIALECTS[number][1], draw(st.lists(TEXTS, min_size=3, max_size=3))) or draw(TEXTS)
    match draw(st.integers(0, 3)):
        case 0:
            line += draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
        case 1:
            place = draw(st.integers(0, len(line)))
            line = line[:place] + draw(st.sampled_from(SIGNS)) + line[place:]
        case 2:
            line = draw(st.text(st.sampled_from(SIGNS), max_size=12))
    return number, line


def read(line, dialect):
    """What Python reads: a row, REFUSED, or OTHERWISE where it is known to be less strict."""
    # Outside of quotes an escape may stand before anything, and behind a line any number of line ends.
    escape = dialect.get("escapechar")
    escaped = [line[place + 1 : place + 2] for place, sign in enumerate(line) if sign == escape] if escape else []
    known = (escape, dialect.get("quotechar", '"'), dialect.get("delimiter", ","))
    if any(each not in known for each in escaped):
        return OTHERWISE
    try:
        rows = list(csv.reader([line], strict=True, **dialect))
    except csv.Error:
        return REFUSED
    if len(line) - len(line.rstrip("\r\n")) > (2 if line.endswith("\r\n") else 1):
        return OTHERWISE
    return tuple(rows[0]) if len(rows) == 1 and len(rows[0]) == len(COLUMNS) else REFUSED


@pytest.mark.long
def test_columns_hold_what_python_reads(spark):
    values = gathered(lines(), 2000)
    schema = ", ".join(f"{name} string" for name in COLUMNS)
    forms = [Csv.model_validate({"type": "csv", "schema": schema, "null_value": None, **ours}) for ours, _ in DIALECTS]
    found = of_several(spark, [(forms[number], line.encode()) for number, line in values])
    wanted = [read(line, DIALECTS[number][1]) for number, line in values]
    wrong = [
        (DIALECTS[number][0], line, outcome, expected)
        for (number, line), outcome, expected in zip(values, found, wanted, strict=True)
        if expected != OTHERWISE and (REFUSED if outcome.data is None else tuple(outcome.data.values())) != expected
    ]
    assert wrong[:5] == []
    assert {each.reason for each in found} == {None, "INVALID_LINE", "FIELD_COUNT"}
    assert sum(each.data is not None for each in found) > 400
    assert wanted.count(REFUSED) > 400
    assert wanted.count(OTHERWISE) < 300
