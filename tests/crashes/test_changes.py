"""Change envelopes into a keyed table: whatever a database's log tells, and wherever a run is killed."""

from __future__ import annotations

import json
import random
import signal

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle

from rivermouth.engine.audit import audit_flow
from rivermouth.engine.events import StepReached

DEBEZIUM = {
    "format": {"type": "debezium", "schema": "id bigint, amount decimal(10,2), updated_at timestamp"},
    "expectations": [{"name": "positive", "condition": "amount > 0", "action": "dead_letter"}],
    "sink": {"type": "upsert", "keys": ["id"]},
}
BLOCK = {
    "type": "struct",
    "fields": [
        {
            "field": name,
            "fields": [
                {"field": "id", "type": "int64"},
                {
                    "field": "amount",
                    "type": "bytes",
                    "name": "org.apache.kafka.connect.data.Decimal",
                    "parameters": {"scale": "2"},
                },
                {"field": "updated_at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
            ],
        }
        for name in ("before", "after")
    ],
}
CANAL = {
    "format": {"type": "canal", "schema": "id bigint, v int"},
    "expectations": [{"name": "positive", "condition": "v > 0", "action": "drop"}],
    "sink": {"type": "upsert"},
}


def event(op, key, before=None, after=None):
    """A Debezium record: key and value."""
    payload = {"op": op, "before": before, "after": after, "ts_ms": 1, "source": {"connector": "mysql"}}
    return json.dumps({"id": key}).encode(), json.dumps({"schema": BLOCK, "payload": payload}).encode()


def row(key, amount, at=0):
    """A row as the connector sends it, the amount in cents."""
    import base64  # noqa: PLC0415

    cents = amount.to_bytes(4, "big", signed=True)
    return {"id": key, "amount": base64.b64encode(cents).decode(), "updated_at": at}


def send(scene, *records, partition=0):
    """Sends (key, value) records to one partition."""
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers})
    for key, value in records:
        producer.produce(scene.topic, key=key, value=value, partition=partition)
    assert producer.flush(30) == 0


def counts(scene):
    """What the ledger counted."""
    told = oracle.counted(scene.table, scene.side_file)
    return {name: told[name] for name in ("consumed", "merged", "dropped", "dead_lettered")}


def test_debezium(make_scene, spark):
    scene = make_scene(**DEBEZIUM, partitions=1)
    heartbeat = (b'{"serverName": "x"}', b'{"ts_ms": 1}')
    ddl = (b"{}", json.dumps({"source": {}, "ts_ms": 1, "databaseName": "shop", "ddl": "ALTER TABLE t"}).encode())
    plain = (b'{"id": 3}', b'{"op": "r", "after": {"id": 3, "amount": 3.5, "updated_at": "2026-01-02T03:04:05Z"}}')
    send(scene, event("c", 1, None, row(1, 100)), event("c", 2, None, row(2, 200)), plain, heartbeat, ddl)
    assert scene.drain(spark).error is None
    send(scene, event("u", 1, row(1, 100), row(1, 150)), event("d", 2, row(2, 200)), (b'{"id": 2}', None))
    send(scene, (b'{"id": 9}', b"{bad"), event("c", 8, None, row(8, -1)), event("u", 3, None, {"id": "x"}))
    assert scene.drain(spark).error is None
    found = {each["id"]: str(each["amount"]) for each in oracle.rows_of(scene.table)}
    assert found == {1: "1.50", 3: "3.50"}
    letters = {each["kafka_offset"]: (each["reason"], each["field"]) for each in oracle.rows_of(scene.dead_letters)}
    assert letters == {8: ("INVALID_JSON", None), 9: ("EXPECTATION", None), 10: ("FIELD_TYPE", "id")}
    assert counts(scene) == {"consumed": 11, "merged": 6, "dropped": 2, "dead_lettered": 3}
    assert audit_flow(spark, scene.order).problems == ()
    send(scene, event("c", 4, None, row(4, 4)), (None, event("t", 0)[1]), event("c", 5, None, row(5, 5)))
    assert scene.drain(spark).error is None
    send(scene, event("u", 5, None, row(5, 6)))
    assert scene.drain(spark).error is None
    assert {each["id"]: str(each["amount"]) for each in oracle.rows_of(scene.table)} == {5: "0.06"}
    assert audit_flow(spark, scene.order).problems == ()
