"""``rivermouth convert``: queries of a pipeline as flows, or why they are none; nothing of this needs Spark."""

import itertools

import pytest
import yaml

from rivermouth.pipelines.convert.conversions import to_flows
from rivermouth.pipelines.convert.drafts import Pipeline
from rivermouth.pipelines.names import Names
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.python.user_modules import importing
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.definitions.sql_session import SqlSession

HEAD = """\
import functools
from pyspark import pipelines as dp
from pyspark.sql import functions as F, types as T
from rivermouth.pipelines import decode

META, TOPICS, VERSION = ("topic", "partition"), ["a", "b"], 7

def topic(name):
    return spark.readStream.format("kafka").option("subscribe", name).option("startingOffsets", "earliest").load()

def rows(schema="id bigint, amount double, status string, nick string, qty int"):
    read = topic("t").select(F.from_json(F.col("value").cast("string"), schema).alias("r"), "partition", "offset")
    return read.select("r.*", "partition", "offset")

"""
LINE = HEAD.count("\n")
_numbers = itertools.count()


def of_python(folder, text, **params):
    """The flows of a Python file."""
    file, registry = folder / f"queries_{next(_numbers)}.py", Registry(folder)
    file.write_text(HEAD + text)
    with importable({}), importing(folder, [file]):
        definitions = Evaluation(folder, {"spark": None}, params, registry).evaluate([file])
        return to_flows(Pipeline(definitions, Names("default"), params), "shop", "./lake")


def of_sql(text, **params):
    """The flows of a SQL file."""
    found = read_sql(text, SourceLine("shop.sql", 1), session=SqlSession(dict(params)))
    return to_flows(Pipeline(found, Names("default"), params), "shop", "./lake")


def of_query(folder, query):
    """The flow of one query, or why it is none: of SQL where it begins so, else of Python."""
    if query.startswith("SELECT"):
        found = of_sql(f"CREATE STREAMING TABLE made AS {query}")
    else:
        found = of_python(folder, f"@dp.table\ndef made():\n    return {query}\n")
    if found.no_flows:
        [why] = found.no_flows
        assert ":" in why.at
        return why.reason
    return yaml.safe_load(found.text)["flows"]["made"]


def conditions(flow):
    """The conditions of a flow's expectations."""
    return [each["condition"] for each in flow.get("expectations", ())]


# Columns of PySpark

WHERE = {
    """F.expr("status = 'a' OR status = 'b'") & (F.col("amount") > 0)""": "((status = 'a' OR status = 'b') AND "
    "(amount > 0))",
    """~F.expr("id = 1 OR id = 2") | F.expr("qty > 1")""": "((NOT (id = 1 OR id = 2)) OR (qty > 1))",
    """F.expr("id = 1 OR id = 2 -- either").isNull()""": "(id = 1 OR id = 2) IS NULL",
    """F.col("status").isNull() == F.col("nick").isNull()""": "((status IS NULL) = (nick IS NULL))",
    """~F.col("status").isNull() == F.lit(True)""": "((NOT (status IS NULL)) = true)",
    """F.expr("id") > F.col("qty")""": "(id > qty)",
    """F.col("amount") > 0.5""": "(amount > 0.5D)",
}


@pytest.mark.parametrize("condition", WHERE)
def test_the_operands_of_a_condition_stay_whole(tmp_path, condition):
    assert conditions(of_query(tmp_path, f"rows().where({condition})")) == [WHERE[condition]]


SELECTED = {
    'F.expr("amount + qty") * 2': "((amount + qty) * 2)",
    "F.expr(\"named_struct('a', id) AS s\").a": "(named_struct('a', id)).a",
    'F.expr("coalesce(array(1), array(2))")[0]': "(coalesce(array(1), array(2)))[0]",
    'F.nvl("status", "nick")': "nvl(status, nick)",
    'F.coalesce(F.col("status"), F.lit("nick"))': "coalesce(status, 'nick')",
    'F.concat_ws(",", "status", F.col("nick"))': "concat_ws(',', status, nick)",
    'F.lpad("status", 5, "0")': "lpad(status, 5, '0')",
    'F.date_format("status", "yyyy")': "date_format(status, 'yyyy')",
    'F.date_trunc("day", "status")': "date_trunc('day', status)",
    'F.array_contains(F.split("status", ","), "x")': "array_contains(split(status, ','), 'x')",
    'F.trim("status", F.lit("x"))': "trim('x', status)",
    'F.create_map(F.lit("a"), "status")': "map('a', status)",
    'F.col("qty") * 0.5': "(qty * 0.5D)",
    "F.lit(1e300)": "1e+300D",
    'F.pow("qty", 2)': "pow(qty, 2)",
    'F.col("status").cast("struct<aB:int>")': "CAST(status AS struct<aB:int>)",
    'F.col("status").cast(T.StructType([T.StructField("a b", T.LongType())]))': "CAST(status AS struct<`a b`: bigint>)",
}


