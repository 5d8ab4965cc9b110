"""Queries as Spark understands them: only what must be is replaced."""

from __future__ import annotations

import pytest

from rivermouth.pipelines.sql.rewrite import rewritten

PARAMS = {"p": "it's", "n": "5", "schema": "silver", "root": "/landing", "spark.x": "y", "kafka.servers": "a:1"}


def table(reference):
    parts = [part for part in reference.parts if part.upper() != "LIVE"]
    return None if parts[0] == "outside" or len(parts) > 1 else f"`default`.`{parts[0]}`"


def function(call):
    options = ",".join(f"{name}={value}" for name, value in call.options(secret).items())
    return f"_{call.name}[{','.join(call.positional(secret))};{options}]"


def secret(scope, key):
    return f"{scope}-{key}"


def change(text, **more):
    return rewritten(text, table=table, function=function, params=PARAMS, secret=secret, **more)


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
    "SELECT a:b.c::string, a:b[0]:c, f(a):['x y'], a:`b c`, (a.b):c, {'a': 1} FROM outside.x",
    "SELECT 'FROM x; -- y', \"it's FROM x\", `FROM x`, r'\\', 'it''s', '\\'' /* FROM x */ -- x\r\n\t,1 FROM outside.x",
    "SELECT * EXCEPT (a, b), t.* EXCEPT (c) FROM outside.t WHERE x <=> y AND z <> 1 AND w != 2",
    "SELECT map('a', 1), named_struct('x', :), x -> x FROM outside.t",
    "MERGE INTO outside.t USING outside.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "SELECT ünï, '日本 ${'  FROM outside.ü",
    "",
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_all_else_stays_as_it_is_written(text):
    assert change(text) == text


def test_only_the_named_places_change():
    before = "SELECT /* x */ x.`x`,\n\n  'x' AS x  -- x\nFROM   LIVE.x  x\nWHERE x.x='x'"
    assert change(before) == before.replace("LIVE.x", "`default`.`x`")


JSON = [
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
    assert change(text, json_in_strings=True) == expected
