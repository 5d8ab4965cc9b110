"""Flows and pipelines that write Avro and Protobuf into topics, with a schema registry; topics that a column names."""

from __future__ import annotations

import base64
import io
import json

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.doors.one_topic import OneTopic
from tests.pipelines.conftest import values
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "shop", "type": ["null", "string"]}],
}
CONTENT = descriptor_set({"Other": ["string s = 1"], "Order": ["int64 id = 1", "optional string shop = 2"]})
AVRO = "{type: avro, framing: confluent, subject: orders-value, version: 1}"
PROTOBUF = "{type: protobuf, message: shop.Order, framing: confluent, subject: orders-proto, version: 1}"
HEAD = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
schema_registry: {{url: "{url}"}}
flows:
"""
FLOW = """\
  {name}:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, shop string"}}
    table: silver.{name}
{more}"""
PIPELINE = """
from pyspark import pipelines as dp
from rivermouth.pipelines import encode

FORMATS = {{
    "avro_copies": {{"type": "avro", "framing": "confluent", "subject": "orders-value", "version": 1}},
    "protobuf_copies": {{"type": "protobuf", "message": "shop.Order", "descriptor": "shop.desc"}},
}}

def copy(name):
    dp.create_sink(name, "kafka", {{"topic": "{topic}-" + name, "topic.partitions": "1"}})

    @dp.append_flow(target=name, name=name)
    def copies():
        rows = spark.readStream.table("silver.avro")
        return rows.select(encode(rows, FORMATS[name]).alias("value"))

for each in FORMATS:
    copy(each)
"""


class Values(OneTopic):
    def write(self, url, more="", **sinks):
        text = HEAD.format(servers=self.servers, url=url)
        for name, (sink, further) in sinks.items():
            lines = "".join(f"    {line}\n" for line in (f"sink: {{type: kafka, {sink}}}", *further))
            text += FLOW.format(name=name, topic=self.topic, more=lines)
        self.save(text + more)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.desc").write_bytes(CONTENT)
    return Values(tmp_path, capsys, broker.bootstrap_servers, topic())


def avro_row(value):
    return fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(ORDER), None)


def protobuf_row(value):
    message = message_class(CONTENT, "shop.Order").FromString(value)
    return {"id": message.id, "shop": message.shop if message.HasField("shop") else None}


def by_id(rows):
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.long
def test_values_of_a_registry_and_topics_of_a_column(project, topic):
    outs = {name: topic() for name in ("avro", "protobuf", "north", "south")}
    project.send(b'{"id": 1, "shop": "north"}', b'{"id": 2, "shop": "south"}', b'{"id": 3}')
    to_shop = f"IF(shop = 'north', '{outs['north']}', '{outs['south']}') AS topic"
    pipelines = "pipelines:\n  copies: {files: [copies.py]}\n"
    (project.folder / "copies.py").write_text(PIPELINE.format(topic=outs["avro"]))
    with SchemaRegistry() as registry:
        registry.register("another-value", "string")
        number = registry.register("orders-value", ORDER)
        file = FileDescriptorSet.FromString(CONTENT).file[0]
        text = base64.b64encode(file.SerializeToString()).decode()
        proto = registry.register("orders-proto", text, kind="PROTOBUF")
        sinks = {
            "avro": (f"topic: {outs['avro']}, key: shop, format: {AVRO}", ()),
            "protobuf": (f"topic: {outs['protobuf']}, format: {PROTOBUF}", ()),
            "by_shop": ("key: shop, format: {type: json}", (f'select: ["*", "{to_shop}"]',)),
        }
        project.write(registry.url, **sinks)
        code, told = project.say("validate")
        assert code == 0, told
        code, told = project.say("plan")
        assert code == 0, told
        assert f"topic {outs['protobuf']}: its rows have no key" in told
        for more in ("", pipelines):
            project.write(registry.url, more, **sinks)
            code, told = project.say("run")
            assert code == 0, told
    servers = project.servers
    rows = [{"id": 1, "shop": "north"}, {"id": 2, "shop": "south"}, {"id": 3, "shop": None}]
    for name in (outs["avro"], f"{outs['avro']}-avro_copies"):
        found = values(servers, name)
        assert {value[:5] for value in found} == {b"\0" + number.to_bytes(4, "big")}
        assert by_id(avro_row(value[5:]) for value in found) == rows
    found = values(servers, outs["protobuf"])
    assert {value[:7] for value in found} == {b"\0" + proto.to_bytes(4, "big") + b"\2\2"}
    assert by_id(protobuf_row(value[7:]) for value in found) == rows
    assert by_id(map(protobuf_row, values(servers, f"{outs['avro']}-protobuf_copies"))) == rows
    assert [json.loads(value)["id"] for value in values(servers, outs["north"])] == [1]
    assert sorted(json.loads(value)["id"] for value in values(servers, outs["south"])) == [2, 3]


SIMPLE = json.dumps(ORDER)
OTHER = json.dumps({**ORDER, "fields": [{"name": "idd", "type": "long"}]})


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (
            f"topic: out, format: {AVRO}",
            """\
