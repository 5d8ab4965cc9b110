"""What SQL files are refused for: each whole text."""

from __future__ import annotations

import re

import pytest

from rivermouth.errors import RivermouthError
from rivermouth.pipelines.running.declared_columns import declared_columns
from rivermouth.pipelines.spec import Dataset, SourceLine
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.rewrite import Replacements, rewritten

AT = SourceLine("gold.sql", 1)
OVER = "run it elsewhere, before the pipeline, and remove it from this file"


def error(action):
    with pytest.raises(RivermouthError) as raised:
        action()
    return str(raised.value)


def invalid(detail, place, hint):
    return f"[SQL_INVALID] {detail}; nothing was run\n  at: gold.sql:{place}\n  hint: {hint}"


INVALID = [
    (
        "APPLY CHANGES INTO t FROM x KEYS (a) SEQUENCE BY b\n  CREATE MATERIALIZED VIEW v AS SELECT 1",
        "a statement ends before CREATE, without ;",
        "2:3",
        "write ; before CREATE",
    ),
    (
        "CREATE VIEW v AS SELECT 1 AS create\nFROM x\nCREATE OR REFRESH STREAMING TABLE t",
        "a statement ends before CREATE, without ;",
        "3:1",
        "write ; before CREATE",
    ),
    (
        "CREATE VIEW v AS SELECT 1\nAPPLY CHANGES INTO t FROM x KEYS (a) SEQUENCE BY b",
        "a statement ends before APPLY, without ;",
        "2:1",
        "write ; before APPLY",
    ),
    (
        "CREATE STREAMING VIEW v AS SELECT 1",
        "there are no streaming views",
        "1:23",
        "write CREATE STREAMING TABLE, or CREATE TEMPORARY VIEW",
    ),
    (
        "CREATE MATERIALIZED TABLE t AS SELECT 1",
        "there are no materialized tables",
        "1:27",
        "write CREATE MATERIALIZED VIEW",
    ),
    (
        "CREATE MATERIALIZED VIEW t FLOW INSERT BY NAME SELECT 1",
        "unexpected FLOW, expected SELECT",
        "1:28",
        "write SELECT here",
    ),
    ("SELECT 'x", "a string begins here and does not end", "1:8", "close it with '"),
    ('\n SELECT "x', "a string begins here and does not end", "2:9", 'close it with "'),
    ("SELECT `x", "a quoted name begins here and does not end", "1:8", "close it with `"),
    ("SELECT /* /* */", "a comment begins here and does not end", "1:8", "close it with */"),
    ("CREATE STREAMNG TABLE t", "unexpected STREAMNG", "1:8", "did you mean STREAMING?"),
    ("CREATE MATERIALISED VIEW t AS SELECT 1", "unexpected MATERIALISED", "1:8", "did you mean MATERIALIZED?"),
    (
        "CREATE OR REFERSH STREAMING TABLE t",
        "unexpected REFERSH, expected REFRESH or REPLACE",
        "1:11",
        "did you mean REFRESH?",
    ),
    ("CREATE STREAMING TABLE", "the statement ends here, expected a name", "1:23", "write a name here"),
    ("CREATE STREAMING TABLE 'a'", "unexpected 'a', expected a name", "1:24", "write a name here"),
    (
        "CREATE STREAMING TABLE t\nTBLPROPERTES ('a' = 'b')",
        "unexpected TBLPROPERTES",
        "2:1",
        "did you mean TBLPROPERTIES?",
    ),
    (
        "CREATE STREAMING TABLE t COMMENT x",
        "unexpected x, expected a string in quotes",
        "1:34",
        "write a string in quotes here",
    ),
    ("CREATE STREAMING TABLE t (a INT", "a parenthesis begins here and does not end", "1:26", "close it with )"),
    ("CREATE STREAMING TABLE t (a INT,\nb)", "the column b has no type, and others have one", "2:1", "write b STRING"),
    (
        "CREATE STREAMING TABLE t (a NOT NULL)",
        "the column a has no type, and NOT NULL needs one",
        "1:29",
        "write a STRING NOT NULL",
    ),
    ("CREATE STREAMING TABLE t (a INT COMENT 'x')", "unexpected COMENT", "1:33", "did you mean COMMENT?"),
    (
        "CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a) ON VIOLATION DROP)",
        "unexpected DROP, expected DROP ROW or FAIL UPDATE or DEAD LETTER",
        "1:64",
        "write DROP ROW or FAIL UPDATE or DEAD LETTER here",
    ),
    (
        "CREATE STREAMING TABLE t (CONSTRAINT c EXPECT ON VIOLATION DROP ROW)",
        "unexpected ON, expected a condition",
        "1:47",
        "write EXPECT (column IS NOT NULL)",
    ),
    (
        "CREATE STREAMING TABLE t (EXPECT (a > 1))",
        "EXPECT without a name",
        "1:27",
        "write CONSTRAINT name EXPECT (...)",
    ),
    (
        "CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a), CONSTRAINT c EXPECT (b))",
        "two constraints have the name c",
        "1:52",
        "give this one another name: c_2",
    ),
    (
        "CREATE STREAMING TABLE t PARTITIONED BY (days(ts))",
        "PARTITIONED BY takes names of columns, not expressions",
        "1:42",
        "compute the column in the SELECT and name it here",
    ),
    (
        "CREATE MATERIALIZED VIEW t REFRESH POLICY SOMETIMES AS SELECT 1",
        "unexpected SOMETIMES, expected AUTO or INCREMENTAL or FULL",
        "1:43",
        "write AUTO or INCREMENTAL or FULL here",
    ),
    (
        "CREATE MATERIALIZED VIEW t COMMENT 'x'",
        "the materialized view t has no query",
        "1:39",
        "write AS SELECT ..., or CREATE STREAMING TABLE for a table that flows write",
    ),
    (
        "CREATE TABLE t (a INT)",
        "the table t has no query",
        "1:23",
        "write AS SELECT ..., or CREATE STREAMING TABLE for a table that flows write",
    ),
    ("CREATE VIEW t AS\nDELETE FROM x", "unexpected DELETE, expected SELECT", "2:1", "write SELECT here"),
    (
        "CREATE FLOW f AS UPSERT INTO t SELECT 1",
        "unexpected UPSERT, expected INSERT INTO or AUTO CDC INTO",
        "1:18",
        "write INSERT INTO or AUTO CDC INTO here",
    ),
    (
        "CREATE FLOW f AS INSERT INTO t (a, b) SELECT 1, 2",
        "INSERT INTO has a list of columns",
        "1:32",
        "write BY NAME, and name the columns in the SELECT",
    ),
    (
        "CREATE SINK s OPTIONS ('a' = 'b')",
        "the sink s has no format",
        "1:34",
        "write FORMAT 'kafka' OPTIONS ('topic' = 'orders', ...)",
    ),
    ("APPLY CHANGES INTO t FROM STREAM(x) SEQUENCE BY ts", "AUTO CDC has no KEYS", "1:51", "add KEYS (id)"),
    ("APPLY CHANGES INTO t FROM STREAM(x) KEYS () SEQUENCE BY a", "AUTO CDC has no KEYS", "1:58", "add KEYS (id)"),
    ("APPLY CHANGES INTO t FROM STREAM(x) KEYS (id)", "AUTO CDC has no SEQUENCE", "1:46", "add SEQUENCE BY updated_at"),
    (
        "APPLY CHANGES INTO t FROM STREAM(x) KEYS (id) SEQENCE BY ts",
        "unexpected SEQENCE",
        "1:47",
        "did you mean SEQUENCE BY?",
    ),
    (
        "APPLY CHANGES INTO t FROM STREAM(x) KEYS (id) SEQUENCE BY ts STORD AS SCD TYPE 2",
        "unexpected STORD",
        "1:62",
        "did you mean STORED?",
    ),
    (
        "APPLY CHANGES INTO t FROM STREAM(x) KEYS (id) KEYS (b) SEQUENCE BY ts",
        "KEYS is written twice",
        "1:47",
        "remove one of them",
    ),
    (
        "APPLY CHANGES INTO t FROM STREAM(x) KEYS (id) SEQUENCE BY ts STORED AS SCD TYPE 3",
        "unexpected 3, expected 1 or 2",
        "1:81",
        "write 1 or 2 here",
    ),
    (
        "SET a = b\nCREATE VIEW v AS SELECT 1",
        "SET does not end before the next statement",
        "1:1",
        "write ; behind the value of SET",
    ),
    ("USE CATALOG a b", "unexpected b, expected ;", "1:15", "write ; here"),
    (
        "CREATE STREAMING TABLE t TBLPROPERTIES ('k' = 'x' hunter2)",
        "something follows the value of 'k'",
        "1:51",
        "write , between two properties",
    ),
]


