"""Fields that the schema does not declare, and records that have no other ones: as a user meets them."""

from __future__ import annotations

import pytest
from tests.doors.one_topic import OneFlow

TOLD = (
    "undeclared fields: 2 fields in a sample of the records, in no column of the table; "
    '"rivermouth schema infer orders" shows all fields of JSON'
)


@pytest.fixture
def flow(broker, topic, tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_fields_that_are_left_out_are_shown_and_records_without_others_are_dead_letters(flow):
    flow.write('format: {type: json, schema: "Id bigint, Amount double"}')
    flow.send(b'{"Id": 1, "note": "x", "\\u001b[31m": 2}', b'{"id": 2, "amount": 2.5}', b'{"\\u001b[31mid": 3}', b"{}")
    code, said = flow.say("run")
    assert code == 0, said
    assert f"orders: {TOLD}\n" in said
    code, said = flow.say("status")
    assert code == 0, said
    assert f"\n  {TOLD}\n" in said
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
