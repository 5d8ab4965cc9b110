"""VARIANT columns of the format json, from a topic into tables that Spark reads: appended, with new columns, merged."""

from __future__ import annotations

import json

import pytest
from tests.doors.one_topic import OneFlow
from tests.merge_strategies import WAYS, merging_by

RANGE = "field payload is declared variant and holds a number beyond its range"


class Events(OneFlow):
    flow = "events"
    spark = None

    def table(self, *columns, order="kafka_offset"):
        found = self.spark.read.format("delta").load(str(self.folder / "lake/silver/events"))
        return [tuple(row) for row in found.orderBy(order).selectExpr(*columns).collect()]

    def run(self, *values):
        self.send(*(each if isinstance(each, bytes) else json.dumps(each).encode() for each in values))
        code, said = self.say("run")
        assert code == 0, said


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    found = Events(tmp_path, capsys, broker.bootstrap_servers, topic())
    found.spark = spark
    return found


def test_documents_of_any_shape_are_a_column(project):
    project.write('format: {type: json, schema: "id bigint, payload variant, more array<struct<v:variant>>"}')
    project.run(
        {"id": 1, "payload": {"a": [1, "x", None]}, "more": [{"v": 1}, {}]},
        {"id": 3, "payload": None},
        b'{"id": 4, "payload": {"n": 1e400}}',
    )
    assert project.table("id", "to_json(payload)", "to_json(more)") == [
        (1, '{"a":[1,"x",null]}', '[{"v":1},{}]'),
        (3, None, None),
    ]
    assert project.letters("reason", "field", "message") == [(2, "FIELD_TYPE", "payload", RANGE)]


@pytest.mark.long
def test_documents_of_any_shape_are_a_column_and_what_it_cannot_hold_a_dead_letter(project):
    project.write('format: {type: json, schema: "id bigint, payload variant, more array<struct<v:variant>>"}')
    project.run(
        {"id": 1, "payload": {"a": [1, "x", None]}, "more": [{"v": 1}, {}]},
        b'{"id": 2, "payload": 123456789012345678901234567890.12345678}',
        {"id": 3, "payload": None},
        b'{"id": 4, "payload": {"n": 1e400}}',
        b'{"id": 5, "payload": "\\ud800"}',
        {"id": "6", "payload": {}},
    )
    assert project.table("id", "to_json(payload)", "to_json(more)") == [
        (1, '{"a":[1,"x",null]}', '[{"v":1},{}]'),
        (2, "123456789012345678901234567890.12345678", None),
        (3, None, None),
    ]
    letters = project.letters("reason", "field", "message")
    assert [each[:3] for each in letters] == [
        (3, "FIELD_TYPE", "payload"),
        (4, "LONE_SURROGATE", None),
        (5, "FIELD_TYPE", "id"),
    ]
    assert letters[0][3] == RANGE
    code, said = project.say("tables", "read", "silver.events", "--columns", "id,payload")
    assert (code, '{"a":[1,"x",null]}' in said) == (0, True), said
    # A table gets such a column later as well.
    project.write(
        'format: {type: json, schema: "id bigint, payload variant, more array<struct<v:variant>>, z variant"}'
    )
    project.run({"id": 7, "z": [{}]})
    assert project.table("id", "CAST(z AS string)")[-1] == (7, "[{}]")


def test_a_hint_pins_the_part_of_any_shape(project):
    project.write('format: {type: json, schema: infer, schema_hints: "payload variant"}')
    project.run({"id": 1, "payload": {"a": 1}, "seen": True}, {"id": 2, "payload": "text"}, {"id": 3})
    assert project.table("id", "CAST(payload AS string)", "seen") == [
        (1, '{"a":1}', True),
        (2, "text", None),
        (3, None, None),
    ]