@pytest.mark.parametrize(("text", "detail", "place", "hint"), INVALID, ids=[each[0][:60] for each in INVALID])
def test_sql_that_is_not_valid(text, detail, place, hint):
    assert error(lambda: read_sql(text, AT)) == invalid(detail, place, hint)


OF_VALUES = [
    (
        "CREATE STREAMING TABLE t (\n${one} INT, ${one}_ INT ${two} 'x')",
        "unexpected ${two}",
        "2:25",
        "did you mean COMMENT?",
    ),
    (
        "CREATE STREAMING TABLE ${one} COMMENT ${one} 'a'",
        "unexpected ${one}, expected a string in quotes",
        "1:39",
        "write a string in quotes here",
    ),
    (
        "CREATE STREAMING TABLE ${one} TBLPROPERTIES (${pair}, ${open})",
        "the statement ends here, expected a value of ${open}",
        "1:62",
        "write a value of ${open} here",
    ),
    (
        "APPLY CHANGES INTO t\nFROM ${one} KEYS (${one}) SEQUENCE BY ${one} STORED AS SCD TYPE ${one}",
        "unexpected ${one}, expected 1 or 2",
        "2:65",
        "write 1 or 2 here",
    ),
    (
        "CREATE FLOW ${one} AS ${pair} INSERT INTO t",
        "unexpected ${pair}, expected INSERT INTO or AUTO CDC INTO",
        "1:23",
        "write INSERT INTO or AUTO CDC INTO here",
    ),
]


