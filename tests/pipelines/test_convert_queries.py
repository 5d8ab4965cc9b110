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
    'F.col("qty") * 0.5': "(qty * 0.5D)",
    "F.lit(1e300)": "1e+300D",
    'F.pow("qty", 2)': "pow(qty, 2.0D)",
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
