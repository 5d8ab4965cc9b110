"""Partial updates in ``sink: upsert`` at the command line: what is refused, and a topic that becomes its table."""

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
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, v int, {tag}seq int, op string, changed array<string>"}}
    expectations: [{{name: small, condition: "v < {most} OR v IS NULL", action: dead_letter}}]
    table: {table}
    sink: {{type: upsert, keys: id, {sink}}}
    trigger: {{max_offsets: {at_once}}}
"""


@pytest.fixture
def say(echo_over):
    """Runs a command over a project whose flow has this sink: exit code, what it prints, what it complains of."""

    def say(sink, *arguments, most=100, table="silver.orders", at_once=100, tag="tag string, "):
        return echo_over(PROJECT, *arguments, sink=sink, most=most, table=table, at_once=at_once, tag=tag)

    return say


@pytest.fixture
def send(broker, orders):
    """Sends records; a key alone is a tombstone."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*bodies):
        for body in bodies:
            key, value = (body, None) if isinstance(body, int) else (body["id"], json.dumps(body).encode())
            producer.produce(orders, value=value, key=str(key).encode())
        assert producer.flush(30) == 0

    return send


REFUSED = [
    (
        "ignore_null_updates_columns: [tags]",
        "ignore_null_updates_columns names 'tags', which is no column",
        "did you mean 'tag'?",
    ),
    (
        "ignore_null_updates_except_columns: [tags]",
        "ignore_null_updates_except_columns names 'tags', which is no column",
        "did you mean 'tag'?",
    ),
    (
        "ignore_null_updates_columns: [v, id]",
        "ignore_null_updates_columns names 'id', by which the table has its keys or its order",
        "leave id out of ignore_null_updates_columns",
    ),
    (
        "sequence_by: seq, ignore_null_updates_columns: [seq]",
        "ignore_null_updates_columns names 'seq', by which the table has its keys or its order",
        "leave seq out of ignore_null_updates_columns",
    ),
    (
        "columns_to_update: change",
        "columns_to_update names 'change', which is no column",
        "did you mean 'changed'?",
    ),
    (
        "columns_to_update: op",
        "columns_to_update names 'op' of type string, not array<string>",
        "declare it as a list of names: `op` array<string>",
    ),
]


@pytest.mark.parametrize(("sink", "detail", "hint"), REFUSED)
def test_what_the_columns_do_not_give_is_refused(sink, detail, hint, say):
    code, out, err = say(sink, "validate")
    assert (code, out) == (1, "")
    assert err == (
        f"[KEYS_INVALID] flow orders: sink upsert: {detail}; nothing was run\n  at: rivermouth.yml:10\n  hint: {hint}\n"
    )


def test_a_column_that_is_derived_from_a_part_is_refused(say):
    table = "{name: silver.orders, partition_by: [{half: v % 2}]}"
    code, out, err = say("ignore_null_updates: true", "validate", table=table)
    assert (code, out) == (1, "")
    assert err == (
        "[KEYS_INVALID] flow orders: sink upsert: column 'half' is derived from 'v', which a record need not bring; "
        "nothing was run\n"
        "  at: rivermouth.yml:10\n"
        "  hint: partition_by: a column that each record brings, or a key\n"
    )


def rows(tmp_path):
    found = oracle.rows_of(tmp_path / "lake/silver/orders")
    return sorted((row["id"], row["v"], row["tag"], row["seq"], row["kafka_offset"]) for row in found)


