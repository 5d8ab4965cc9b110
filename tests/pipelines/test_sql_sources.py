"""Which tables and table functions a SELECT reads."""

from __future__ import annotations

import pytest

from rivermouth.pipelines.sql.sources import functions, references

TABLES = [
    ("SELECT 1", []),
    ("SELECT * FROM a", ["a"]),
    ("select * from a.b.c as x", ["a.b.c"]),
    ("SELECT * FROM LIVE.a, `b c`.`d.e` x, f", ["LIVE.a", "b c.d.e", "f"]),
    ("SELECT * FROM STREAM(a)", ["~a"]),
    ("SELECT * FROM STREAM (a) x", ["~a"]),
    ("SELECT * FROM stream(live.a) AS x", ["~live.a"]),
    ("SELECT * FROM STREAM a", ["~a"]),
    ("SELECT * FROM STREAM `a`.b o JOIN c ON o.x = c.x", ["~a.b", "c"]),
    ("SELECT * FROM STREAM((a))", ["~a"]),
    ("SELECT * FROM (LIVE.a)", ["LIVE.a"]),
    ("SELECT * FROM (a JOIN b ON a.x = b.x) JOIN c USING (x), d", ["a", "b", "c", "d"]),
    ("SELECT * FROM ((SELECT * FROM a) UNION (SELECT * FROM b)) q, c", ["a", "b", "c"]),
    ("SELECT * FROM (SELECT * FROM a) q(x, y), LATERAL (SELECT * FROM b WHERE b.x = q.x)", ["a", "b"]),
    ("SELECT * FROM a o, LATERAL EXPLODE(o.books) AS b(book) INNER JOIN c ON b.book.id = c.id", ["a", "c"]),
    ("SELECT * FROM a LATERAL VIEW explode(x) t AS k, v WHERE k IN (SELECT k FROM b)", ["a", "b"]),
    ("SELECT * FROM a LATERAL VIEW OUTER explode(x) t AS k LATERAL VIEW explode(k) u AS l, m", ["a"]),
    ("SELECT * FROM a PIVOT (max(v) FOR k IN ('x', 'y')) p, b", ["a", "b"]),
    ("SELECT * FROM a UNPIVOT (v FOR k IN (x, y)), b", ["a", "b"]),
    ("SELECT * FROM a TABLESAMPLE (10 PERCENT) o, b VERSION AS OF 3, c TIMESTAMP AS OF '2020-01-01'", ["a", "b", "c"]),
    ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT TABLE c", ["a", "b", "c"]),
    ("TABLE a", ["a"]),
    ("FROM a SELECT x WHERE y = 1", ["a"]),
    ("FROM STREAM(a) |> WHERE x > 1 |> JOIN b ON a.x = b.x |> SELECT x", ["~a", "b"]),
    ("SELECT * FROM (FROM STREAM(a) |> SELECT *, parse_json(v) AS p)", ["~a"]),
    ("SELECT * FROM a LEFT ANTI JOIN b ON 1 = 1 NATURAL JOIN c CROSS JOIN d", ["a", "b", "c", "d"]),
    ("SELECT * FROM a JOIN b ON a.x IS NOT DISTINCT FROM b.x, c", ["a", "b", "c"]),
    ("SELECT extract(day FROM d), trim(BOTH 'x' FROM y), substring(a FROM 1 FOR 2) FROM t", ["t"]),
    ("SELECT overlay(a PLACING 'b' FROM 1), trim((a) FROM b), a IS DISTINCT FROM b FROM t", ["t"]),
    ("SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c)", ["a", "b", "c"]),
    ("SELECT CASE WHEN x IN (SELECT y FROM a) THEN 1 END FROM b", ["a", "b"]),
    ("SELECT * FROM VALUES (1, 2) AS v(a, b), c", ["c"]),
    ("SELECT * FROM VALUES ('NL', 1), ('BE', DATE '2024-01-01'), (true, (SELECT max(x) FROM a)) AS t(c, n)", ["a"]),
    ("SELECT * FROM VALUES ('NL', 1), ('BE', 2), c", []),
    ("SELECT * FROM VALUES ('NL', 1), ('BE', 2) t, c JOIN d WHERE t.x", ["c", "d"]),
    ("SELECT * FROM VALUES (1), (2) t(a) LEFT JOIN c ON t.a = c.a", ["c"]),
    ("SELECT * FROM VALUES (1), (2) JOIN c", ["c"]),
    ("SELECT * FROM VALUES 1, DATE '2024-01-01', null, f(1, 2), :p, INTERVAL 1 DAY AS t, c", ["c"]),
    ("SELECT * FROM VALUES 1, x + 2 t, c UNION VALUES (1), (2)", ["c"]),
    ("SELECT * FROM c, VALUES 1, INTERVAL 1 DAY, 2 WHERE a IN (SELECT 1 FROM d)", ["c", "d"]),
    ("SELECT * FROM a, LATERAL VALUES (1), (2) v JOIN (VALUES 1, 2 AS x) JOIN b", ["a", "b"]),
    ("SELECT * FROM (VALUES (1), ((SELECT max(x) FROM a))) AS v(a)", ["a"]),
    ("SELECT * FROM range(1, (SELECT max(x) FROM a)) r, b", ["a", "b"]),
    ("SELECT * FROM f(TABLE(a)), g(TABLE(SELECT * FROM b)), h(TABLE (c) PARTITION BY x)", ["a", "b", "c"]),
    ("SELECT * FROM parquet.`/data/x y`, delta.`s3://b/t`", ["parquet./data/x y", "delta.s3://b/t"]),
    ("SELECT 'FROM a', \"FROM b\", `FROM c`, r'FROM d\\' -- FROM e\n /* FROM f /* FROM g */ FROM h */ FROM i", ["i"]),
    ("SELECT /*+ BROADCAST(b) */ * FROM a, b", ["a", "b"]),
    ("SELECT x.from, y.join FROM a.from", ["a.from"]),
    ("SELECT raw:from AS sender, raw:join x, raw:a.from y, b FROM e", ["e"]),
    ("SELECT raw:from FROM e JOIN f ON e.raw:join = f.raw:where WHERE raw:table IN (SELECT 1 FROM g)", ["e", "f", "g"]),
    ("SELECT * FROM t WHERE d >= :from AND d < :with AND (SELECT max(d) FROM u) < :join", ["t", "u"]),
    ("SELECT raw:union SELECT, raw:from, a FROM e UNION SELECT raw:select, b FROM f", ["e", "f"]),
    ("SELECT transform(xs, x -> x + 1), a.b['from'][0] FROM t", ["t"]),
    ("SELECT * FROM größe, `日本`.表", ["größe", "日本.表"]),
    (
        (
            "SELECT * FROM STREAM a WATERMARK ts DELAY OF INTERVAL 1 MINUTE AS o JOIN STREAM(b) WATERMARK ts DELAY OF"
            " INTERVAL 1 HOUR ON o.x = b.x, c"
        ),
        ["~a", "~b", "c"],
    ),
    ("SELECT * FROM STREAM a CHANGES FROM VERSION 3, b", ["~a", "b"]),
    ("SELECT sum(x) OVER (PARTITION BY y ORDER BY z) FROM a WINDOW w AS (PARTITION BY y) QUALIFY x = 1", ["a"]),
    ("SELECT * FROM a ORDER BY x LIMIT 3", ["a"]),
    ("SELECT * FROM IDENTIFIER('a' || '.b'), STREAM(IDENTIFIER(concat('`c d`', '.', :p)))", ["a.b", "~c d.e"]),
    ("SELECT * FROM ${schema}.a_${env}, parquet.`${root}/x`", ["s.a_dev", "parquet./root/x"]),
    ("INSERT INTO x SELECT * FROM a", ["a"]),
    ("CREATE TEMP VIEW v AS SELECT * FROM a", ["a"]),
    ("SELECT current_timestamp() AS from_time, window.start FROM a GROUP BY window(ts, '5 minutes'), x", ["a"]),
    ("WITH a AS (SELECT * FROM b) SELECT * FROM a, c", ["b", "c"]),
    ("WITH a AS (SELECT * FROM a) SELECT * FROM A", ["a"]),
    (
        "WITH a AS (SELECT 1), b (x, y) AS (SELECT * FROM a), c (SELECT * FROM d) SELECT * FROM a, b, `c`, s.a",
        ["d", "s.a"],
    ),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, a) SELECT * FROM r", ["a"]),
    ("WITH a AS (WITH b AS (SELECT * FROM c) SELECT * FROM b) SELECT * FROM a, b", ["c", "b"]),
    ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) x, a", ["a"]),
    ("WITH a AS (SELECT 1) SELECT * FROM x WHERE EXISTS (SELECT 1 FROM a) UNION SELECT * FROM a", ["x"]),
    ("SELECT * FROM a WITH (`k` = 'v') o, b", ["a", "b"]),
]


