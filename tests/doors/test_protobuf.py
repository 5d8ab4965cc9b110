"""``format: protobuf`` at the command line: messages of a descriptor file from a topic into a table."""

from __future__ import annotations

import base64
import datetime as dt
import struct
from decimal import Decimal

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.doors.one_topic import OneTopic
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry
from tests.rows.protobuf_files import descriptor_set

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class

CONTENT = descriptor_set(
    {
        "Order": [
            "int64 id = 1",
            "repeated Item items = 2",
            "map<string, uint64> stock = 3",
            "Status status = 4",
            "Timestamp at = 5",
            "oneof paid string card = 6",
            "oneof paid Empty cash = 7",
            "StringValue note = 8",
        ],
        "Item": ["string name = 1", "optional double price = 2"],
    },
    enums={"Status": {0: "UNKNOWN", 1: "SENT"}},
)
AT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
FILE = """\
lake: ./lake
{registry}
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: protobuf, message: {message}, {schema}}}
    table: silver.orders
"""


class Messages(OneTopic):
    def write(self, message="shop.Order", schema="descriptor: shop.desc", registry=""):
        made = {"servers": self.servers, "topic": self.topic}
        self.save(FILE.format(message=message, schema=schema, registry=registry, **made))


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """Writes the project with ``write``, sends values with ``send``, runs a command with ``say``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.desc").write_bytes(CONTENT)
    return Messages(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_messages_of_a_descriptor_file(project):
    project.write()
    kind = message_class(CONTENT, "shop.Order")
    whole = kind(id=-1, status=1, card="c", stock={"a": (1 << 64) - 1})
    whole.items.add(name="ä", price=0.5)
    whole.items.add()
    whole.at.FromDatetime(AT)
    whole.note.value = ""
    bare = kind(id=2)
    bare.cash.SetInParent()
    good = whole.SerializeToString()
    project.send(good, bare.SerializeToString(), b"", None, good[:-1], b"\x20\x05", b"order 7")
    assert project.say("validate")[0] == 0
    assert project.say("run")[0] == 0
    rows = project.kept("orders")
    names = ("id", "items", "stock", "status", "at", "card", "cash", "note")
    nothing = {"items": [], "stock": [], "status": "UNKNOWN", "at": None, "card": None, "note": None}
    assert [{name: row[name] for name in names} for row in rows] == [
        {
            "id": -1,
            "items": [{"name": "ä", "price": 0.5}, {"name": "", "price": None}],
            "stock": [("a", Decimal((1 << 64) - 1))],
            "status": "SENT",
            "at": AT,
            "card": "c",
            "cash": None,
            "note": "",
        },
        {"id": 2, "cash": True, **nothing},
        {"id": 0, "cash": None, **nothing},
    ]
    letters = project.kept("orders__dead_letters")
    assert [tuple(row[name] for name in ("kafka_offset", "reason", "field", "message")) for row in letters] == [
        (4, "TRUNCATED", "note", "the value ends before what a length in it announces"),
        (5, "FIELD_TYPE", "status", "field status has a number that the enum shop.Status lacks"),
        (6, "INVALID_PROTOBUF", None, "a field has a number or a wire type that is none"),
    ]
    text = project.say("dead-letters", "list")[1]
    assert "TRUNCATED" in text


def test_a_message_that_is_not_there_is_refused_before_anything_runs(project, tmp_path):
    project.write(message="shop.Ordr")
    told = f"""\
[DESCRIPTOR_UNUSABLE] the descriptor {tmp_path / "shop.desc"} cannot be used: it has no message \
shop.Ordr; nothing was run
  at: rivermouth.yml:5
  hint: did you mean 'shop.Order'?
"""
    assert project.say("validate") == (1, told)


def told(content):
    """The file in a descriptor set, as a registry tells it; with a name of its own."""
    (file,) = FileDescriptorSet.FromString(content).file
    file.name = "default"
    return base64.b64encode(file.SerializeToString()).decode()


def test_a_subject_without_a_protobuf_schema_is_refused(project):
    with SchemaRegistry(login=True) as registry:
        registry.register("avro", {"type": "string"})
        login = f'schema_registry: {{url: "{registry.url}", username: {USERNAME}, password: "{PASSWORD}"}}'
        project.write(schema="framing: confluent, subject: avro, version: 1", registry=login)
        assert project.say("validate")[1].startswith(
            "[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: it has no Protobuf schema as version 1 of "
            "subject avro; no record was refused for it\n"
        )


@pytest.mark.long
def test_records_of_confluent_with_the_schema_of_a_registry(project):
    base = descriptor_set({"Money": ["int64 cents = 1"]})
    fields = ["int32 id = 1", "Money paid = 2"]
    second = descriptor_set({"Other": ["int32 x = 1"], "Order": [*fields, "string note = 3"]}, imports=["base.proto"])
    with SchemaRegistry(login=True) as registry:
        registry.register("base", told(base), kind="PROTOBUF")
        references = ({"name": "base.proto", "subject": "base", "version": 1},)
        number = registry.register("orders-value", told(second), kind="PROTOBUF", references=references)
        registry.register("avro", {"type": "string"})
        login = f'schema_registry: {{url: "{registry.url}", username: {USERNAME}, password: "{PASSWORD}"}}'
        schema = "framing: confluent, subject: {}, version: 1"
        project.write(schema=schema.format("avro"), registry=login)
        told_of = (
            "[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: it has no Protobuf schema as version 1 of"
        )
        assert project.say("validate")[1].startswith(f"{told_of} subject avro; no record was refused for it\n")
        project.write(schema=schema.format("orders-value"), registry=login)
        header = struct.pack(">bI", 0, number)
        good = b"\x08\x05\x12\x02\x08\x07\x1a\x01n"
        # Of a writer before, whose schema nobody asks for; without a frame; another message of the file.
        older = struct.pack(">bI", 0, 999) + b"\x02\x02\x08\x06"
        project.send(header + b"\x02\x02" + good, older, good, header + b"\x00\x08\x01")
        assert project.say("run")[0] == 0
    rows = [(row["id"], row["paid"], row["note"]) for row in project.kept("orders")]
    assert rows == [(5, {"cents": 7}, "n"), (6, None, "")]
    letters = project.kept("orders__dead_letters")
    assert [(row["kafka_offset"], row["reason"]) for row in letters] == [(2, "WRONG_MAGIC"), (3, "SCHEMA_MISMATCH")]
