"""``sink: history`` at the command line: what it refuses, and what late, equal and deleting records come to."""

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
    format: {{type: json, schema: "{schema}"}}
    table: silver.orders
    sink: {{type: {kind}, {sink}}}
    expectations: [{expectations}]
"""
SCHEMA = "id bigint, v int, `a note` string, tags map<string,int>, seq int, op string"
SINK = "keys: id, sequence_by: seq, apply_as_deletes: op = 'D', except_columns: [op, tags]"


@pytest.fixture
def say(echo_over):
    """Runs a command over a project whose flow has this sink: exit code, what it prints, what it complains of."""

    def say(sink, *arguments, kind="history", schema=SCHEMA, expectations=""):
        return echo_over(PROJECT, *arguments, sink=sink, kind=kind, schema=schema, expectations=expectations)

    return say


@pytest.fixture
def send(broker, orders):
    """Sends changes, each (key, sequence, value, op); a tombstone is a key alone."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*changes):
        for key, *rest in changes:
            body = dict(zip(("seq", "v", "op", "a note"), rest, strict=False))
            value = json.dumps({"id": key, **body}).encode() if rest else None
            producer.produce(orders, value=value, key=str(key).encode())
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def versions(tmp_path):
    """The table's rows as a reader without Spark finds them: (key, start, end, value, offset)."""

    def versions():
        rows = oracle.rows_of(tmp_path / "lake/silver/orders")
        names = ("id", "__START_AT", "__END_AT", "v", "kafka_offset")
        return sorted(tuple(row[name] for name in names) for row in rows)

    return versions


REFUSED = [
    (
        "keys: id, sequence_by: seq, track_history_columns: [notes]",
        "track_history_columns names 'notes', which is no column",
        "did you mean 'a note'?",
    ),
    (
        "keys: id, sequence_by: seq, track_history_except_columns: [notes]",
        "track_history_except_columns names 'notes', which is no column",
        "did you mean 'a note'?",
    ),
    (
        "keys: id, sequence_by: seq, track_history_except_columns: [v]",
        "column 'tags' is of type map<string,int>, whose changes cannot be seen",
        "track_history_except_columns: [tags]",
    ),
    (
        "keys: id, sequence_by: 'coalesce(`SEQ`, 0)', except_columns: [tags], track_history_except_columns: [v]",
        "column 'seq', which sequence_by uses, would make a version with each record",
        "track_history_except_columns: [v, seq]",
    ),
    (
        "keys: [id, {__start_at: v}], sequence_by: seq",
        "column '__start_at' has the name of a column that says when a version is valid",
        "sink: {type: history, except_columns: [__start_at]}",
    ),
]


@pytest.mark.parametrize(("sink", "detail", "hint"), REFUSED)
def test_what_the_columns_do_not_give_is_refused(sink, detail, hint, say):
    code, out, err = say(sink, "validate")
    assert (code, out) == (1, "")
    assert err == (
        f"[KEYS_INVALID] flow orders: sink history: {detail}; nothing was run\n  at: rivermouth.yml:9\n  hint: {hint}\n"
    )


def test_columns_that_are_excluded_anyway_may_be_named_as_those_that_make_no_version(say):
    sink = "keys: id, sequence_by: seq, except_columns: [op, tags], track_history_except_columns: [op, tags, v]"
    code, _out, err = say(sink, "validate")
    assert code == 0, err


@pytest.mark.long
def test_a_column_that_is_excluded_anyway_may_be_named_as_one_that_makes_no_version(say, send, versions):
    sink = (
        "keys: id, sequence_by: seq, apply_as_deletes: op = 'D', except_columns: [op, tags, a note], "
        "track_history_except_columns: [op, tags, a note, kafka_offset, ingested_at]"
    )
    send((1, 1, 10, "I", "x"), (1, 2, 10, "U", "y"), (1, 3, 11, "U", "y"))
    code, _out, err = say(sink, "run")
    assert code == 0, err
    assert [row[:4] for row in versions()] == [(1, 1, 3, 10), (1, 3, None, 11)]


OTHERS = [
    ("keys: [id, {__T: v}], sequence_by: seq", "`a note`", "__T", "keys: [{another_name: ...}]"),
    ("keys: __w, sequence_by: seq", "__w", "__w", "keys: [{another_name: __w}], except_columns: [__w]"),
    (
        "keys: id, sequence_by: seq, except_columns: [__up]",
        "__up string, __Shown",
        "__Shown",
        "sink: {type: history, except_columns: [__Shown]}",
    ),
]


@pytest.mark.parametrize(("sink", "column", "name", "fix"), OTHERS)
def test_names_of_the_way_are_refused(sink, column, name, fix, say):
    code, out, err = say(sink, "validate", schema=SCHEMA.replace("`a note`", column))
    assert (code, out) == (1, "")
    assert err == (
        f"[COLUMN_RESERVED] flow orders: column {name!r} has a name that rivermouth keeps for itself; nothing was run\n"
        f"  at: rivermouth.yml:5\n  hint: {fix}\n"
    )


