"""Change envelopes into a keyed table: whatever a database's log tells, and wherever a run is killed."""

from __future__ import annotations

import base64
import json
import random
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from tests.crashes import oracle
from tests.crashes.test_replay import with_flow

from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.events import StepReached
from rivermouth.engine.run.requests import Request, execute
from rivermouth.names import DEFAULT_METADATA_COLUMNS
from rivermouth.rows.dead_letter import DeadLetterFilter

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


@pytest.mark.long
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
    send(scene, event("c", 4, None, row(4, 4)), (None, event("t", 0)[1]), event("c", 5, None, row(5, 5)))
    assert scene.drain(spark).error is None
    send(scene, event("u", 5, None, row(5, 6)))
    assert scene.drain(spark).error is None
    assert {each["id"]: str(each["amount"]) for each in oracle.rows_of(scene.table)} == {5: "0.06"}
    assert audit_flow(spark, scene.order).problems == ()
    # Kafka holds the truncation longer than it is remembered.
    [memory] = Path(scene.places.tombstones).iterdir()
    DeltaTable.forPath(spark, str(memory)).delete()
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_debezium_tells_a_history(make_scene, spark):
    options = {**DEBEZIUM, "sink": {"type": "history", "keys": ["id"], "sequence_by": "source_position"}}
    columns = [*DEFAULT_METADATA_COLUMNS, "source_position"]
    scene = make_scene(**options, metadata_columns=columns, partitions=1)

    def at(place, key, value):
        body = json.loads(value)
        body["payload"]["source"] = {"connector": "postgresql", "lsn": place}
        return key, json.dumps(body).encode()

    send(scene, at(10, *event("c", 1, None, row(1, 100))), at(11, *event("c", 2, None, row(2, 200))))
    # The row before a deletion is made up, but for its key.
    made_up = {**row(2, 0), "amount": ""}
    send(scene, at(20, *event("u", 1, None, row(1, 150))), at(30, *event("d", 2, made_up)), (b'{"id": 2}', None))
    assert scene.drain(spark).error is None
    versions = oracle.rows_of(scene.table)
    found = [(each["id"], str(each["amount"]), each["__START_AT"], each["__END_AT"]) for each in versions]
    place = "{:020}".format
    assert sorted(found) == [
        (1, "1.00", place(10), place(20)),
        (1, "1.50", place(20), None),
        (2, "2.00", place(11), place(30)),
    ]
    assert counts(scene) == {"consumed": 5, "merged": 5, "dropped": 0, "dead_lettered": 0}
    assert audit_flow(spark, scene.order).problems == ()


def canal(kind, rows, old=None):
    """A Canal record without a key."""
    body = {"data": rows, "type": kind, "isDdl": False, "pkNames": ["id"], "old": old, "database": "d", "table": "t"}
    return None, json.dumps(body).encode()


def text(key, v):
    """A row as Canal sends it."""
    return {"id": str(key), "v": v if v is None else str(v)}


@pytest.mark.long
def test_canal_has_several_rows_a_record_and_keys_that_change(make_scene, spark):
    scene = make_scene(**CANAL, partitions=1)
    send(scene, canal("INSERT", [text(1, 1), text(2, 2), text(3, 3)]), canal("INSERT", [text(4, 4), text(5, -5)]))
    send(scene, canal("UPDATE", [text(9, 10), text(2, 20)], [{"id": "1", "v": "1"}, {"v": "2"}]))
    send(scene, canal("INSERT", [text(6, 6), text(7, "x")]), (None, b'{"type": "ALTER", "isDdl": true, "data": null}'))
    assert scene.drain(spark).error is None
    assert {each["id"]: each["v"] for each in oracle.rows_of(scene.table)} == {9: 10, 2: 20, 3: 3}
    letters = [(each["kafka_offset"], each["reason"], each["field"]) for each in oracle.rows_of(scene.dead_letters)]
    assert letters == [(3, "FIELD_TYPE", "v")]
    assert counts(scene) == {"consumed": 5, "merged": 2, "dropped": 2, "dead_lettered": 1}
    # Keys that move on by one, the last row first; and a row that comes twice in one record.
    send(scene, canal("UPDATE", [text(4, 3), text(3, 20)], [{"id": "3"}, {"id": "2"}]))
    send(scene, canal("INSERT", [text(8, 1), text(8, 2)]), canal("DELETE", [text(9, 10)]))
    assert scene.drain(spark).error is None
    assert {each["id"]: each["v"] for each in oracle.rows_of(scene.table)} == {4: 3, 3: 20, 8: 2}
    assert audit_flow(spark, scene.order).problems == ()