@pytest.mark.parametrize("written", SELECTED)
def test_a_column_of_pyspark_is_the_sql_that_means_the_same(tmp_path, written):
    assert of_query(tmp_path, f'rows().select(({written}).alias("x"))')["select"] == [f"{SELECTED[written]} AS x"]


UNREAD = {
    'F.lit(float("inf"))': "a value that is no finite number is not read as SQL",
    "F.upper(None)": "upper() with None is not read: write it with expr()",
    'F.from_csv("status", "a int", {"sep": ";"})': "a value of type dict is not read as SQL",
    'F.upper("status", "nick")': "a value of its function cannot be computed: TypeError",
    'F.transform("status", "nick")': "transform() takes no text there: write it with expr()",
    'F.timestamp_diff("DAY", "status", "nick")': "timestamp_diff() is not read: write it with expr()",
    'up("status")': "up() is not read",
    "rows().columns": ".columns is not read",
    'F.col("id").alias("y", metadata={"comment": "z"})': ".alias() is not read",
}


@pytest.mark.parametrize("written", UNREAD)
def test_a_column_that_may_mean_something_else_is_no_part_of_a_flow(tmp_path, written):
    text = "@F.udf(T.StringType())\ndef up(s):\n    return s\n\n@dp.table\ndef made():\n"
    [why] = of_python(tmp_path, f"{text}    return rows().select({written})\n").no_flows
    assert (why.reason, why.at.rpartition(":")[2]) == (UNREAD[written], f"{LINE + 7}")


# Values of Python

TOPICS = {
    '",".join([*TOPICS, "extra"])': ["a", "b", "extra"],
    'f"orders_v{VERSION:02d}"': ["orders_v07"],
    'f"t{VERSION!r:_>3}{VERSION:0{VERSION}d}"': ["t__70000007"],
    "f\"t{'x'!r:>4}\"": ["t 'x'"],
    'f"{(1, 2)}"': ["(1", "2)"],
    '"%s_%02d" % ("t", VERSION)': ["t_07"],
    "TOPICS[5]": "a value of its function cannot be computed: IndexError",
    'f"{VERSION:zz}"': "a value of its function cannot be computed: ValueError",
    "TOPICS if VERSION else TOPICS": "its function has an expression that is not read: IfExp",
}


@pytest.mark.parametrize("written", TOPICS)
def test_a_text_that_python_computes_is_the_same_in_a_flow(tmp_path, written):
    found = of_query(tmp_path, f"topic({written})")
    assert (found if isinstance(found, str) else found["topics"]) == TOPICS[written]


def test_a_list_has_all_its_elements(tmp_path):
    found = of_query(tmp_path, 'rows().select([*["id", "qty"], META[1], *("offset",)])')
    assert found["select"] == ["id", "qty"]
    assert found["metadata_columns"] == {
        "kafka_topic": "kafka_topic",
        "kafka_partition": "partition",
        "kafka_offset": "offset",
    }


WRAPPED = """\
def paid(function):
    @functools.wraps(function)
    def wrapped(*arguments, **named):
        return function(*arguments, **named).where("status = 'paid'")
    return wrapped

@dp.table
@paid
def made():
    return rows()

@dp.table
def loaded():
    return spark.readStream.format("kafka").load(subscribe="x", startingOffsets="earliest", includeHeaders=True)

@dp.table
def since():
    return spark.readStream.option("startingVersion", "3").table("made")

@dp.table
def passed():
    return spark.readStream.option("skipChangeCommits", True).table("made")
"""


