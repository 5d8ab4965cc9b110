"""Queries as Spark understands them: only what must be is replaced."""

from __future__ import annotations

import pytest

from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.rewrite import Replacements, rewritten

PARAMS = {"p": "it's", "n": "5", "schema": "silver", "root": "/landing", "spark.x": "y", "kafka.servers": "a:1"}


def table(reference):
    parts = [part for part in reference.parts if part.upper() != "LIVE"]
    return None if parts[0] == "outside" or len(parts) > 1 else f"`default`.`{parts[0]}`"


def function(call):
    options = ",".join(f"{name}={value}" for name, value in call.options(secret).items())
    return f"_{call.name}[{','.join(call.positional(secret))};{options}]"


def secret(scope, key):
    return f"{scope}-{key}"


def rewriting(text, **more):
    return rewritten(text, Replacements(table, function, secret), params=PARAMS, **more)


def change(text, **more):
    return rewriting(text, **more).text


REWRITTEN = [
    ("SELECT a FROM x", "SELECT a FROM `default`.`x`"),
    ("SELECT x.a, x FROM LIVE.x AS x -- FROM x", "SELECT x.a, x FROM `default`.`x` AS x -- FROM x"),
    ("SELECT * FROM STREAM(LIVE.x)", "SELECT * FROM STREAM(`default`.`x`)"),
    ("SELECT * FROM STREAM   x o", "SELECT * FROM STREAM   `default`.`x` o"),
    ("SELECT 'x' FROM outside.x, s.y", "SELECT 'x' FROM outside.x, s.y"),
    ("WITH x AS (SELECT * FROM x) SELECT * FROM x", "WITH x AS (SELECT * FROM `default`.`x`) SELECT * FROM x"),
    (
        "SELECT * FROM STREAM read_files('${root}/a', format => 'json') AS f",
        "SELECT * FROM STREAM _read_files[/landing/a;format=json] AS f",
    ),
    (
        "SELECT * FROM STREAM(read_kafka(a => secret('s', 'k') || :p, `b.c` => '${kafka.servers}'))",
        "SELECT * FROM STREAM(_read_kafka[;a=s-kit's,b.c=a:1])",
    ),
    ("SELECT * FROM cloud_files('/a', 'csv', map('k', 'v'))", "SELECT * FROM _cloud_files[/a,csv;k=v]"),
    ("SELECT * FROM STREAM(x) WITH (SKIPCHANGECOMMITS) o", "SELECT * FROM STREAM(`default`.`x`)  o"),
    ("SELECT * FROM STREAM(outside.x) WITH (a = 'b') o", "SELECT * FROM STREAM(outside.x) WITH (a = 'b') o"),
    # Parameters: everywhere but in comments.
    (
        "SELECT '${schema}', \"${schema}\", `${schema}`, a_${n} -- ${unknown} :u\nFROM ${schema}.t /* ${unknown} */",
        "SELECT 'silver', \"silver\", `silver`, a_5 -- ${unknown} :u\nFROM silver.t /* ${unknown} */",
    ),
    ("SELECT ${spark:spark.x}, '${hiveconf:n}'", "SELECT y, '5'"),
    (
        "SELECT :p, f(:n), a:b.c FROM x WHERE k = :n AND b BETWEEN :n AND :n LIMIT :n",
        "SELECT 'it\\'s', f('5'), a:b.c FROM `default`.`x` WHERE k = '5' AND b BETWEEN '5' AND '5' LIMIT '5'",
    ),
    ("SELECT 2 *:n, a >=:n, struct<a:int>(1)", "SELECT 2 *'5', a >='5', struct<a:int>(1)"),
    ("SELECT ':p', `:p`, a :: INT, {':p'}", "SELECT ':p', `:p`, a :: INT, {':p'}"),
    ("SELECT secret('s', 'k' || :n) AS k, 'secret(1)'", "SELECT 's-k5' AS k, 'secret(1)'"),
    # Names that are computed.
    ("SELECT * FROM IDENTIFIER('x')", "SELECT * FROM `default`.`x`"),
    ("SELECT * FROM IDENTIFIER(:schema || '.t') o", "SELECT * FROM `silver`.`t` o"),
    ("SELECT IDENTIFIER('a') FROM STREAM(IDENTIFIER('x'))", "SELECT IDENTIFIER('a') FROM STREAM(`default`.`x`)"),
    # WATERMARK, where Spark wants it.
    (
        "SELECT * FROM STREAM(x) WATERMARK ts DELAY OF INTERVAL 3 minutes o",
        "SELECT * FROM STREAM(`default`.`x`) WATERMARK ts DELAY OF INTERVAL 3 minutes o",
    ),
    (
        "SELECT * FROM STREAM(x) AS o WATERMARK ts DELAY OF INTERVAL '10 seconds' JOIN y ON 1",
        "SELECT * FROM STREAM(`default`.`x`) WATERMARK ts DELAY OF INTERVAL 10 seconds AS o JOIN `default`.`y` ON 1",
    ),
    (
        "SELECT * FROM STREAM x o WATERMARK CAST(ts AS DATE) t DELAY OF INTERVAL '1' HOUR, y",
        "SELECT * FROM STREAM `default`.`x` WATERMARK CAST(ts AS DATE) t DELAY OF INTERVAL '1' HOUR o, `default`.`y`",
    ),
    (
        "SELECT * FROM (SELECT * FROM STREAM x) AS o WATERMARK ts DELAY OF INTERVAL 1 MINUTE",
        "SELECT * FROM (SELECT * FROM STREAM `default`.`x`) WATERMARK ts DELAY OF INTERVAL 1 MINUTE AS o",
    ),
    (
        "SELECT * FROM STREAM(x) o WATERMARK v:ts DELAY OF INTERVAL :n MINUTES",
        "SELECT * FROM STREAM(`default`.`x`) WATERMARK v:ts DELAY OF INTERVAL '5' MINUTES o",
    ),
    ("SELECT watermark, delay FROM x", "SELECT watermark, delay FROM `default`.`x`"),
]