@pytest.mark.long
def test_late_records_fill_what_newer_ones_left_out(say, send, tmp_path):
    sink = (
        "sequence_by: seq, ignore_null_updates: true, apply_as_deletes: op = 'D', apply_as_truncates: op = 'T', "
        "except_columns: [op, changed]"
    )
    send(
        {"id": 1, "v": 10, "tag": "a", "seq": 1},
        {"id": 1, "seq": 5},
        {"id": 2, "v": 20, "tag": "b", "seq": 1},
        {"id": 2, "v": 500, "seq": 3},  # a dead letter
        {"id": 3, "v": 30, "tag": "c", "seq": 2},
        {"id": 3, "tag": "d", "seq": 7},
    )
    code, _out, err = say(sink, "run")
    assert code == 0, err
    assert "orders: batch 1: 6 consumed, 5 written, 1 dead-lettered" in err
    assert rows(tmp_path) == [(1, 10, "a", 5, 1), (2, 20, "b", 1, 2), (3, 30, "d", 7, 5)]
    # Late: a value, and deletions that are newer than some values and older than others.
    send(
        {"id": 1, "v": 12, "seq": 3},
        {"id": 1, "op": "D", "seq": 2},
        {"id": 2, "tag": "e", "seq": 4},
        {"id": 3, "op": "D", "seq": 4},
    )
    assert say(sink, "run")[0] == 0
    assert rows(tmp_path) == [(1, 12, None, 5, 1), (2, 20, "e", 4, 8), (3, None, "d", 7, 5)]
    # Later still, and too late for the deletion; then the dead letter, which is older than the row by now.
    send({"id": 3, "v": 31, "seq": 3}, {"id": 3, "v": 35, "seq": 5}, {"id": 1, "tag": "f", "seq": 2})
    assert say(sink, "run")[0] == 0
    code, out, err = say(sink, "dead-letters", "replay", "orders", most=1000)
    assert code == 0, err
    assert rows(tmp_path) == [(1, 12, "f", 5, 1), (2, 500, "e", 4, 8), (3, 35, "d", 7, 5)]
    # A truncation takes from a row what is older; a tombstone comes after the newest record of its key.
    send({"id": 0, "op": "T", "seq": 4}, 3, {"id": 3, "v": 36, "seq": 6}, {"id": 3, "tag": "g", "seq": 8})
    assert say(sink, "run", most=1000)[0] == 0
    assert rows(tmp_path) == [(1, None, None, 5, 1), (2, None, "e", 4, 8), (3, None, "g", 8, 16)]
    code, out, err = say(sink, "audit", most=1000)
    assert (code, err) == (0, "")
    assert "orders: every record is in exactly one place" in out
    assert "17 records in Kafka: 17 in the table, 0 in the dead letters, 0 in neither" in out


@pytest.mark.long
def test_a_record_lists_the_columns_that_it_changes(say, send, tmp_path):
    sink = "sequence_by: seq, columns_to_update: changed, except_columns: [op]"
    send(
        {"id": 1, "v": 10, "tag": "a", "seq": 1, "changed": None},
        {"id": 1, "v": 99, "tag": None, "seq": 4, "changed": ["TAG"]},
        {"id": 1, "v": 11, "tag": "b", "seq": 2, "changed": ["v", "tag"]},
        {"id": 2, "v": 20, "tag": "c", "seq": 2, "changed": ["nobody"]},
    )
    assert say(sink, "run")[0] == 0
    assert rows(tmp_path) == [(1, 11, None, 4, 1), (2, None, None, 2, 3)]
    assert say(sink, "audit")[0] == 0


TABLE_IS_OTHERWISE = [
    ("ignore_null_updates: true", "whole records", "values that are not null"),
    ("ignore_null_updates_columns: [tag, v]", "whole records", "values of tag and v that are not null"),
    (
        "ignore_null_updates_except_columns: [v]",
        "whole records",
        "values of all columns but v that are not null",
    ),
    ("columns_to_update: changed", "whole records", "the columns that changed lists"),
]