@pytest.mark.parametrize(("text", "detail", "place", "hint"), OF_VALUES)
def test_an_error_in_a_value_names_its_variable(text, detail, place, hint):
    conf = {"one": "first", "two": "COMENT", "open": "'a", "pair": "'a' = 'b'"}
    assert error(lambda: read_sql(text, AT, conf=conf)) == invalid(detail, place, hint)


REFUSED = [
    (
        "CREATE STREAMING TABLE t WITH ROW FILTER f ON (a)",
        "ROW FILTER of t",
        "1:31",
        "filter the rows in the SELECT with WHERE",
    ),
    (
        "CREATE STREAMING TABLE t ROW FILTER f ON (a)",
        "ROW FILTER of t",
        "1:26",
        "filter the rows in the SELECT with WHERE",
    ),
    (
        "CREATE TEMPORARY VIEW v (a INT, `b-c` INT NOT NULL) AS SELECT 1 AS a, 2 AS `b-c`",
        "NOT NULL of the column `b-c` of a view",
        "1:33",
        "write CONSTRAINT `b-c` EXPECT (`b-c` IS NOT NULL) ON VIOLATION FAIL UPDATE",
    ),
    (
        "CREATE STREAMING TABLE t (a STRING MASK f USING COLUMNS (b))",
        "MASK of the column a",
        "1:36",
        "mask the value in the SELECT, without MASK",
    ),
    (
        "CREATE LIVE TABLE t (a BIGINT GENERATED ALWAYS AS IDENTITY) AS SELECT 1",
        "IDENTITY of the column a",
        "1:31",
        "compute a in the SELECT, for example with xxhash64",
    ),
    (
        "CREATE LIVE TABLE t (a BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 1)) AS SELECT 1",
        "IDENTITY of the column a",
        "1:31",
        "compute a in the SELECT, for example with xxhash64",
    ),
    (
        "CREATE STREAMING TABLE t (a INT, CONSTRAINT c CHECK (a > 1))",
        "CHECK",
        "1:47",
        "write EXPECT (...) ON VIOLATION FAIL UPDATE",
    ),
    ("CREATE STREAMING TABLE t USING PARQUET", "USING PARQUET for t", "1:32", "write USING DELTA, or leave USING out"),
    (
        "CREATE STREAMING TABLE t DEFAULT COLLATION UTF8_LCASE",
        "DEFAULT COLLATION UTF8_LCASE of t",
        "1:44",
        "give columns their collation: name STRING COLLATE ...",
    ),
    (
        "APPLY CHANGES INTO t FROM x KEYS (a) SEQUENCE BY b SYSTEM SEQUENCE BY c",
        "SYSTEM SEQUENCE BY",
        "1:52",
        "use SEQUENCE BY alone, with STORED AS SCD TYPE 2",
    ),
    (
        "CREATE FLOW f AS AUTO CDC INTO t\nFROM SNAPSHOT (SELECT * FROM x)\nWITH VERSION (SELECT 1) KEYS (a)",
        "FROM SNAPSHOT",
        "2:6",
        "define it in Python: dp.create_auto_cdc_from_snapshot_flow(...)",
    ),
    (
        "APPLY CHANGES INTO t FROM x KEYS (a) SEQUENCE BY b STORED AS BITEMPORAL",
        "STORED AS BITEMPORAL",
        "1:62",
        "write STORED AS SCD TYPE 2",
    ),
    (
        "CREATE FLOW f AS INSERT INTO t REPLACE WHERE a > 1 BY NAME SELECT 1",
        "REPLACE WHERE",
        "1:32",
        "define a materialized view with the query instead",
    ),
    (
        "CREATE FLOW f AS INSERT INTO t BY NAME REPLACE USING (a) SELECT 1",
        "REPLACE USING",
        "1:40",
        "define a materialized view with the query instead",
    ),
    (
        "CREATE STREAMING TABLE t FLOW REPLACE WHERE a > 1 BY NAME SELECT 1",
        "REPLACE WHERE",
        "1:31",
        "define a materialized view with the query instead",
    ),
]


