"""Items of pipeline files that are proved by a run: all of them are files of one pipeline, which is run once."""

# ruff: noqa: E501 - the texts of files are as long as they are

from __future__ import annotations

from tests.pipelines.compatibility_defined import Item, _dp, _sql

from rivermouth.domain.kinesis.options import TRIM_HORIZON, KinesisOptions

BASE = "/data/base"
ROWS = [
    {"id": 1, "name": "a", "amount": 1.5, "at": "2026-01-01T00:00:00Z", "tags": ["x", "y"], "doc": '{"n": {"m": "5"}}'},
    {"id": 2, "name": "b", "amount": -2.0, "at": "2026-01-01T00:01:00Z", "tags": [], "doc": "{}"},
    {"id": 2, "name": "c", "amount": 4.0, "at": "2026-01-01T00:01:30Z", "tags": ["z"], "doc": "{}"},
]
TOPICS = {"t": ['{"id": 1}', '{"id": 2}'], "avro": [b"\x02"]}
PARAMS = {"limit": "1", "greeting": "hello"}
ENVIRON = {"SCOPE_KEY": "hidden"}
IDS = [(1,), (2,), (2,)]
TENS = [(11,), (12,), (12,)]
"""Of a second reading in the same table, whose numbers are larger by ten."""
COLUMNS = "id int, name string, amount double, at timestamp, tags array<string>, doc string"
FIRST = Item(
    "A",
    "`spark.readStream...load()`",
    _dp(f'@dp.table\ndef base():\n    return spark.readStream.format("json").schema("{COLUMNS}").load("{BASE}")\n'),
    {"base": ("id", IDS)},
)
STREAM = 'spark.readStream.table("base")'
SMALL = "[[1, 10], [1, 12], [2, 20]]"

