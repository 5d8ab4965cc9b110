"""Options of the format json at the command line: from a topic into a table, what is refused, and replayed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from tests.doors.one_topic import OneFlow


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


@pytest.mark.long
def test_times_by_a_pattern(project):
    form = "type: json, schema: 'id int, at timestamp, day date', timestamp_format: '{at}', date_format: dd.MM.yyyy"
    project.write("format: {" + form.format(at="dd/MMM/yyyy:HH:mm:ss Z") + "}")
    project.send(
        b'{"id":1,"at":"31/Jan/2026:12:11:12 +0200","day":"31.01.2026"}',
        b'{"id":2,"at":"31/Feb/2026:12:11:12 +0200"}',
        b'{"id":3,"day":"2026-01-31"}',
        b'{"id":4,"at":1769854272}',
        b'{"id":5}',
    )
    code, said = project.say("run")
    assert code == 0, said
    at = dt.datetime(2026, 1, 31, 10, 11, 12, tzinfo=dt.UTC)
    assert project.rows("id", "at", "day") == [(0, 1, at, at.date()), (4, 5, None, None)]
    assert project.letters("reason", "field") == [
        (1, "FIELD_TYPE", "at"),
        (2, "FIELD_TYPE", "day"),
        (3, "FIELD_TYPE", "at"),
    ]
    # What a corrected form takes comes into the table.
    project.write("format: {" + form.format(at="epoch_s") + "}")
    assert project.say("dead-letters", "replay", "orders")[0] == 0
    assert project.rows("id", "at")[1:] == [(3, 4, at), (4, 5, None)]


def test_a_form_without_its_column_is_refused_before_anything_is_read(project):
    project.write("format: {type: json, schema: id int, timestamp_format: epoch_ms}")
    code, said = project.say("plan")
    assert code == 1
    assert (
        "[SCHEMA_INVALID] flow orders: the schema cannot be used: timestamp_format is about timestamps, and no column "
        "is one: declare one, or leave it out; nothing was run\n"
    ) in said


def test_times_by_a_pattern_and_documents_in_strings_where_the_schema_is_inferred(project):
    settings = "schema_hints: 'at timestamp', timestamp_format: dd.MM.yyyy, documents_in_strings: payload"
    project.write(f"format: {{type: json, schema: infer, {settings}}}")
    project.send(
        b'{"id":1,"at":"31.01.2026","other":"31.01.2026","payload":"{\\"amount\\": 1}"}', b'{"id":2,"payload":"{"}'
    )
    code, said = project.say("run")
    assert code == 0, said
    at = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert project.rows("id", "at", "other", "payload") == [(0, 1, at, "31.01.2026", {"amount": 1})]
    assert project.letters("reason", "field") == [(1, "INVALID_JSON", "payload")]


@pytest.mark.long
def test_times_by_a_pattern_where_the_schema_is_inferred_and_grows(project):
    settings = "type: json, schema: infer, schema_hints: 'at timestamp', timestamp_format: dd.MM.yyyy"
    project.write("format: {" + settings + "}", "evolution: {on_type_change: widen_or_rescue}")
    project.send(b'{"id":1,"at":"31.01.2026","other":"2026-01-31T10:00:00Z"}')
    code, said = project.say("run")
    assert code == 0, said
    at = dt.datetime(2026, 1, 31, tzinfo=dt.UTC)
    assert project.rows("id", "at", "other") == [(0, 1, at, "2026-01-31T10:00:00Z")]
    # What does not fit is rescued, and a new field is text: only the hint says which column has the form.
    project.send(b'{"id":2,"at":"2026-01-31"}', b'{"id":3,"at":"01.02.2026","seen":"31.01.2026"}')
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("at", "seen", "_rescued")[1:] == [
        (1, None, None, '{"/at":"2026-01-31"}'),
        (2, dt.datetime(2026, 2, 1, tzinfo=dt.UTC), "31.01.2026", None),
    ]


STRINGS = 'documents_in_strings: [payload, "to.items[].body"]'
DECLARED = "id int, payload struct<amount:decimal(10,2),note:string>, to struct<items:array<struct<body:variant>>>"


def test_documents_in_strings(project):
    project.write(f'format: {{type: json, schema: "{DECLARED}", {STRINGS}}}')
    sent = b'{"id":2,"payload":"{\\"amount\\":\\"x\\"}"}'
    project.send(
        b'{"id":1,"payload":"{\\"amount\\": 9.99, \\"more\\": 1}","to":{"items":[{"body":"[1.50]"},{}]}}',
        sent,
        b'{"id":3,"payload":{"amount":1}}',
        b'{"id":4,"payload":"{\\"amount\\": 1"}',
        b'{"id":5,"payload":null,"to":{"items":[{"body":"null"}]}}',
        b'{"id":6,"payload":"[]"}',
        b'{"id":7,"to":{"items":[{"body":"1e999"}]}}',
        b'{"id":8,"payload":"{}"',
        None,
    )
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("id", "payload") == [(0, 1, {"amount": Decimal("9.99"), "note": None}), (4, 5, None)]
    assert project.letters("reason", "field", "message") == [
        (1, "FIELD_TYPE", "payload.amount", "field payload.amount is declared decimal(10,2) and holds " + NO_DECIMAL),
        (2, "FIELD_TYPE", "payload", "field payload is a document in a string and holds an object"),
        (3, "INVALID_JSON", "payload", "field payload holds a string that is no JSON document"),
        (5, "FIELD_TYPE", "payload", f"field payload is declared {PAYLOAD} and holds an array"),
        (
            6,
            "FIELD_TYPE",
            "to.items[].body",
            "field to.items[].body is declared variant and holds a number beyond its range",
        ),
        (7, "INVALID_JSON", None, "the value is not JSON: expecting ',' delimiter at character 22"),
    ]
    kept = {row["kafka_offset"]: row["kafka_value"] for row in project.kept("orders__dead_letters")}
    assert bytes(kept[1]) == sent
    # A corrected declaration takes what was sent.
    project.write(f'format: {{type: json, schema: "{DECLARED.replace("decimal(10,2)", "string")}", {STRINGS}}}')
    code, said = project.say("run")
    assert (code, "TABLE_MISMATCH" in said) == (1, True), said


NO_DECIMAL = "a string that is no decimal number"
PAYLOAD = "struct<amount:decimal(10,2),note:string>"


@pytest.mark.long
def test_documents_in_strings_are_inferred_and_grow(project):
    project.write(
        "format: {type: json, schema: infer, documents_in_strings: payload}",
        "evolution: {on_type_change: widen_or_rescue}",
    )
    project.send(b'{"id":1,"payload":"{\\"amount\\": 1}"}', b'{"id":2,"payload":"{"}')
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("id", "payload") == [(0, 1, {"amount": 1})]
    project.send(
        b'{"id":3,"payload":"{\\"amount\\": 2, \\"seen\\": [true]}"}',
        b'{"id":4,"payload":"{\\"amount\\": \\"x\\"}"}',
        b'{"id":5,"payload":"7"}',
    )
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("id", "payload", "_rescued") == [
        (0, 1, {"amount": 1, "seen": None}, None),
        (2, 3, {"amount": 2, "seen": [True]}, None),
        (3, 4, None, '{"/payload":{"amount": "x"}}'),
        (4, 5, None, '{"/payload":7}'),
    ]
    assert project.letters("reason", "field") == [(1, "INVALID_JSON", "payload")]


OF_TEXT = (
    "flow orders: the schema cannot be used: documents_in_strings names 'payload', which is of type string: declare "
    "what is in its document, a struct, array, map or variant"
)


@pytest.mark.parametrize(
    ("lines", "code", "told", "line", "hint"),
    [
        (
            ["format: {type: json, schema: 'id int, payload string', documents_in_strings: payload}"],
            "SCHEMA_INVALID",
            OF_TEXT,
            7,
            'remove documents_in_strings, or write the schema that it needs: schema: "id bigint, at timestamp"',
        ),
        (
            ["format: {type: json, schema: 'id int', documents_in_strings: [a..b]}"],
            "PROJECT_INVALID",
            "flows.orders.format.documents_in_strings: 'a..b' is no path of a field",
            7,
            "write payload, order.payload or items[].payload",
        ),
        (
            [
                "format: {type: json, schema: 'id int, p variant', documents_in_strings: p}",
                "sink: {type: upsert, keys: [id], from: snapshot, sequence_by: kafka_offset}",
            ],
            "PROJECT_INVALID",
            "flows.orders: a snapshot has the rows of a table, and no documents in strings",
            4,
            "leave documents_in_strings out",
        ),
        (
            [
                "format: {type: json, schema: 'id int'}",
                "key_format: {type: json, schema: 'p variant', documents_in_strings: p}",
            ],
            "PROJECT_INVALID",
            "flows.orders: documents_in_strings is for values, and not for keys",
            4,
            "write key_format: {type: avro, schema: ...}, or raw",
        ),
    ],
)
def test_documents_in_strings_that_cannot_be_are_refused(project, lines, code, told, line, hint):
    project.write(*lines)
    text = f"[{code}] {told}; nothing was run\n  at: rivermouth.yml:{line}\n  hint: {hint}\n"
    assert project.say("validate") == (1, text)
