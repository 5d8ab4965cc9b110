"""``from_avro`` and ``to_avro`` with a schema registry, as files for Databricks call them."""

import base64
import io
import json
import struct

import fastavro
import pytest
from pyspark.sql import functions as F
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry

from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.errors import DefinitionInvalid, SchemaRegistryFailed
from rivermouth.pipelines.session.avro_functions import AvroFunctions

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "name", "type": ["null", "string"], "default": None}]}
NEWER = {**NEW, "fields": [*NEW["fields"], {"name": "paid", "type": "boolean", "default": False}]}
LOGIN = {
    "confluent.schema.registry.basic.auth.credentials.source": "USER_INFO",
    "confluent.schema.registry.basic.auth.user.info": f"{USERNAME}:{PASSWORD}",
}
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro, to_avro

LOGIN = {login!r}
REGISTRY = spark.conf.get("registry")

def records():
    stream = spark.readStream.schema("key string, value string").json("in")
    return stream.select(F.unbase64("key").alias("key"), F.unbase64("value").alias("value"))

@dp.table
def orders():
    key = from_avro(data="key", options=LOGIN, subject="orders-key", schemaRegistryAddress=REGISTRY)
    value = from_avro(F.col("value"), options={{**LOGIN, "mode": "PERMISSIVE"}}, subject="orders-value",
                      schemaRegistryAddress=REGISTRY)
    return records().select(key.alias("key"), value.alias("value")).select("key", "value.*", F.expr("value IS NULL"))

@dp.materialized_view
def written():
    value = to_avro(data=F.struct("id", "name"), subject=F.lit("orders-value"), schemaRegistryAddress=REGISTRY,
                    options=LOGIN)
    return spark.read.table("orders").where("id IS NOT NULL").select("id", value.alias("value"))

@dp.materialized_view
def plain():
    return spark.range(1).select(from_avro(to_avro("id"), '"long"').alias("id"))
"""
STRICT = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

@dp.materialized_view
def orders():
    read = spark.read.schema("value string").json("in").select(F.unbase64("value").alias("value"))
    value = from_avro("value", subject="orders-value", schemaRegistryAddress="{registry}", options={options})
    return read.select(value)
"""


def framed(number, schema, value):
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema, {}, _force=True), value)
    return struct.pack(">bI", 0, number) + body.getvalue()


def text(content):
    return None if content is None else base64.b64encode(content).decode()


def test_values_are_read_and_written_by_the_newest_schema_of_a_subject(folder):
    with SchemaRegistry(login=True) as registry:
        key = registry.register("orders-key", "string")
        old, new = (registry.register("orders-value", each) for each in (OLD, NEW))
        folder.write("src/a.py", PYTHON.format(login=LOGIN))
        folder.write(
            "pipeline.yml",
            f"name: shop\nconfiguration: {{registry: '{registry.url}'}}\nlibraries: [{{glob: {{include: src/**}}}}]\n",
        )
        values = [framed(old, OLD, {"id": 1}), framed(new, NEW, {"id": 2, "name": "b"}), b"\0other", None]
        keys = [framed(key, "string", f"k{place}") for place in range(len(values))]
        folder.feed("in/1.json", *({"key": text(k), "value": text(v)} for k, v in zip(keys, values, strict=True)))
        done = folder.run()
    assert {name: each.error for name, each in done.items()} == dict.fromkeys(("orders", "written", "plain"))
    # A value that cannot be read is a record of nulls, as on Databricks, and a null is none.
    assert folder.rows("default.orders") == [
        ("k0", 1, None, False),
        ("k1", 2, "b", False),
        ("k2", None, None, False),
        ("k3", None, None, True),
    ]
    expected = [(1, framed(new, NEW, {"id": 1, "name": None})), (2, values[1])]
    assert folder.rows("default.written") == expected
    assert folder.rows("default.plain") == [(0,)]


REFUSED = """[QUERY_FAILED] flow orders failed with ValueFailure: from_avro: {why}; the batch was not written
  at: src/a.py:6
  hint: rivermouth run, after the cause is corrected; batches before it are in the table"""
NOT_FRAMED = "WRONG_MAGIC: the value does not begin with a zero and the id of a schema"
NEW_FIELD = (
    "UNKNOWN_FIELD: the record has the field paid, and the schema of this query does not; "
    "a query that starts now reads the newest one"
)


@pytest.mark.parametrize(
    ("options", "content", "why"),
    [({}, b"other", NOT_FRAMED), ({"avroSchemaEvolutionMode": "restart"}, None, NEW_FIELD)],
)
def test_a_value_that_the_mode_does_not_take_fails_the_query(options, content, why, folder):
    with SchemaRegistry() as registry:
        number = registry.register("orders-value", NEW)
        newer = registry.register("others", NEWER)
        options = {**options, "confluent.schema.registry.schema.id": number}
        folder.write("src/a.py", STRICT.format(registry=registry.url, options=options))
        value = content or framed(newer, NEWER, {"id": 1, "name": None, "paid": True})
        folder.feed("in/1.json", {"value": text(value)})
        error = folder.run()["orders"].error
    assert str(error) == REFUSED.format(why=why)


