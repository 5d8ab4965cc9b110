"""``from: snapshot`` at the command line: each message is all rows of its source, and what vanishes is deleted."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle

PROJECT = """\
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  stock:
    topics: [{topic}]
    format: {{type: json, schema: "{schema}"}}
    table: silver.stock
    sink: {{type: {kind}, from: snapshot, {sink}}}
    expectations: [{expectations}]
"""
DOCUMENT = "at int, items array<struct<id int, v int, `a note` string>>"
SINK = "rows: items, keys: [id], sequence_by: at"


@pytest.fixture
def say(echo_over):
    """Runs a command over a project whose flow has this sink: exit code, what it prints, what it complains of."""

    def say(sink, *arguments, kind="upsert", schema=DOCUMENT, expectations=""):
        return echo_over(PROJECT, *arguments, sink=sink, kind=kind, schema=schema, expectations=expectations)

    return say


@pytest.fixture
def send(broker, orders):
    """Sends values: JSON of what is no bytes."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*values):
        for value in values:
            plain = value is None or isinstance(value, bytes)
            producer.produce(orders, value=value if plain else json.dumps(value).encode(), key=b"stock")
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def rows(tmp_path):
    """The table's rows as a reader without Spark finds them, by these columns."""

    def rows(*names):
        return sorted(tuple(row[name] for name in names) for row in oracle.rows_of(tmp_path / "lake/silver/stock"))

    return rows


REFUSED = [
    ("rows: item, keys: id", DOCUMENT, "rows names 'item', which is no column", "did you mean 'items'?"),
    (
        "rows: at, keys: id",
        DOCUMENT,
        "rows names 'at' of type int, not an array of structs",
        "declare it with the columns of a row: `at` array<struct<id bigint>>",
    ),
    (
        "rows: items, keys: id",
        "ID int, items array<struct<id int>>",
        "column 'ID' is in the rows and outside of them",
        "leave one of the two out of the schema",
    ),
    (
        "rows: items, keys: id, sequence_by: V + 1",
        DOCUMENT,
        "sequence_by names 'v', a column of the rows and not of the snapshot",
        "sequence_by: kafka_timestamp, or another column of the message",
    ),
    (
        "rows: items, keys: id, sequence_by: 'struct(at)'",
        DOCUMENT,
        "sequence_by is of type struct<at:int>, which has no order",
        "name a number, a time or a text: sequence_by: updated_at",
    ),
    (
        "rows: items, keys: [id, at]",
        DOCUMENT,
        "keys names 'at', which is no column of the rows",
        "known: a note, id, ingested_at, kafka_key, kafka_offset, kafka_partition, kafka_timestamp, kafka_topic, v",
    ),
    (
        "rows: items, keys: id, columns: at",
        DOCUMENT,
        "columns names 'at', which is no column of the rows",
        "known: a note, id, v",
    ),
]


@pytest.mark.parametrize(("sink", "schema", "detail", "hint"), REFUSED)
def test_what_the_columns_do_not_give_is_refused(sink, schema, detail, hint, say):
    code, out, err = say(sink, "validate", schema=schema)
    assert (code, out) == (1, "")
    assert err == (
        f"[KEYS_INVALID] flow stock: sink upsert: {detail}; nothing was run\n  at: rivermouth.yml:9\n  hint: {hint}\n"
    )


def state(at, /, **values):
    return {"at": at, "items": [{"id": int(name[1:]), "v": value} for name, value in values.items()]}


def test_the_newest_snapshot_of_a_batch_is_the_table_and_a_broken_one_deletes_nothing(say, send, rows):
    broken = {"at": 50, "items": [{"id": 1}, {"id": 1}]}
    send(state(10, r1=1, r2=2), state(30, r2=3, r3=3), state(20, r1=9, r4=9), broken, {"at": 60})
    code, _out, err = say(SINK, "run")
    assert code == 0, err
    assert "stock: batch 1: 5 consumed, 3 written, 2 dead-lettered" in err
    assert rows("id", "v", "__sequence", "kafka_offset") == [(2, 3, 30, 1), (3, 3, 30, 1)]


@pytest.mark.long
def test_the_table_is_the_newest_snapshot(say, send, rows):
    """That a snapshot which comes again changes nothing is a law of them."""
    send(state(10, r1=1, r2=2), state(30, r2=3, r3=3), state(20, r1=9, r4=9))
    code, _out, err = say(SINK, "run")
    assert code == 0, err
    assert "stock: batch 1: 3 consumed, 3 written" in err
    assert rows("id", "v", "__sequence", "kafka_offset") == [(2, 3, 30, 1), (3, 3, 30, 1)]
    # Late ones bring nothing back; of equal versions the newer message counts; broken ones delete nothing.
    twice = {"at": 50, "items": [{"id": 1}, {"id": 1}]}
    without = {"at": 60}
    send(state(20, r1=9, r4=9), state(30, r3=4, r5=4), twice, without, {"at": 70, "items": [None]}, None, b"[]")
    send({"at": 80, "items": [{"id": "x"}]}, {"items": []}, {"at": 90, "items": [{"v": 1}]})
    code, _out, err = say(SINK, "run")
    assert code == 0, err
    assert "10 consumed, 2 written, 1 dropped (null value 1), 7 dead-lettered" in err
    assert rows("id", "v", "__sequence", "kafka_offset") == [(3, 4, 30, 4), (5, 4, 30, 4)]
    _code, out, _err = say(SINK, "dead-letters", "list", "stock")
    assert [
        reason for reason in ("KEY_TWICE", "ROWS_MISSING", "NOT_AN_OBJECT", "FIELD_TYPE") if reason not in out
    ] == []
    code, out, err = say(SINK, "audit")
    assert (code, err) == (0, "")
    assert "13 records in Kafka: 5 in the table, 7 in the dead letters, 1 in neither (1 counted as dropped)" in out


@pytest.mark.long
def test_a_history_has_a_version_for_each_change(say, send, rows):
    def versions():
        found = rows("id", "__START_AT", "v", "__END_AT", "kafka_offset")
        return [(key, start, end or "now", value, offset) for key, start, value, end, offset in found]

    small = "{name: small, condition: v < 100, action: dead_letter}"
    send(state(10, r1=1, r2=2, r3=3), state(20, r1=1, r2=5), state(30, r1=1, r2=5, r3=3), state(25, r1=1, r2=100))
    code, _out, err = say(SINK, "run", kind="history", expectations=small)
    assert code == 0, err
    assert "stock: batch 1: 4 consumed, 3 written, 1 dead-lettered" in err
    before = [(2, 10, 20, 2, 0), (3, 10, 20, 3, 0), (3, 30, "now", 3, 2)]
    assert versions() == sorted([(1, 10, "now", 1, 2), (2, 20, "now", 5, 2), *before], key=str)
    # Tried again by looser rules it finds its place.
    assert say(SINK, "plan", kind="history")[0] == 0
    code, out, err = say(SINK, "dead-letters", "replay", "stock", kind="history")
    assert code == 0, err
    assert "1 dead letter tried, 1 moved into the table, 0 still fail" in out + err
    now = [(1, 10, "now", 1, 2), (2, 20, 25, 5, 1), (2, 25, 30, 100, 3), (2, 30, "now", 5, 2)]
    assert versions() == sorted([*now, *before], key=str)
    code, out, err = say(SINK, "audit", kind="history")
    assert (code, err) == (0, ""), out
    assert "4 records in Kafka: 4 in the table" in out
