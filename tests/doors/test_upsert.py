"""``sink: upsert`` at the command line: what it says of keys, orders and conditions that cannot be, and of a run."""

from __future__ import annotations

import json
import re

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle
from tests.doors.one_topic import OneTopic
from tests.merge_strategies import WAYS, merging_by

from rivermouth.rows import reserved_names
from rivermouth.spec import Flow

PROJECT = """\
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "id bigint, v int, tags array<string>, seq int, op string"}}
    table: silver.orders
    sink: {sink}
"""


@pytest.fixture
def say(echo_over):
    """Runs a command over a project whose flow has this sink: exit code, what it prints, what it complains of."""

    def say(sink, *arguments):
        return echo_over(PROJECT, *arguments, sink=sink)

    return say


REFUSED = [
    ("{type: upsert, keys: [ids]}", "keys names 'ids', which is no column", "did you mean 'id'?"),
    (
        "{type: upsert, keys: [tags]}",
        "key 'tags' is of type array<string>, which cannot be a key",
        "name columns of simple types: keys: [id]",
    ),
    (
        "{type: upsert, keys: id, sequence_by: tags}",
        "sequence_by is of type array<string>, which has no order",
        "name a number, a time or a text: sequence_by: updated_at",
    ),
    (
        "{type: upsert, keys: id, apply_as_deletes: op}",
        "apply_as_deletes is of type string, not boolean",
        "write a condition: apply_as_deletes: op = 'D'",
    ),
    (
        "{type: upsert, keys: id, except_columns: [opp]}",
        "except_columns names 'opp', which is no column",
        "did you mean 'op'?",
    ),
    (
        "{type: upsert, keys: id, apply_as_deletes: \"reflect('a.B', 'c') = ''\"}",
        "apply_as_deletes: it calls reflect(), which could run any code",
        "write it with the record's own columns",
    ),
]


@pytest.mark.parametrize(("sink", "detail", "hint"), REFUSED)
def test_what_the_columns_do_not_give_is_refused(sink, detail, hint, say):
    code, out, err = say(sink, "validate")
    assert (code, out) == (1, "")
    assert err == (
        f"[KEYS_INVALID] flow orders: sink upsert: {detail}; nothing was run\n  at: rivermouth.yml:9\n  hint: {hint}\n"
    )


def test_a_sequence_that_cannot_be_analysed(say):
    code, _out, err = say("{type: upsert, keys: id, sequence_by: nothing}", "validate")
    assert code == 1
    assert re.fullmatch(
        r"\[KEYS_INVALID\] flow orders: sink upsert: sequence_by: \[UNRESOLVED_COLUMN\.WITH_SUGGESTION\] .+; "
        r"nothing was run\n  at: rivermouth\.yml:9\n  hint: known: id, .+\n",
        err,
    )


@pytest.mark.long
def test_a_topic_becomes_the_table_that_it_logs(say, broker, orders, tmp_path):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, v, seq, op in (
        (1, 10, 1, "U"),
        (2, 20, 1, "U"),
        (1, 11, 3, "U"),
        (1, 12, 2, "U"),
        (2, 0, 2, "D"),
        (3, 30, 1, "U"),
    ):
        body = {"id": key, "v": v, "seq": seq, "op": op}
        producer.produce(orders, value=json.dumps(body).encode(), key=str(key).encode())
    producer.produce(orders, value=None, key=b"3")
    producer.produce(orders, value=b'{"v": 1}', key=b"4")
    assert producer.flush(30) == 0
    sink = "{type: upsert, keys: id, sequence_by: seq, apply_as_deletes: op = 'D', except_columns: [op, tags]}"
    code, out, err = say(sink, "run")
    assert code == 0, err
    assert "orders: batch 1: 8 consumed, 7 written, 1 dead-lettered" in err
    found = oracle.rows_of(tmp_path / "lake/silver/orders")
    assert [*found[0]][:3] == ["id", "v", "seq"]
    assert [(row["id"], row["v"], row["seq"]) for row in found] == [(1, 11, 3)]
    code, out, err = say(sink, "dead-letters", "list", "--output", "json")
    assert code == 0
    assert "KEY_NULL" in out
    code, out, err = say(sink, "audit")
    assert (code, err) == (0, "")
    assert "orders: every record is in exactly one place" in out
    assert "8 records in Kafka: 7 in the table, 1 in the dead letters, 0 in neither" in out
    assert say(sink, "run")[0] == 0


