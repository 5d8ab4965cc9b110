"""Queries in SQL files that Spark refuses: the whole text, with the line and the column in the file."""

from __future__ import annotations

import pytest

from rivermouth.errors import RivermouthError

BEFORE = """-- The first tables.
CREATE MATERIALIZED VIEW base AS SELECT 1 AS id, 'a' AS name;

"""
CASES = {
    "a column that is not there": ("CREATE MATERIALIZED VIEW a AS\nSELECT id,\n       nme\nFROM LIVE.base;\n", ""),
    "a function that is not there": ("CREATE MATERIALIZED VIEW a AS SELECT idd(id) FROM base;\n", ""),
    "text that is no SQL": ("CREATE MATERIALIZED VIEW a AS\nSELECT id FROM base WHERE;\n", ""),
    "a column without its group": ("CREATE MATERIALIZED VIEW a AS\nSELECT id, count(*) AS n\nFROM LIVE.base;\n", ""),
    "a table behind a parameter": (
        "SET longer_than_its_value = b;\nCREATE MATERIALIZED VIEW a AS\nSELECT ${longer_than_its_value}.id, b.x\nFROM base b;\n",
        "",
    ),
    "a type that does not fit": ("CREATE MATERIALIZED VIEW a AS\nSELECT explode(id) FROM base;\n", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_at_its_line_and_column(folder, name):
    text, said = CASES[name]
    folder.write("src/a.sql", BEFORE + text)
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == said