@pytest.mark.parametrize(("text", "clause", "place", "hint"), REFUSED, ids=[each[0][:60] for each in REFUSED])
def test_what_would_change_the_results_is_refused(text, clause, place, hint):
    assert error(lambda: read_sql(text, AT)) == (
        f"[SQL_NOT_SUPPORTED] {clause} is not supported, and without it the results would be different; "
        "nothing was run\n"
        f"  at: gold.sql:{place}\n  hint: {hint}"
    )


STATEMENTS = [
    ("${drop} TABLE t", "${drop}", OVER),
    ("DROP TABLE t", "DROP", OVER),
    ("INSERT INTO t SELECT 1", "INSERT", OVER),
    ("MERGE INTO t USING s ON 1 = 1", "MERGE", OVER),
    ("DELETE FROM t", "DELETE", OVER),
    ("ALTER TABLE t SET TBLPROPERTIES (a = b)", "ALTER", OVER),
    ("OPTIMIZE t", "OPTIMIZE", OVER),
    ("CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE FUNCTION", OVER),
    ("CREATE OR REPLACE FUNCTION f() RETURNS INT RETURN 1", "CREATE FUNCTION", OVER),
    ("CREATE SCHEMA s", "CREATE SCHEMA", OVER),
    ("CREATE", "CREATE", OVER),
    ("CRATE STREAMING TABLE t", "CRATE", "did you mean CREATE?"),
    ("APPLY CHANGE INTO t", "APPLY", OVER),
    ("'x'", "'x'", OVER),
    ("SET VAR x = 1", "SET VAR", "write SET x = ..., and ${x} where its value is used"),
    ("set variable\n`a b` = (SELECT 1)", "SET VARIABLE", "write SET a b = ..., and ${a b} where its value is used"),
    ("SET VAR (a, b) = (SELECT 1, 2)", "SET VAR", "write SET a = ..., and ${a} where its value is used"),
]


@pytest.mark.parametrize(("text", "statement", "hint"), STATEMENTS)
def test_statements_that_a_pipeline_does_not_have(text, statement, hint):
    assert error(lambda: read_sql(f"CREATE VIEW v AS SELECT 1;\n  {text}", AT)) == (
        f"[SQL_STATEMENT_REFUSED] {statement} is not a statement of a pipeline; nothing was run\n"
        f"  at: gold.sql:2:3\n  hint: {hint}"
    )


def test_a_place_in_a_notebook():
    assert error(lambda: read_sql("\nDROP x", SourceLine("a.ipynb", 1, 4))) == (
        "[SQL_STATEMENT_REFUSED] DROP is not a statement of a pipeline; nothing was run\n"
        f"  at: a.ipynb cell 4:2:1\n  hint: {OVER}"
    )


def rewrite(text, at=AT):
    return rewritten(
        text, Replacements(lambda _: None, lambda call: call.name, lambda *_: ""), params={"catalog": "x"}, at=at
    )


