"""A source's schema changes in the middle of a change stream: every record is in the table or a dead letter."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

from rivermouth.domain.project.locations import resolve
from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.events import Warned
from rivermouth.engine.flow.flow_inputs import OpenSource
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.open.open_flow import open_flow
from rivermouth.engine.open.sources import source_of
from rivermouth.engine.run.requests import Request, execute, handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.rows.dead_letter import DeadLetterFilter
from rivermouth.spec import Flow, ProjectSpec

OLD = "id int, v int, note string, seq int, op string"
NEW = "id bigint, v bigint, extra string, seq bigint, op string"

# By their offsets: what comes while the flow declares the old schema, and what becomes of it.
CHANGES = [
    ({"id": 1, "v": 1, "note": "a", "seq": 10}, None),
    ({"id": 2, "v": 2, "note": "b", "seq": 10, "extra": "x"}, None),
    ({"id": 3, "v": 3, "seq": 10}, None),
    ({"id": 4, "v": 4, "note": "d", "seq": 10}, None),
    ({"id": 4, "seq": 30, "op": "D"}, None),
    ({"id": 1, "v": "5", "seq": 20}, "FIELD_TYPE v"),
    ({"id": 2, "v": 3_000_000_000, "seq": 20}, "FIELD_TYPE v"),
    ({"key": 5, "v": 5, "seq": 20}, "KEY_NULL None"),
    ({"id": "5", "v": 5, "seq": 20}, "FIELD_TYPE id"),
    ({"id": 5_000_000_000, "v": 5, "seq": 20}, "FIELD_TYPE id"),
    ({"id": 1, "v": 5, "seq": "2026-01-01"}, "FIELD_TYPE seq"),
    ({"id": 1, "v": 5, "seq": 20.5}, "FIELD_TYPE seq"),
    ({"id": 1, "v": 5, "at": 20}, "SEQUENCE_NULL None"),
]


def order_of(topic, broker, lake, kind, schema, **sink):
    sink = {"type": kind, "keys": ["id"], "sequence_by": "seq", "apply_as_deletes": "op = 'D'", **sink}
    form = {"type": "json", "schema": schema}
    flow = Flow(name="changing", topics=(topic,), format=form, table="silver.changing", sink=sink)
    places = resolve(ProjectSpec(lake=str(lake)), flow, base=Path(lake), environ={})
    return FlowJob(flow, places, broker.bootstrap_servers, {}, at="rivermouth.yml:9")


def send(broker, topic, *bodies):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for body in bodies:
        producer.produce(topic, value=json.dumps(body).encode(), key=b"k")
    assert producer.flush(30) == 0


def drain(spark, order):
    heard = []
    (outcome,) = Supervisor(spark, heard.append, handle_pending).run([order], keep_following=False)
    return outcome, [event.message for event in heard if isinstance(event, Warned)]


def replay(spark, order):
    with Kafka(order.bootstrap_servers, {}) as kafka:
        source = source_of(order.flow, order.bootstrap_servers, {})
        run = open_flow(spark, order, OpenSource(kafka, source), lambda _: None)
        done = execute(run, Request("replay", DeadLetterFilter()))
        return done["tried"], done["replayed"], done["remaining"]


def rows(spark, order, *names):
    table = spark.read.format("delta").load(order.places.table)
    return sorted((tuple(row) for row in table.select(*names).collect()), key=str)


MISMATCHES = [
    (NEW.replace("id bigint", "id string"), {}, "its column id is bigint, the flow writes string"),
    (NEW.replace("seq bigint", "seq timestamp"), {}, "its column seq is bigint, the flow writes timestamp"),
    (NEW.replace("id", "key", 1), {"keys": ["key"]}, "its rows have the keys id, and those of the flow key"),
    (NEW, {"sequence_by": "v"}, "its rows are ordered by seq, and those of the flow v"),
]
WARNED = "the declared schema adds column extra string, widens id to bigint, widens v to bigint, widens seq to bigint"
# Key, value, the column that is gone, the one that is new, and the record: of an updated row the first stays.
ROWS = {
    "upsert": [
        (1, 1, "a", None, 0),
        (2, 3_000_000_000, "b", None, 6),
        (3, 7, None, "y", 14),
        (5_000_000_000, 5, None, None, 9),
    ],
    "history": [
        (1, 1, "a", None, 0, 10, None),
        (2, 2, "b", None, 1, 10, 20),
        (2, 3_000_000_000, None, None, 6, 20, None),
        (3, 3, None, None, 2, 10, 40),
        (3, 7, None, "y", 14, 40, None),
        (4, 4, "d", None, 3, 10, 20),
        (4, 9, None, None, 13, 20, 30),
        (5_000_000_000, 5, None, None, 9, 20, None),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["upsert", "history"])
def test_no_record_of_a_changing_source_is_lost(kind, spark, broker, topic, tmp_path):
    name = topic()
    send(broker, name, *(body for body, _ in CHANGES))
    old = order_of(name, broker, tmp_path, kind, OLD)
    outcome, _ = drain(spark, old)
    assert outcome.error is None
    told = outcome.counts
    assert (told.consumed, told.merged, told.dead_lettered) == (13, 5, 8)
    letters = spark.read.format("delta").load(old.places.dead_letter_table).orderBy("kafka_offset").collect()
    found = {row["kafka_offset"]: f"{row['reason']} {row['field']}" for row in letters}
    assert found == {offset: why for offset, (_, why) in enumerate(CHANGES) if why}

    # The flow learns of it: two columns are wider, one is new, one is gone.
    send(broker, name, {"id": 4, "v": 9, "seq": 20}, {"id": 3, "v": 7, "extra": "y", "seq": 40})
    new = order_of(name, broker, tmp_path, kind, NEW)
    outcome, warned = drain(spark, new)
    assert outcome.error is None, str(outcome.error)
    more = ", widens __START_AT to bigint, widens __END_AT to bigint" if kind == "history" else ""
    assert warned == [WARNED + more]
    # What fits now; by its key of now, and by what was deleted under the one of then.
    assert replay(spark, new) == (8, 2, 6)
    spans = ("__START_AT", "__END_AT") if kind == "history" else ()
    assert rows(spark, new, "id", "v", "note", "extra", "kafka_offset", *spans) == ROWS[kind]
    assert audit_flow(spark, new).problems == ()

    for schema, sink, detail in MISMATCHES:
        kept = "keep the sink, keys and sequence_by that the table was made with"
        fix = kept if sink else "declare the schema that the table has"
        refused = order_of(name, broker, tmp_path, kind, schema, **sink)
        outcome, _ = drain(spark, refused)
        assert str(outcome.error) == (
            f"[TABLE_MISMATCH] flow changing: table {refused.places.table} does not fit the flow: "
            f"{detail}; nothing was written\n"
            "  at: rivermouth.yml:9\n"
            f"  hint: write into a new table, or {fix}"
        )