def test_a_registry_that_does_not_serve_is_told_where_it_is_asked(folder):
    """For the schema of the query when that is evaluated; for that of a value in a task."""
    said = (
        "[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: its answer to {what} has no schema; "
        "no record was refused for it\n  at: src/a.py:{line}\n"
        "  hint: see schema_registry in the project, and whether the registry serves: curl -sS URL/subjects"
    )
    folder.feed("in/1.json", {"value": text(framed(7, NEW, {"id": 1, "name": None}))})
    with SchemaRegistry() as registry:
        registry.order("no_schema")
        folder.write("src/a.py", STRICT.format(registry=registry.url, options={}))
        with pytest.raises(SchemaRegistryFailed) as at_start:
            folder.run()
        declared = f"{{}}, jsonFormatSchema={json.dumps(NEW)!r}"
        folder.write("src/a.py", STRICT.format(registry=registry.url, options=declared))
        in_task = folder.run()["orders"].error
    assert str(at_start.value) == said.format(what="the newest version of subject orders-value", line=9)
    assert str(in_task) == said.format(what="schema 7", line=6)


def functions(spark, access=None):
    return AvroFunctions(spark, lambda: access, lambda: "a.py:7")


def test_the_projects_own_registry_is_asked_with_its_login(spark):
    with SchemaRegistry(login=True) as registry:
        number = registry.register("orders-value", OLD)
        ours = functions(spark, RegistryAccess(url=registry.url, username=USERNAME, password=PASSWORD))
        column = ours.from_avro(F.lit(framed(number, OLD, {"id": 3})), None, None, "orders-value", f"{registry.url}/")
        assert spark.range(1).select(column.alias("value")).select("value.*").collect() == [(3,)]
        with pytest.raises(SchemaRegistryFailed):
            functions(spark).from_avro("value", None, None, "orders-value", registry.url)


ADDRESS = "http://localhost:1"


LOGIN_OPTIONS = (
    "confluent.schema.registry.basic.auth.credentials.source, confluent.schema.registry.basic.auth.user.info"
)
WRONG = [
    (
        "from_avro",
        {"schemaRegistryAddress": None},
        "subject and schemaRegistryAddress go together, as texts",
        'subject="orders-value"',
    ),
    (
        "from_avro",
        {"subject": F.col},
        "subject and schemaRegistryAddress go together, as texts",
        'subject="orders-value"',
    ),
    (
        "from_avro",
        {"schemaRegistryAddress": "registry"},
        "schemaRegistryAddress: it is no address of a registry",
        'schemaRegistryAddress="https://registry.example:8081"',
    ),
    (
        "from_avro",
        {"schemaRegistryAddress": "http://a:b@registry"},
        "schemaRegistryAddress: a login does not belong into the address",
        'schemaRegistryAddress="https://registry.example:8081"',
    ),
    (
        "from_avro",
        {"options": {"recursiveFieldMaxDepth": 3}},
        "it has no option recursiveFieldMaxDepth",
        f"known: avroSchemaEvolutionMode, {LOGIN_OPTIONS}, confluent.schema.registry.schema.id, mode",
    ),
    (
        "from_avro",
        {"options": {"MODE": "DROPMALFORMED"}},
        "the option mode is one of FAILFAST, PERMISSIVE",
        "leave mode out",
    ),
    (
        "from_avro",
        {"options": {"confluent.schema.registry.schema.id": "latest"}},
        "the option confluent.schema.registry.schema.id is no number",
        'options={"confluent.schema.registry.schema.id": "1"}',
    ),
    (
        "from_avro",
        {"options": {"confluent.schema.registry.basic.auth.user.info": "secret"}},
        "the option confluent.schema.registry.basic.auth.user.info is no login",
        'options={"confluent.schema.registry.basic.auth.user.info": f"{name}:{password}"}',
    ),
    (
        "from_avro",
        {"jsonFormatSchema": '{"type": "recordd"}'},
        "it is no Avro schema: a type in it is not known",
        'jsonFormatSchema=\'{"type": "record", ...}\'',
    ),
    (
        "to_avro",
        {"jsonFormatSchema": '"long"'},
        "it has a subject and jsonFormatSchema, and rivermouth registers no schemas",
        "register the schema, and leave jsonFormatSchema out",
    ),
    ("to_avro", {"options": {"mode": "FAILFAST"}}, "it has no option mode", f"known: {LOGIN_OPTIONS}"),
]


@pytest.mark.parametrize(("function", "arguments", "detail", "fix"), WRONG)
def test_wrong_arguments_are_refused(function, arguments, detail, fix, spark):
    arguments = {name: each("s") if callable(each) else each for name, each in arguments.items()}
    with pytest.raises(DefinitionInvalid) as error:
        getattr(functions(spark), function)("value", **{"subject": "s", "schemaRegistryAddress": ADDRESS} | arguments)
    said = f"[DEFINITION_INVALID] {function}: {detail}; the pipeline was not run\n  at: a.py:7\n  hint: {fix}"
    assert str(error.value) == said
