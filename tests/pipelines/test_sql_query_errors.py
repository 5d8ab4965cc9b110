"""Queries in SQL files that Spark refuses: the whole text, with the line and the column in the file."""

from __future__ import annotations

import pytest

from rivermouth.errors import RivermouthError
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.tokens import place

BEFORE = """-- The first tables.
CREATE MATERIALIZED VIEW base AS SELECT 1 AS id, 'a' AS name;

"""
SAID = (
    "[QUERY_INVALID] dataset a: Spark refuses its query: {0}; nothing was written to it\n"
    "  at: src/a.sql:{1}\n"
    "  hint: rivermouth validate, after the query is corrected"
)
CASES = {
    "a column that is not there": (
        "CREATE MATERIALIZED VIEW a AS\nSELECT id,\n       nme\nFROM LIVE.base;\n",
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nme` cannot be "
            "resolved. Did you mean one of the following? [`name`, `id`]. SQLSTATE: 42703; line 2 pos 7"
        ),
        "6:8",
    ),
    "a function that is not there": (
        "CREATE MATERIALIZED VIEW a AS SELECT idd(id) FROM base;\n",
        (
            "[UNRESOLVED_ROUTINE] Cannot resolve routine `idd` on search path [`system`.`builtin`, `system`.`session`, "
            "`spark_catalog`.`default`]. SQLSTATE: 42883; line 1 pos 7"
        ),
        "4:38",
    ),
    "text that is no SQL": (
        "CREATE MATERIALIZED VIEW a AS\nSELECT id,\nFROM base b c;\n",
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'b'. SQLSTATE: 42601 (line 2, pos 19)",
        "6:11",
    ),
    "a column without its group": (
        "CREATE MATERIALIZED VIEW a AS\nSELECT id, count(*) AS n\nFROM LIVE.base;\n",
        (
            "[MISSING_GROUP_BY] The query does not include a GROUP BY clause. Add GROUP BY or turn it into the window "
            "functions using OVER clauses. SQLSTATE: 42803; line 1 pos 0"
        ),
        "5:1",
    ),
    "a column behind a parameter": (
        (
            "SET longer_than_its_value = b;\nCREATE MATERIALIZED VIEW a AS\n"
            "SELECT ${longer_than_its_value}.id, b.x\nFROM base b;\n"
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `b`.`x` cannot be "
            "resolved. Did you mean one of the following? [`b`.`id`, `b`.`name`]. SQLSTATE: 42703; line 1 pos 13"
        ),
        "6:37",
    ),
    "a type that does not fit": (
        "CREATE MATERIALIZED VIEW a AS\nSELECT explode(id) FROM base;\n",
        (
            '[DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE] Cannot resolve "explode(id)" due to data type mismatch: The '
            'first parameter requires the ("ARRAY" or "MAP") type, however "id" has the type "INT". SQLSTATE: 42K09; '
            "line 1 pos 7"
        ),
        "5:8",
    ),
}
CHANGES = {
    "a column in a subquery": (
        "INTO a\nFROM (\n  SELECT id, nme FROM STREAM(base)\n) KEYS (id) SEQUENCE BY id;",
        "nme",
        "6:14",
    ),
    "no SQL behind a table": ("INTO a\nFROM STREAM(base) b cc KEYS (id) SEQUENCE BY id;", "cc", "5:21"),
    "a condition in the line of a table": (
        "INTO a\nFROM STREAM(base) WHERE nme > 1 KEYS (id) SEQUENCE BY id;",
        "nme",
        "5:25",
    ),
    "a condition in a line of its own": (
        "INTO a FROM (SELECT id FROM STREAM(base))\n-- the rest\nKEYS (id)\nWHERE id > 1 AND nme SEQUENCE BY id;",
        "nme",
        "7:18",
    ),
    "a condition behind a line": ("INTO a FROM STREAM(base) WHERE\n\n  nme KEYS (id) SEQUENCE BY id;", "nme", "6:3"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_changes_of_auto_cdc_know_their_lines_and_columns(name):
    text, word, where = CHANGES[name]
    found = read_sql(f"-- One\n\n\nCREATE FLOW f AS AUTO CDC {text}", SourceLine("src/a.sql", 1)).flows[0].query
    assert place(found.text, found.text.index(word), found.at) == f"src/a.sql:{where}"


def test_the_changes_of_auto_cdc_are_reported_at_their_lines_and_columns(folder):
    text, _, where = CHANGES["a condition in a line of its own"]
    tables = "CREATE STREAMING TABLE base AS SELECT id, name FROM STREAM(of_base); CREATE STREAMING TABLE a;\n"
    before = BEFORE.replace("VIEW base", "VIEW of_base").replace("\n\n", f"\n{tables}")
    folder.write("src/a.sql", f"{before}CREATE FLOW f AS AUTO CDC {text}")
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value).splitlines()[1] == f"  at: src/a.sql:{where}"


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_at_its_line_and_column(folder, name):
    text, detail, where = CASES[name]
    folder.write("src/a.sql", BEFORE + text)
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == SAID.format(detail, where)


def test_a_view_has_no_versions(folder):
    text = "CREATE TEMPORARY VIEW now AS SELECT 1 AS id;\n"
    folder.write("src/a.sql", f"{text}CREATE MATERIALIZED VIEW a AS\nSELECT id FROM now VERSION AS OF 3;\n")
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == (
        "[SQL_NOT_SUPPORTED] a version of the view now is not supported, and without it the results would be "
        "different; nothing was run\n"
        "  at: src/a.sql:2\n"
        "  hint: leave the version out, or name a table in the place of the view"
    )


@pytest.mark.parametrize("table", ["now", "delta.`/x`"])
def test_a_time_of_a_table_that_is_not_one_of_sparks_is_constant(folder, table):
    text = "CREATE MATERIALIZED VIEW now AS SELECT 1 AS id;\n"
    text += f"CREATE MATERIALIZED VIEW a AS\nSELECT id FROM {table} TIMESTAMP AS OF\nnow() - INTERVAL 1 DAY;\n"
    folder.write("src/a.sql", text)
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == (
        "[SQL_NOT_CONSTANT] the value of TIMESTAMP AS OF must be a constant; nothing was run\n"
        "  at: src/a.sql:4:1\n"
        "  hint: write a literal, a parameter (:name, ${name}), secret('scope', 'key'), or these joined by ||"
    )


@pytest.mark.parametrize(
    "clause",
    ["VERSION AS OF 3", "TIMESTAMP AS OF '2026-01-31'", "FOR TIMESTAMP AS OF now()", "WITH ('versionAsOf' = 3)"],
)
def test_only_files_of_delta_have_versions(folder, clause):
    path = "parquet.`{folder}/in`"
    folder.define(f"CREATE MATERIALIZED VIEW a AS\nSELECT id FROM {path} {clause};\n")
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == (
        f"[SQL_NOT_SUPPORTED] a version of {path.format(folder=folder.folder)} is not supported, and without it the "
        "results would be different; nothing was run\n"
        "  at: src/a.sql:1\n"
        "  hint: leave the version out, or name a Delta table in the place of the parquet files"
    )