[PROJECT_INVALID] flows.orders.sink.format: its schema is in a schema registry, and the project names none; nothing \
was run
  at: rivermouth.yml:9
  hint: schema_registry: {url: ...}, at the top of the file
""",
        ),
        (
            f"topic: out, format: {{type: avro, framing: confluent, schema: '{SIMPLE}'}}",
            """\
[PROJECT_INVALID] flows.orders.sink: the framing confluent writes a version of a subject; nothing was run
  at: rivermouth.yml:9
  hint: subject: orders-value, version: 1
""",
        ),
        (
            "topic: out, format: {type: csv, schema: 'id bigint'}",
            """\
[PROJECT_INVALID] flows.orders.sink: format csv is read only; nothing was run
  at: rivermouth.yml:9
  hint: format: json, or avro or protobuf with their settings
""",
        ),
        (
            f"topic: out, value: shop, format: {{type: avro, schema: '{SIMPLE}'}}",
            """\
[PROJECT_INVALID] flows.orders.sink: value writes a column as it is, and format makes the value of several; nothing \
was run
  at: rivermouth.yml:9
  hint: leave one of them out
""",
        ),
        (
            f"topic: out, format: {{type: avro, schema: '{OTHER}'}}",
            """\
[LAYOUT_INVALID] flow orders: the table's layout cannot be used: the schema has a field 'idd', and there is no such \
column; nothing was run
  at: rivermouth.yml:9
  hint: did you mean 'id'?
""",
        ),
        (
            "key: shop",
            """\
[LAYOUT_INVALID] flow orders: the table's layout cannot be used: there is no column 'topic' for the topic, and the \
sink names none; nothing was run
  at: rivermouth.yml:9
  hint: topic: good-orders in the sink, or a column topic: select: ["*", "concat('of-', shop) AS topic"]
""",
        ),
        (
            "create_topic: {partitions: 3}",
            """\
[PROJECT_INVALID] flows.orders.sink: partitions is refused, because only a topic that the sink names is created, and \
not those of a column; nothing was run
  at: rivermouth.yml:9
  hint: topic: orders
""",
        ),
    ],
)
def test_what_a_sink_cannot_write_is_refused(project, sink, told):
    text = HEAD.format(servers=project.servers, url="http://localhost:1").replace("schema_registry", "# registry")
    project.save(text + FLOW.format(name="orders", topic=project.topic, more=f"    sink: {{type: kafka, {sink}}}\n"))
    code, found = project.say("validate")
    assert code == 1, found
    assert told in found


NO_VALUE = """\
[SINK_VALUE_INVALID] flow orders: a row has no value for sink orders: the schema has no null for field shop, and a row \
has; the batch was not written to the topic
  at: rivermouth.yml:5
  hint: change the schema of the sink so that it takes the row, and rivermouth run
"""


def test_a_row_without_a_value_stops_the_sink_and_stays_in_the_table(project, topic):
    strict = {**ORDER, "fields": [ORDER["fields"][0], {"name": "shop", "type": "string"}]}
    (project.folder / "orders.avsc").write_text(json.dumps(strict))
    project.send(b'{"id": 1, "shop": "north"}', b'{"id": 2}')
    sink, out = f"topic: {topic()}, key: id, format: {{type: avro, schema: orders.avsc}}", topic()
    at = "timestamp_micros(1769860800123456 + id) AS at"
    project.write("http://localhost:1", orders=(sink, ()), times=(f"topic: {out}", (f'select: [id, "{at}"]',)))
    code, told = project.say("run")
    assert (code, NO_VALUE in told) == (1, True), told
    assert len(project.kept("orders")) == 2
    # JSON takes each row, and all digits of a time.
    assert by_id(map(json.loads, values(project.servers, out))) == [
        {"id": 1, "at": "2026-01-31T12:00:00.123457Z"},
        {"id": 2, "at": "2026-01-31T12:00:00.123458Z"},
    ]


@pytest.mark.long
def test_a_row_without_a_value_stays_in_the_table_until_the_schema_takes_it(project, topic):
    out = topic()
    strict = {**ORDER, "fields": [ORDER["fields"][0], {"name": "shop", "type": "string"}]}
    project.send(b'{"id": 1, "shop": "north"}', b'{"id": 2}')
    sink = f"topic: {out}, key: id, format: {{type: avro, schema: orders.avsc}}"
    for schema, wanted in ((strict, []), (ORDER, [1, 2])):
        (project.folder / "orders.avsc").write_text(json.dumps(schema))
        project.write("http://localhost:1", orders=(sink, ()))
        code, told = project.say("run")
        assert (code == 0) == bool(wanted), told
        if not wanted:
            assert NO_VALUE in told
        assert sorted(avro_row(value)["id"] for value in values(project.servers, out)) == wanted
        assert len(project.kept("orders")) == 2