def at(milliseconds, record):
    """A Canal record that says when the source made it."""
    return record[0], json.dumps({**json.loads(record[1]), "es": milliseconds}).encode()


@pytest.mark.long
@pytest.mark.parametrize("sink", ["upsert", "history"])
def test_a_truncation_in_an_order_of_several_parts(make_scene, spark, sink):
    order = ["source_timestamp", "kafka_offset"]
    options = {**CANAL, "sink": {"type": sink, "keys": ["id"], "sequence_by": order}}
    scene = make_scene(**options, metadata_columns=[*DEFAULT_METADATA_COLUMNS, "source_timestamp"], partitions=1)
    truncation = canal("TRUNCATE", None)
    send(scene, at(1000, canal("INSERT", [text(1, 1), text(2, 2)])))
    send(scene, at(1000, canal("UPDATE", [text(1, 5)], [{"v": "1"}])))
    send(scene, at(1000, truncation), at(1000, canal("INSERT", [text(3, 3)])))
    assert scene.drain(spark).error is None
    # One that comes late, and one that does not say when it was.
    send(scene, at(900, canal("INSERT", [text(4, 4)])), truncation, at(2000, canal("UPDATE", [text(3, 4)])))
    assert scene.drain(spark).error is None
    rows = oracle.rows_of(scene.table)
    if sink == "upsert":
        assert {each["id"]: each["v"] for each in rows} == {3: 4}
    else:
        ends = [[each[name] and each[name]["_2"] for name in ("__START_AT", "__END_AT")] for each in rows]
        versions = sorted((each["id"], each["v"], *place) for each, place in zip(rows, ends, strict=True))
        assert versions == [(1, 1, 0, 1), (1, 5, 1, 2), (2, 2, 0, 2), (3, 3, 3, 6), (3, 4, 6, None), (4, 4, 4, 2)]
    assert counts(scene) == {"consumed": 7, "merged": 6, "dropped": 0, "dead_lettered": 1}
    letters = [(each["kafka_offset"], each["reason"]) for each in oracle.rows_of(scene.dead_letters)]
    assert letters == [(5, "SEQUENCE_NULL")]
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_letters_with_several_rows_are_replayed(make_scene, spark):
    strict = [{"name": "positive", "condition": "v > 0", "action": "dead_letter"}]
    scene = make_scene(**{**CANAL, "expectations": strict}, partitions=1)
    send(scene, canal("INSERT", [text(1, 1), text(2, -2)]), canal("INSERT", [text(3, 3)]))
    send(scene, canal("UPDATE", [text(4, -4)], [{"id": "3"}]), canal("INSERT", [text(1, 11)]))
    assert scene.drain(spark).error is None
    assert {each["id"]: each["v"] for each in oracle.rows_of(scene.table)} == {3: 3, 1: 11}
    assert counts(scene) == {"consumed": 4, "merged": 2, "dropped": 0, "dead_lettered": 2}
    scene.options["expectations"] = []
    answer = with_flow(scene, spark, lambda run: execute(run, Request("replay", DeadLetterFilter())))
    assert (answer["tried"], answer["replayed"]) == (2, 2)
    assert {each["id"]: each["v"] for each in oracle.rows_of(scene.table)} == {4: -4, 1: 11, 2: -2}
    assert audit_flow(spark, scene.order).problems == ()


