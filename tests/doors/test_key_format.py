"""``key_format`` with columns: keys are read as values are, and a keyed table goes by them."""

from __future__ import annotations

import json

import pytest
from tests.doors.one_topic import OneFlow
from tests.doors.test_avro import encoded
from tests.ports.schema_registry import SchemaRegistry

KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}, {"name": "shop", "type": "string"}]}


class Keys(OneFlow):
    def send_pair(self, key, value):
        self.send(value if value is None else json.dumps(value).encode(), key=key)


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "key.avsc").write_text(json.dumps(KEY))
    return Keys(tmp_path, capsys, broker.bootstrap_servers, topic())


def avro(number, shop="Ulm"):
    return encoded(KEY, {"id": number, "shop": shop})


def test_keys_of_an_append_are_a_column_or_a_dead_letter(project):
    project.write(
        'format: {type: json, schema: "note string"}',
        'key_format: {type: json, schema: "id bigint NOT NULL, place struct<city: string>"}',
    )
    project.send_pair(b'{"id": 1, "place": {"city": "Ulm"}, "more": 1}', {"note": "a"})
    project.send_pair(None, {"note": "b"})
    project.send_pair(b'{"id": "x"}', {"note": "c"})
    project.send_pair(b"\xff", {"note": 5})
    project.send_pair(b'{"place": null}', {"note": "e"})
    project.send(b"{", key=b"{")
    code, out = project.say("run")
    assert code == 0, out
    assert project.rows("note", "kafka_key") == [
        (0, "a", {"id": 1, "place": {"city": "Ulm"}}),
        (1, "b", None),
    ]
    assert project.letters("stage", "reason", "field", "message") == [
        (
            2,
            "decode",
            "KEY_INVALID",
            "kafka_key.id",
            "as the value of a key: FIELD_TYPE: field id is declared bigint and holds a string",
        ),
        (3, "decode", "KEY_INVALID", "kafka_key", "as the value of a key: INVALID_UTF8: the value is not valid UTF-8"),
        (
            4,
            "decode",
            "KEY_INVALID",
            "kafka_key.id",
            "as the value of a key: FIELD_MISSING: field id is declared NOT NULL and is missing",
        ),
        (5, "decode", "INVALID_JSON", None, project.letters("message")[-1][1]),
    ]
    project.write('format: {type: json, schema: "note string"}', "key_format: raw")
    code, out = project.say("run")
    assert (code, "TABLE_MISMATCH" in out) == (1, True), out


@pytest.mark.parametrize("framing", ["plain", "confluent"])
def test_a_keyed_table_goes_by_keys_in_avro_and_tombstones_find_them(project, framing):
    with SchemaRegistry() as registry:
        number = registry.register(f"{project.topic}-key", KEY)
        told, head = "{type: avro, schema: key.avsc}", b""
        if framing == "confluent":
            told, head = f"{{type: avro, framing: confluent, subject: {project.topic}-key, version: 1}}", b"\0"
            head += number.to_bytes(4, "big")
        project.write(
            'format: {type: json, schema: "id bigint, shop string, amount int"}',
            f"key_format: {told}",
            "sink: {type: upsert, keys: [id, shop]}",
        )
        text = (project.folder / "rivermouth.yml").read_text()
        if framing == "confluent":
            code, out = project.say("validate")
            assert (code, "the project names none" in out) == (1, True), out
            project.save(f'schema_registry: {{url: "{registry.url}"}}\n{text}')
        for each in (1, 2, 3):
            project.send_pair(head + avro(each), {"id": each, "shop": "Ulm", "amount": each})
        project.send_pair(head + avro(2), None)
        project.send_pair(head + avro(3, "Bonn"), None)
        project.send_pair(head + avro(1)[:-1], None)
        code, out = project.say("run")
        assert code == 0, out
        assert project.rows("id", "amount", "kafka_key") == [
            (0, 1, 1, {"id": 1, "shop": "Ulm"}),
            (2, 3, 3, {"id": 3, "shop": "Ulm"}),
        ]
        assert [row[:3] for row in project.letters("reason", "field")] == [(5, "KEY_INVALID", "kafka_key.shop")]
        project.send_pair(head + avro(3), None)
        assert project.say("run")[0] == 0
        assert project.rows("id") == [(0, 1)]


def test_a_part_of_a_key_is_a_key_of_the_table(project):
    project.write(
        'format: {type: json, schema: "amount int"}',
        "key_format: {type: avro, schema: key.avsc}",
        "sink: {type: upsert, keys: [{number: kafka_key.id}]}",
    )
    project.send_pair(avro(1), {"amount": 1})
    project.send_pair(avro(2), {"amount": 2})
    project.send_pair(avro(1, "Bonn"), {"amount": 3})
    project.send_pair(avro(2), None)
    assert project.say("run")[0] == 0
    assert project.rows("number", "amount") == [(2, 1, 3)]