def test_what_a_decorator_and_a_reader_are_told_is_not_lost(tmp_path):
    found = of_python(tmp_path, WRAPPED)
    flows = yaml.safe_load(found.text)["flows"]
    assert [*flows] == ["made", "loaded", "passed"]
    assert conditions(flows["made"]) == conditions(flows["passed"]) == ["status = 'paid'"]
    assert flows["loaded"]["topics"] == ["x"]
    assert flows["loaded"]["metadata_columns"]["kafka_headers"] == "headers"
    assert [each.reason for each in found.no_flows] == ["it reads made with options: startingVersion"]


# Conditions, which a flow judges behind its select

RECORD = "(SELECT from_json(CAST(value AS STRING), 'id bigint, amount double, status string, timestamp string, c \
struct<name: string>, items array<string>') AS r, timestamp AS ts, value AS raw FROM STREAM \
read_kafka(subscribe => 't')) AS o"
GONE = "its WHERE is over a column that its SELECT changes or leaves out"
CONDITIONS = {
    "SELECT r.id, r.amount / 100 AS amount FROM {} WHERE r.amount > 50": GONE,
    "SELECT r.id FROM {} WHERE r.status = 'paid'": GONE,
    "SELECT r.id FROM {} WHERE ts > TIMESTAMP '2026-01-01'": GONE,
    "SELECT r.id, explode(r.items) AS items FROM {} WHERE size(r.items) > 1 AND raw IS NOT NULL": GONE,
    "SELECT * EXCEPT (status) FROM (SELECT r.*, ts FROM {}) WHERE status = 'paid'": GONE,
    "SELECT r.*, ts FROM {} WHERE o.r.amount > 50 AND o.ts > TIMESTAMP '2026-01-01'": "amount > 50 AND ts > TIMESTAMP "
    "'2026-01-01'",
    "SELECT r.id AS order_id, R.c.name AS who, ts AS at FROM {} WHERE r.id > 5 AND r.c.name <> 'x' AND ts > now()": (
        "order_id > 5 AND who <> 'x' AND at > now()"
    ),
    "SELECT id AS n, c, CAST(ts AS DATE) AS ts2, ts AS at FROM (SELECT r.*, ts FROM {}) WHERE id > 1 AND c.name = ''": (
        "n > 1 AND c.name = ''"
    ),
    'rows().where("amount > 50").withColumn("amount", F.col("amount") / 100)': GONE,
    """rows().filter("status = 'paid'").drop("status")""": GONE,
    'rows().withColumn("amount", F.col("amount") / 100).where("amount > 50")': "amount > 50",
    'rows().where("amount > 50 -- much").where("id > 1").withColumn("x", F.lit(1))': "(amount > 50) AND (id > 1)",
}


@pytest.mark.parametrize("query", CONDITIONS)
def test_a_where_is_over_the_columns_that_the_flow_has(tmp_path, query):
    found = of_query(tmp_path, query.format(RECORD) if query.startswith("SELECT") else query)
    assert (found if isinstance(found, str) else conditions(found)[0]) == CONDITIONS[query]


COLUMNS = {
    'rows().withColumn("amount", F.col("amount") * 2)': ["* EXCEPT (amount)", "(amount * 2) AS amount"],
    'rows().withColumns({"AMOUNT": F.col("qty"), "x": F.lit(1)})': ["* EXCEPT (amount)", "qty AS AMOUNT", "1 AS x"],
    'rows().withColumn("offset", F.col("offset") + 1)': "a column is computed of offset, which it leaves out: "
    "(offset + 1)",
    "SELECT r.id, date(ts) AS day, ts AS timestamp FROM {}": ["id", "date(timestamp) AS day"],
    "SELECT r.id, date(ts) AS day FROM {}": "a column is computed of ts, which it leaves out: date(ts)",
    "SELECT * EXCEPT (ts) FROM (SELECT r.id, date(ts) AS day, ts FROM {})": "a column is computed of ts, which it "
    "leaves out",
    "SELECT r.*, raw FROM {}": "it has the value next to the columns of the document, and a flow's table has not",
    "SELECT r.id, r.c.* FROM {}": "a column has no name: r.c.*",
    "SELECT id, c.* FROM (SELECT r.* FROM {})": "a column has no name: c.*",
    "SELECT * EXCEPT (c.name) FROM (SELECT r.* FROM {})": "a column has no name: * EXCEPT (c.name)",
}