def history(scene, count, *, seed):
    """Sends random Canal messages of one partition; the rows that they come to, and the counts."""
    chance, rows = random.Random(seed), {}
    told = {"consumed": 0, "merged": 0, "dropped": 0, "dead_lettered": 0}
    records = []
    for _ in range(count):
        kind = chance.choice(["INSERT", "UPDATE", "DELETE", "ALTER", "broken"])
        place, after = "merged", dict(rows)
        if kind == "INSERT":
            new = [(chance.randrange(30), chance.randint(-1, 99)) for _ in range(chance.randint(1, 3))]
            after.update(new)
            record = canal(kind, [text(*each) for each in new])
            place = "dropped" if any(v <= 0 for _, v in new) else place
        elif kind == "UPDATE" and rows:
            old, new, v = chance.choice(sorted(rows)), chance.randrange(30), chance.randint(1, 99)
            after.pop(old)
            after[new] = v
            record = canal(kind, [text(new, v)], [{"id": str(old)} if old != new else {"v": "0"}])
        elif kind == "DELETE" and rows:
            gone = chance.sample(sorted(rows), min(len(rows), 2))
            for key in gone:
                after.pop(key)
            record = canal(kind, [text(key, 1) for key in gone])
        elif kind == "ALTER":
            record, place = (None, b'{"type": "ALTER", "isDdl": true, "data": null}'), "dropped"
        else:
            record, place = canal("INSERT", [text(1, 1), text(2, "x")]), "dead_lettered"
        told["consumed"] += 1
        told[place] += 1
        rows = after if place == "merged" else rows
        records.append(record)
    send(scene, *records)
    return rows, told


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_after_the_commit(make_scene, children, spark):
    scene = make_scene(**CANAL, partitions=1, trigger={"every": "200 ms", "max_offsets": 100})
    rows, told = history(scene, 160, seed=3)
    child = children.run(scene, own_jvm=False, follow=True, kill={"on": "written", "nth": 1, "who": "python"})
    children.get_ready(own_jvm=False)
    assert child.code == -signal.SIGKILL, child.said()
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    assert {each["id"]: each["v"] for each in oracle.rows_of(scene.table)} == rows
    assert counts(scene) == told
    assert audit_flow(spark, scene.order).problems == ()
    letters = [each["kafka_offset"] for each in oracle.rows_of(scene.dead_letters)]
    assert len(set(letters)) == len(letters) == told["dead_lettered"]


@pytest.mark.long
@pytest.mark.parametrize("sink", [{"type": "upsert"}, {"type": "history", "sequence_by": "kafka_offset"}])
def test_after_a_crash_a_record_that_came_and_went_makes_no_letter(make_scene, spark, sink):
    scene = make_scene(**{**CANAL, "sink": sink}, partitions=1)
    moved = canal("UPDATE", [text(3, 1), text(5, 1)], [{"id": "1"}, {"id": "3"}])
    send(scene, canal("INSERT", [text(1, 1), text(2, 2)]), moved, canal("DELETE", [text(5, 1)]))
    send(scene, canal("INSERT", [text(7, "x")]))
    reached = []

    def fail(event):
        if isinstance(event, StepReached) and (event.step == "write_dead_letters" or reached):
            reached.append(event)
            raise OSError("the machine is going down")

    assert scene.drain(spark, fail).error is not None
    assert scene.drain(spark).error is None
    assert counts(scene) == {"consumed": 4, "merged": 3, "dropped": 0, "dead_lettered": 1}
    rows = [each for each in oracle.rows_of(scene.table) if each.get("__END_AT") is None]
    assert {each["id"]: each["v"] for each in rows} == {2: 2}
    assert audit_flow(spark, scene.order).problems == ()
