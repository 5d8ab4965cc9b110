"""Flows whose columns are a JSON Schema, of a schema registry or a file, over a real broker."""

from __future__ import annotations

import json

from tests.crashes.oracle import rows_of
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry

from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.ports.kafka.kafka_produce import produce

PROJECT = """
lake: ./lake
kafka: {{bootstrap_servers: '{servers}'}}
schema_registry: {{url: '{url}', username: {username}, password: '{password}'}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, framing: confluent, subject: {subject}, version: 1}}
    evolution: {{on_new_column: rescue}}
    table: silver.orders
  files:
    topics: [{topic}]
    format: {{type: json, framing: confluent, schema: order.json}}
    table: silver.files
"""
MONEY = {"type": "object", "properties": {"cents": {"type": "integer"}}, "required": ["cents"]}
ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "description": "Its number"},
        "at": {"type": "string", "format": "date-time"},
        "paid": {"oneOf": [{"type": "null"}, {"$ref": "money.json"}]},
    },
    "required": ["id"],
}
FILE = {"properties": {"id": {"type": "integer"}, "at": {"type": "string"}}}


def test_columns_come_from_the_registry_or_a_file(tmp_path, monkeypatch, broker, topic, spark, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "order.json").write_text(json.dumps(FILE))
    name = topic()
    with SchemaRegistry(login=True) as registry:
        registry.register("money", MONEY, kind="JSON")
        references = ({"name": "money.json", "subject": "money", "version": 1},)
        number = registry.register("orders-value", ORDER, kind="JSON", references=references)
        registry.register("avro", {"type": "string"})

        def write(subject):
            places = {"servers": broker.bootstrap_servers, "url": registry.url, "topic": name, "subject": subject}
            text = PROJECT.format(**places, username=USERNAME, password=PASSWORD)
            (tmp_path / "rivermouth.yml").write_text(text)

        for subject in ("avro", "nobody"):
            write(subject)
            assert invoke(["validate"]) == 1
            assert capsys.readouterr().err.startswith(
                "[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: it has no JSON Schema as version 1 of "
                f"subject {subject}; no record was refused for it\n"
            )
        write("orders-value")
        header = bytes([0, 0, 0, 0, number])
        sent = [
            {"id": 1, "at": "2026-01-31T12:00:00Z", "paid": {"cents": 5}},
            {"id": 2, "paid": None, "more": True},
            {"paid": {"cents": 5}},
            {"id": 4, "paid": {}},
        ]
        produce(broker.bootstrap_servers, {}, name, [header + json.dumps(each).encode() for each in sent])
        assert [outcome.error for outcome in Project.load("rivermouth.yml").run()] == [None, None]
    rows = {row["id"]: (row["at"] and row["at"].isoformat(), row["paid"], row["_rescued"]) for row in orders(tmp_path)}
    assert rows == {
        1: ("2026-01-31T12:00:00+00:00", {"cents": 5}, None),
        2: (None, None, '{"/more":true}'),
    }
    letters = rows_of(tmp_path / "lake/silver/orders__dead_letters")
    assert {row["kafka_offset"]: (row["reason"], row["field"]) for row in letters} == {
        2: ("FIELD_MISSING", "id"),
        3: ("FIELD_MISSING", "paid.cents"),
    }
    assert {(row["kafka_offset"], row["id"]) for row in rows_of(tmp_path / "lake/silver/files")} == {
        (0, 1),
        (1, 2),
        (3, 4),
    }
    letters = rows_of(tmp_path / "lake/silver/files__dead_letters")
    assert [(row["kafka_offset"], row["reason"]) for row in letters] == [(2, "NO_DECLARED_FIELD")]


def orders(folder):
    return rows_of(folder / "lake/silver/orders")