@pytest.mark.parametrize("query", COLUMNS)
def test_a_flow_has_the_columns_of_its_query(tmp_path, query):
    found = of_query(tmp_path, query.format(RECORD) if query.startswith("SELECT") else query)
    assert (found if isinstance(found, str) else found["select"]) == COLUMNS[query]


PARTS = """\
@dp.table(partition_cols=["day"])
def renamed():
    read = topic("t").select(F.from_json(F.col("value").cast("string"), "id int").alias("r"), "timestamp")
    return read.select("r.*", "timestamp").withColumn("day", F.to_date("timestamp")).select(
        "id", F.col("timestamp").alias("at"), "day")

@dp.table(partition_cols=["day"])
def gone():
    read = topic("t").select(F.from_json(F.col("value").cast("string"), "id int").alias("r"), "timestamp")
    return read.select("r.*", "timestamp").withColumn("day", F.to_date("timestamp")).drop("timestamp")

@dp.table(partition_cols=["day"])
def decoded():
    return decode(topic("t"), "text").withColumn("day", F.to_date("kafka_timestamp"))

@dp.table(partition_cols=["day"])
def twice():
    return decode(topic("t"), "text").withColumn("day", F.to_date("kafka_timestamp")).withColumn("x", F.col("value"))
"""


def test_a_partition_is_computed_of_columns_that_the_flow_has(tmp_path):
    found = of_python(tmp_path, PARTS)
    flows = yaml.safe_load(found.text)["flows"]
    assert {name: each["table"]["partition_by"] for name, each in flows.items()} == {
        "renamed": [{"day": "to_date(at)"}],
        "decoded": [{"day": "to_date(kafka_timestamp)"}],
    }
    assert {each.dataset: each.reason for each in found.no_flows} == {
        "gone": "a partition or key is computed of a column that its SELECT changes or leaves out",
        "twice": "it computes x of decoded rows: use the setting select of decode()",
    }


HELD = """\
@dp.table
@dp.expect("counted", "qty > 0")
@dp.expect_or_drop("dropped", "qty > 1")
@dp.expect_or_fail("failed", "qty > 2 -- or more")
@dp.expect_or_dead_letter("kept", "qty > 3")
def made():
    return rows().where("id > 5")
"""


def test_an_expectation_does_not_stop_at_a_row_that_the_query_filters_out(tmp_path):
    found = yaml.safe_load(of_python(tmp_path, HELD).text)["flows"]["made"]["expectations"]
    assert {each["name"]: each["condition"] for each in found} == {
        "counted": "qty > 0",
        "dropped": "qty > 1",
        "failed": "(id > 5) IS NOT TRUE OR (qty > 2)",
        "kept": "(id > 5) IS NOT TRUE OR (qty > 3)",
        "where": "id > 5",
    }


# What surrounds a query

SEVERAL = """\
CREATE STREAMING TABLE bronze AS SELECT * FROM STREAM read_kafka(subscribe => 'orders');
CREATE FLOW more AS INSERT INTO bronze BY NAME SELECT * FROM STREAM read_kafka(subscribe => 'orders_eu');
CREATE STREAMING TABLE silver AS SELECT * FROM STREAM(bronze);
CREATE STREAMING TABLE filled;
CREATE FLOW one AS INSERT INTO filled BY NAME SELECT * FROM STREAM read_kafka(subscribe => 'orders');
CREATE STREAMING TABLE behind AS SELECT * FROM STREAM(filled);
"""


def test_a_table_behind_one_with_several_flows_is_none():
    found = of_sql(SEVERAL)
    assert [*yaml.safe_load(found.text)["flows"]] == ["filled"]
    assert [*map(str, found.no_flows)] == [
        "shop.sql:2: bronze is no flow: it has several flows, and the table of a flow has one",
        "shop.sql:3: silver is no flow: it reads bronze, which has several flows",
        "shop.sql:6: behind is no flow: it reads filled, whose rows are not those of a topic",
    ]


USED = """\
CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_kafka(subscribe => 'a');
USE SCHEMA other;
CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_kafka(subscribe => 'b');
CREATE STREAMING TABLE behind AS SELECT * FROM STREAM(raw);
"""


