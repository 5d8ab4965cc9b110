"""Flows over values that are wrapped, over a real broker: they infer, evolve and bury as others do."""

from __future__ import annotations

import gzip
import json

import pytest
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.ports.kafka.kafka_produce import produce

PROJECT = """
lake: ./lake
kafka: {{bootstrap_servers: '{servers}'}}
flows:
  orders:
    topics: [{orders}]
    compression: gzip
    format: {{type: json, schema: infer, framing: confluent}}
    table: silver.orders
  stock:
    topics: [{stock}]
    format: {{type: json, schema: "sku string", framing: confluent}}
    table: silver.stock
    sink: {{type: upsert, keys: [sku], from: snapshot}}
"""


def framed(document, number=7):
    return bytes([0, 0, 0, 0, number]) + json.dumps(document).encode()


@pytest.mark.long
def test_they_infer_evolve_and_bury_as_others_do(tmp_path, monkeypatch, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    orders, stock = topic(), topic()
    plain = gzip.compress(b'{"id": 3, "other": 1}')
    sent = [gzip.compress(framed({"id": 1})), plain, b"{}", gzip.compress(b"\0\0\0\0"), gzip.compress(framed({}))]
    produce(broker.bootstrap_servers, {}, orders, sent)
    produce(broker.bootstrap_servers, {}, stock, [framed([{"sku": "a"}, {"sku": "b"}]), b'[{"sku": "c"}]'])
    text = PROJECT.format(servers=broker.bootstrap_servers, orders=orders, stock=stock)
    (tmp_path / "rivermouth.yml").write_text(text)

    def run():
        outcomes = Project.load("rivermouth.yml").run()
        assert [str(outcome.error) for outcome in outcomes if outcome.error] == []
        return {outcome.flow: outcome.counts for outcome in outcomes}

    counts = run()
    assert {name: (each.consumed, each.dead_lettered) for name, each in counts.items()} == {
        "orders": (5, 3),
        "stock": (2, 1),
    }
    letters = {row["kafka_offset"]: row for row in rows_of(tmp_path / "lake/silver/orders__dead_letters")}
    assert {offset: (row["reason"], bytes(row["kafka_value"])) for offset, row in letters.items()} == {
        1: ("WRONG_MAGIC", sent[1]),
        2: ("INVALID_COMPRESSION", sent[2]),
        3: ("WRONG_MAGIC", sent[3]),
    }
    assert [row["message"] for row in letters.values() if row["reason"] == "WRONG_MAGIC"] == [
        "the value does not begin with a zero and the id of a schema, and no header __value_schema_id has one"
    ] * 2
    [letter] = rows_of(tmp_path / "lake/silver/stock__dead_letters")
    assert (letter["reason"], bytes(letter["kafka_value"])) == ("WRONG_MAGIC", b'[{"sku": "c"}]')
    assert sorted(row["sku"] for row in rows_of(tmp_path / "lake/silver/stock")) == ["a", "b"]

    # A field that is new within a header within gzip becomes a column before its record is written.
    produce(broker.bootstrap_servers, {}, orders, [gzip.compress(framed({"id": 2, "note": "new"}, number=8)), plain])
    run()
    rows = {row["kafka_offset"]: (row["id"], row["note"]) for row in rows_of(tmp_path / "lake/silver/orders")}
    assert rows == {0: (1, None), 4: (None, None), 5: (2, "new")}
    assert "other" not in rows_of(tmp_path / "lake/silver/orders")[0]
    assert len(rows_of(tmp_path / "lake/silver/orders__dead_letters")) == 4


def test_the_one_liner_reads_them_too(tmp_path, monkeypatch, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    name = topic()
    produce(broker.bootstrap_servers, {}, name, [gzip.compress(framed({"id": 1})), framed({"id": 2})])
    servers = broker.bootstrap_servers
    options = ["--format", "json", "--format-option", "framing=confluent", "--compression", "gzip"]
    place = ["--lake", "lake", "--table", "silver.orders", "--sink", "append"]
    assert invoke(["ingest", name, "--bootstrap-servers", servers, *place, *options]) == 0
    [row] = rows_of(tmp_path / "lake/silver/orders")
    assert row["id"] == 1
    [letter] = rows_of(tmp_path / "lake/silver/orders__dead_letters")
    assert letter["reason"] == "INVALID_COMPRESSION"
