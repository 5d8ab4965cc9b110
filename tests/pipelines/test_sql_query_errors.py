"""Queries in SQL files that Spark refuses: the whole text, with the line and the column in the file."""

from __future__ import annotations

import pytest

from rivermouth.errors import RivermouthError

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
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'b'. SQLSTATE: 42601 (line 2, pos 12)",
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


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_at_its_line_and_column(folder, name):
    text, detail, place = CASES[name]
    folder.write("src/a.sql", BEFORE + text)
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == SAID.format(detail, place)
