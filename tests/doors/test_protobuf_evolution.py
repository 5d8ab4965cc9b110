"""``evolution`` of Protobuf messages at the command line: writers change in mid-stream, and the table follows them."""

from __future__ import annotations

import re
import struct

import pytest
from google.protobuf import json_format
from tests.doors.one_topic import OneFlow
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.protobuf_writers import orders, told

from rivermouth.decoding.protobuf.protobuf_descriptor import message_class

PLACES = {"Place": ["string city = 1"]}
FIRST = orders("int32 id = 1", "Place place = 2", messages=PLACES)
SECOND = orders(
    "int64 id = 1",
    "Place place = 2",
    "oneof paid string card = 3",
    "oneof paid bool cash = 4",
    messages={"Place": ["string city = 1", "string zip = 2"]},
)
THIRD = orders("int32 id = 1", "Place place = 2", "string note = 9", messages=PLACES)


def first(number):
    return FIRST, {"id": number, "place": {"city": "Ulm"}}


def second(number, **more):
    return SECOND, {"id": number, "place": {"city": "Bern", "zip": "3000"}, **more}


class Orders(OneFlow):
    def __init__(self, spark, registry, *arguments):
        super().__init__(*arguments)
        self.spark, self.registry = spark, registry
        self.id_of(FIRST)

    def write(self, evolution, more=""):
        form = f"{{type: protobuf, message: shop.Order, framing: confluent, subject: {self.topic}-value, version: 1}}"
        super().write(f"format: {form}", f"evolution: {evolution}")
        text = (self.folder / "rivermouth.yml").read_text()
        pinned = f"""\
  pinned:
    topics: [{self.topic}]
    format: {form}
    table: silver.pinned
"""
        self.save(f'schema_registry: {{url: "{self.registry.url}"}}\n{text}{pinned if more else ""}')

    def id_of(self, writer):
        return self.registry.register(f"{self.topic}-value", told(writer), kind="PROTOBUF")

    def kept(self, table):
        """By Spark: others do not read columns that became wider."""
        found = self.spark.read.format("delta").load(str(self.folder / "lake/silver" / table)).collect()
        return sorted((row.asDict(recursive=True) for row in found), key=lambda row: row["kafka_offset"])

    def encoded(self, writer, content, number=None):
        message = json_format.ParseDict(content, message_class(writer, "shop.Order")())
        return struct.pack(">bI", 0, number or self.id_of(writer)) + b"\0" + message.SerializeToString()

    def run(self, *records):
        self.send(*(each if isinstance(each, bytes) else self.encoded(*each) for each in records))
        return self.say("run")


@pytest.fixture
def shop(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of Protobuf from a registry."""
    monkeypatch.chdir(tmp_path)
    with SchemaRegistry() as registry:
        yield Orders(spark, registry, tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_a_new_writer_between_old_ones_brings_its_fields_into_the_table(shop):
    shop.write("{on_new_column: evolve, on_type_change: widen}", more="pinned")
    unknown = shop.encoded(THIRD, {"id": 6, "note": "n"}, number=3)
    code, said = shop.run(second(1, card="c"), first(2), unknown, second(1 << 40, cash=False), b"\0cut off")
    assert code == 0, said
    changes = ("widens id to bigint", "adds place.zip string", "adds column card string", "adds column cash boolean")
    assert f"schema evolved: version 1 {', '.join(changes)}" in said
    assert shop.rows("id", "place", "card", "cash") == [
        (0, 1, {"city": "Bern", "zip": "3000"}, "c", None),
        (1, 2, {"city": "Ulm", "zip": None}, None, None),
        (3, 1 << 40, {"city": "Bern", "zip": "3000"}, None, False),
    ]
    assert shop.letters("reason", "message") == [
        (2, "UNKNOWN_SCHEMA", "the schema registry has no Protobuf schema with the id 3"),
        (4, "UNKNOWN_SCHEMA", f"the schema registry has no Protobuf schema with the id {0x63757420}"),
    ]
    # One without policies passes over what it does not know, and counts it.
    assert [row["id"] for row in shop.kept("pinned")] == [1, 2, 6]
    assert shop.totals("undeclared_fields", flow="pinned") == {"undeclared_fields": 2}
    assert "pinned: undeclared fields: number 3 (1 record), number 9 (1 record) in a sample of the records" in said
    assert shop.totals("undeclared_fields") == {"undeclared_fields": 0}
    # Another start works with what was kept, whichever writer comes first. What nobody knew is tried again by itself,
    # by the flow's policies: its fields become columns.
    assert shop.id_of(THIRD) == 3
    code, said = shop.run(first(7))
    assert (code, "schema evolved: version 2 adds column note string" in said) == (0, True), said
    assert [row[1] for row in shop.rows("id")] == [1, 2, 6, 1 << 40, 7]
    code, said = shop.run((THIRD, {"id": 8, "note": "late"}))
    assert (code, "schema evolved" in said) == (0, False), said
    assert shop.rows("id", "note")[2:] == [(2, 6, "n"), (3, 1 << 40, None), (5, 7, None), (6, 8, "late")]
    code, said = shop.say("schema", "show", "orders", "--history")
    assert re.findall(r"^ +(\d)", said, re.MULTILINE) == ["2", "1"], said
    assert shop.say("audit", "orders")[0] == 0


def test_a_flow_that_may_fail_writes_nothing_of_a_batch_with_a_new_field(shop):
    shop.write("{on_new_column: fail}")
    code, said = shop.run(first(1), (SECOND, {"id": 2, "place": {"city": "Ulm"}}), second(3))
    assert code == 1
    assert (
        f"[SCHEMA_CHANGED] flow orders: a field is not in the schema, place.zip: {shop.topic}-0 offset 2; "
        "the batch was not written\n"
        "  at: rivermouth.yml:5\n"
        "  hint: evolution: {on_new_column: evolve}, then: rivermouth run orders"
    ) in said
    assert shop.rows("id") == []


@pytest.mark.long
def test_a_flow_that_may_fail_stops_at_a_field_that_has_a_value(shop):
    shop.write("{on_new_column: fail}")
    code, said = shop.run(first(1), (SECOND, {"id": 2, "place": {"city": "Ulm"}}))
    assert code == 0, said
    code, said = shop.run(first(3), second(4))
    assert code == 1
    assert (
        f"[SCHEMA_CHANGED] flow orders: a field is not in the schema, place.zip: {shop.topic}-0 offset 3; "
        "the batch was not written\n"
        "  at: rivermouth.yml:5\n"
        "  hint: evolution: {on_new_column: evolve}, then: rivermouth run orders"
    ) in said
    assert shop.rows("id") == [(0, 1), (1, 2)]
    shop.write("{on_new_column: dead_letter}")
    assert shop.say("run")[0] == 0
    assert shop.rows("id") == [(0, 1), (1, 2), (2, 3)]
    assert shop.letters("reason", "field") == [(3, "FIELD_UNDECLARED", "place.zip")]
