"""What Confluent's own serializers write, through a schema registry and a topic into tables, as writers change."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.doors.one_topic import OneTopic
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import record
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class

AT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
MONEY = descriptor_set({"Money": ["int64 cents = 1"]}, package="base")
# Behind another message of its file, with an import of its own and one of Google's.
FIELDS = ["int32 id = 1", "Timestamp at = 2", "base.Money paid = 3"]


def avro(*more):
    at = {"type": "long", "logicalType": "timestamp-micros"}
    return record(("id", "int"), ("at", at), ("note", ["null", "string"], None), *more, name="Order")


def json_schema(**more):
    kinds = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}, **more}
    return {"title": "Order", "type": "object", "properties": kinds, "required": ["id"]}


def protobuf(*more):
    """The class of ``shop.Order``."""
    file, imported = (
        FileDescriptorSet.FromString(each).file[0]
        for each in (
            descriptor_set(
                {"Other": ["int32 x = 1"], "Order": [*(each.replace("base.", "") for each in FIELDS), *more]},
                imports=["money.proto", "google/protobuf/timestamp.proto"],
            ),
            MONEY,
        )
    )
    imported.name = "money.proto"
    (paid,) = (each for each in file.message_type[1].field if each.name == "paid")
    paid.type_name = ".base.Money"
    content = FileDescriptorSet(file=[imported, file]).SerializeToString()
    return message_class(content, "shop.Order")


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project whose topics are ``<topic>-<format>``."""
    monkeypatch.chdir(tmp_path)
    return OneTopic(tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_tables_follow_the_writers_that_use_confluents_serializers(project, topic):
    topics = {kind: topic() for kind in ("avro", "protobuf", "json")}
    with SchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as client:

        def send(kind, serializer, *values):
            project.topic = topics[kind]
            context = SerializationContext(project.topic, MessageField.VALUE)
            project.send(*(serializer(each, context) for each in values))

        def order(made, number, **more):
            found = made(id=number, **more)
            found.at.FromDatetime(AT)
            found.paid.cents = number
            return found

        first = protobuf()
        send("avro", AvroSerializer(client, json.dumps(avro())), {"id": 1, "at": AT, "note": "n"})
        send("protobuf", ProtobufSerializer(first, client), order(first, 1))
        send("json", JSONSerializer(json.dumps(json_schema()), client), {"id": 1, "at": "2026-01-31T12:00:00Z"})
        formats = {
            "avro": "",
            "protobuf": "message: shop.Order, ",
            "json": "",
        }
        flows = "".join(
            f"""\
  {kind}:
    topics: [{topics[kind]}]
    format: {{type: {kind}, framing: confluent, {more}subject: {topics[kind]}-value, version: 1}}
    evolution: {{on_new_column: evolve, on_type_change: widen}}
    table: silver.{kind}
"""
            for kind, more in formats.items()
        )
        project.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{project.servers}"}}
schema_registry: {{url: "{registry.url}"}}
flows:
{flows}""")
        second = protobuf("repeated string tags = 4", "optional double weight = 5")
        send("avro", AvroSerializer(client, json.dumps(avro(("weight", "double")))), {"id": 2, "at": AT, "weight": 0.5})
        send("protobuf", ProtobufSerializer(second, client), order(second, 2, weight=0.5, tags=["a"]))
        newer = json_schema(weight={"type": "number"})
        send("json", JSONSerializer(json.dumps(newer), client), {"id": 2, "at": "2026-01-31T12:00:00Z", "weight": 0.5})
        send("protobuf", ProtobufSerializer(first, client), order(first, 3))
        code, said = project.say("run")
        assert code == 0, said
        assert project.say("audit")[0] == 0
    rows = {kind: [(row["id"], row["at"], row["weight"]) for row in project.kept(kind)] for kind in topics}
    assert rows == {
        "avro": [(1, AT, None), (2, AT, 0.5)],
        "protobuf": [(1, AT, None), (2, AT, 0.5), (3, AT, None)],
        "json": [(1, AT, None), (2, AT, 0.5)],
    }
    assert [(row["paid"], row["tags"]) for row in project.kept("protobuf")] == [
        ({"cents": 1}, None),
        ({"cents": 2}, ["a"]),
        ({"cents": 3}, None),
    ]
    assert [row["note"] for row in project.kept("avro")] == ["n", None]


@pytest.mark.long
def test_schema_ids_in_headers_are_read(project, topic):
    topics = {kind: topic() for kind in ("avro", "protobuf", "json")}
    in_header = {"schema.id.serializer": header_schema_id_serializer}
    key, made = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}, protobuf()
    with SchemaRegistry() as registry, SchemaRegistryClient({"url": registry.url}) as client:

        def send(kind, serializer, *values, key_serializer=None):
            project.topic = topics[kind]
            for value in values:
                headers = []
                of_value, of_key = (
                    SerializationContext(project.topic, each, headers)
                    for each in (MessageField.VALUE, MessageField.KEY)
                )
                told = {"key": key_serializer({"id": value["id"]}, of_key)} if key_serializer else {}
                project.send(serializer(value, of_value), headers=headers, **told)

        def order(number):
            found = made(id=number)
            found.at.FromDatetime(AT)
            return found

        for conf in (in_header, {}):
            number = 2 if conf else 3
            of_key = AvroSerializer(client, json.dumps(key), conf=conf)
            of_avro = AvroSerializer(client, json.dumps(avro()), conf=conf)
            send("avro", of_avro, {"id": 1, "at": AT}, {"id": number, "at": AT}, key_serializer=of_key)
            send("protobuf", ProtobufSerializer(made, client, conf=conf), order(number))
            of_json = JSONSerializer(json.dumps(json_schema()), client, conf=conf)
            send("json", of_json, {"id": number, "at": "2026-01-31T12:00:00Z"})
        project.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{project.servers}"}}
schema_registry: {{url: "{registry.url}"}}
flows:
  avro:
    topics: [{topics["avro"]}]
    format: {{type: avro, framing: confluent, subject: {topics["avro"]}-value, version: 1}}
    key_format: {{type: avro, framing: confluent, subject: {topics["avro"]}-key, version: 1}}
    sink: {{type: upsert, keys: [{{key: kafka_key.id}}]}}
    table: silver.avro
  protobuf:
    topics: [{topics["protobuf"]}]
    format: {{type: protobuf, message: shop.Order, framing: confluent, subject: {topics["protobuf"]}-value, version: 1}}
    table: silver.protobuf
  json:
    topics: [{topics["json"]}]
    format: {{type: json, framing: confluent, schema: "id bigint, at timestamp"}}
    table: silver.json
""")
        code, said = project.say("run")
        assert code == 0, said
        # In a keyed table the audit reads the records again.
        code, said = project.say("audit")
        assert code == 0, said
    rows = {kind: [(row["id"], row["at"]) for row in project.kept(kind)] for kind in topics}
    assert rows == {
        "avro": [(2, AT), (1, AT), (3, AT)],
        "protobuf": [(2, AT), (3, AT)],
        "json": [(2, AT), (3, AT)],
    }