def changes(broker, topic, *bodies):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, v, op in bodies:
        producer.produce(topic, value=json.dumps({"id": key, "v": v, "op": op}).encode(), key=str(key).encode())
    assert producer.flush(30) == 0


SIZE = r"\d[\d.,]* (B|KiB|MiB)"


@pytest.mark.parametrize(
    "way", ["listed", *(pytest.param(way, marks=pytest.mark.long) for way in WAYS if way != "listed")]
)
def test_the_status_tells_what_the_merge_came_to(way, say, broker, orders):
    sink = "{type: upsert, keys: id, apply_as_deletes: op = 'D'}"
    changes(broker, orders, (1, 10, "U"), (2, 20, "U"), (3, 30, "U"))
    assert say(sink, "run")[0] == 0
    changes(broker, orders, (1, 11, "U"), (3, 0, "D"), (4, 40, "U"))
    with merging_by(way):
        code, out, err = say(sink, "run", "--output", "json")
    assert code == 0, err
    [told] = [json.loads(line) for line in out.splitlines() if '"batch_done"' in line]
    _, out, _ = say(sink, "status", "--output", "json")
    [flow] = json.loads(out)["flows"]
    assert flow["merge"] == told["merge"]
    merge = flow["merge"]
    once = way != "shuffled"
    wanted = ("changes", "join", "all_files", "skipped_by", "inserted", "updated", "deleted")
    assert {name: merge[name] for name in wanted} == {
        "changes": 3,
        "join": "broadcast" if once else "shuffle",
        "all_files": 1 if once else None,
        "skipped_by": ["id"],
        "inserted": 1,
        "updated": 1,
        "deleted": 1,
    }
    assert merge["reason"] == ("3 changes are few" if once else "3 changes are more than 0")
    _, out, _ = say(sink, "status")
    first, second = [line for line in out.splitlines() if line.startswith("    ")][1:3]
    files = rf"1 file \({SIZE}\) written, rows marked as gone in 1 file"
    assert re.fullmatch(rf"    merge: 1 inserted, 1 updated, 1 deleted; {files}", first), first
    needed = rf"at most {SIZE} of memory a task, nothing spilled"
    how = (
        rf"broadcast, for {merge['reason']}; 1 of 1 file \({SIZE}\) read, once"
        if once
        else f"shuffle, for {merge['reason']}"
    )
    assert re.fullmatch(rf"    {how}; files skipped by id; {needed}", second), second


KEYED = "{type: upsert, keys: id}"
AS_MADE = "write into a new table, or keep the sink, keys and sequence_by that the table was made with"
# Of each sink that a table was made with, others that are refused.
TABLE_IS_OTHERWISE = {
    KEYED: [
        ("{type: upsert, keys: op}", "its rows have the keys id, and those of the flow op", AS_MADE),
        (
            "{type: upsert, keys: id, sequence_by: v}",
            "its rows are ordered by nothing, and those of the flow v",
            AS_MADE,
        ),
        ("append", "its rows have the keys id, and those of the flow nothing", AS_MADE),
    ],
    "append": [
        (
            KEYED,
            "its rows have the keys nothing, and those of the flow id",
            "sink: append, or ingest with --sink append: a row a record, as the table has; or write into a new table",
        ),
    ],
}


@pytest.mark.parametrize("made", TABLE_IS_OTHERWISE)
def test_a_table_with_other_keys_is_refused(made, say, tmp_path):
    assert say(made, "run")[0] == 0
    table = f"{tmp_path}/lake/silver/orders"
    for sink, detail, hint in TABLE_IS_OTHERWISE[made]:
        code, _out, err = say(sink, "run")
        assert code == 1, sink
        assert f"[TABLE_MISMATCH] flow orders: table {table} does not fit the flow: {detail}; nothing was" in err
        assert f"  hint: {hint}\n" in err


