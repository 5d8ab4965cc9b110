"""Fields that the schema does not declare, and records that have no other ones: as a user meets them."""

from __future__ import annotations

import json

import pytest
from tests.doors.one_topic import OneFlow

TOLD = (
    "undeclared fields: {} in a sample of the records, in no column of the table; "
    '"rivermouth schema infer orders" shows all fields of JSON'
)


@pytest.fixture
def flow(broker, topic, tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_fields_that_are_left_out_are_shown_by_the_run_and_records_without_others_are_refused(flow):
    flow.write('format: {type: json, schema: "Id bigint, Amount double, Buyer struct<name: string>"}')
    flow.send(
        b'{"Id": 1, "": 3, "note": "x", "\\u001b[31m": 2, "Buyer": {"name": "a", "Name": "b"}}',
        b'{"id": 2, "amount": 2.5}',
    )
    code, said = flow.say("run")
    assert code == 0, said
    told = TOLD.format(r"'' (1 record), \x1b[31m (1 record), Buyer.Name (1 record), note (1 record)")
    assert f"orders: {told}\n" in said
    assert flow.rows("Id", "Amount") == [(0, 1, None)]
    none = "the value has none of the declared columns; column Id differs in case from field id: declare it as id"
    assert flow.letters("reason", "field", "message") == [(1, "NO_DECLARED_FIELD", "Id", none)]


@pytest.mark.long
def test_fields_that_are_left_out_are_shown_and_records_without_others_are_dead_letters(flow):
    flow.write('format: {type: json, schema: "Id bigint, Amount double, Buyer struct<name: string>"}')
    flow.send(
        b'{"Id": 1, "": 3, "note": "x", "\\u001b[31m": 2, "Buyer": {"name": "a", "Name": "b"}}',
        b'{"id": 2, "amount": 2.5}',
        b'{"\\u001b[31mid": 3}',
        b"{}",
    )
    code, said = flow.say("run")
    assert code == 0, said
    told = TOLD.format(r"'' (1 record), \x1b[31m (1 record), Buyer.Name (1 record), note (1 record)")
    assert f"orders: {told}\n" in said
    code, said = flow.say("status")
    assert code == 0, said
    assert f"\n  {told}\n" in said
    assert flow.rows("Id", "Amount") == [(0, 1, None)]
    none = "the value has none of the declared columns"
    assert flow.letters("stage", "reason", "field", "message") == [
        (
            *(1, "decode", "NO_DECLARED_FIELD", "Id"),
            f"{none}; column Id differs in case from field id: declare it as id",
        ),
        (2, "decode", "NO_DECLARED_FIELD", None, none),
        (3, "decode", "NO_DECLARED_FIELD", None, none),
    ]

    flow.write('format: {type: json, schema: "Id bigint, Amount double", no_declared_field: keep}')
    code, said = flow.say("dead-letters", "replay", "orders")
    assert code == 0, said
    assert "3 dead letters tried, 3 moved into the table, 0 still fail\n" in said
    assert flow.rows("Id", "Amount") == [(0, 1, None), *((offset, None, None) for offset in (1, 2, 3))]


def test_the_names_are_summed_over_batches_and_are_in_json_too(flow):
    flow.write('format: {type: json, schema: "id bigint"}')
    flow.send(*(f'{{"id": {number}, "note": 1, "n{number % 12:02}": 2}}'.encode() for number in range(12)))
    code, said = flow.say("run", "--output", "json")
    assert code == 0, said
    events = {each["event"]: each for each in map(json.loads, said.splitlines())}
    named = {"note": 12, **{f"n{number:02}": 1 for number in range(12)}}
    (finished,) = events["run_finished"]["flows"]
    assert (events["batch_done"]["undeclared_names"], finished["undeclared_names"]) == (named, named)
    flow.send(b'{"id": 13, "n11": 1, "note": 1}')
    code, said = flow.say("run")
    assert (code, TOLD.format("n11 (1 record), note (1 record)") in said) == (0, True), said
    code, said = flow.say("status", "--output", "json")
    assert json.loads(said)["flows"][0]["undeclared_names"] == {**named, "note": 13, "n11": 2}
    shown = ", ".join(["note (13 records)", "n11 (2 records)", *(f"n{number:02} (1 record)" for number in range(8))])
    assert TOLD.format(f"{shown} and 3 more") in flow.say("status")[1]
