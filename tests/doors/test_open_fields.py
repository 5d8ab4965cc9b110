"""Fields that had no value when a schema was inferred, and get one later: end to end, as a user meets them."""

from __future__ import annotations

import json
import re

import pytest
from tests.crashes.oracle import rows_of
from tests.doors.one_topic import OneTopic

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  rescuing:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    evolution: {{on_type_change: widen_or_rescue}}
    table: silver.rescuing
  by_default:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    table: silver.by_default
  keyed:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    table: silver.keyed
    sink: {{type: upsert, keys: [id]}}
  named:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    expectations: [{{name: e, condition: x IS NULL}}]
    table: silver.named
"""
NOTHING = {"id": 1, "meta": {}, "tags": [], "x": None, "list": [{}], "deep": {"a": {"b": {}}}, "nulls": [None]}
FIRST = {"id": 2, "meta": {"a": 1}, "tags": [{"k": "v"}], "x": 5, "list": [{"b": 2}], "nulls": [1]}
FIRST["deep"] = {"a": {"b": {"c": 3}}}
SECOND = {"id": 3, "meta": {}, "tags": ["t"], "x": 6, "list": [], "deep": {}, "nulls": []}


@pytest.fixture
def shop(broker, topic, tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    shop = OneTopic(tmp_path, capsys, broker.bootstrap_servers, topic())
    shop.save(PROJECT.format(servers=shop.servers, topic=shop.topic))
    return shop


@pytest.mark.long
def test_the_column_comes_with_its_first_value(shop):
    shop.send(json.dumps(NOTHING).encode())
    code, said = shop.say("run")
    assert code == 0, said
    for name in ("rescuing", "by_default", "keyed"):
        [row] = rows_of(shop.folder / "lake/silver" / name)
        assert row["id"] == 1
        assert not {"meta", "tags", "x", "list", "deep", "nulls"} & row.keys()
    code, said = shop.say("schema", "show", "by_default")
    lines = [line.strip() for line in said.splitlines()[1:]]
    assert lines[0] == "id bigint"
    note = "void (no column until a value comes)"
    assert lines[1:] == [f"{name} {note}" for name in ("deep", "list", "meta", "nulls", "tags", "x")]
    said = shop.say("schema", "infer", "keyed")[1]
    assert re.search(r"\nmeta +void +100 % +only empty: no column until a value comes\n", said)

    shop.send(*(json.dumps(each).encode() for each in (FIRST, SECOND)))
    code, said = shop.say("run")
    assert code == 0, said
    first = {"meta": {"a": 1}, "x": 5, "list": [{"b": 2}], "deep": {"a": {"b": {"c": 3}}}, "nulls": [1]}
    second = {"meta": {"a": None}, "x": 6, "list": [], "deep": {"a": None}, "nulls": []}
    for name in ("rescuing", "by_default", "keyed"):
        rows = {row["id"]: row for row in rows_of(shop.folder / "lake/silver" / name)}
        assert rows.keys() == {1, 2, 3}
        assert [{key: rows[number][key] for key in first} for number in (2, 3)] == [first, second]
        # Objects and texts are of no other type than text.
        assert [rows[number]["tags"] for number in (1, 3)] == [None, ["t"]]
        assert json.loads(*rows[2]["tags"]) == {"k": "v"}
        assert not rows_of(shop.folder / f"lake/silver/{name}__dead_letters")
    # What a flow names is a column from the first record on, of text.
    named = {row["id"]: row["x"] for row in rows_of(shop.folder / "lake/silver/named")}
    assert named == {1: None, 2: "5", 3: "6"}
    assert shop.say("schema", "show", "by_default")[1].count("void") == 0
    code, said = shop.say("audit", "rescuing")
    assert code == 0, said


def test_a_topic_in_whose_fields_is_nothing_has_no_schema_yet(shop):
    shop.send(b'{"x": null, "y": [{}]}')
    code, said = shop.say("run", "by_default")
    assert code == 1
    assert "[SCHEMA_EMPTY]" in said
    assert "no field of its documents has a value" in said
