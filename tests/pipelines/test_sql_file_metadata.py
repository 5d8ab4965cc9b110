"""``_metadata`` of read_files in SQL: it can be named, and ``*`` leaves it out."""

from __future__ import annotations

import pytest

from rivermouth.pipelines.sql.rewrite import Replacements, rewritten

E = " EXCEPT (`_metadata`)"


def rewrite(text):
    asked = []

    def function(call):
        asked.append(call.names_metadata)
        return "v"

    found = rewritten(text, Replacements(lambda _: None, function, lambda *_: ""), params={})
    return found.text, asked


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT *, _metadata.file_name f FROM STREAM read_files('/a')",
            f"SELECT *{E}, _metadata.file_name f FROM STREAM v",
        ),
        (
            "SELECT * FROM STREAM(read_files('/a')) WHERE `_metadata`.x > 1",
            f"SELECT *{E} FROM STREAM(v) WHERE `_metadata`.x > 1",
        ),
        ("SELECT * EXCEPT (b), _metadata FROM read_files('/a')", "SELECT * EXCEPT (`_metadata`, b), _metadata FROM v"),
        (
            "SELECT t.*, u.*, count(*), 2 * a, _metadata.x FROM read_files('/a') AS T JOIN u",
            f"SELECT t.*{E}, u.*, count(*), 2 * a, _metadata.x FROM v AS T JOIN u",
        ),
        (
            "SELECT * FROM (SELECT *, _metadata.x y FROM read_files('/a')) WHERE y",
            f"SELECT * FROM (SELECT *{E}, _metadata.x y FROM v) WHERE y",
        ),
        (
            "SELECT (SELECT max(_metadata.x) FROM u), * FROM STREAM read_files('/a')",
            f"SELECT (SELECT max(_metadata.x) FROM u), *{E} FROM STREAM v",
        ),
        (
            "SELECT a:from, a:select, *, _metadata.x FROM read_files('/a')",
            f"SELECT a:from, a:select, *{E}, _metadata.x FROM v",
        ),
        ("SELECT a, _metadata.x FROM read_files('/a')", "SELECT a, _metadata.x FROM v"),
    ],
)
def test_the_column_is_there_and_stars_leave_it_out(text, wanted):
    assert rewrite(text) == (wanted, [True])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM STREAM read_files('/a')",
        "SELECT *, '_metadata' FROM read_files('/a', format => '_metadata')",
        "SELECT * FROM read_files('/a') UNION SELECT _metadata.x FROM u",
        "SELECT _metadata.x FROM u JOIN (SELECT * FROM read_files('/a'))",
    ],
)
def test_nothing_is_asked_for_where_the_query_does_not_name_it(text):
    found, asked = rewrite(text)
    assert asked == [False]
    assert "EXCEPT" not in found
