"""A flow that reads the table of another one: the same records, coordinates and counts as from Kafka, and no broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import counted, ledger_of, rows_of

from rivermouth.cli.main import invoke

# No broker listens there, and nobody shall ask for one.
NOWHERE = "127.0.0.1:1"
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:  # before the flow whose table it reads
    source: {{table: bronze.orders}}
    format: {{type: json, schema: "id bigint, amount double"}}
    metadata_columns: [kafka_timestamp, kafka_key, kafka_headers]
    expectations:
      - {{name: positive, condition: amount > 0, action: dead_letter}}
    table: silver.orders
  newest:
    source: {{table: bronze.orders}}
    format: {{type: json, schema: "id bigint, amount double"}}
    table: silver.newest
    sink: {{type: upsert, keys: [id]}}
  raw:
    topics: [{topic}]
    format: raw
    null_values: keep
    metadata_columns: [kafka_timestamp, kafka_key, kafka_headers]
    table: bronze.orders
    starting_offsets: {starting}
"""


class Shop:
    """A project over one topic of two partitions, in a folder of its own."""

    def __init__(self, folder: Path, servers: str, topic: str, capsys) -> None:
        self.folder = folder
        self.topic = topic
        self._servers = servers
        self._capsys = capsys
        self.write()

    def write(self, servers: str | None = None, starting: str = "earliest", **changes: str) -> None:
        text = PROJECT.format(servers=servers or self._servers, topic=self.topic, starting=starting)
        for old, new in changes.items():
            text = text.replace(old, new)
        (self.folder / "rivermouth.yml").write_text(text)

    def send(self, *values: bytes | None, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        for value in values:
            key = str(json.loads(value)["id"]).encode() if value and value.endswith(b"}") else b"1"
            producer.produce(self.topic, value=value, key=key, partition=partition, headers={"h": b"\xff"})
        assert producer.flush(30) == 0

    def say(self, *arguments: str) -> tuple[int, str, str]:
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> dict:
        code, out, err = self.say(*arguments, "--output", "json")
        assert code == 0, err
        return json.loads(out.splitlines()[-1] if arguments[0] == "run" else out)

    def rows(self, table: str) -> list[dict]:
        return rows_of(self.folder / "lake" / table)

    def places(self, table: str) -> Counter:
        return Counter((row["kafka_partition"], row["kafka_offset"]) for row in self.rows(table))

    def counts(self, table: str) -> dict:
        side = self.folder / f"lake/_rivermouth/ledger/{table.replace('/', '.')}.json"
        return counted(self.folder / "lake" / table, side)


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, broker.bootstrap_servers, topic(partitions=2), capsys)


def a(key: int, amount: float) -> bytes:
    return json.dumps({"id": key, "amount": amount}).encode()


def test_bronze_stands_in_for_the_broker(shop):
    shop.send(a(1, 1), b"{bad", a(2, -1), a(1, 2), None)
    shop.send(a(3, 3), partition=1)
    code, _out, err = shop.say("run")
    assert code == 0, err
    assert shop.places("bronze/orders") == {(0, offset): 1 for offset in range(5)} | {(1, 0): 1}
    assert shop.places("silver/orders") == {(0, 0): 1, (0, 3): 1, (1, 0): 1}
    letters = {row["kafka_offset"]: row for row in shop.rows("silver/orders__dead_letters")}
    assert {offset: (row["stage"], row["kafka_value"]) for offset, row in letters.items()} == {
        1: ("decode", b"{bad"),
        2: ("expectation", a(2, -1)),
    }
    assert letters[1]["kafka_headers"] == [{"key": "h", "value": b"\xff"}]
    counts = shop.counts("silver/orders")
    assert [counts[name] for name in ("consumed", "written", "dead_lettered", "null_values")] == [6, 3, 2, 1]
    # The tombstone deletes key 1, which is Kafka's.
    assert {row["id"]: row["amount"] for row in shop.rows("silver/newest")} == {2: -1.0, 3: 3.0}
    entry, bronze = ledger_of(shop.folder / "lake/silver/orders")[-1], ledger_of(shop.folder / "lake/bronze/orders")[-1]
    assert entry["topics"][shop.topic]["next"] == {"0": 5, "1": 1}
    assert entry["topics"][shop.topic]["id"] == bronze["topics"][shop.topic]["id"] is not None

    shop.send(a(4, 4))
    assert shop.say("run", "raw")[0] == 0
    shop.write(NOWHERE)
    flows = shop.json("status", "orders", "newest")["flows"]
    assert [(each["code"], each["lag"], each["message"]) for each in flows] == [
        (None, 1, "1 offsets behind, and nobody is writing")
    ] * 2
    plans = shop.json("plan", "orders", "newest")
    assert "problem" not in str(plans) or all(each["problem"] is None for each in plans["plans"])
    code, _out, err = shop.say("run", "orders", "newest")
    assert code == 0, err
    assert shop.places("silver/orders") == {(0, 0): 1, (0, 3): 1, (0, 5): 1, (1, 0): 1}
    assert {row["id"]: row["amount"] for row in shop.rows("silver/newest")} == {2: -1.0, 3: 3.0, 4: 4.0}
    code, out, err = shop.say("audit", "orders", "newest")
    assert code == 0, out + err