RUN: tuple[Item, ...] = (
    FIRST,
    Item("A", "`spark.readStream.table()`", _dp(f"@dp.table\ndef r1():\n    return {STREAM}\n"), {"r1": ("id", IDS)}),
    Item(
        "A",
        "`spark.read.table()`, `spark.table()`",
        _dp(
            "@dp.materialized_view\ndef r2():\n"
            '    return spark.read.table("base").select("id").unionAll(spark.table("base").selectExpr("id + 10"))\n'
        ),
        {"r2": ("id", [*IDS, *TENS])},
    ),
    Item(
        "A",
        "a batch query under `@dlt.table` is a materialized view",
        'import dlt\n@dlt.table\ndef r4():\n    return spark.read.table("base").groupBy("id").count()\n',
        {"r4": ("id, count", [(1, 1), (2, 2)])},
    ),
    Item(
        "A",
        'Auto Loader: `format("cloudFiles")`',
        _dp(
            "@dp.table\ndef r5():\n    return (spark.readStream.format('cloudFiles').option('cloudFiles.format', 'json')\n"
            f"        .option('cloudFiles.inferColumnTypes', 'true').load('{BASE}'))\n"
        ),
        {"r5": ("id", IDS)},
    ),
    Item(
        "A",
        "`dlt.read`, `dlt.read_stream`, `dlt.readStream`",
        'import dlt\n@dlt.table\ndef r6():\n    return dlt.read("base")\n@dlt.table\ndef r7():\n'
        '    more = dlt.readStream("base").selectExpr("id + 10 AS id")\n'
        '    return dlt.read_stream("base").select("id").unionAll(more)\n',
        {"r6": ("id", IDS), "r7": ("id", [*IDS, *TENS])},
    ),
    Item(
        "A",
        "`spark.conf.get(key[, default])` at module level",
        'GREETING = spark.conf.get("greeting")\nOTHER = spark.conf.get("not.there", "no")\nimport dlt\n'
        "from pyspark.sql import functions as F\n@dlt.table\ndef r9():\n"
        "    return spark.range(1).select(F.lit(GREETING).alias('a'), F.lit(OTHER).alias('b'))\n",
        {"r9": ("a, b", [("hello", "no")])},
    ),
    Item(
        "A",
        "`@view`, `@temporary_view`, with and without parentheses",
        f'import dlt\n@dlt.view\ndef v1():\n    return {STREAM}\n@dlt.view(name="v2", comment="c")\ndef _v():\n'
        f"    return {STREAM}\n"
        + _dp(f"@dp.temporary_view\ndef v3():\n    return {STREAM}\n")
        + "@dlt.table\ndef r10():\n    return dlt.read_stream('v1').union(dlt.read_stream('v2')).union(dlt.read_stream('v3'))\n",
        {"r10": ("id", sorted(IDS * 3))},
    ),
    _sql(
        "A",
        "`STREAM(x)`, `STREAM x`",
        "CREATE STREAMING TABLE r11 AS SELECT id FROM STREAM(base) UNION ALL SELECT id + 10 FROM STREAM base;",
        {"r11": ("id", [*IDS, *TENS])},
    ),
    Item(
        "A",
        "`from pyspark.sql.functions import *`, which hides `max`, `sum`, `filter`",
        "import dlt\nfrom pyspark.sql.functions import *\n@dlt.table\ndef r13():\n"
        '    return dlt.read("base").groupBy("id").agg(max("name").alias("n"), sum(expr("amount * 2")).alias("s"))\n',
        {"r13": ("id, n, s", [(1, "a", 3.0), (2, "c", 4.0)])},
    ),
    Item(
        "A",
        "`from_json`, `current_timestamp`, `F.expr`",
        _dp(
            "from pyspark.sql import functions as F\n@dp.table\ndef r14():\n"
            f"    return ({STREAM}.select('id', F.from_json('doc', 'n struct<m: string>').alias('d'),\n"
            "        F.current_timestamp().alias('now')).selectExpr('id', 'd.n.m', 'now IS NOT NULL AS set'))\n"
        ),
        {"r14": ("id, m, set", [(1, "5", True), (2, None, True), (2, None, True)])},
    ),
    Item(
        "B",
        "`append_flow`",
        _dp(
            'dp.create_streaming_table("r15")\n@dp.append_flow(target="r15")\ndef one():\n'
            f"    return {STREAM}.select('id')\n@dp.append_flow(target='r15', name='two')\ndef other():\n"
            f"    return {STREAM}.selectExpr('id + 10 AS id')\n"
        ),
        {"r15": ("id", [(1,), (2,), (2,), (11,), (12,), (12,)])},
    ),
    Item(
        "B",
        "datasets made in functions and loops",
        _dp(
            "def make(name, number):\n    @dp.table(name=name)\n    def made():\n"
            f"        return {STREAM}.where(f'id = {{number}}').select('id')\n"
            "for number in (1, 2):\n    make(f'made_{number}', number)\n"
        ),
        {"made_1": ("id", [(1,)]), "made_2": ("id", [(2,), (2,)])},
    ),
    _sql(
        "B",
        "`ON VIOLATION DROP ROW`",
        "CREATE STREAMING TABLE r16 (CONSTRAINT a EXPECT (amount > 0) ON VIOLATION DROP ROW) AS SELECT * FROM STREAM(base);",
        {"r16": ("id", [(1,), (2,)])},
    ),
    Item(
        "B",
        "`dbutils.secrets.get`",
        'import dlt\nfrom pyspark.sql.functions import lit\nKEY = dbutils.secrets.get(scope="scope", key="key")\n@dlt.table\n'
        "def r17():\n    return spark.range(1).select(lit(len(KEY)).alias('n'))\n",
        {"r17": ("n", [(6,)])},
        verdict="differs",
        note="a secret is an environment variable, `SCOPE_KEY`",
    ),
    Item(
        "B",
        "Kafka source, and `kafkashaded.` in JAAS",
        "import dlt\n@dlt.table\ndef r18():\n"
        "    return (spark.readStream.format('kafka').option('kafka.bootstrap.servers', 'b:9092').option('subscribe', 't')\n"
        "        .option('kafka.sasl.jaas.config', 'kafkashaded.org.apache.kafka.common.security.plain.PlainLoginModule "
        "required;')\n        .option('startingOffsets', 'earliest').option('failOnDataLoss', 'false').load()\n"
        "        .selectExpr('CAST(value AS STRING) AS value'))\n",
        {"r18": ("value", [('{"id": 1}',), ('{"id": 2}',)])},
    ),
    Item(
        "B",
        "the column `_metadata`",
        "import dlt\n@dlt.table\ndef r19():\n"
        f"    return (spark.readStream.format('json').schema('id int').load('{BASE}')\n"
        "        .selectExpr('id', '_metadata.file_size > 0 AS sized'))\n",
        {"r19": ("id, sized", [(1, True), (2, True), (2, True)])},
    ),
    Item(
        "B",
        "the column `_rescued_data`",
        "import dlt\n@dlt.table\ndef r20():\n    return (spark.readStream.format('cloudFiles').option('cloudFiles.format', "
        "'json')\n        .option('rescuedDataColumn', '_rescued_data').schema('id int, name int')\n"
        f"        .load('{BASE}').selectExpr('id', 'name', \"_rescued_data LIKE '%name%' AS rescued\"))\n",
        {"r20": ("id, name, rescued", [(1, None, True), (2, None, True), (2, None, True)])},
    ),
    _sql("B", "`LIVE.x`", "CREATE LIVE TABLE r21 AS SELECT id FROM LIVE.base;", {"r21": ("id", IDS)}),
    Item(
        "B",
        "`dropDuplicates`",
        _dp(f"@dp.table\ndef r22():\n    return {STREAM}.dropDuplicates(['id']).select('id')\n"),
        {"r22": ("id", [(1,), (2,)])},
    ),
    _sql(
        "B",
        "named arguments `=>`, `read_files()`",
        f"CREATE STREAMING TABLE r23 AS SELECT id FROM STREAM read_files('{BASE}', FORMAT => 'json');\n"
        f"CREATE MATERIALIZED VIEW r24 AS SELECT id FROM read_files('{BASE}', format => 'json', schema => 'id int');",
        {"r23": ("id", IDS), "r24": ("id", IDS)},
    ),
    _sql(
        "B",
        "`read_files()` without a format: the suffixes of the files say it",
        f"CREATE STREAMING TABLE r23a AS SELECT id FROM STREAM read_files('{BASE}');\n"
        f"CREATE MATERIALIZED VIEW r24a AS SELECT id FROM read_files('{BASE}', useNotifications => true);",
        {"r23a": ("id", IDS), "r24a": ("id", IDS)},
    ),
    _sql(
        "B",
        "CTEs",
        "CREATE MATERIALIZED VIEW r25 AS WITH x AS (SELECT id FROM base) SELECT count(*) AS n FROM x;",
        {"r25": ("n", [(3,)])},
    ),
    _sql(
        "B",
        "`SELECT * EXCEPT (...)`",
        "CREATE STREAMING TABLE r26 AS SELECT * EXCEPT (name, amount, at, tags, doc) FROM STREAM(base);",
        {"r26": ("*", IDS)},
    ),
    _sql(
        "B",
        "`UNION`",
        "CREATE MATERIALIZED VIEW r27 AS SELECT id FROM base UNION SELECT 9;",
        {"r27": ("id", [(1,), (2,), (9,)])},
    ),
    Item(
        "C",
        "`withWatermark`",
        _dp(f"@dp.table\ndef r28():\n    return {STREAM}.withWatermark('at', '1 minute').select('id')\n"),
        {"r28": ("id", IDS)},
    ),
    _sql(
        "C",
        "`${param}`",
        "CREATE STREAMING TABLE r29 AS SELECT id FROM STREAM(base) WHERE id <= ${limit};",
        {"r29": ("id", [(1,)])},
    ),
    _sql(
        "C",
        "names with dots: `schema.t`, `catalog.schema.t`",
        "CREATE STREAMING TABLE other.r30 AS SELECT id FROM STREAM(main.items.base);\n"
        "CREATE MATERIALIZED VIEW r31 AS SELECT id FROM main.other.r30;",
        {"other.r30": ("id", IDS), "r31": ("id", IDS)},
    ),
    Item(
        "C",
        '`spark.sql("USE CATALOG ...")`, `spark.sql("USE SCHEMA ...")` in Python',
        _dp(
            'spark.sql("USE CATALOG main")\nspark.sql("USE SCHEMA used;")\n'
            '@dp.materialized_view\ndef r32a():\n    return spark.sql("SELECT count(*) AS n FROM LIVE.base")\n'
            '@dp.materialized_view\ndef r32b():\n    return spark.read.table("r32a")\n'
            'dp.create_streaming_table("r32c")\n@dp.append_flow(target="r32c")\n'
            'def f32():\n    return spark.readStream.table("LIVE.base").select("id")\n'
        ),
        {"used.r32b": ("n", [(3,)]), "used.r32c": ("id", IDS)},
    ),
    Item(
        "D",
        "`spark.catalog.setCurrentCatalog()`, `spark.catalog.setCurrentDatabase()`",
        _dp(
            "old = spark.catalog.currentDatabase()\n"
            'spark.catalog.setCurrentCatalog("main")\nspark.catalog.setCurrentDatabase("current")\n'
            '@dp.materialized_view\ndef r32d():\n    return spark.sql("SELECT count(*) AS n FROM LIVE.base")\n'
            "spark.catalog.setCurrentDatabase(old)\n"
            '@dp.materialized_view\ndef r32e():\n    return spark.table("current.r32d")\n'
        ),
        {"current.r32d": ("n", [(3,)]), "r32e": ("n", [(3,)])},
    ),
    Item(
        "C",
        "`spark.sql()`",
        _dp('@dp.materialized_view\ndef r32():\n    return spark.sql("SELECT count(*) AS n FROM LIVE.base")\n'),
        {"r32": ("n", [(3,)])},
    ),
    _sql(
        "C",
        "`cloud_files()`",
        f"CREATE STREAMING LIVE TABLE r33 AS SELECT id FROM cloud_files('{BASE}', 'json', map('schema', 'id int'));",
        {"r33": ("id", IDS)},
    ),
    _sql(
        "C",
        "`LATERAL VIEW`, `explode`",
        "CREATE STREAMING TABLE r34 AS SELECT id, tag FROM STREAM(base) LATERAL VIEW explode(tags) t AS tag;",
        {"r34": ("id, tag", [(1, "x"), (1, "y"), (2, "z")])},
    ),
    _sql(
        "C",
        "`col:path`",
        "CREATE STREAMING TABLE r35 AS SELECT id, doc:n.m AS m FROM STREAM(base);",
        {"r35": ("id, m", [(1, "5"), (2, None), (2, None)])},
    ),
    _sql(
        "C",
        "casts with `::`",
        "CREATE STREAMING TABLE r36 AS SELECT id::string AS id FROM STREAM(base);",
        {"r36": ("id", [("1",), ("2",), ("2",)])},
    ),
    Item(
        "C",
        "`spark.conf.set`",
        'spark.conf.set("my.own", "7")\nimport dlt\nfrom pyspark.sql.functions import lit\n@dlt.table\ndef r37():\n'
        "    return spark.range(1).select(lit(spark.conf.get('my.own')).alias('n'))\n",
        {"r37": ("n", [("7",)])},
    ),
    Item(
        "C",
        "`collect()` in a definition",
        _dp(
            "@dp.table\ndef r38():\n    known = [row.n for row in spark.range(1).selectExpr('id + 1 AS n').collect()]\n"
            f"    return {STREAM}.where({STREAM}.id.isin(known)).select('id')\n"
        ).replace(f"{STREAM}.where({STREAM}.id.isin(known))", f"{STREAM}.where(f'id IN ({{known[0]}})')"),
        {"r38": ("id", [(1,)])},
    ),
    Item(
        "C",
        "`SET key = value`",
        "SET wanted = 1;\nCREATE STREAMING TABLE r39 AS SELECT id FROM STREAM(base) WHERE id = ${wanted};",
        {"r39": ("id", [(1,)])},
        suffix=".sql",
    ),
    Item(
        "C",
        "`window()`",
        _dp(
            "from pyspark.sql.functions import window\n@dp.materialized_view\ndef r40():\n"
            "    return spark.read.table('base').groupBy(window('at', '1 minute')).count().select('count')\n"
        ),
        {"r40": ("count", [(1,), (2,)])},
    ),
    _sql(
        "C",
        "`IDENTIFIER()`",
        "CREATE STREAMING TABLE r41 AS SELECT id FROM STREAM(IDENTIFIER('ba' || 'se'));",
        {"r41": ("id", IDS)},
    ),
    Item(
        "C",
        "`from_avro`",
        _dp(
            "from pyspark.sql.avro.functions import from_avro\n@dp.table\ndef r42():\n"
            "    return (spark.readStream.format('kafka').option('kafka.bootstrap.servers', 'b:9092')\n"
            "        .option('subscribe', 'avro').load().select(from_avro('value', '\"int\"').alias('n')))\n"
        ),
        {"r42": ("n", [(1,)])},
    ),
    Item(
        "C",
        "`createOrReplaceTempView`",
        _dp(
            "@dp.materialized_view\ndef r43():\n    spark.range(2).createOrReplaceTempView('mine')\n"
            "    return spark.sql('SELECT count(*) AS n FROM mine')\n"
        ),
        {"r43": ("n", [(2,)])},
    ),
    Item(
        "C",
        "`spark.udf.register`",
        "import dlt\nspark.udf.register('twice', lambda x: x * 2, 'int')\n@dlt.table\ndef r44():\n"
        "    return dlt.read('base').selectExpr('twice(id) AS n')\n",
        {"r44": ("n", [(2,), (4,), (4,)])},
    ),
    Item(
        "A",
        "modules of the pipeline's folder, also in user-defined functions",
        "import sys, pathlib, dlt\nfrom pyspark.sql.functions import expr, udf\nfrom helpers56 import plus\nimport helpers56\n"
        "sys.path.append(str(pathlib.Path(__file__).parents[1] / 'more56'))\nfrom far56 import least\n"
        "from udfs56 import twice, Plus\nfrom dataclasses import dataclass\n@dataclass\nclass Step:\n    by: int\n"
        "def three(x, step=Step(3)):\n    return Step(x + step.by).by\nspark.udf.register('plus56', lambda x: helpers56.plus(x), 'bigint')\n"
        "@dlt.table\ndef r56():\n"
        "    return spark.range(1).select(udf(plus, 'bigint')('id').alias('a'), expr('plus56(id)').alias('b'),\n"
        "        udf(least, 'bigint')('id').alias('c'), twice('id').alias('d'), udf(Plus(), 'bigint')('id').alias('e'),\n"
        "        udf(three, 'bigint')('id').alias('f'))\n",
        {"r56": ("a, b, c, d, e, f", [(1, 1, -1, 2, 2, 3)])},
        files={
            # It defines datasets too; what it needs is imported when it is called, and one has the name of Python's own.
            "helpers56.py": "import dlt\n\ndef plus(x):\n    from deep56.one import ONE\n    return x + ONE\n\n"
            "def make():\n    @dlt.table(name='never')\n    def rows():\n        return None\n",
            "deep56/__init__.py": "",
            "deep56/one.py": "ONE = 1\n",
            "calendar.py": "raise ValueError('not this one')\n",
            # Without a session this module cannot be imported.
            "udfs56.py": "from pyspark.sql.functions import udf\nimport helpers56\n\ndef both(x):\n"
            "    return helpers56.plus(x) * 2\n\n@udf('bigint')\ndef twice(x):\n    return both(x)\n\n"
            "class Plus:\n    def __call__(self, x):\n        return both(x)\n",
            "more56/far56.py": "def least(x):\n    return x - 1\n",
        },
    ),
    Item(
        "C",
        "`dbutils.fs.ls`",
        "import dlt\nfrom pyspark.sql.functions import lit\nNAMES = [each.name for each in dbutils.fs.ls('listed')]\n@dlt.table\n"
        "def r45():\n    return spark.range(1).select(lit(','.join(NAMES)).alias('n'))\n",
        {"r45": ("n", [("one.txt",)])},
        files={"listed/one.txt": "1"},
    ),
    Item(
        "C",
        "names of notebooks without an import: `sql`, `table`, `udf`, `getArgument`, `dbutils.widgets`, `df.display()`",
        "import dlt\nplus = udf(lambda x: x + 1, 'bigint')\nsql('SELECT 1').display()\n"
        "dbutils.fs.cp('listed/one.txt', 'listed/copy/two.txt')\ndbutils.fs.mv('listed/copy', 'moved', recurse=True)\n"
        "NAMES = [each.name for each in dbutils.fs.ls('moved')]\n@dlt.table\n"
        "def r58():\n    return sql('SELECT 1 AS n').select(plus('n').alias('n'))\n"
        "@dlt.table\ndef r59():\n    return table('r58').selectExpr(f\"'{NAMES[0]}' AS name\", 'n')\n"
        "dbutils.widgets.text('day', 'monday')\ndbutils.widgets.dropdown('greeting', 'bye', ['bye'])\n"
        "DAY = getArgument('day', 'sunday') + getArgument('night', 'no') + ''.join(dbutils.widgets.getAll().values())\n"
        "@dlt.table\ndef r62():\n    return spark.range(1).selectExpr(f\"'{DAY}' AS day\")\n",
        {"r58": ("n", [(2,)]), "r59": ("name, n", [("two.txt", 2)]), "r62": ("day", [("mondaynomondayhello",)])},
        files={"listed/one.txt": "1"},
    ),
    Item(
        "C",
        "writes inside of a definition",
        "import dlt\nimport pathlib\nFOLDER = str(pathlib.Path(__file__).parent.parent / 'written')\n"
        "@dlt.table\ndef r46():\n    spark.range(2).write.mode('overwrite').parquet(FOLDER)\n"
        "    return spark.read.parquet(FOLDER).selectExpr('count(*) AS n')\n",
        {"r46": ("n", [(2,)])},
        verdict="differs",
        note="a relative path of a write is below the folder of the command, that of a read below the pipeline's",
    ),
    _sql(
        "C",
        "``parquet.`path` ``, ``json.`path` ``",
        "CREATE MATERIALIZED VIEW r47 AS SELECT a FROM json.`given`;",
        {"r47": ("a", [(1,)])},
        files={"given/one.json": '{"a": 1}\n'},
    ),
    _sql(
        "D",
        "`WATERMARK ... DELAY OF`",
        "CREATE STREAMING TABLE r48 AS SELECT id FROM STREAM(base) WATERMARK at DELAY OF INTERVAL 1 MINUTE;",
        {"r48": ("id", IDS)},
    ),
    _sql(
        "D",
        "`read_kafka()`, `secret()`",
        "CREATE STREAMING TABLE r49 AS SELECT CAST(value AS STRING) AS value FROM STREAM read_kafka(\n"
        "  bootstrapServers => 'b:9092', subscribe => 't', `kafka.ssl.key.password` => secret('scope', 'key'));",
        {"r49": ("value", [('{"id": 1}',), ('{"id": 2}',)])},
    ),
    _sql(
        "D",
        "`event_log()`",
        "CREATE MATERIALIZED VIEW r53 AS SELECT count(*) AS n FROM event_log('items');\n"
        "CREATE MATERIALIZED VIEW r54 AS SELECT max(event_type) AS t, count(details) AS n FROM event_log(TABLE(base));",
        {"r53": ("n", [(0,)]), "r54": ("t, n", [(None, 0)])},
        note="of a pipeline by its name, or of a dataset of this pipeline; no stream, and the update at work is not in it",
    ),
    _sql(
        "D",
        "`PIVOT`",
        "CREATE MATERIALIZED VIEW r50 AS SELECT * FROM (SELECT id, name FROM base) PIVOT (count(*) FOR name IN ('a', 'b'));",
        {"r50": ("id, a, b", [(1, 1, None), (2, None, 1)])},
    ),
    _sql(
        "D",
        "`:param`",
        "CREATE STREAMING TABLE r51 AS SELECT id FROM STREAM(base) WHERE id = :limit;",
        {"r51": ("id", [(1,)])},
    ),
    Item(
        "D",
        "`rivermouth.pipelines.decode`",
        _dp(
            "from rivermouth.pipelines import decode\n@dp.table\ndef r55():\n"
            "    stream = spark.readStream.format('kafka').option('subscribe', 't').load()\n"
            "    return decode(stream, format={'type': 'json', 'schema': 'id int'})\n"
        ),
        {"r55": ("id, kafka_topic, kafka_offset", [(1, "t", 0), (2, "t", 1)])},
        note="not of Databricks: the formats of flows, with dead letters",
    ),
    Item(
        "D",
        '`%run` of another notebook: its names, its datasets, and values of its widgets (`$name="value"`)',
        '# Databricks notebook source\n# MAGIC %run ../setup/shared $given="7"\n# COMMAND ----------\nimport dlt\n@dlt.table\n'
        "def r64():\n    return spark.range(1).selectExpr(f'{GIVEN} AS n')\n",
        {"r64": ("n", [(7,)]), "r65": ("n", [(8,)])},
        files={
            "setup/shared.py": "# Databricks notebook source\nimport dlt\n"
            "dbutils.widgets.text('given', '6')\nGIVEN = int(dbutils.widgets.get('given'))\n@dlt.table\n"
            "def r65():\n    return spark.range(1).selectExpr(f'{GIVEN + 1} AS n')\n"
        },
    ),
    Item(
        "D",
        "`rate-micro-batch`",
        _dp(
            "@dp.table\ndef r66():\n"
            "    return spark.readStream.format('rate-micro-batch').option('rowsPerBatch', 2).load().select('value')\n"
        ),
        {"r66": ("value", [(0,), (1,)])},
    ),
    Item(
        "D",
        "`mapInPandas`",
        _dp(
            f"@dp.table\ndef r52():\n    return {STREAM}.select('id').mapInPandas(lambda several: several, 'id int')\n"
        ),
        {"r52": ("id", IDS)},
    ),
    Item(
        "D",
        "`applyInPandasWithState`",
        _dp(
            "import pandas as pd\ndef counted(key, frames, state):\n"
            "    n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)\n    state.update((n,))\n"
            "    yield pd.DataFrame({'id': [key[0]], 'n': [n]})\n@dp.table\ndef r60():\n"
            f"    groups = {STREAM}.groupBy('id')\n"
            "    return groups.applyInPandasWithState(counted, 'id int, n long', 'n long', 'append', 'NoTimeout')\n"
        ),
        {"r60": ("id, n", [(1, 1), (2, 2)])},
        note="a query with state needs its own checkpoint",
    ),
    Item(
        "D",
        "`transformWithState`",
        _dp(
            "from pyspark.sql import Row\nfrom pyspark.sql.streaming import StatefulProcessor\n"
            "class Counted(StatefulProcessor):\n    def init(self, handle):\n"
            "        self.n = handle.getValueState('n', 'n long')\n"
            "    def handleInputRows(self, key, rows, timers):\n"
            "        n = len(list(rows)) + (self.n.get()[0] if self.n.exists() else 0)\n        self.n.update((n,))\n"
            "        yield Row(id=key[0], n=n)\n    def close(self):\n        pass\n@dp.table\ndef r61():\n"
            f"    groups = {STREAM}.groupBy('id')\n"
            "    return groups.transformWithState(Counted(), 'id int, n long', 'Append', 'None')\n"
        ),
        {"r61": ("id, n", [(1, 1), (2, 2)])},
        note="a query with state needs its own checkpoint",
    ),
)

FUNCTIONS: tuple[Item, ...] = tuple(
    _sql(
        "D",
        f"`{name}()`",
        f"CREATE STREAMING TABLE t AS SELECT * FROM STREAM {name}(streamName => 'x');",
        f"[SQL_FUNCTION_REFUSED] the table function {name} is not supported; the pipeline was not run\n",
        verdict="refused",
        note="Spark has no such source",
    )
    for name in ("read_pulsar", "read_pubsub")
)

KINESIS: tuple[Item, ...] = (
    _sql(
        "D",
        '`read_kinesis()`, `format("kinesis")`',
        "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_kinesis(streamName => 'x, y', region => 'eu-central-1', "
        "initialPosition => 'earliest', maxRecordsPerFetch => 100, awsAccessKey => secret('a', 'k'), "
        "awsSecretKey => secret('a', 's'));",
        KinesisOptions(
            ("x", "y"),
            "eu-central-1",
            begin=TRIM_HORIZON,
            max_records_per_fetch=100,
            keys={"awsAccessKey": "a/k", "awsSecretKey": "a/s"},
        ),
        verdict="differs",
        note="options of prefetching, of enhanced fan-out and service credentials are refused by name",
    ),
)