def test_a_name_means_the_dataset_that_use_has_chosen():
    flows = yaml.safe_load(of_sql(USED).text)["flows"]
    assert {each["table"]: each["topics"] for each in flows.values()} == {
        "default.raw": ["a"],
        "other.raw": ["b"],
        "other.behind": ["b"],
    }


CONF = """\
SET spark.sql.session.timeZone = {zone};
SET spark.sql.shuffle.partitions = 8;
CREATE PRIVATE STREAMING TABLE raw AS SELECT * FROM STREAM read_kafka(subscribe => 'a');
SET spark.sql.session.timeZone = UTC;
CREATE STREAMING TABLE behind AS SELECT * FROM STREAM(raw);
"""
OF_SPARK = "a flow has no settings of Spark; those of all flows are below spark.conf"
OF_VALUES = (
    "is no flow: its query has the setting spark.sql.session.timeZone, which decides about values: a flow has not"
)


def test_settings_of_a_query_are_named_and_those_that_decide_about_values_are_refused():
    found = of_sql(CONF.format(zone="UTC"), topic="a", **{"pipelines.maxFlowRetryAttempts": "5"})
    assert [*map(str, found.differences)] == [
        "shop.sql:3: pipelines.maxFlowRetryAttempts: a flow has no such setting; it is left out",
        f"shop.sql:3: spark.sql.shuffle.partitions: {OF_SPARK}",
        "shop.sql:3: private: a flow's table is not private: a catalog of the project has it",
        "shop.sql:5: pipelines.maxFlowRetryAttempts: a flow has no such setting; it is left out",
        f"shop.sql:5: spark.sql.shuffle.partitions: {OF_SPARK}",
        "shop.sql:5: raw: the flow reads the topic itself, and not raw",
    ]
    found = of_sql(CONF.format(zone="America/Sao_Paulo"))
    assert [*map(str, found.no_flows)] == [f"shop.sql:3: raw {OF_VALUES}", f"shop.sql:5: behind {OF_VALUES}"]


PYTHON_CONF = """\
@dp.table(spark_conf={"spark.sql.legacy.timeParserPolicy": "LEGACY"})
def old():
    return topic("a")

dp.create_streaming_table("filled", spark_conf={"spark.sql.ansi.enabled": "true"})

@dp.append_flow(target="filled")
def more():
    return topic("a")

@dp.temporary_view
def changes():
    return topic("a").select(F.from_json(F.col("value").cast("string"), "id int, v int").alias("r")).select("r.*")

dp.create_streaming_table("target")
dp.create_auto_cdc_flow("target", "changes", ["id"], "v")

@dp.table
def plain():
    return topic("a")

@dp.on_event_hook
def hear(event):
    pass
"""


def test_settings_of_a_pipeline_hold_for_its_queries_in_python(tmp_path):
    configuration = {"pipelines.trigger.interval": "300 seconds", "pipelines.cdc.tombstoneGCThresholdInSeconds": "3600"}
    found = of_python(tmp_path, PYTHON_CONF, **configuration)
    flows = yaml.safe_load(found.text)["flows"]
    assert {name: each["trigger"] for name, each in flows.items()} == {
        "target": {"every": "300 seconds"},
        "plain": {"every": "300 seconds"},
    }
    assert flows["target"]["sink"]["remember_deletes"] == "3600 seconds"
    assert {
        each.dataset: each.reason.removesuffix(", which decides about values: a flow has not")
        for each in (found.no_flows)
    } == {
        "old": "its query has the setting spark.sql.legacy.timeParserPolicy",
        "filled": "its query has the setting spark.sql.ansi.enabled",
        "hear": "it is an event hook, and a project has none",
    }


BROKERS = """\
CREATE STREAMING TABLE a AS SELECT * FROM STREAM read_kafka(
  subscribe => 'a', bootstrapServers => 'b:9', `kafka.isolation.level` => 'read_committed');
CREATE STREAMING TABLE b AS SELECT * FROM STREAM read_kafka(subscribe => 'a', bootstrapServers => 'b:9');
CREATE STREAMING TABLE c AS SELECT * FROM STREAM read_kafka(subscribe => 'a');
"""
HIDDEN = """\
CREATE STREAMING TABLE d AS SELECT * FROM STREAM read_kafka(
  subscribe => 'a', bootstrapServers => secret('kafka', 'brokers'));
CREATE STREAMING TABLE e AS SELECT * FROM STREAM read_kafka(
  subscribe => secret('kafka', 'topic'), bootstrapServers => secret('kafka', 'brokers'));
"""


