"""What statements of SQL define: every spelling that public pipeline files have."""

from __future__ import annotations

from textwrap import dedent

import pytest
from pyspark.sql import types as T

from rivermouth.pipelines.names import Use
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.spec import AutoCdc, Expectation, SourceLine, SqlQuery
from rivermouth.pipelines.sql.definitions.columns import columns_of
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.rewrite import Replacements, rewritten
from rivermouth.pipelines.sql.tokens import quoted_string

AT = SourceLine("silver.sql", 1)


def read(text, **conf):
    return read_sql(dedent(text), AT, conf=conf)


def dataset(text, **conf):
    found = read(text, **conf)
    assert len(found.datasets) == 1
    return found.datasets[0]


def flow(text, **conf):
    found = read(text, **conf)
    assert len(found.flows) == 1
    return found.flows[0]


HEADS = [
    ("CREATE STREAMING TABLE t", "streaming_table", False),
    ("CREATE OR REFRESH STREAMING TABLE t", "streaming_table", False),
    ("CREATE OR REPLACE STREAMING TABLE t", "streaming_table", False),
    ("create or refresh streaming table if not exists t", "streaming_table", False),
    ("CREATE OR REFRESH PRIVATE STREAMING TABLE t", "streaming_table", True),
    ("CREATE OR REFRESH TEMPORARY STREAMING TABLE t", "streaming_table", True),
    ("CREATE STREAMING LIVE TABLE t", "streaming_table", False),
    ("CREATE OR REFRESH STREAMING LIVE TABLE t", "streaming_table", False),
    ("CREATE TEMPORARY STREAMING LIVE TABLE t", "streaming_table", True),
    ("CREATE INCREMENTAL LIVE TABLE t", "streaming_table", False),
    ("CREATE MATERIALIZED VIEW t", "materialized_view", False),
    ("CREATE OR REFRESH MATERIALIZED VIEW t", "materialized_view", False),
    ("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS t", "materialized_view", False),
    ("CREATE OR REFRESH PRIVATE MATERIALIZED VIEW t", "materialized_view", True),
    ("CREATE LIVE TABLE t", "materialized_view", False),
    ("CREATE OR REFRESH LIVE TABLE t", "materialized_view", False),
    ("CREATE TEMPORARY LIVE TABLE t", "materialized_view", True),
    ("CREATE LIVE VIEW t", "temporary_view", False),
    ("CREATE OR REFRESH LIVE VIEW t", "temporary_view", False),
    ("CREATE TEMPORARY LIVE VIEW t", "temporary_view", False),
    ("CREATE STREAMING LIVE VIEW t", "temporary_view", False),
    ("CREATE INCREMENTAL LIVE VIEW t", "temporary_view", False),
    ("CREATE TEMPORARY VIEW t", "temporary_view", False),
    ("CREATE OR REPLACE TEMP VIEW t", "temporary_view", False),
    ("CREATE PRIVATE VIEW t", "temporary_view", False),
    ("CREATE VIEW t", "view", False),
    ("CREATE PERSISTED VIEW t", "view", False),
    ("CREATE TABLE t", "table", False),
    ("CREATE OR REPLACE TABLE t", "table", False),
]


@pytest.mark.parametrize(("head", "kind", "private"), HEADS, ids=[each[0] for each in HEADS])
def test_every_head(head, kind, private):
    found = dataset(f"{head} AS SELECT 1 AS a")
    assert (found.name, found.kind, found.private) == ("t", kind, private)
    assert found.query == SqlQuery("SELECT 1 AS a", AT, {})
    assert found.at == AT


NAMES = [
    ("orders", "orders"),
    ("silver.orders", "silver.orders"),
    ("main.silver.orders", "main.silver.orders"),
    ("LIVE.orders", "LIVE.orders"),
    ("`my orders`", "`my orders`"),
    ("main.`a.b`.`c``d`", "main.`a.b`.`c``d`"),
    ("`orders`", "orders"),
    ("${catalog}.${schema}.orders_${env}", "main.silver.orders_dev"),
    ("`${catalog}`.silver.orders", "main.silver.orders"),
    ("IDENTIFIER('silver' || '.' || :name)", "silver.orders"),
    ("IDENTIFIER(:name)", "orders"),
    ("IDENTIFIER('${schema}.' || :name)", "silver.orders"),
    ("IDENTIFIER(/* ${ */ '${quoted}.${name}_' || ${part})", "`my.catalog`.silver.orders_dev"),
    ("bestellungen_größe", "bestellungen_größe"),
    ("${target}.orders", "main.silver.orders"),
    ("${target}", "main.silver"),
    ("${quoted}.orders_${env}", "`my.catalog`.silver.orders_dev"),
]


@pytest.mark.parametrize(("written", "name"), NAMES)
def test_every_name(written, name):
    conf = {"catalog": "main", "schema": "silver", "env": "dev", "name": "orders", "target": "main.silver"}
    conf |= {"quoted": "`my.catalog`.silver", "part": "'dev'"}
    assert dataset(f"CREATE STREAMING TABLE {written}", **conf).name == name