def test_a_history_takes_no_table_over(say):
    code, _out, err = say("{type: history, keys: id, sequence_by: v}", "run", "orders", "--adopt", "table")
    assert code == 1
    assert (
        "[ADOPTION_REFUSED] flow orders: its table cannot be taken over by --adopt table: sink history needs to know "
        "since when a row is valid, and another program's rows do not say; nothing was written\n"
        "  at: rivermouth.yml:5\n"
        "  hint: name another table, and let the flow fill it from the topic\n"
    ) in err


# Columns called as Spark and Delta call some of their own, in commands that change rows and in reading.
THEIRS = (
    *("_metadata", "filePath", "rowIndexCol", "_row_id_", "_change_type", "_corrupt_record", "_rescued", "row_index"),
    *("_condition_", "_row_commit_version", "deletionVectorId", "value", "key", "s", "t", "source", "target", "_file"),
)
DELETES = {"keys": ["id"], "sequence_by": "seq", "apply_as_deletes": "op = 'D'"}
# For each flow: what else it has, and which of these names its columns have; None for all that it can have.
NAMED_LIKE_THEIRS = {
    "upsert": ({"sink": {"type": "upsert", **DELETES}}, None),
    "paths": ({"sink": {"type": "upsert", **DELETES}}, ["filePath", "rowIndexCol"]),
    "history": ({"sink": {"type": "history", **DELETES}}, ["_metadata", "filePath", "rowIndexCol", "_condition_"]),
}
# Of each run the changes: key and kind.
ROUNDS = [
    [(1, "U"), (2, "U"), (3, "U"), (4, "U")],
    [(1, "U"), (2, "D"), (5, "U"), (3, "D")],
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("way", "named"),
    [("shuffled", ["upsert"]), ("shuffled", ["paths", "history"]), ("listed", [*NAMED_LIKE_THEIRS])],
)
def test_columns_called_as_others_call_theirs_are_inserted_updated_and_deleted(
    way, named, broker, topic, tmp_path, monkeypatch, capsys, spark
):
    monkeypatch.chdir(tmp_path)
    shop = OneTopic(tmp_path, capsys, broker.bootstrap_servers, topic())
    flows, columns = {}, {}
    for name, (settings, only) in NAMED_LIKE_THEIRS.items():
        flow = {"topics": [shop.topic], "format": "text", "table": f"silver.{name}", **settings}
        found = Flow.model_validate({"name": name, **flow})
        columns[name] = only or [each for each in THEIRS if reserved_names.owner(found, each) is None]
        strings = ", ".join(f"`{each}` string" for each in columns[name])
        flows[name] = {**flow, "format": {"type": "json", "schema": f"id int, seq int, op string, {strings}"}}
    assert {*THEIRS} - {*columns["upsert"]} == {"_row_id_"}
    flows = {name: flows[name] for name in named}
    shop.save(json.dumps({"lake": "./lake", "kafka": {"bootstrap_servers": shop.servers}, "flows": flows}))

    rows, versions = {}, []
    for seq, changes_of_run in enumerate(ROUNDS):
        for key, op in changes_of_run:
            shop.send(json.dumps({"id": key, "seq": seq, "op": op, **dict.fromkeys(THEIRS, f"{key} {seq}")}).encode())
            rows.pop(key, None)
            versions = [(*each[:2], seq) if each[0] == key and each[2] is None else each for each in versions]
            if op == "U":
                rows[key] = f"{key} {seq}"
                versions.append((key, f"{key} {seq}", None))
        with merging_by(way):
            code, said = shop.say("run")
        assert code == 0, said
        for name in named:
            found = oracle.rows_of(tmp_path / "lake/silver" / name)
            wanted = sorted(versions, key=str) if name == "history" else sorted((*each, None) for each in rows.items())
            for each in columns[name]:
                held = ((row["id"], row[each], row.get("__END_AT")) for row in found)
                assert sorted(held, key=str) == wanted, (name, each, seq)
    code, said = shop.say("audit")
    assert code == 0, said