LONG_NAME = {"long": "a_long_name"}
UNKNOWN = [
    (
        lambda: read_sql("CREATE VIEW ${ctalog}.v AS SELECT 1", AT, conf={"catalog": "x"}),
        "${ctalog}",
        "1:13",
        "did you mean ${catalog}?",
    ),
    (
        lambda: read_sql("CREATE VIEW v COMMENT\n 'x ${y}' AS SELECT 1", AT),
        "${y}",
        "2:2",
        "rivermouth run --param y=...",
    ),
    (lambda: read_sql("USE CATALOG :c", AT), ":c", "1:14", "rivermouth run --param c=..."),
    (
        lambda: read_sql("CREATE VIEW IDENTIFIER('a' ||\n '${c}') AS SELECT 1", AT),
        "${c}",
        "2:2",
        "rivermouth run --param c=...",
    ),
    (
        lambda: read_sql("CREATE VIEW v (CONSTRAINT ${long} EXPECT (${long} = ${long} + ${lng}))", AT, conf=LONG_NAME),
        "${lng}",
        "1:63",
        "did you mean ${long}?",
    ),
    (
        lambda: read_sql("CREATE VIEW v (CONSTRAINT ${long} EXPECT (${long} = ${long} + :lng))", AT, conf=LONG_NAME),
        ":lng",
        "1:63",
        "did you mean :long?",
    ),
    (lambda: read_sql("USE SCHEMA IDENTIFIER('a' || :c)", AT), ":c", "1:30", "rivermouth run --param c=..."),
    (lambda: rewrite("SELECT *\nFROM ${catalogue}.s.t"), "${catalogue}", "2:6", "did you mean ${catalog}?"),
    (lambda: rewrite("SELECT :y"), ":y", "1:8", "rivermouth run --param y=..."),
    (lambda: rewrite("SELECT * FROM read_files(:y)"), ":y", "1:26", "rivermouth run --param y=..."),
]


@pytest.mark.parametrize(("action", "parameter", "place", "hint"), UNKNOWN)
def test_parameters_without_a_value(action, parameter, place, hint):
    assert error(action) == (
        f"[SQL_PARAMETER_UNKNOWN] the parameter {parameter} has no value; nothing was run\n"
        f"  at: gold.sql:{place}\n  hint: {hint}"
    )


NOT_CONSTANT = [
    (
        lambda: rewrite("SELECT *\nFROM read_files('/a', modifiedAfter => date_sub(now(), 1))"),
        "the argument modifiedAfter of read_files",
        "2:40",
    ),
    (lambda: rewrite("SELECT * FROM read_files(path)"), "an argument of read_files", "1:26"),
    (lambda: rewrite("SELECT * FROM read_files('a' || b)"), "an argument of read_files", "1:33"),
    (lambda: rewrite("SELECT * FROM IDENTIFIER(a)"), "the argument of IDENTIFIER", "1:26"),
    (lambda: rewrite("SELECT secret('a', b)"), "the argument of secret", "1:20"),
    (lambda: rewrite("SELECT * FROM STREAM(x) WITH (a = f(1))"), "the option a", "1:35"),
    (lambda: rewrite("SELECT * FROM x VERSION AS OF n"), "the value of VERSION AS OF", "1:31"),
    (lambda: rewrite("SELECT * FROM x TIMESTAMP AS OF now() WITH (a)"), "the value of TIMESTAMP AS OF", "1:33"),
    (lambda: read_sql("CREATE VIEW IDENTIFIER(f(1)) AS SELECT 1", AT), "the argument of IDENTIFIER", "1:24"),
]


STATEMENTS = [
    ("CREATE VIEW v AS SELECT * FROM IDENTIFIER(a)", "1:43"),
    ("\n\n  CREATE VIEW v AS SELECT * FROM IDENTIFIER(a)", "3:45"),
    ("CREATE VIEW v (one) AS SELECT 1, * FROM IDENTIFIER(a)", "1:52"),
    ("CREATE VIEW v (one) AS SELECT 1, *\nFROM IDENTIFIER(a)", "2:17"),
    ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT * FROM IDENTIFIER(a)", "1:65"),
]


@pytest.mark.parametrize(("text", "place"), STATEMENTS)
def test_columns_of_a_query_count_from_the_start_of_its_line(text, place):
    file = read_sql(text, AT)
    query = [*file.datasets, *file.flows][0].query
    assert error(lambda: rewrite(query.text, query.at)).splitlines()[1] == f"  at: gold.sql:{place}"


