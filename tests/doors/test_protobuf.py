"""``format: protobuf`` at the command line: messages of a descriptor file from a topic into a table."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle
from tests.rows.protobuf_files import descriptor_set

from rivermouth.cli.main import invoke
from rivermouth.rows.protobuf_descriptor import message_class

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
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: protobuf, descriptor: {file}, message: {message}}}
    table: silver.orders
"""


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """Writes the project with ``write``, sends values with ``send``, runs a command with ``say``."""
    monkeypatch.chdir(tmp_path)
    name = topic()
    (tmp_path / "shop.desc").write_bytes(CONTENT)

    class Project:
        def write(self, message="shop.Order", file="shop.desc"):
            text = FILE.format(servers=broker.bootstrap_servers, topic=name, message=message, file=file)
            (tmp_path / "rivermouth.yml").write_text(text)

        def send(self, *values):
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
            for value in values:
                producer.produce(name, value=value)
            assert producer.flush(30) == 0

        def say(self, *arguments):
            code = invoke(list(arguments))
            out, err = capsys.readouterr()
            return code, out + err

        def kept(self, table):
            found = oracle.rows_of(str(tmp_path / f"lake/silver/{table}"))
            return sorted(found, key=lambda row: row["kafka_offset"])

    return Project()


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
[DESCRIPTOR_UNUSABLE] the descriptor file {tmp_path / "shop.desc"} cannot be used: it has no message \
shop.Ordr; nothing was run
  at: rivermouth.yml:4
  hint: did you mean 'shop.Order'?
"""
    assert project.say("validate") == (1, told)