@pytest.mark.parametrize(("text", "tables"), TABLES, ids=[each[0][:60] for each in TABLES])
def test_the_tables_of_a_select(text, tables):
    params = {"p": "e", "schema": "s", "env": "dev", "root": "/root"}
    found = references(text, params)
    assert [("~" if each.is_streaming else "") + ".".join(each.parts) for each in found] == tables


def test_a_reference_has_its_place():
    text = "SELECT * FROM STREAM( LIVE.`a b` ) x"
    found = references(text)[0]
    assert (found.parts, text[found.start : found.end]) == (("LIVE", "a b"), "LIVE.`a b`")


def test_options_of_a_stream():
    text = "SELECT * FROM STREAM(a) WITH (SKIPCHANGECOMMITS, 'startingVersion' = 3, x.y = 'z') o, STREAM b WITH (c)"
    first, second = references(text)
    assert first.options == {"SKIPCHANGECOMMITS": "true", "startingVersion": "3", "x.y": "z"}
    assert [text[slice(*each)] for each in first.clauses] == [
        "WITH (SKIPCHANGECOMMITS, 'startingVersion' = 3, x.y = 'z')"
    ]
    assert second.options == {"c": "true"}
    call = functions("SELECT * FROM STREAM read_files('/a', x => 'y') WITH (SKIPCHANGECOMMITS) o")[0]
    assert call.options(secret) == {"x": "y", "SKIPCHANGECOMMITS": "true"}