def test_options_of_brokers_that_differ_are_named():
    others = "its options of the brokers are not those of the flows before it"
    found = of_sql(BROKERS)
    assert [*yaml.safe_load(found.text)["flows"]] == ["a"]
    assert [*map(str, found.no_flows)] == [
        f"shop.sql:3: b is no flow: {others}: kafka.isolation.level",
        "shop.sql:4: c is no flow: its brokers are others than those of the flows before it",
    ]
    found = of_sql(HIDDEN)
    secret = "it may hold a secret, and is left out: write it below kafka, with a reference"
    assert [str(each) for each in found.differences] == [f"shop.sql:1: kafka.bootstrap.servers: {secret}"]
    assert [each.reason for each in found.no_flows] == ["a secret is a part of its query"]


WORDS = """\
CREATE STREAMING TABLE texts AS SELECT CAST(key AS STRING) AS key, CAST(value AS STRING) AS value, offset
FROM STREAM read_kafka(subscribe => :topic);
CREATE TEMPORARY VIEW changes AS SELECT r.*, partition, offset, timestamp FROM (
  SELECT from_json(CAST(value AS STRING), 'id int, v int, w int, status string') AS r, partition, offset, timestamp
  FROM STREAM read_kafka(subscribe => :topic)
);
CREATE STREAMING TABLE target;
CREATE FLOW merged AS AUTO CDC INTO target FROM STREAM(changes) KEYS (id) SEQUENCE BY struct(coalesce(v, 0), w);
CREATE STREAMING TABLE chosen AS SELECT changes.id, changes.offset FROM STREAM(changes) WHERE changes.id > :least;
CREATE STREAMING TABLE options AS SELECT from_json(CAST(value AS STRING), 'id int', map('dateFormat', concat('y', 'M')))
AS r FROM STREAM read_kafka(subscribe => :topic);
"""


def test_parameters_qualifiers_and_sequences_are_read_as_they_mean():
    found = of_sql(WORDS, topic="t", least="5")
    flows = yaml.safe_load(found.text)["flows"]
    assert [each["topics"] for each in flows.values()] == [["t"], ["t"], ["t"]]
    assert flows["target"]["sink"]["sequence_by"] == ["coalesce(v, 0)", "w"]
    assert flows["chosen"]["select"] == ["id"]
    assert conditions(flows["chosen"]) == ["id > '5'"]
    assert [str(each) for each in found.differences if each.setting in ("key", "value")] == [
        "shop.sql:1: value: a value that is no UTF-8 is a dead letter of the flow; a cast writes it as it is",
        "shop.sql:1: key: a key that is no UTF-8 is a dead letter of the flow; a cast writes it as it is",
    ]
    assert [*map(str, found.no_flows)] == ["shop.sql:10: options is no flow: the options of from_json are no constants"]


EXPLODED = """\
CREATE TEMPORARY VIEW elements AS SELECT r.id, posexplode(r.items) AS (pos, item), TOPIC FROM (
  SELECT from_json(CAST(value AS STRING), 'id bigint, items array<string>') AS r, topic
  FROM STREAM read_kafka(subscribe => 't') WHERE value IS NOT NULL
);
CREATE STREAMING TABLE renamed AS SELECT id, pos AS place, item FROM STREAM(elements) WHERE pos > 0;
CREATE STREAMING TABLE without AS SELECT id, item FROM STREAM(elements);
"""


def test_the_position_of_an_element_is_kept_or_said():
    found = of_sql(EXPLODED)
    renamed, without = yaml.safe_load(found.text)["flows"].values()
    assert renamed["metadata_columns"]["kafka_position"] == "place"
    assert conditions(renamed) == ["place > 0"]
    assert without["metadata_columns"] == ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_position"]
    assert [str(each) for each in found.differences if each.setting == "columns"] == [
        "shop.sql:5: columns: the table of a flow has kafka_topic, kafka_partition, kafka_offset too",
        "shop.sql:6: columns: the table of a flow has kafka_topic, kafka_partition, kafka_offset, kafka_position too",
    ]