@pytest.mark.long
def test_late_equal_and_deleting_records_find_their_place(say, send, versions, orders):
    sink = f"{SINK}, apply_as_truncates: op = 'T'"
    send((1, 10, 1, "U"), (1, 30, 3, "U"), (2, 10, 1, "U"), (2, 20, 0, "D"))
    assert say(sink, "run")[0] == 0
    assert versions() == [(1, 10, 30, 1, 0), (1, 30, None, 3, 1), (2, 10, 20, 1, 2)]
    # A late version, a late deletion, a late version before a known deletion; a deletion before any version.
    send((1, 20, 2, "U"), (2, 15, 0, "D"), (2, 17, 7, "U"), (3, 20, 0, "D"))
    code, _out, err = say(sink, "run")
    assert code == 0, err
    assert "orders: batch 2: 4 consumed, 4 written" in err
    assert versions() == [
        (1, 10, 20, 1, 0),
        (1, 20, 30, 2, 4),
        (1, 30, None, 3, 1),
        (2, 10, 15, 1, 2),
        (2, 17, 20, 7, 6),
    ]
    # The version that the deletion ends; of equals the later one; a deletion takes the place of an equal version.
    send((3, 5, 5, "U"), (1, 20, 9, "U"), (2, 17, 0, "D"), (4, 10, 1, "U"), (4,), (5, 10, 1, "U"), (5, 50, 2, "U"))
    send((0, 40, 0, "T"), (None, 1, 1, "U"))
    code, _out, err = say(sink, "run")
    assert code == 0, err
    found = [
        (1, 10, 20, 1, 0),
        (1, 20, 30, 9, 9),
        (1, 30, 40, 3, 1),
        (2, 10, 15, 1, 2),
        (3, 5, 20, 5, 8),
        (4, 10, 10, 1, 11),
        (5, 10, 40, 1, 13),
        (5, 50, None, 2, 14),
    ]
    assert versions() == found
    code, out, err = say(sink, "audit")
    assert (code, err) == (0, "")
    assert "17 records in Kafka: 16 in the table, 1 in the dead letters, 0 in neither" in out
    # All of it comes again.
    code, _out, err = say(sink, "run", "orders", "--rewind", f"{orders}-0:0", "--why", "to see it twice")
    assert code == 0, err
    assert "17 consumed, 16 written, 1 dead-lettered" in err
    assert versions() == found


@pytest.mark.long
def test_a_version_begins_where_a_tracked_column_changes(say, send, versions):
    sink = "keys: id, sequence_by: seq, apply_as_deletes: op = 'D', track_history_columns: [a note]"
    send((1, 10, 1, "U", "a"), (1, 20, 2, "U", "a"), (1, 15, 5, "U", "a"), (1, 40, 4, "U", "b"))
    assert say(sink, "run")[0] == 0
    assert versions() == [(1, 10, 40, 2, 1), (1, 40, None, 4, 3)]
    # What was between comes to light where a late record parts it.
    send((1, 12, 7, "U", "c"), (1, 50, 6, "U", "b"))
    assert say(sink, "run")[0] == 0
    assert versions() == [(1, 10, 12, 1, 0), (1, 12, 15, 7, 4), (1, 15, 40, 2, 1), (1, 40, None, 6, 5)]
    assert say(sink, "audit")[0] == 0
    assert say(sink, "plan")[0] == 0


def test_kafkas_time_is_a_sequence_for_tombstones_too(say, send, tmp_path):
    sink = "keys: id, sequence_by: [kafka_timestamp, kafka_offset]"
    send((1, 0, 1, "U"), (1, 0, 2, "U"), (1,))
    code, _out, err = say(sink, "run")
    assert code == 0, err
    rows = oracle.rows_of(tmp_path / "lake/silver/orders")
    offsets = [(row["__START_AT"]["_2"], row["__END_AT"]["_2"], row["v"]) for row in rows]
    assert sorted(offsets) == [(0, 1, 1), (1, 2, 2)]


@pytest.mark.long
def test_a_dead_letter_that_is_replayed_finds_its_place(say, send, versions):
    send((1, 10, 1, "U"), (1, 30, 3, "U"), (1, 20, -2, "U"))
    rule = "{name: positive, condition: v > 0, action: dead_letter}"
    assert say(SINK, "run", expectations=rule)[0] == 0
    assert versions() == [(1, 10, 30, 1, 0), (1, 30, None, 3, 1)]
    code, out, err = say(SINK, "dead-letters", "replay", "orders")
    assert code == 0, err
    assert versions() == [(1, 10, 20, 1, 0), (1, 20, 30, -2, 2), (1, 30, None, 3, 1)]
    code, out, _err = say(SINK, "audit")
    assert code == 0
    assert "3 records in Kafka: 3 in the table, 0 in the dead letters, 0 in neither" in out


TABLE_IS_OTHERWISE = [
    (
        "keys: id, sequence_by: seq, track_history_columns: [v]",
        {},
        "its versions are made by each record, and those of the flow a change of v",
    ),
    (
        "keys: id, sequence_by: seq",
        {"kind": "upsert"},
        "its versions are made by each record, and those of the flow nothing",
    ),
    ("keys: id, sequence_by: v", {}, "its rows are ordered by seq, and those of the flow v"),
    (
        "keys: id, sequence_by: seq",
        {"schema": SCHEMA.replace("seq int", "seq string")},
        "its column __START_AT is int, the flow writes string",
    ),
]


def test_a_table_with_other_versions_is_refused(say, tmp_path):
    without = ", except_columns: [seq]"
    assert say("keys: id, sequence_by: seq" + without, "run")[0] == 0
    table = f"{tmp_path}/lake/silver/orders"
    for sink, other, detail in TABLE_IS_OTHERWISE:
        code, _out, err = say(sink + without, "run", **other)
        assert code == 1, sink
        assert f"[TABLE_MISMATCH] flow orders: table {table} does not fit the flow: {detail}; nothing was" in err