KEYS = [
    (
        "SELECT * FROM\nread_files('/a', options => map('header', 'true', 'sep'))",
        "the argument options of read_files is a map that has the key sep without a value",
        "2:51",
        "write a value behind each key: map('key', 'value')",
    ),
    (
        "SELECT * FROM read_kafka(format => map('type', 'json', 'type', 'csv'))",
        "the argument format of read_kafka is a map that has the key type twice",
        "1:56",
        "give each key once",
    ),
    (
        "SELECT * FROM STREAM(x) WITH (a = 1, a = 2)",
        "the options behind the table have the key a twice",
        "1:38",
        "give each key once",
    ),
    (
        "SELECT *\nFROM read_files('/a', format => 'json', Format => 'csv')",
        "read_files has the argument Format twice",
        "2:41",
        "remove one of them",
    ),
    (
        "SELECT * FROM STREAM read_kafka(subscribe => 'a', format => map('type', 'json'), format => 'csv')",
        "read_kafka has the argument format twice",
        "1:82",
        "remove one of them",
    ),
]


@pytest.mark.parametrize(("query", "detail", "place", "hint"), KEYS)
def test_each_key_of_a_map_is_there_once_with_a_value(query, detail, place, hint):
    assert error(lambda: rewrite(query)) == invalid(detail, place, hint)


@pytest.mark.parametrize(("action", "subject", "place"), NOT_CONSTANT)
def test_values_that_are_not_constant(action, subject, place):
    assert error(action) == (
        f"[SQL_NOT_CONSTANT] {subject} must be a constant; nothing was run\n  at: gold.sql:{place}\n"
        "  hint: write a literal, a parameter (:name, ${name}), secret('scope', 'key'), or these joined by ||"
    )


LONG = [
    """CREATE FLOW f AS AUTO CDC INTO t FROM (SELECT a FROM STREAM(x)) KEYS (id)
    APPLY AS DELETE WHEN a = 'b' SEQUENCE BY ts""",
    """CREATE OR REFRESH STREAMING TABLE IDENTIFIER('a' || 'b') (
      a INT COMMENT 'x', CONSTRAINT c EXPECT (a) ON VIOLATION DROP ROW
    ) TBLPROPERTIES ('a' = 1) AS SELECT * FROM STREAM(IDENTIFIER(:catalog)) WITH (a = 'b')
    WATERMARK t DELAY OF INTERVAL 1 DAY, read_files('x', a => concat('b', secret('c', 'd'))), f(TABLE(x))
    LATERAL VIEW g(x:y[0]) t""",
]


def places(text):
    """Where the beginnings of a text are refused."""
    for end in range(len(text)):
        for action in (lambda cut: read_sql(cut, AT, conf={"catalog": "x"}), rewrite):
            try:
                action(text[:end])
            except RivermouthError as raised:
                yield raised.at


@pytest.mark.parametrize("text", [*LONG, *(each[0] for each in INVALID + REFUSED)])
def test_a_statement_that_ends_too_early_is_refused_with_its_place(text):
    found = list(places(text))
    assert found
    assert all(re.fullmatch(r"gold\.sql:\d+:\d+", place) for place in found)


def test_an_identity_in_the_schema_of_a_python_file_is_refused_with_its_line(spark):
    ddl = "\n id BIGINT GENERATED ALWAYS AS identity,\n name STRING"
    dims = Dataset("dims", "streaming_table", SourceLine("dims.py", 7), schema=ddl)
    assert error(lambda: declared_columns(dims)) == (
        "[SQL_NOT_SUPPORTED] IDENTITY of the column id is not supported, and without it the results would be "
        "different; nothing was run\n  at: dims.py:7\n  hint: compute id in the SELECT, for example with xxhash64"
    )


def test_a_schema_that_nobody_reads_is_left_to_spark_to_refuse(spark):
    dims = Dataset("dims", "streaming_table", AT, schema="id BIGINT x y")
    assert error(lambda: declared_columns(dims)).startswith(
        "[DATASET_SCHEMA_INVALID] dataset dims: its schema cannot be"
    )


def test_a_cell_of_a_notebook_may_set_up_and_clean_up():
    """What is only nearly a statement of a pipeline is refused there too."""
    text = "CREATE SCHEMA s;\nDROP TABLE t;\n\n  OPTIMIZE t;\nCREATE STREAMING TABLE x AS SELECT 1"
    at = SourceLine("a.py", 7)
    found = read_sql(text, at, of_notebook=True)
    assert [each.name for each in found.datasets] == ["x"]
    assert [(line.line, note) for line, note in found.notes] == [
        (7, "CREATE SCHEMA defines nothing: it is not run"),
        (8, "DROP defines nothing: it is not run"),
        (10, "OPTIMIZE defines nothing: it is not run"),
    ]
    with pytest.raises(RivermouthError, match=r"did you mean CREATE\?"):
        read_sql("CRATE STREAMING TABLE x AS SELECT 1", at, of_notebook=True)
