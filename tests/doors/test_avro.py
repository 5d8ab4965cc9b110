"""``format: avro`` at the command line: each framing from a topic into a table, and what is refused on the way."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka import Producer
from tests.crashes import oracle

from rivermouth.cli.main import invoke

FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": "string"},
        {"name": "gone", "type": {"type": "array", "items": "string"}},
    ],
}
# Promoted, removed, added with a default.
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "tag", "type": ["null", "string"], "default": None},
    ],
}
FOREIGN = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "boolean"}]}
RECORDS = [
    (FIRST, {"id": 1, "note": "ä", "gone": ["x", "y"]}),
    (SECOND, {"id": 1 << 40, "note": "", "tag": "new"}),
    (FIRST, {"id": 2, "note": "b", "gone": []}),
    (SECOND, {"id": 3, "note": "c", "tag": None}),
]
ROWS = [(0, 1, "ä", None), (1, 1 << 40, "", "new"), (2, 2, "b", None), (3, 3, "c", None)]


def encoded(schema, record):
    """A record in Avro's binary encoding."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), record)
    return content.getvalue()


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of the format: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.avsc").write_text(json.dumps(FIRST))
    (tmp_path / "second.avsc").write_text(json.dumps(SECOND))
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    class Project:
        topic = name

        def write(self, form, registry=""):
            text = f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{broker.bootstrap_servers}"}}
{registry}
flows:
  orders:
    topics: [{name}]
    format: {form}
    table: silver.orders
"""
            (tmp_path / "rivermouth.yml").write_text(text)

        def send(self, *values):
            for value in values:
                producer.produce(name, value=value)
            assert producer.flush(30) == 0

        def say(self, *arguments):
            code = invoke(list(arguments))
            out, err = capsys.readouterr()
            return code, out + err

        def rows(self):
            found = oracle.rows_of(str(tmp_path / "lake/silver/orders"))
            kept = sorted(found, key=lambda row: row["kafka_offset"])
            return [(row["kafka_offset"], row["id"], row["note"], row["tag"]) for row in kept]

        def letters(self):
            found = oracle.rows_of(str(tmp_path / "lake/silver/orders__dead_letters"))
            kept = sorted(found, key=lambda row: row["kafka_offset"])
            return [(row["kafka_offset"], row["reason"], row["field"], row["message"]) for row in kept]

    return Project()


def test_plain_records_with_a_schema_file(project):
    project.write("{type: avro, schema: second.avsc, writer_schemas: [first.avsc]}")
    good = [encoded(FIRST, record) for schema, record in RECORDS if schema is FIRST]
    project.send(good[0], good[1], good[0][:-1], good[0] + b"\x00", None)
    assert project.say("run")[0] == 0
    assert project.rows() == [(0, 1, "ä", None), (1, 2, "b", None)]
    assert project.letters() == [
        (2, "TRUNCATED", "gone", "the value ends before what its schema announces"),
        (3, "TRAILING_BYTES", None, "bytes follow the record"),
    ]
