"""Dead letters that are tried again: by the flow's rules of now, its evolution too, with the reason of now."""

from __future__ import annotations

import datetime as dt
import json
from operator import itemgetter

import pytest
from tests.doors.one_topic import OneFlow

FORMAT = 'format: {type: json, schema: "id bigint, amount int"}'
SENT = [
    {"id": 1, "amount": 1},
    {"id": 2, "amount": 1, "new": "a"},
    {"id": 3, "amount": 1, "new": "b"},
    {"id": 4, "amount": 1, "new": {"c": 2}, "more": [1]},
    {"id": 5, "amount": 3_000_000_000},
    {"id": 6, "amount": "none"},
    {"id": "seven", "amount": 1, "new": "d"},
]


@pytest.fixture
def flow(broker, topic, tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_letters_are_judged_by_the_policies_of_now(flow):
    flow.write(FORMAT, "evolution: {on_new_column: dead_letter}")
    flow.send(*(json.dumps(each).encode() for each in SENT))
    code, said = flow.say("run")
    assert code == 0, said
    assert [reason for _, reason in flow.letters("reason")] == [
        *["FIELD_UNDECLARED"] * 3,
        *["FIELD_TYPE"] * 3,
    ]

    flow.write(FORMAT, "evolution: {on_new_column: evolve, on_type_change: widen}")
    told = "6 dead letters tried, 4 {} into the table, 2 still fail: FIELD_TYPE amount 1, FIELD_TYPE id 1"
    code, said = flow.say("dead-letters", "replay", "orders", "--dry-run")
    assert code == 0, said
    assert told.format("would be moved") in said
    assert flow.rows("id") == [(0, 1)]
    assert "new" not in flow.kept("orders")[0]
    assert not list(flow.folder.glob("lake/_rivermouth/schemas/orders/*"))

    code, said = flow.say("dead-letters", "replay", "orders")
    assert code == 0, said
    assert told.format("moved") in said
    [kept] = flow.folder.glob("lake/_rivermouth/schemas/orders/*")
    assert json.loads(kept.read_text())["changes"] == [
        "widens amount to bigint",
        "adds column more array<bigint>",
        "adds column new string",
    ]
    open_letters = [row for row in flow.letters("status", "reason", "field", "attempt") if row[1] == "open"]
    assert open_letters == [(5, "open", "FIELD_TYPE", "amount", 2), (6, "open", "FIELD_TYPE", "id", 2)]


def test_the_letter_that_now_passes_is_moved_and_the_others_have_the_reason_of_now(flow):
    flow.write('format: {type: json, schema: "ID bigint, amount int"}')
    flow.send(b'{"id": 1}', b'{"id": "x"}', b'{"id": 3}', b'{"id": 4, "amount": 0}', b'{"id": 5}')
    code, said = flow.say("run")
    assert code == 0, said
    failed = [(offset, "NO_DECLARED_FIELD", "ID", 1) for offset in (0, 1, 2, 4)]
    assert flow.letters("reason", "field", "attempt") == failed
    # Of a column that differs in case the table has another one.
    flow.write(
        "format: {type: json, schema: {type: struct, fields: [{name: ID, type: long, nullable: true, "
        "metadata: {json_name: id}}, {name: amount, type: integer, nullable: true, metadata: {}}]}}",
        "expectations: [{name: paid, condition: ID <> 3, action: dead_letter},"
        " {name: known, condition: ID <> 1, action: drop}, {name: safe, condition: ID < 3 OR ID > 4, action: fail}]",
    )
    for dry_run in (["--dry-run"], []):
        # The trial has changed neither table.
        assert flow.letters("reason", "field", "attempt") == failed
        assert [row["ID"] for row in flow.kept("orders")] == [None]
        code, said = flow.say("dead-letters", "replay", "orders", "--output", "json", *dry_run)
        assert code == 0, said
        [done] = json.loads(said)["replayed"]
        assert (done["tried"], done["replayed"], done["remaining"]) == (4, 1, 3)
    assert done["reasons"] == [
        {"reason": "DROPPED", "field": None, "letters": 1},
        {"reason": "EXPECTATION", "field": None, "letters": 1},
        {"reason": "FIELD_TYPE", "field": "ID", "letters": 1},
    ]
    told = flow.letters("status", "stage", "reason", "field", "failed_expectations", "attempt")
    assert told == [
        (0, "open", "decode", "NO_DECLARED_FIELD", "ID", [], 2),
        (1, "open", "decode", "FIELD_TYPE", "ID", [], 2),
        (2, "open", "expectation", "EXPECTATION", None, ["paid", "safe"], 2),
        (4, "replayed", "decode", "NO_DECLARED_FIELD", "ID", [], 1),
    ]
    assert [row["ID"] for row in flow.kept("orders")] == [None, 5]
    assert "field ID is declared bigint" in flow.letters("message")[1][1]


@pytest.mark.long
def test_the_rows_of_a_message_wait_together_and_a_newer_row_stays(flow):
    def message(kind, *rows):
        return json.dumps({"type": kind, "database": "shop", "table": "people", "data": rows}).encode()

    canal = 'format: {type: canal, schema: "id bigint, born date"%s}'
    keyed = "sink: {type: upsert, keys: [id]}"
    flow.write(canal % "", keyed)
    both = [{"id": "1", "born": "2000-02-29"}, {"id": "2", "born": "0000-00-00"}, {"id": "3", "born": "2001-01-01"}]
    flow.send(message("INSERT", *both), message("UPDATE", {"id": "1", "born": "2000-03-01"}))
    code, said = flow.say("run")
    assert code == 0, said
    assert flow.rows("id", "born") == [(1, 1, dt.date(2000, 3, 1))]
    assert flow.letters("reason", "message") == [
        (
            0,
            "FIELD_ZERO_DATE",
            (
                "field born is declared date and holds a zero date of MySQL, which is no date: zero_dates: null stores "
                "NULL for it; the 3 rows of the record are stored together or not at all"
            ),
        )
    ]
    flow.write(canal % ", zero_dates: null", keyed)
    code, said = flow.say("dead-letters", "replay", "orders")
    assert code == 0, said
    assert sorted(flow.rows("id", "born"), key=itemgetter(1)) == [
        (1, 1, dt.date(2000, 3, 1)),
        (0, 2, None),
        (0, 3, dt.date(2001, 1, 1)),
    ]
    assert flow.totals("consumed", "merged", "dead_lettered") == {"consumed": 2, "merged": 1, "dead_lettered": 1}
    code, said = flow.say("audit")
    assert code == 0, said