@pytest.mark.parametrize(("text", "expected"), REWRITTEN, ids=[each[0][:60] for each in REWRITTEN])
def test_what_is_replaced(text, expected):
    assert change(text) == expected


UNCHANGED = [
    "SELECT o.a FROM outside.x TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY o, outside.y",
    "SELECT o.a FROM outside.x FOR SYSTEM_TIME AS OF now() - INTERVAL '1 day' o JOIN outside.y ON 1",
    "SELECT a:b.c::string, a:b[0]:c, f(a):['x y'], a:`b c`, (a.b):c, {'a': 1} FROM outside.x",
    "SELECT 'FROM x; -- y', \"it's FROM x\", `FROM x`, r'\\', 'it''s', '\\'' /* FROM x */ -- x\r\n\t,1 FROM outside.x",
    "SELECT * EXCEPT (a, b), t.* EXCEPT (c) FROM outside.t WHERE x <=> y AND z <> 1 AND w != 2",
    "SELECT map('a', 1), named_struct('x', :), x -> x FROM outside.t",
    "MERGE INTO outside.t USING outside.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "SELECT ünï, '日本 ${'  FROM outside.ü",
    "",
]


ALIASES = [
    ("SELECT x.a FROM x WHERE x.b", "SELECT x.a FROM v AS `x` WHERE x.b"),
    ("SELECT * FROM STREAM(LIVE.`x y`)", "SELECT * FROM STREAM(v) AS `x y`"),
    (
        "SELECT * FROM STREAM x, y AS x, z q JOIN w ON 1",
        "SELECT * FROM STREAM v AS `x`, v AS x, v q JOIN v AS `w` ON 1",
    ),
    ("SELECT * FROM (x JOIN V USING (a)) o", "SELECT * FROM (v AS `x` JOIN v USING (a)) o"),
    (
        "SELECT * FROM STREAM(x) WITH (a) WATERMARK t DELAY OF INTERVAL 1 HOUR",
        "SELECT * FROM STREAM(v)  WATERMARK t DELAY OF INTERVAL 1 HOUR AS `x`",
    ),
    (
        "SELECT * FROM x TABLESAMPLE (1 ROWS) LATERAL VIEW f(a) t",
        "SELECT * FROM v TABLESAMPLE (1 ROWS) AS `x` LATERAL VIEW f(a) t",
    ),
    (
        "SELECT c.s.x.a, s.`x`.*, 's.x.a', o.s.x.a, s.y.a FROM c.s.x, s.x WHERE C.S.X.a > 1 -- s.x.a",
        (
            "SELECT `c.s.x`.a, `s.x`.*, 's.x.a', o.s.x.a, s.y.a FROM v AS `c.s.x`, v AS `s.x` "
            "WHERE `c.s.x`.a > 1 -- s.x.a"
        ),
    ),
    ("SELECT live.x.a:b FROM LIVE.x", "SELECT `x`.a:b FROM v AS `x`"),
    ("SELECT s.x.a FROM s.x AS s", "SELECT s.x.a FROM v AS s"),
    ("FROM s.x |> SELECT x.a", "FROM v AS `x` |> SELECT x.a"),
    ("SELECT * FROM x PIVOT (max(a) FOR b IN (1))", "SELECT * FROM v AS `x` PIVOT (max(a) FOR b IN (1))"),
    ("SELECT x.a FROM x FOR VERSION AS OF 3, y WITH (b = 'c')", "SELECT x.a FROM v  AS `x`, v  AS `y`"),
    ("SELECT * FROM x TIMESTAMP AS OF DATE'2026-01-01' || '' o", "SELECT * FROM v  o"),
    # The last part of a name where something else has it too.
    (
        "SELECT b.x.id, x.y FROM b.x JOIN S.X ON b.x.id = s.x.id UNION SELECT x.id FROM s.x",
        "SELECT `b.x`.id, x.y FROM v AS `b.x` JOIN v AS `S.X` ON `b.x`.id = `S.X`.id UNION SELECT x.id FROM v AS `x`",
    ),
    (
        "SELECT x.id FROM s.x WHERE EXISTS (SELECT x.id FROM b.x WHERE b.x.id = s.x.id AND x.y) EXCEPT TABLE x",
        (
            "SELECT `s.x`.id FROM v AS `s.x` WHERE EXISTS "
            "(SELECT `b.x`.id FROM v AS `b.x` WHERE `b.x`.id = `s.x`.id AND `b.x`.y) EXCEPT SELECT * FROM v AS `x`"
        ),
    ),
    (
        "WITH x AS (SELECT x.* EXCEPT (b) FROM s.x) SELECT x.a, s.x.b FROM x, STREAM s.x",
        "WITH x AS (SELECT x.* EXCEPT (b) FROM v AS `x`) SELECT x.a, `s.x`.b FROM x, STREAM v AS `s.x`",
    ),
    ("SELECT s.x.a FROM (SELECT 1) AS x JOIN s.x", "SELECT `s.x`.a FROM (SELECT 1) AS x JOIN v AS `s.x`"),
    ("SELECT s.x.a FROM s.x, s.x", "SELECT `x`.a FROM v AS `x`, v AS `x`"),
    ("SELECT * FROM f(TABLE(x))", "SELECT * FROM f(TABLE(v))"),
    # Two tables keep the last part of their names where no column has a longer name.
    ("SELECT x.* FROM b.x LEFT ANTI JOIN s.x USING (a)", "SELECT x.* FROM v AS `x` LEFT ANTI JOIN v AS `x` USING (a)"),
    (
        "SELECT x.a, s.x.a FROM s.x WHERE b IN (SELECT b.x.b FROM b.x JOIN y) AND x.a.b > 1",
        "SELECT x.a, `x`.a FROM v AS `x` WHERE b IN (SELECT `b.x`.b FROM v AS `b.x` JOIN v AS `y`) AND x.a.b > 1",
    ),
    ("SELECT x.a, s.x.b FROM b.x JOIN s.x USING (a)", "SELECT x.a, `s.x`.b FROM v AS `x` JOIN v AS `s.x` USING (a)"),
    # In parentheses.
    (
        "SELECT o.a FROM (x o JOIN c ON o.a = c.a) WHERE o.a",
        "SELECT o.a FROM (v o JOIN v AS `c` ON o.a = c.a) WHERE o.a",
    ),
    (
        "WITH c AS (SELECT 1) SELECT o.a FROM (s.x o JOIN c ON o.a = c.a) WHERE o.a",
        "WITH c AS (SELECT 1) SELECT o.a FROM (v o JOIN c ON o.a = c.a) WHERE o.a",
    ),
    (
        "WITH c AS (SELECT 1) SELECT o.a FROM (s.x JOIN c ON s.x.a = c.a) AS o",
        "WITH c AS (SELECT 1) SELECT o.a FROM (v AS `x` JOIN c ON `x`.a = c.a) AS o",
    ),
    ("SELECT o.a FROM (s.x o) WHERE o.a", "SELECT o.a FROM (v o) WHERE o.a"),
    ("SELECT x.a FROM ((s.x)) WHERE x.a", "SELECT x.a FROM ((v AS `x`)) WHERE x.a"),
    ("SELECT o.a FROM (s.x) o, LATERAL (SELECT 1)", "SELECT o.a FROM (v AS `x`) o, LATERAL (SELECT 1)"),
    ("SELECT * FROM (x o JOIN read_files('a') f ON o.a = f.a)", "SELECT * FROM (v o JOIN _f f ON o.a = f.a)"),
    ("SELECT u.b FROM (x UNPIVOT (v FOR k IN (a)) AS u)", "SELECT u.b FROM (v AS `x` UNPIVOT (v FOR k IN (a)) AS u)"),
    # Where no alias can be, or another word looks like one.
    (
        "SELECT x.a FROM x TABLESAMPLE (10 PERCENT) REPEATABLE (42) WHERE x.a",
        "SELECT x.a FROM v TABLESAMPLE (10 PERCENT) REPEATABLE (42) AS `x` WHERE x.a",
    ),
    (
        "SELECT * FROM x TABLESAMPLE (1 ROWS) REPEATABLE (42) o",
        "SELECT * FROM v TABLESAMPLE (1 ROWS) REPEATABLE (42) o",
    ),
    ("FROM s.x INSERT INTO t SELECT x.a", "FROM v AS `x` INSERT INTO t SELECT x.a"),
    ("FROM s.x INSERT OVERWRITE t SELECT s.x.a", "FROM v AS `x` INSERT OVERWRITE t SELECT `x`.a"),
    ("SELECT insert.a FROM s.x insert", "SELECT insert.a FROM v insert"),
    ("TABLE x", "SELECT * FROM v AS `x`"),
    ("TABLE s.x VERSION AS OF 1 ORDER BY s.x.a", "SELECT * FROM v  AS `x` ORDER BY `x`.a"),
    (
        "WITH c AS (TABLE x) TABLE s.x |> JOIN y ON x.a = y.a UNION TABLE c",
        "WITH c AS (SELECT * FROM v AS `x`) SELECT * FROM v AS `x` |> JOIN v AS `y` ON x.a = y.a UNION TABLE c",
    ),
    ("SELECT v.a, s.x.a FROM VALUES (1), (2) AS v(a), s.x", "SELECT v.a, `x`.a FROM VALUES (1), (2) AS v(a), v AS `x`"),
    ("SELECT a:s.x.b, s.x.a:x.b FROM s.x", "SELECT a:s.x.b, `x`.a:x.b FROM v AS `x`"),
    # Where the scope of a SELECT ends.
    ("SELECT s.x.* EXCEPT (values, a), s.x.b FROM s.x", "SELECT `x`.* EXCEPT (values, a), `x`.b FROM v AS `x`"),
    ("SELECT s.x.* EXCEPT (from, y), s.x.b FROM s.x", "SELECT `x`.* EXCEPT (from, y), `x`.b FROM v AS `x`"),
    (
        "FROM s.x |> SELECT * EXCEPT ALL SELECT s.x.a FROM s.x",
        "FROM v AS `x` |> SELECT * EXCEPT ALL SELECT `x`.a FROM v AS `x`",
    ),
    (
        "SELECT s.x.a FROM s.x UNION ALL SELECT b.x.a FROM b.x ORDER BY s.x.a, b.x.a",
        "SELECT `x`.a FROM v AS `x` UNION ALL SELECT `x`.a FROM v AS `x` ORDER BY `x`.a, b.x.a",
    ),
    ("SELECT * FROM STREAM read_files('a') WITH (SKIPCHANGECOMMITS) o", "SELECT * FROM STREAM _f  o"),
]