def secret(scope, key):
    return f"<{scope}/{key}>"


CALLS = [
    ("read_files('/a')", "read_files", False, ["/a"], {}),
    ("STREAM read_files('/a', format => 'json')", "read_files", True, ["/a"], {"format": "json"}),
    (
        'STREAM(READ_FILES("/a", FORMAT => "csv", header => true, inferschema => FALSE))',
        "read_files",
        True,
        ["/a"],
        {"FORMAT": "csv", "header": "true", "inferschema": "false"},
    ),
    (
        "read_files(:path || '/x', maxFilesPerTrigger => 5, rate => -1.5, n => 3L, schema => NULL)",
        "read_files",
        False,
        ["/root/x"],
        {"maxFilesPerTrigger": "5", "rate": "-1.5", "n": "3"},
    ),
    (
        "read_files('${path}/x' '/y', schemaHints => concat('a INT', ', ', 'b STRING'))",
        "read_files",
        False,
        ["/root/x/y"],
        {"schemaHints": "a INT, b STRING"},
    ),
    (
        "cloud_files('/a', 'json', map('cloudFiles.inferColumnTypes', 'true', \"multiLine\", \"true\"))",
        "cloud_files",
        True,
        ["/a", "json"],
        {"cloudFiles.inferColumnTypes": "true", "multiLine": "true"},
    ),
    ("STREAM(cloud_files('/a', 'csv'))", "cloud_files", True, ["/a", "csv"], {}),
    (
        (
            "STREAM read_kafka(bootstrapServers => 'a:1', subscribe => 'x', -- why\n `kafka.sasl.jaas.config` =>"
            " 'user=\"' || secret('sc', 'us' || 'er') || '\";')"
        ),
        "read_kafka",
        True,
        [],
        {"bootstrapServers": "a:1", "subscribe": "x", "kafka.sasl.jaas.config": 'user="<sc/user>";'},
    ),
    (
        "read_kinesis(streamName => 'x', awsAccessKey => secret('a', 'b'))",
        "read_kinesis",
        False,
        [],
        {"streamName": "x", "awsAccessKey": "<a/b>"},
    ),
    ("read_pubsub(topicId => ('t'))", "read_pubsub", False, [], {"topicId": "t"}),
    ("read_pulsar(serviceUrl => 'pulsar://x')", "read_pulsar", False, [], {"serviceUrl": "pulsar://x"}),
    ("read_statestore('/checkpoint', operatorId => 1)", "read_statestore", False, ["/checkpoint"], {"operatorId": "1"}),
    ("event_log(TABLE(main.s.t))", "event_log", False, ["main.s.t"], {}),
    ("event_log('4b0f')", "event_log", False, ["4b0f"], {}),
    ("table_changes('s.t', 2, 5)", "table_changes", False, ["s.t", "2", "5"], {}),
]


@pytest.mark.parametrize(
    ("call", "name", "streaming", "positional", "options"), CALLS, ids=[each[0][:40] for each in CALLS]
)
def test_table_functions(call, name, streaming, positional, options):
    found = functions(f"SELECT *, read_files FROM {call} AS x JOIN b ON 1 = 1", {"path": "/root"})
    assert [(each.name, each.is_streaming) for each in found] == [(name, streaming)]
    assert (found[0].positional(secret), found[0].options(secret)) == (positional, options)
    assert [each.parts for each in references(f"SELECT * FROM {call} AS x JOIN b ON 1 = 1", {"path": "/root"})] == [
        ("b",)
    ]


def test_functions_of_spark_are_left_to_spark():
    assert functions("SELECT * FROM range(3), explode(array(1)), my.own_function(1)") == []


def test_a_call_has_its_place():
    text = "SELECT *\nFROM STREAM( read_files('a;)b', x => ')') ) AS y"
    found = functions(text)[0]
    assert text[found.start : found.end] == "read_files('a;)b', x => ')')"
    assert found.at == "<sql>:2:14"