def test_a_streaming_table_without_a_query_is_for_flows():
    assert dataset("CREATE OR REFRESH STREAMING TABLE t COMMENT 'x'").query is None


BODIES = [
    "SELECT 1 AS a",
    "select *, `a b` -- a comment; with a semicolon\nFROM STREAM(x) /* ; */ WHERE s = 'a;b'",
    "WITH a AS (SELECT 1), b (x) AS (SELECT 2) SELECT * FROM a, b",
    "(SELECT 1 AS a)",
    "(SELECT 1 AS a) UNION ALL (SELECT 2)",
    "FROM STREAM(x) |> WHERE a > 1",
    "VALUES (1), (2)",
    "TABLE x",
    "SELECT '${path}', :p, a:b.c::string FROM LIVE.x",
    "SELECT '''' , \"a;b\", 'it\\'s;', r'\\'",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("word", ["AS ", ""])
def test_the_text_of_a_query_is_as_it_is_written(word, body):
    found = read(f"CREATE MATERIALIZED VIEW a COMMENT 'x'\n{word}{body} ;\nCREATE MATERIALIZED VIEW b AS SELECT 2")
    assert [each.query.text for each in found.datasets] == [body, "SELECT 2"]
    assert found.datasets[0].query.at.line == 2


def test_a_query_knows_its_line():
    found = read_sql("-- one\n\nCREATE VIEW v\n  AS\n  -- five\n  SELECT 1", SourceLine("a.ipynb", 10, 3)).datasets[0]
    assert found.at == SourceLine("a.ipynb", 12, 3)
    assert found.query.at == SourceLine("a.ipynb", 15, 3)


def test_columns_and_constraints():
    found = dataset(
        """
        CREATE OR REFRESH STREAMING TABLE t (
          id BIGINT NOT NULL COMMENT 'the key',
          `two words` STRING COMMENT "it's",
          price DECIMAL(10, 2) DEFAULT 1.5,
          nested STRUCT<a: INT, b: ARRAY<MAP<STRING, DECIMAL(3,1)>>> COMMENT 'x' NOT NULL,
          day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)),
          span INTERVAL DAY TO SECOND,
          name STRING COLLATE UTF8_LCASE,
          CONSTRAINT valid_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW,
          CONSTRAINT valid_price EXPECT (price > 0 AND (price < 10)),
          CONSTRAINT valid_total EXPECT(total BETWEEN 0 AND 100) ON VIOLATION FAIL UPDATE,
          CONSTRAINT ours EXPECT ((a) or (b)) ON VIOLATION DEAD LETTER,
          CONSTRAINT bare EXPECT price > ${least} ON VIOLATION DROP ROW,
          CONSTRAINT pk PRIMARY KEY (id) RELY,
          CONSTRAINT fk FOREIGN KEY (id, x) REFERENCES other (id, x) NOT ENFORCED
        )
        AS SELECT 1""",
        least="5",
    )
    assert found.schema == (
        "id BIGINT NOT NULL COMMENT 'the key', `two words` STRING COMMENT 'it\\'s', price DECIMAL(10, 2) DEFAULT 1.5, "
        "nested STRUCT<a: INT, b: ARRAY<MAP<STRING, DECIMAL(3,1)>>> NOT NULL COMMENT 'x', "
        "day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), span INTERVAL DAY TO SECOND, name STRING COLLATE UTF8_LCASE"
    )
    assert found.expectations == (
        Expectation("valid_id", "id IS NOT NULL", "drop"),
        Expectation("valid_price", "price > 0 AND (price < 10)", "warn"),
        Expectation("valid_total", "total BETWEEN 0 AND 100", "fail"),
        Expectation("ours", "(a) or (b)", "dead_letter"),
        Expectation("bare", "price > 5", "drop"),
    )


def test_parameters_of_heads():
    found = read(
        """
        CREATE STREAMING TABLE t (
          a INT COMMENT :said, b STRUCT<x :INT> DEFAULT :said,
          CONSTRAINT c EXPECT (a > :least AND b = ':least') ON VIOLATION DROP ROW, CONSTRAINT d EXPECT a < :least
        ) COMMENT :said 's' LOCATION :root TBLPROPERTIES ('quality' = :said, 'b' = 'c', d :least);
        APPLY CHANGES INTO t FROM STREAM(x) KEYS (:said) APPLY AS DELETE WHEN op = :said WHERE y = :least
        SEQUENCE BY :said""",
        said="it's",
        least="5",
        root="/t",
    )
    (table,), (flow,) = found.datasets, found.flows
    assert table.schema == r"a INT COMMENT 'it\'s', b STRUCT<x :INT> DEFAULT 'it\'s'"
    assert table.expectations == (
        Expectation("c", "a > '5' AND b = ':least'", "drop"),
        Expectation("d", "a < '5'", "warn"),
    )
    assert (table.comment, table.path) == ("it'ss", "/t")
    assert table.properties == {"quality": "it's", "b": "c", "d": "5"}
    assert " ".join(flow.query.text.split()) == "SELECT * FROM (SELECT * FROM STREAM(x)) WHERE y = '5'"
    assert (flow.cdc.keys, flow.cdc.apply_as_deletes, flow.cdc.sequence_by) == (
        ("it's",),
        r"op = 'it\'s'",
        "`it's`",
    )


VALUES = {
    "kind": "STREAMING TABLE",
    "private": "PRIVATE",
    "props": "'quality' = 'bronze', a.b = 3",
    "columns": "id INT, `a b` DECIMAL(10, 2) COMMENT 'x, y'",
    "rule": "CONSTRAINT r EXPECT (id > 0)",
    "rules": ", CONSTRAINT r EXPECT (id > 0) ON VIOLATION DROP ROW",
    "none": "",
    "c": "id",
    "said": "'it is'",
    "action": "FAIL UPDATE",
    "policy": "INCREMENTAL STRICT",
    "n": "2",
    "keys": "id, day",
    "env": "dev",
    "hyphen": "my-table",
    "query": "SELECT 'q' FROM x",
    "rest": "COMMENT 'c' AS SELECT ${c}, '${c}' FROM x",
    "lines": "COMMENT 'c'\n\n",
}
FILLED = [
    ("CREATE OR REFRESH ${private} ${kind} t", {"kind": "streaming_table", "private": True}),
    ("CREATE STREAMING TABLE t TBLPROPERTIES (${props})", {"properties": {"quality": "bronze", "a.b": "3"}}),
    (
        "CREATE STREAMING TABLE t TBLPROPERTIES (x = ${env}, ${props}, y = ${said})",
        {"properties": {"x": "dev", "quality": "bronze", "a.b": "3", "y": "it is"}},
    ),
    ("CREATE STREAMING TABLE t (${columns})", {"schema": "id INT, `a b` DECIMAL(10, 2) COMMENT 'x, y'"}),
    (
        "CREATE STREAMING TABLE t (${columns} ${rules})",
        {
            "schema": "id INT, `a b` DECIMAL(10, 2) COMMENT 'x, y'",
            "expectations": (Expectation("r", "id > 0", "drop"),),
        },
    ),
    (
        "CREATE STREAMING TABLE t (${columns} ${none}) ${none}",
        {"schema": "id INT, `a b` DECIMAL(10, 2) COMMENT 'x, y'", "expectations": ()},
    ),
    (
        "CREATE STREAMING TABLE t (${c} INT, `${c}_id` INT, ${c}_${n} ARRAY<${env}>)",
        {"schema": "id INT, id_id INT, id_2 ARRAY<dev>"},
    ),
    ("CREATE STREAMING TABLE t (id INT COMMENT ${said} DEFAULT ${n})", {"schema": "id INT DEFAULT 2 COMMENT 'it is'"}),
    (
        "CREATE STREAMING TABLE t (${rule} ON VIOLATION ${action})",
        {"expectations": (Expectation("r", "id > 0", "fail"),)},
    ),
    ("CREATE STREAMING TABLE t CLUSTER BY (${keys})", {"cluster_by": ("id", "day")}),
    ("CREATE STREAMING TABLE s.${hyphen}", {"name": "s.my-table"}),
    (
        "CREATE ${none} MATERIALIZED VIEW t REFRESH POLICY ${policy} AS SELECT '${n}'",
        {"refresh_policy": "incremental_strict", "text": "SELECT '${n}'"},
    ),
    ("CREATE MATERIALIZED VIEW t AS ${query}", {"text": "${query}"}),
    (
        "CREATE MATERIALIZED VIEW t COMMENT ${said}\nAS /* ${ */ ${query} WHERE ${c}",
        {"comment": "it is", "text": "${query} WHERE ${c}"},
    ),
    (
        "CREATE MATERIALIZED VIEW t (${c}, `b`) AS ${query}",
        {"text": "SELECT * FROM (${query}\n) AS `labelled`(`id`, `b`)"},
    ),
    (
        "CREATE MATERIALIZED VIEW t ${rest} WHERE '${c}'",
        {"comment": "c", "text": "SELECT ${c}, '${c}' FROM x WHERE '${c}'"},
    ),
]


@pytest.mark.parametrize(("statement", "fields"), FILLED, ids=[each[0] for each in FILLED])
def test_a_variable_can_be_any_part_of_a_statement(statement, fields):
    table = dataset(statement, **VALUES)
    found = {name: table.query.text if name == "text" else getattr(table, name) for name in fields}
    assert found == fields


def test_a_variable_can_be_any_part_of_a_flow_and_a_sink():
    found = read(
        """
        CREATE FLOW f AS ${cdc} INTO t FROM ${table} KEYS (${keys}) ${more} SEQUENCE BY ${c} COLUMNS * EXCEPT (${keys})
          STORED AS SCD TYPE ${n};
        CREATE FLOW g AS AUTO CDC INTO t FROM (${query}) WHERE ${c} >
          '${n}' KEYS (${c}) SEQUENCE BY ts;
        CREATE SINK s FORMAT ${format} OPTIONS (${props})""",
        cdc="AUTO CDC ONCE",
        table="main.silver.orders",
        more="IGNORE NULL UPDATES APPLY AS DELETE WHEN op = 'D'",
        format="'kafka'",
        **VALUES,
    )
    first, second = found.flows
    assert (first.once, first.query.text) == (True, "SELECT * FROM ${table}")
    assert first.cdc == AutoCdc(
        ("id", "day"),
        "id",
        ignore_null_updates=True,
        apply_as_deletes="op = 'D'",
        except_columns=("id", "day"),
        scd_type=2,
    )
    assert second.query.text == "SELECT * FROM (${query}) WHERE id >\n  '2'"
    assert found.sinks[0].options == {"quality": "bronze", "a.b": "3"}


def test_lines_are_those_of_the_file_where_a_value_has_some():
    found = read(
        "CREATE VIEW a\n${lines} ${lines} AS\n  ${query};\n${none};\nCREATE VIEW b ${lines}AS SELECT 1", **VALUES
    )
    assert [(each.at.line, each.query.at.line, each.query.at.before) for each in found.datasets] == [
        (1, 3, 2),
        (5, 5, 25),
    ]
    assert [at.line for at, _ in found.notes] == [1, 5]


def test_quoted_names_of_columns_and_comments_in_types(spark):
    written = "`order-id` STRING, `região` STRING, `2020` BIGINT, `a``b` INT, `select` INT, größe INT"
    nested = "address STRUCT<city: STRING COMMENT 'the, city', zip: ARRAY<STRUCT<a: INT COMMENT 'x'>>> COMMENT 'y'"
    columns = columns_of(dataset(f"CREATE STREAMING TABLE t ({written}, {nested})").schema, AT)
    found = T.StructType.fromDDL(", ".join(each.plain_ddl for each in columns))
    assert found.names == ["order-id", "região", "2020", "a`b", "select", "größe", "address"]
    assert (found["address"].dataType["city"].metadata, found["address"].metadata) == (
        {"comment": "the, city"},
        {"comment": "y"},
    )


def test_a_schema_as_ddl():
    found = columns_of("id BIGINT NOT NULL COMMENT 'x', `a b`: INT DEFAULT 3, day DATE GENERATED ALWAYS AS (f(ts))", AT)
    assert [(each.name, each.type, each.default, each.generated) for each in found] == [
        ("id", "BIGINT", None, None),
        ("a b", "INT", "3", None),
        ("day", "DATE", None, "f(ts)"),
    ]
    assert [each.plain_ddl for each in found] == ["id BIGINT NOT NULL COMMENT 'x'", "`a b` INT", "day DATE"]
    assert columns_of("", AT) == ()


def test_keys_are_noted_with_their_lines():
    found = read(
        "CREATE MATERIALIZED VIEW t (\n a INT PRIMARY KEY,\n b INT,\n CONSTRAINT f FOREIGN KEY (b) REFERENCES o)\n"
        "AS SELECT 1"
    )
    assert [(str(at), text) for at, text in found.notes] == [
        ("silver.sql:2", "PRIMARY KEY is information only: nothing enforces it"),
        ("silver.sql:4", "FOREIGN KEY is information only: nothing enforces it"),
    ]
    assert found.datasets[0].schema == "a INT, b INT"


def test_what_is_behind_a_key_is_read():
    found = dataset(
        "CREATE STREAMING TABLE t (a INT PRIMARY KEY NOT NULL COMMENT 'x', b INT REFERENCES o (b) NOT ENFORCED "
        "DEFAULT 2, c INT CONSTRAINT k UNIQUE NOT ENFORCED NOT NULL, d INT PRIMARY KEY RELY "
        "GENERATED ALWAYS AS (a + 1)) AS SELECT 1"
    )
    assert found.schema == (
        "a INT NOT NULL COMMENT 'x', b INT DEFAULT 2, c INT NOT NULL, d INT GENERATED ALWAYS AS (a + 1)"
    )


def test_a_list_of_constraints_alone_leaves_the_columns_to_the_query():
    found = dataset("CREATE TEMPORARY VIEW t (CONSTRAINT c EXPECT (a > 0)) AS SELECT a FROM x")
    assert (found.schema, found.query.text, len(found.expectations)) == (None, "SELECT a FROM x", 1)


def test_names_without_types_are_the_names_of_the_querys_columns():
    found = dataset("CREATE MATERIALIZED VIEW t (a, `b c`) AS SELECT 1, 2 -- two")
    assert (found.schema, found.query.text) == (None, "SELECT * FROM (SELECT 1, 2\n) AS `labelled`(`a`, `b c`)")


def test_clauses_in_any_order():
    clauses = [
        "COMMENT 'of the table'",
        "TBLPROPERTIES (quality = 'gold', 'delta.enableChangeDataFeed' = 'true', pipelines.reset.allowed = FALSE)",
        "TBLPROPERTIES (a.b 3)",
        "PARTITIONED BY (day, `the hour`)",
        "CLUSTER BY (id, nested.key)",
        "LOCATION '${root}/t'",
        "USING DELTA",
        "REFRESH POLICY INCREMENTAL STRICT",
        "SCHEDULE CRON '0 0 8 * * ?' AT TIME ZONE 'UTC'",
    ]
    seen = set()
    for order in (clauses, clauses[::-1], clauses[3:] + clauses[:3]):
        found = dataset(f"CREATE MATERIALIZED VIEW t {' '.join(order)} AS SELECT 1", root="s3://b")
        seen.add(
            (found.comment, tuple(sorted(found.properties.items())), found.partition_by, found.cluster_by, found.path)
        )
        assert found.refresh_policy == "incremental_strict"
    properties = (("a.b", "3"), ("delta.enableChangeDataFeed", "true"), ("pipelines.reset.allowed", "false"))
    assert seen == {
        ("of the table", (*properties, ("quality", "gold")), ("day", "the hour"), ("id", "nested.key"), "s3://b/t")
    }


POLICIES = [("AUTO", "auto"), ("INCREMENTAL", "incremental"), ("FULL", "full")]


@pytest.mark.parametrize(("written", "policy"), POLICIES)
def test_refresh_policies(written, policy):
    assert dataset(f"CREATE MATERIALIZED VIEW t REFRESH POLICY {written} AS SELECT 1").refresh_policy == policy


NOTED = [
    ("SCHEDULE EVERY 2 HOURS", "SCHEDULE of t: `rivermouth run` refreshes it, with --follow all the time"),
    ("SCHEDULE REFRESH EVERY 1 DAY", "SCHEDULE of t: `rivermouth run` refreshes it, with --follow all the time"),
    ("TRIGGER ON UPDATE", "TRIGGER of t: `rivermouth run` refreshes it, with --follow all the time"),
    (
        "TRIGGER ON UPDATE AT MOST EVERY INTERVAL 5 MINUTES",
        "TRIGGER of t: `rivermouth run` refreshes it, with --follow all the time",
    ),
    ("CLUSTER BY AUTO", "CLUSTER BY AUTO: no clustering columns are chosen"),
    ("TAGS ('a' = 'b')", "TAGS of t are not kept"),
]


@pytest.mark.parametrize(("clause", "note"), NOTED)
def test_what_changes_nothing_is_noted(clause, note):
    found = read(f"CREATE MATERIALIZED VIEW t\n{clause}\nCOMMENT 'kept' AS SELECT 1")
    assert [(str(at), text) for at, text in found.notes] == [("silver.sql:2", note)]
    assert found.datasets[0].comment == "kept"


def test_clauses_that_need_no_note():
    found = read("CREATE MATERIALIZED VIEW t CLUSTER BY NONE DEFAULT COLLATION UTF8_BINARY AS SELECT 1")
    assert (found.notes, found.datasets[0].cluster_by) == ((), ())


def test_a_plain_table_is_noted():
    note = "CREATE TABLE defines a materialized view, or a streaming table where its query is streaming"
    assert [text for _, text in read("CREATE TABLE t COMMENT 'x' AS SELECT 1").notes] == [note]


FLOWS = [
    ("CREATE FLOW f AS INSERT INTO t BY NAME SELECT * FROM STREAM(x)", False, None),
    ("CREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT * FROM STREAM(x)", True, None),
    ("CREATE FLOW f AS INSERT ONCE INTO t BY NAME SELECT * FROM STREAM(x)", True, None),
    ("CREATE FLOW IF NOT EXISTS f COMMENT 'why' AS INSERT INTO t BY NAME SELECT * FROM STREAM(x)", False, "why"),
]


@pytest.mark.parametrize(("text", "once", "comment"), FLOWS)
def test_flows_that_append(text, once, comment):
    found = flow(text)
    assert (found.name, found.target, found.kind) == ("f", "t", "append")
    assert (found.once, found.comment, found.query.text) == (once, comment, "SELECT * FROM STREAM(x)")
    assert read(text).notes == ()


def test_a_flow_without_by_name_matches_names_and_says_so():
    found = read("CREATE FLOW f AS INSERT INTO s.t\nSELECT 1 AS a")
    assert found.flows[0].target == "s.t"
    assert found.notes == (
        (SourceLine("silver.sql", 2), "INSERT INTO matches columns by their names, as BY NAME says"),
    )


def test_a_streaming_table_with_its_flow():
    found = read("CREATE STREAMING TABLE s.t COMMENT 'c' FLOW INSERT ONCE BY NAME SELECT * FROM STREAM x")
    assert (found.datasets[0].name, found.datasets[0].query) == ("s.t", None)
    assert (found.flows[0].name, found.flows[0].target, found.flows[0].once) == ("s.t", "s.t", True)
    found = read("CREATE OR REFRESH STREAMING TABLE t FLOW AUTO CDC FROM STREAM x KEYS (id) SEQUENCE BY ts")
    assert (found.flows[0].name, found.flows[0].kind, found.flows[0].cdc) == ("t", "auto_cdc", AutoCdc(("id",), "ts"))


def test_auto_cdc_with_all_clauses_in_any_order():
    clauses = [
        "KEYS (id, `the shop`, payload.key)",
        "IGNORE NULL UPDATES",
        "APPLY AS DELETE WHEN operation = 'DELETE' AND NOT (KEYS > 1)",
        'APPLY AS TRUNCATE WHEN op = "TRUNCATE"',
        "SEQUENCE BY struct(ts, id)",
        "COLUMNS * EXCEPT (operation, ts)",
        "STORED AS SCD TYPE 2",
        "TRACK HISTORY ON * EXCEPT (city)",
    ]
    expected = AutoCdc(
        keys=("id", "the shop", "payload.key"),
        sequence_by="struct(ts, id)",
        apply_as_deletes="operation = 'DELETE' AND NOT (KEYS > 1)",
        apply_as_truncates='op = "TRUNCATE"',
        except_columns=("operation", "ts"),
        scd_type=2,
        track_history_except_columns=("city",),
        ignore_null_updates=True,
    )
    for order in (clauses, clauses[::-1], clauses[4:] + clauses[:4]):
        found = flow(f"CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(x)\n{' '.join(order)};")
        assert (found.name, found.target, found.kind, found.cdc) == ("f", "t", "auto_cdc", expected)
        assert found.query.text == "SELECT * FROM STREAM(x)"


CDC = [
    ("COLUMNS a, b", {"columns": ("a", "b")}),
    ("COLUMNS (a, b)", {"columns": ("a", "b")}),
    ("COLUMNS *", {}),
    ("COLUMNS * EXCEPT (a)", {"except_columns": ("a",)}),
    ("STORED AS SCD TYPE 1", {}),
    ("STORED AS SCD 2", {"scd_type": 2}),
    ("TRACK HISTORY ON a, b", {"track_history_columns": ("a", "b")}),
    ("TRACK HISTORY ON (a, b)", {"track_history_columns": ("a", "b")}),
    ("TRACK HISTORY ON * EXCEPT (a, b)", {"track_history_except_columns": ("a", "b")}),
    ("IGNORE NULL UPDATES ON a, b", {"ignore_null_updates_columns": ("a", "b")}),
    ("IGNORE NULL UPDATES ON * EXCEPT (a)", {"ignore_null_updates_except_columns": ("a",)}),
    ("IGNORE NULL UPDATES ON *", {"ignore_null_updates": True}),
    ("COLUMNS TO UPDATE changed", {"columns_to_update": "changed"}),
    ("APPLY AS DELETE WHEN op = '${delete}'", {"apply_as_deletes": "op = 'D'"}),
    ("APPLY AS TRUNCATE WHEN op = :delete", {"apply_as_truncates": "op = 'D'"}),
    ("COLUMNS (${several})", {"columns": ("a", "b.c")}),
    ("COLUMNS * EXCEPT (:delete, :nested)", {"except_columns": ("D", "b.c")}),
]


@pytest.mark.parametrize(("clause", "values"), CDC)
def test_each_clause_of_auto_cdc(clause, values):
    text = f"AUTO CDC INTO t FROM STREAM x KEYS (id) SEQUENCE BY ts {clause}"
    found = flow(f"CREATE FLOW f AS {text}", delete="D", several="a, b.c", nested="b.c")
    assert found.cdc == AutoCdc(("id",), "ts", **values)


SOURCES = [
    ("STREAM(LIVE.x)", "SELECT * FROM STREAM(LIVE.x)"),
    ("stream x", "SELECT * FROM stream x"),
    ("x AS c", "SELECT * FROM x AS c"),
    ("STREAM read_files('/cdc', format => 'json')", "SELECT * FROM STREAM read_files('/cdc', format => 'json')"),
    ("(SELECT a -- why\n FROM STREAM(x))", "SELECT a -- why\n FROM STREAM(x)"),
    ("x WHERE raw:keys", "SELECT * FROM (SELECT * FROM x)WHERE raw:keys"),
    ("x WHERE raw:where IN (raw:columns)", "SELECT * FROM (SELECT * FROM x)WHERE raw:where IN (raw:columns)"),
    ("(FROM STREAM(x) |> SELECT a)", "FROM STREAM(x) |> SELECT a"),
    ("STREAM(x) WHERE a > 1", "SELECT * FROM (SELECT * FROM STREAM(x))WHERE a > 1"),
    ("(SELECT\n 1)\nWHERE\n a", "SELECT * FROM (SELECT\n 1) WHERE\n\n a"),
]


@pytest.mark.parametrize(("source", "query"), SOURCES)
def test_changes_of_auto_cdc(source, query):
    found = flow(f"APPLY CHANGES INTO LIVE.t\nFROM {source}\nKEYS (id) SEQUENCE BY ts")
    assert (found.query.text, found.query.at.line) == (query, 2)
    assert (found.name, found.target, found.at.line) == ("LIVE.t", "LIVE.t", 1)


def test_auto_cdc_once():
    for head in ("AUTO CDC ONCE INTO", "AUTO CDC INTO ONCE", "APPLY CHANGES ONCE INTO"):
        assert flow(f"CREATE FLOW f AS {head} t FROM STREAM x KEYS (id) SEQUENCE BY ts").once


def test_sinks():
    found = read(
        """
        CREATE SINK IF NOT EXISTS out FORMAT 'kafka'
          OPTIONS ('topic' = 'orders', kafka.bootstrap.servers = '${servers}');
        CREATE SINK files USING delta OPTIONS (path '/x')""",
        servers="a:1",
    )
    assert [(each.name, each.format, each.options) for each in found.sinks] == [
        ("out", "kafka", {"topic": "orders", "kafka.bootstrap.servers": "a:1"}),
        ("files", "delta", {"path": "/x"}),
    ]


SETS = [
    ("SET a = b", {"a": "b"}),
    ("SET a=s3://bucket/x/*/y", {"a": "s3://bucket/x/*/y"}),
    ("SET startDate='2020-01-01'", {"startDate": "'2020-01-01'"}),
    ("SET spark.sql.shuffle.partitions = 8", {"spark.sql.shuffle.partitions": "8"}),
    ("SET pipelines.trigger.interval='10 seconds'", {"pipelines.trigger.interval": "10 seconds"}),
    ('SET spark.x = "a;b"', {"spark.x": "a;b"}),
    ("SET `a.b` = c d -- not this", {"a.b": "c d"}),
    ("SET\n  a = b\n-- not this", {"a": "b"}),
    ("SET TIME ZONE 'Europe/Paris'", {"spark.sql.session.timeZone": "Europe/Paris"}),
    ("SET a = ${given}/x", {"a": "root/x"}),
    ("SET a = it's", {"a": "it's"}),
    ("SET a = 1 -- it's the default; not this\n", {"a": "1"}),
    ("SET a = 1 -- it's\n-- it's", {"a": "1"}),
    ("SET -- it's\na = b--c", {"a": "b--c"}),
    ("SET a = 'x -- y; z' -- it's", {"a": "'x -- y; z'"}),
    ("SET var = 1", {"var": "1"}),
    ("SET variable=VAR x", {"variable": "VAR x"}),
]


@pytest.mark.parametrize(("statement", "conf"), SETS)
def test_settings_hold_for_what_follows(statement, conf):
    behind = "'q'" if "--" in statement else "2"
    text = f"CREATE VIEW a AS SELECT 1;\n{statement}\n;\nCREATE VIEW b AS SELECT {behind}"
    found = read_sql(text, AT, conf={"given": "root"})
    assert [each.query.conf for each in found.datasets] == [{"given": "root"}, {"given": "root", **conf}]


def test_a_setting_is_a_parameter_of_what_follows():
    found = read("SET source = /landing; CREATE STREAMING TABLE t LOCATION '${source}/t' AS SELECT '${source}'")
    assert found.datasets[0].path == "/landing/t"
    assert (found.datasets[0].query.text, found.datasets[0].query.conf) == (
        "SELECT '${source}'",
        {"source": "/landing"},
    )


SET_VALUES = [
    ("'2026-01-01'", "2026-01-01"),
    ('"it\'s"', "it's"),
    (r"'it\'s'", "it's"),
    ("r'a\\d'", "a\\d"),
    ("'a' || 'b'", "'a' || 'b'"),
    ("'a", "'a"),
    ("it's", "it's"),
    ("dev", "dev"),
    ("5", "5"),
    ("${quoted}", "given"),
]


@pytest.mark.parametrize(("written", "value"), SET_VALUES)
def test_a_string_that_set_wrote_is_a_value_without_its_quotes(written, value):
    head = "CREATE MATERIALIZED VIEW v COMMENT :x"
    found = read(f"SET x = {written}\n;{head} AS SELECT :x FROM read_files(:x)", quoted="'given'", y="'y'")
    table, conf = found.datasets[0], found.datasets[0].query.conf
    assert table.comment == value
    names = Replacements(lambda _: None, lambda call: quoted_string(call.positional(str)[0]), str)
    text = rewritten(table.query.text, names, params=conf).text
    assert text == f"SELECT {quoted_string(value)} FROM {quoted_string(value)}"
    assert conf["x"] == written.replace("${quoted}", "'given'")
    assert rewritten("SELECT :y", names, params=conf).text == r"SELECT '\'y\''"


def test_statements_that_only_show_are_noted():
    found = read("SET\n spark.source;\nSELECT 1;\nSHOW TABLES; DESCRIBE x; EXPLAIN SELECT 2")
    assert [(at.line, text) for at, text in found.notes] == [
        (1, "SET without a value changes nothing"),
        (3, "SELECT shows rows and defines nothing: it is not run"),
        (4, "SHOW shows rows and defines nothing: it is not run"),
        (4, "DESCRIBE shows rows and defines nothing: it is not run"),
        (4, "EXPLAIN shows rows and defines nothing: it is not run"),
    ]


USES = [
    ("USE SCHEMA silver;", "silver.t", (None, "silver")),
    ("USE DATABASE silver;", "silver.t", (None, "silver")),
    ("USE silver;", "silver.t", (None, "silver")),
    ("USE main.silver;", "main.silver.t", ("main", "silver")),
    ("USE CATALOG main; USE SCHEMA silver;", "main.silver.t", ("main", "silver")),
    ("USE CATALOG main;", "t", ("main", None)),
    ("USE CATALOG `${catalog}`; USE SCHEMA ${schema};", "main.silver.t", ("main", "silver")),
    ("USE CATALOG :catalog; USE SCHEMA IDENTIFIER(:schema);", "main.silver.t", ("main", "silver")),
    ("USE CATALOG 'main'; USE IDENTIFIER('a.b');", "a.b.t", ("a", "b")),
    ("USE ${both};", "main.silver.t", ("main", "silver")),
    ("USE CATALOG IDENTIFIER('${catalog}'); USE SCHEMA IDENTIFIER('${schema}');", "main.silver.t", ("main", "silver")),
]


@pytest.mark.parametrize(("uses", "name", "place"), USES)
def test_use_chooses_where_names_are(uses, name, place):
    found = read(
        f"{uses} CREATE VIEW t AS SELECT 1; CREATE FLOW f AS INSERT INTO t BY NAME SELECT 1;"
        "CREATE TEMPORARY VIEW v AS SELECT 1; CREATE STREAMING TABLE LIVE.u",
        catalog="main",
        schema="silver",
        both="main.silver",
    )
    assert [each.name for each in found.datasets] == [name, "v", "LIVE.u"]
    assert (found.flows[0].name, found.flows[0].target) == ("f", name)
    assert found.datasets[0].query.use == Use(*place)


def test_a_target_can_be_named_by_identifier():
    found = read(
        """
        CREATE FLOW IDENTIFIER('f_${env}') AS INSERT INTO IDENTIFIER('${env}.t') BY NAME SELECT 1;
        CREATE FLOW g AS AUTO CDC INTO IDENTIFIER('${env}.t') FROM STREAM(x) KEYS (id) SEQUENCE BY IDENTIFIER('${env}')
        """,
        env="dev",
    )
    assert [(each.name, each.target) for each in found.flows] == [("f_dev", "dev.t"), ("g", "dev.t")]


def test_a_name_of_two_parts_is_in_the_catalog():
    found = read("USE CATALOG main; CREATE VIEW s.t AS SELECT 1; CREATE VIEW a.s.t AS SELECT 1")
    assert [each.name for each in found.datasets] == ["main.s.t", "a.s.t"]


NOTEBOOK = """\
-- Databricks notebook source
-- MAGIC %md
-- MAGIC # CREATE STREAMING TABLE not_this

-- COMMAND ----------

-- DBTITLE 1,Bronze; raw
SET source = /landing/*

-- COMMAND ----------

USE SCHEMA bronze

-- COMMAND ----------

-- MAGIC %sql
-- MAGIC CREATE MATERIALIZED VIEW one AS
-- MAGIC   SELECT 'a'

-- COMMAND ----------

%sql
CREATE STREAMING TABLE two LOCATION '${source}' AS SELECT 10
% 3
"""


def test_the_cells_of_a_notebook_share_what_they_set(tmp_path):
    path = tmp_path / "a.sql"
    path.write_text(NOTEBOOK)
    registry = Registry(tmp_path)
    found = Evaluation(tmp_path, {}, {"given": "x"}, registry).evaluate([path])
    assert [(each.name, each.at.line, each.path) for each in found.datasets] == [
        ("bronze.one", 17, None),
        ("bronze.two", 23, "/landing/*"),
    ]
    assert [each.query.conf for each in found.datasets] == [{"given": "x", "source": "/landing/*"}] * 2
    assert [each.query.use for each in found.datasets] == [Use(schema="bronze")] * 2


def test_nothing_is_in_an_empty_file():
    assert read_sql("", AT) == read_sql("-- only a comment\n;;/* ; */\n", AT)
    assert read_sql(";", AT).datasets == ()