@pytest.mark.long
def test_a_hint_pins_the_part_of_any_shape_and_the_rest_grows(project):
    project.write('format: {type: json, schema: infer, schema_hints: "payload variant"}')
    project.run({"id": 1, "payload": {"a": 1}}, {"id": 2, "payload": "text"}, {"id": 3})
    code, said = project.say("schema", "infer", "events")
    assert (code, "payload  variant" in said) == (0, True), said
    wide = {f"k{number}": {"v": number} for number in range(6000)}
    project.run(
        {"id": 4, "payload": {"a": {"b": [1.5]}, "c": True}, "seen": True},
        {"id": 5, "payload": wide, "later": 1.5},
    )
    kinds = dict(project.spark.read.format("delta").load(str(project.folder / "lake/silver/events")).dtypes)
    assert {name: kinds[name] for name in ("id", "payload", "seen", "later")} == {
        "id": "bigint",
        "payload": "variant",
        "seen": "boolean",
        "later": "double",
    }
    assert project.table("id", "CAST(payload AS string)", "seen", "later")[:4] == [
        (1, '{"a":1}', None, None),
        (2, "text", None, None),
        (3, None, None, None),
        (4, '{"a":{"b":[1.5]},"c":true}', True, None),
    ]
    assert project.table("id", "variant_get(payload, '$.k5999.v', 'int')", "later")[4] == (5, 5999, 1.5)


def test_what_a_variant_column_cannot_hold_is_rescued(project):
    project.write(
        'format: {type: json, schema: "id bigint, payload variant"}',
        "evolution: {on_new_column: rescue, on_type_change: rescue}",
    )
    project.run({"id": 1, "payload": {"a": 1}, "x": 1}, b'{"id": 2, "payload": {"n":  1e999}}')
    assert project.table("id", "CAST(payload AS string)", "_rescued") == [
        (1, '{"a":1}', '{"/x":1}'),
        (2, None, '{"/payload":{"n":  1e999}}'),
    ]


@pytest.mark.long
def test_policies_of_evolution_say_nothing_of_what_is_within(project):
    project.write(
        'format: {type: json, schema: "id bigint, payload variant"}',
        "evolution: {on_new_column: rescue, on_type_change: rescue}",
    )
    project.run({"id": 1, "payload": {"a": 1}, "x": 1}, b'{"id": 2, "payload": {"n":  1e999}}')
    assert project.table("id", "CAST(payload AS string)", "_rescued") == [
        (1, '{"a":1}', '{"/x":1}'),
        (2, None, '{"/payload":{"n":  1e999}}'),
    ]
    project.write(
        'format: {type: json, schema: "id bigint, payload variant"}', "evolution: {on_new_column: dead_letter}"
    )
    project.run({"id": 3, "payload": {"b": 1}}, {"id": 4, "payload": 1, "y": 1})
    assert project.letters("reason", "field") == [(3, "FIELD_UNDECLARED", "/y")]


@pytest.mark.long
@pytest.mark.parametrize(
    "way", ["listed", *(pytest.param(way, marks=pytest.mark.long) for way in WAYS if way != "listed")]
)
def test_rows_by_key_keep_the_newest_document(project, way):
    project.write(
        'format: {type: json, schema: "id bigint, at int, payload variant"}',
        "sink: {type: upsert, keys: [id], sequence_by: at}",
    )
    project.run(*({"id": key, "at": 1, "payload": {"v": key}} for key in range(4)))
    with merging_by(way):
        project.run(
            {"id": 1, "at": 3, "payload": {"v": [1, {"w": "new"}]}},
            {"id": 1, "at": 2, "payload": "late"},
            {"id": 2, "at": 2, "payload": None},
            {"id": 9, "at": 1, "payload": "x"},
        )
    assert project.table("id", "CAST(payload AS string)", order="id") == [
        (0, '{"v":0}'),
        (1, '{"v":[1,{"w":"new"}]}'),
        (2, None),
        (3, '{"v":3}'),
        (9, "x"),
    ]
    assert project.say("audit")[0] == 0


@pytest.mark.long
def test_every_version_keeps_its_document(project):
    project.write(
        'format: {type: json, schema: "id bigint, at int, payload variant"}',
        "sink: {type: history, keys: [id], sequence_by: at}",
    )
    project.run({"id": 1, "at": 1, "payload": {"v": 1}}, {"id": 1, "at": 3, "payload": [3]})
    project.run({"id": 1, "at": 2, "payload": {"v": 2}})
    assert project.table("__START_AT", "__END_AT", "CAST(payload AS string)", order="__START_AT") == [
        (1, 2, '{"v":1}'),
        (2, 3, '{"v":2}'),
        (3, None, "[3]"),
    ]
    assert project.say("audit")[0] == 0