def test_a_table_with_other_updates_is_refused(say, tmp_path):
    assert say("", "run")[0] == 0
    for sink, its, wanted in TABLE_IS_OTHERWISE:
        code, _out, err = say(sink, "run")
        assert code == 1
        assert (
            f"[TABLE_MISMATCH] flow orders: table {tmp_path}/lake/silver/orders does not fit the flow: "
            f"its rows are updated by {its}, and those of the flow {wanted}; nothing was"
        ) in err


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rewind_brings_what_the_corrected_rules_say(say, send, orders, tmp_path):
    sink = "sequence_by: seq, ignore_null_updates: true, apply_as_deletes: op = '{}', except_columns: [op, changed]"
    wrong, right = sink.format("X"), sink.format("Y")
    send(
        {"id": 1, "v": 10, "tag": "a", "seq": 1},
        {"id": 2, "v": 20, "tag": "b", "seq": 1},
        {"id": 3, "v": 1, "seq": 1},
        {"id": 1, "seq": 5, "op": "X"},
        {"id": 2, "tag": "c", "seq": 3, "op": "Y"},
        {"id": 3, "v": 2, "seq": 2, "op": "Y"},
        {"id": 1, "v": 30, "seq": 7},
        {"id": 2, "v": 21, "seq": 5},
        {"id": 4, "v": 1, "tag": "d", "seq": 9},
        4,
        {"id": 4, "v": 2, "seq": 8},
    )
    assert say(wrong, "run")[0] == 0
    assert rows(tmp_path) == [(1, 30, None, 7, 6), (2, 21, "c", 5, 7), (3, 2, None, 2, 5)]
    # In batches that part the records of a key, so that what is remembered of the others counts.
    code, _out, err = say(right, "run", "orders", "--rewind", f"{orders}-0:earliest", "--why", "rules", at_once=3)
    assert code == 0, err
    assert rows(tmp_path) == [(1, 30, "a", 7, 6), (2, 21, None, 5, 7)]
    code, out, err = say(right, "audit")
    assert (code, err) == (0, "")
    assert "11 records in Kafka: 11 in the table, 0 in the dead letters, 0 in neither" in out
    # A tombstone stays behind what it followed, which is not read again.
    code, _out, err = say(right, "run", "orders", "--rewind", f"{orders}-0:9", "--why", "once more")
    assert code == 0, err
    assert rows(tmp_path) == [(1, 30, "a", 7, 6), (2, 21, None, 5, 7)]


@pytest.mark.long
def test_a_column_that_goes_and_comes_again_keeps_the_places_of_its_values(say, send, tmp_path):
    sink = "sequence_by: seq, ignore_null_updates: true, apply_as_deletes: op = 'D', except_columns: [op, changed]"
    send(
        {"id": 1, "v": 10, "tag": "a", "seq": 2},
        {"id": 2, "v": 20, "tag": "b", "seq": 4},
        {"id": 3, "v": 30, "tag": "c", "seq": 2},
    )
    assert say(sink, "run", tag="")[0] == 0
    code, _out, err = say(sink, "run")
    assert code == 0, err
    # What older records had in the column nobody has read.
    code, out, err = say(sink, "audit")
    assert (code, err) == (0, "")
    assert "3 records in Kafka: 3 in the table, 0 in the dead letters, 0 in neither" in out
    send({"id": 1, "tag": "a", "seq": 3}, {"id": 2, "tag": "b", "seq": 3}, {"id": 3, "tag": "c", "seq": 3})
    assert say(sink, "run")[0] == 0
    # While it is away the rows go on, and a deletion comes late.
    send({"id": 1, "v": 11, "seq": 8}, {"id": 2, "v": 21, "seq": 8}, {"id": 3, "v": 31, "seq": 8})
    send({"id": 3, "op": "D", "seq": 5})
    code, _out, err = say(sink, "run", tag="")
    assert code == 0, err
    assert rows(tmp_path) == [(1, 11, "a", 8, 6), (2, 21, "b", 8, 7), (3, 31, None, 8, 8)]
    send({"id": 1, "tag": "d", "seq": 6}, {"id": 2, "tag": "e", "seq": 1}, {"id": 3, "tag": "f", "seq": 4})
    assert say(sink, "run")[0] == 0
    assert rows(tmp_path) == [(1, 11, "d", 8, 6), (2, 21, "b", 8, 7), (3, 31, None, 8, 8)]
    code, out, err = say(sink, "audit")
    assert (code, err) == (0, "")
    assert "13 records in Kafka: 13 in the table, 0 in the dead letters, 0 in neither" in out
