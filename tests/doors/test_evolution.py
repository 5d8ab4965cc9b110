"""Schemas that grow while a flow runs: policies, over a real broker, tables read with a reader of others."""

from __future__ import annotations

import json

import pytest
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.engine.events import SchemaEvolved
from rivermouth.ports.kafka_produce import produce

PROJECT = """
lake: ./lake
kafka: {{bootstrap_servers: '{servers}'}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: {schema}}}
    evolution: {evolution}
    table: silver.orders
"""


@pytest.fixture
def orders(tmp_path, monkeypatch, broker, topic, spark):
    """Documents into the topic, a run, and what the table and the dead letters hold then."""
    return Orders(tmp_path, monkeypatch, broker, topic())


class Orders:
    def __init__(self, folder, monkeypatch, broker, topic):
        monkeypatch.chdir(folder)
        self.folder, self.broker, self.topic = folder, broker, topic
        self.events = []

    def declare(self, schema, evolution, project=PROJECT):
        text = project.format(
            servers=self.broker.bootstrap_servers, topic=self.topic, schema=schema, evolution=evolution
        )
        (self.folder / "rivermouth.yml").write_text(text)

    def run(self, *documents):
        texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
        produce(self.broker.bootstrap_servers, {}, self.topic, texts)
        self.events.clear()
        [outcome] = Project.load("rivermouth.yml").run(listener=self.events.append)
        if outcome.error is not None:
            raise outcome.error
        return outcome.counts

    @property
    def evolved(self):
        return [each.changes for each in self.events if isinstance(each, SchemaEvolved)]

    def rows(self, *columns):
        found = rows_of(self.folder / "lake/silver/orders")
        return [tuple(row[name] for name in columns) for row in sorted(found, key=lambda row: row["kafka_offset"])]

    def letters(self):
        place = self.folder / "lake/silver/orders__dead_letters"
        if not place.exists():
            return []
        return sorted((row["kafka_offset"], row["reason"], row["field"]) for row in rows_of(place))


def test_new_fields_come_before_their_records_and_none_is_lost(orders):
    orders.declare('"id bigint, place struct<city string>"', "{on_new_column: evolve}")
    orders.run({"id": 1, "place": {"city": "Ulm"}})
    counts = orders.run(
        {"id": 2, "colour": "red", "place": {"city": "Ulm", "zip": "89073"}},
        {"id": 3, "place": None, "nothing": None},
        b"not JSON",
        {"id": 4, "colour": 5, "tags": [{"a": 1}]},
    )
    assert orders.evolved == [
        ("adds column colour string", "adds place.zip string", "adds column tags array<struct<a:bigint>>")
    ]
    assert (counts.written, counts.dead_lettered) == (3, 1)
    assert orders.rows("id", "place", "colour", "tags") == [
        (1, {"city": "Ulm", "zip": None}, None, None),
        (2, {"city": "Ulm", "zip": "89073"}, "red", None),
        (3, None, None, None),
        (4, None, "5", [{"a": 1}]),
    ]
    assert orders.letters() == [(3, "INVALID_JSON", None)]
    orders.run({"id": 5, "tags": [{"a": 2, "b": True}]})
    assert orders.evolved == [("adds tags[].b boolean",)]
    assert orders.rows("id", "tags")[-1] == (5, [{"a": 2, "b": True}])