@pytest.mark.long
def test_updates_of_parts_leave_a_document_that_they_do_not_bring(project):
    project.write(
        'format: {type: json, schema: "id bigint, at int, payload variant, note string"}',
        "sink: {type: upsert, keys: [id], sequence_by: at, ignore_null_updates: true}",
    )
    project.run({"id": 1, "at": 1, "payload": {"v": 1}, "note": "a"}, {"id": 2, "at": 1, "payload": [2]})
    project.run(
        {"id": 1, "at": 3, "note": "b"}, {"id": 2, "at": 2, "payload": {"w": 2}}, {"id": 1, "at": 2, "payload": 0}
    )
    assert project.table("id", "CAST(payload AS string)", "note", order="id") == [(1, "0", "b"), (2, '{"w":2}', None)]
    assert project.say("audit")[0] == 0


@pytest.mark.long
def test_snapshots_bring_documents_of_any_shape(project):
    project.write(
        'format: {type: json, schema: "at int, items array<struct<id int, payload variant>>"}',
        "sink: {type: upsert, from: snapshot, rows: items, keys: [id], sequence_by: at}",
    )
    project.run({"at": 1, "items": [{"id": 1, "payload": {"v": 1}}, {"id": 2, "payload": "x"}]})
    project.run({"at": 2, "items": [{"id": 1, "payload": {"v": 2}}, {"id": 3}]})
    assert project.table("id", "CAST(payload AS string)", order="id") == [(1, '{"v":2}'), (3, None)]
    assert project.say("audit")[0] == 0


@pytest.mark.parametrize(
    ("sink", "detail", "hint"),
    [
        (
            "{type: history, keys: [id], sequence_by: id, track_history_columns: [parts]}",
            "sink history: column 'parts' is of type array<variant>, whose changes cannot be seen",
            "track_history_except_columns: [parts]",
        ),
        (
            "{type: upsert, keys: [payload]}",
            "sink upsert: key 'payload' is of type variant, which cannot be a key",
            "name columns of simple types: keys: [id]",
        ),
        (
            "{type: upsert, keys: [id], sequence_by: payload}",
            "sink upsert: sequence_by is of type variant, which has no order",
            "name a number, a time or a text: sequence_by: updated_at",
        ),
        (
            "{type: history, keys: [id], sequence_by: id, track_history_columns: [payload]}",
            "sink history: column 'payload' is of type variant, whose changes cannot be seen",
            "track_history_except_columns: [payload]",
        ),
    ],
)
def test_rows_are_neither_told_apart_nor_ordered_by_one(project, sink, detail, hint):
    form = 'format: {type: json, schema: "id bigint, payload variant, parts array<variant>"}'
    project.write(form, f"sink: {sink}")
    told = f"[KEYS_INVALID] flow events: {detail}; nothing was run\n  at: rivermouth.yml:8\n  hint: {hint}\n"
    assert project.say("validate") == (1, told)


def test_other_formats_refuse_the_type(project):
    told = "column payload: type variant is not read from the JSON of this format: declare string; nothing was run"
    for form in ("debezium, connector: mongodb", "maxwell", "canal", "ogg"):
        keyed = "sink: {type: upsert, keys: [id]}"
        project.write(f'format: {{type: {form}, schema: "id bigint, payload variant"}}', keyed)
        code, said = project.say("validate")
        assert (code, told in said) == (1, True), said


@pytest.mark.parametrize("layout", ["partition_by", "cluster_by"])
def test_no_files_are_told_apart_by_one(project, layout):
    project.write('format: {type: json, schema: "id bigint, payload variant"}')
    text = (project.folder / "rivermouth.yml").read_text()
    project.save(text.replace("silver.events", f"{{name: silver.events, {layout}: [payload]}}"))
    told = (
        "[LAYOUT_INVALID] flow events: the table's layout cannot be used: column 'payload' is of type variant, "
        "which cannot separate files; nothing was run\n"
    )
    code, said = project.say("validate")
    assert (code, said[: len(told)]) == (1, told), said