@pytest.mark.parametrize(("text", "expected"), ALIASES)
def test_a_table_under_another_name_keeps_its_own_as_alias(text, expected):
    found = rewritten(text, Replacements(lambda _: "v", lambda _: "_f", secret), params={})
    assert found.text == expected


@pytest.mark.parametrize("text", UNCHANGED)
def test_all_else_stays_as_it_is_written(text):
    assert change(text) == text


def test_only_the_named_places_change():
    before = "SELECT /* x */ x.`x`,\n\n  'x' AS x  -- x\nFROM   LIVE.x  x\nWHERE x.x='x'"
    assert change(before) == before.replace("LIVE.x", "`default`.`x`")


JSON = [
    (
        "SELECT a:from, a:where x, a.by:c, a:`b`, a:limit.d FROM outside.x",
        (
            "SELECT get_json_object(CAST(a AS STRING), '$.from') AS `from`, "
            "get_json_object(CAST(a AS STRING), '$.where') x, get_json_object(CAST(a.by AS STRING), '$.c') AS `c`, "
            "get_json_object(CAST(a AS STRING), '$[\\'b\\']') AS `b`, "
            "get_json_object(CAST(a AS STRING), '$.limit.d') AS `d` FROM outside.x"
        ),
    ),
    ("SELECT a:b FROM outside.x", "SELECT get_json_object(CAST(a AS STRING), '$.b') AS `b` FROM outside.x"),
    (
        "SELECT a:b.c[0].`d e`::string, 1 FROM outside.x",
        "SELECT get_json_object(CAST(a AS STRING), '$.b.c[0][\\'d e\\']')::string AS `d e`, 1 FROM outside.x",
    ),
    (
        "SELECT DISTINCT t.a:['x y']['z']::decimal(9) AS w FROM outside.x",
        "SELECT DISTINCT get_json_object(CAST(t.a AS STRING), '$[\\'x y\\'][\\'z\\']')::decimal(9) AS w FROM outside.x",
    ),
    (
        "SELECT 1, value::string:b FROM outside.x",
        "SELECT 1, get_json_object(CAST(value::string AS STRING), '$.b') AS `b` FROM outside.x",
    ),
    (
        "SELECT f(a:b, g(x)[0]:c:d) FROM outside.x WHERE (a.b):c > 1 GROUP BY a:b",
        (
            "SELECT f(get_json_object(CAST(a AS STRING), '$.b'), get_json_object(CAST(g(x)[0] AS STRING), '$.c.d')) "
            "FROM outside.x WHERE get_json_object(CAST((a.b) AS STRING), '$.c') > 1 "
            "GROUP BY get_json_object(CAST(a AS STRING), '$.b')"
        ),
    ),
    (
        "FROM outside.x |> SELECT *, v:a::struct<b: string> AS c, v:d |> WHERE v:e = :n",
        (
            "FROM outside.x |> SELECT *, get_json_object(CAST(v AS STRING), '$.a')::struct<b: string> AS c, "
            "get_json_object(CAST(v AS STRING), '$.d') AS `d` |> WHERE get_json_object(CAST(v AS STRING), '$.e') = '5'"
        ),
    ),
    (
        "SELECT explode(a:items[*].id) FROM (SELECT a:b FROM outside.x)",
        (
            "SELECT explode(get_json_object(CAST(a AS STRING), '$.items[*].id')) FROM "
            "(SELECT get_json_object(CAST(a AS STRING), '$.b') AS `b` FROM outside.x)"
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), JSON)
def test_paths_into_strings_of_json(text, expected):
    assert rewriting(text).with_json_in_strings().text == expected


def test_markers_stay_where_spark_is_given_their_values():
    text = "SELECT :p FROM x WHERE a = :unknown AND '${n}' = read_files(:p)"
    assert change(text, keep_markers=True) == text.replace("x", "`default`.`x`", 1).replace("${n}", "5")


MANY_LINES = """\
WITH x AS (SELECT '${root}' AS a
           FROM read_files('/a',
                           format => 'json')),
     y AS (SELECT v:b FROM LIVE.orders)
SELECT wrong, ${schema}, also_wrong FROM x"""


WORDS = [(each, each) for each in ("WITH", "SELECT '", "AS a", "),\n", "y AS", ")\n", "wrong", "also", " x")]


def line_and_column(text, word):
    before = text[: text.index(word)]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize("json", [False, True])
@pytest.mark.parametrize(("word", "now"), [*WORDS, ("v:b", None), ("FROM LIVE", "FROM `default`")])
def test_a_word_of_sparks_text_has_its_place_in_the_file(word, now, json):
    found = rewriting(MANY_LINES, at=SourceLine("a.sql", 10))
    found = found.with_json_in_strings() if json else found
    line, column = line_and_column(MANY_LINES, word)
    there = line_and_column(found.text, now or ("get_json_object" if json else "v:b"))
    assert there[0] == line
    assert found.place(there[0], there[1] - 1) == f"a.sql:{line + 9}:{column}"
