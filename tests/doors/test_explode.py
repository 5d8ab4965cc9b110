"""``explode``: a record that carries several rows, from the project file to the tables and back."""

from __future__ import annotations

import json
import re

import pytest
from tests.doors.one_topic import OneFlow

ORDER = 'format: {type: json, schema: "id bigint NOT NULL, note string"}'
ITEMS = "id bigint NOT NULL, items array<struct<sku: string, qty: int>>, tags map<string, int>"
NESTED = f'format: {{type: json, schema: "{ITEMS}"}}'


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def by_place(rows):
    return sorted(rows, key=lambda row: (row[0], -1 if row[1] is None else row[1]))


def test_arrays_of_documents_into_rows_and_dead_letters_of_their_own(project):
    project.write(ORDER, "explode: '*'")
    project.send(
        b'[{"id": 1}, {"id": "x"},\n {"id": 3}]',
        b'{"id": 4}',
        b"[]",
        None,
        b'[{"id": 5}, {"id": 6}',
        b"no json",
        b'[{"id": 7, "note": "],["}, {bad}]',
    )
    code, said = project.say("run")
    assert code == 0, said
    assert re.search(r"orders +7 +4 +2 +4 ", said), said
    assert by_place(project.rows("kafka_position", "id")) == [(0, 0, 1), (0, 2, 3), (1, 0, 4), (6, 0, 7)]
    assert by_place(project.letters("kafka_position", "kafka_value", "reason", "field")) == [
        (0, 1, b'{"id": "x"}', "FIELD_TYPE", "id"),
        (4, None, b'[{"id": 5}, {"id": 6}', "INVALID_JSON", None),
        (5, 0, b"no json", "INVALID_JSON", None),
        (6, 1, b"{bad}", "INVALID_JSON", None),
    ]
    code, said = project.say("audit")
    assert code == 0, said
    assert "7 records in Kafka, exploded into 10 rows: 4 in the table, 4 in the dead letters, 2 in neither" in said
    code, said = project.say("status", "--output", "json")
    totals = json.loads(said)["flows"][0]["totals"]
    counted = ("consumed", "exploded", "written", "dropped", "dead_lettered", "null_values", "no_elements")
    assert {name: totals[name] for name in counted} == {
        "consumed": 7,
        "exploded": 3,
        "written": 4,
        "dropped": 2,
        "dead_lettered": 4,
        "null_values": 1,
        "no_elements": 1,
    }


@pytest.mark.long
def test_a_corrected_flow_takes_elements_back_one_by_one_and_once(project):
    strict, loose = (f"expectations: [{{name: few, condition: qty < {most}, action: dead_letter}}]" for most in (5, 50))
    settings = (NESTED, "explode: items AS item", "select: [id, item.sku, item.qty]")
    project.write(*settings, strict)
    items = [{"sku": name, "qty": number} for name, number in (("a", 1), ("b", 7), ("c", 9), ("d", 70))]
    project.send(json.dumps({"id": 1, "items": items}).encode(), b'{"id": 2, "items": [{"qty": "x"}, {"qty": 3}]}')
    assert project.say("run")[0] == 0
    assert by_place(project.letters("kafka_position", "status")) == [
        *((0, 1, "open"), (0, 2, "open"), (0, 3, "open"), (1, None, "open"))
    ]
    project.write(*settings, loose)
    code, said = project.say("dead-letters", "replay", "orders", "--position", "2")
    assert (code, said) == (0, "orders: 1 dead letter tried, 1 moved into the table, 0 still fail\n")
    assert by_place(project.rows("kafka_position", "sku", "qty")) == [(0, 0, "a", 1), (0, 2, "c", 9)]
    code, said = project.say("dead-letters", "replay", "orders")
    why = "EXPECTATION 1, FIELD_TYPE items[].qty 1"
    assert (code, said) == (0, f"orders: 3 dead letters tried, 1 moved into the table, 2 still fail: {why}\n")
    assert by_place(project.rows("kafka_position", "sku")) == [(0, 0, "a"), (0, 1, "b"), (0, 2, "c")]
    assert by_place(project.letters("kafka_position", "status")) == [
        *((0, 1, "replayed"), (0, 2, "replayed"), (0, 3, "open"), (1, None, "open"))
    ]
    # A record that was refused as a whole comes with all of its elements, or not at all.
    project.write(NESTED.replace("qty: int", "qty: string"), *settings[1:], loose)
    assert project.say("run")[0] == 1, "the table has numbers there"
    project.write(*settings, loose)
    code, said = project.say("audit")
    assert code == 0, said
    code, said = project.say("dead-letters", "show", "orders", "--position", "3")
    assert code == 0
    assert f"orders: {project.topic} partition 0 offset 0 position 3, open, tried 2 times" in said
    code, said = project.say("dead-letters", "list", "orders", "--status", "open")
    assert f"{project.topic} partition 0 offset 0 position 3" in said
    assert project.say("dead-letters", "discard", "orders", "--position", "3") == (
        0,
        "orders: 1 dead letter discarded\n",
    )


@pytest.mark.long
def test_a_record_refused_as_a_whole_is_replayed_with_all_of_its_elements(project):
    narrow = NESTED.replace("id bigint NOT NULL", "id int NOT NULL")
    settings = ("explode: items AS item", "select: [CAST(id AS bigint) AS id, item.sku, item.qty]")
    few = "expectations: [{name: few, condition: qty < 9, action: dead_letter}]"
    project.write(narrow, *settings, few)
    big = 1 << 40
    for qty in (1, 10):
        items = [{"sku": "a", "qty": 1}, {"sku": "b", "qty": qty}]
        project.send(json.dumps({"id": big + qty, "items": items}).encode())
    assert project.say("run")[0] == 0
    assert by_place(project.letters("kafka_position", "reason")) == [(0, None, "FIELD_TYPE"), (1, None, "FIELD_TYPE")]
    project.write(NESTED, *settings, few)
    code, said = project.say("dead-letters", "replay", "orders")
    assert (code, said) == (0, "orders: 2 dead letters tried, 1 moved into the table, 1 still fail: EXPECTATION 1\n")
    assert by_place(project.rows("kafka_position", "id", "sku")) == [(0, 0, big + 1, "a"), (0, 1, big + 1, "b")]
    code, said = project.say("audit")
    assert code == 0, said
    assert "2 records in Kafka" in said


def test_a_map_and_a_column_that_keeps_its_name(project):
    project.write(NESTED, "explode: tags AS (name, number)", "metadata_columns: {kafka_position: nth}")
    project.send(b'{"id": 1, "tags": {"x": 1, "y": null}, "items": []}', b'{"id": 2, "tags": {}}', b'{"id": 3}')
    assert project.say("run")[0] == 0
    assert by_place(project.rows("nth", "id", "name", "number")) == [(0, 0, 1, "x", 1), (0, 1, 1, "y", None)]
    assert list(project.kept("orders")[0]) == [
        *("id", "items", "name", "number", "kafka_topic", "kafka_partition", "kafka_offset", "nth")
    ]


@pytest.mark.long
def test_from_a_table_of_raw_records_as_from_kafka(project):
    text = f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{project.servers}"}}
flows:
  raw: {{topics: [{project.topic}], format: raw, table: bronze.raw}}
  orders:
    source: {{table: bronze.raw}}
    {ORDER}
    explode: '*'
    table: silver.orders
"""
    project.save(text)
    project.send(b'[{"id": 1}, {"id": 2}, 3]', b'[{"id": 4}]')
    assert project.say("run", "raw")[0] == 0
    code, said = project.say("run", "orders")
    assert code == 0, said
    assert by_place(project.rows("kafka_position", "id")) == [(0, 0, 1), (0, 1, 2), (1, 0, 4)]
    assert project.letters("kafka_position") == [(0, 2)]
    code, said = project.say("audit")
    assert code == 0, said
    code, said = project.say("rebuild", "orders", "--yes", "--why", "again")
    assert code == 0, said
    assert by_place(project.rows("kafka_position", "id")) == [(0, 0, 1), (0, 1, 2), (1, 0, 4)]
    assert project.say("audit")[0] == 0


@pytest.mark.parametrize(
    ("explode", "detail"),
    [
        ("id AS n", "it is bigint, and neither an array nor a map"),
        (
            "explode(items) AS item",
            "it goes over several rows, or makes rows itself: write the array, without explode()",
        ),
        ("shuffle(items) AS item", "it depends on chance or on the time, and an element keeps its position"),
        (
            "filter(items, i -> current_date() > DATE '2020-01-01') AS item",
            "it depends on chance or on the time, and an element keeps its position",
        ),
        ("(SELECT array(1)) AS item", "it holds a subquery, which Spark would run again with every batch"),
        ("reflect('java.lang.System', 'exit', 1) AS x", "it calls reflect(), which could run any code"),
        ("array(struct(*)) AS x", "it holds a *"),
        ("filter(items, i -> i.qty > 0)", "an element of an array is one column: write AS item behind it"),
        ("tags AS tag", "an element of a map has two columns: write AS (key, value) behind it"),
        ("items AS ID", "column id is there twice: write AS and another name behind it"),
        ("items AS (a, b)", "an element of an array is one column: write AS item behind it"),
    ],
)
def test_what_cannot_be_exploded_is_refused(project, explode, detail):
    project.write(NESTED, f"explode: {json.dumps(explode)}")
    told = (
        f"[EXPLODE_INVALID] flow orders: explode {explode!r} cannot be used: {detail}; nothing was run\n"
        "  at: rivermouth.yml:8\n"
        '  hint: explode: "items AS item"\n'
    )
    assert project.say("validate") == (1, told)


def test_a_column_that_is_not_there_is_refused_in_sparks_words(project):
    project.write(NESTED, "explode: itms")
    project.refuses("explode", "itms", r"\[UNRESOLVED_COLUMN.+`items`.+", "did you mean 'items'?")


def test_a_star_without_quotes_is_told_what_it_is_to_yaml(project):
    project.write(ORDER, "explode: *")
    assert project.say("validate") == (
        1,
        (
            "[PROJECT_INVALID] a value begins with *, which YAML keeps for its alias names; nothing was run\n"
            "  at: rivermouth.yml:8\n"
            '  hint: put the whole value in quotes: "..."\n'
        ),
    )


def test_a_table_keeps_what_its_rows_are_elements_of(project):
    project.write(NESTED, "explode: items")
    project.send(b'{"id": 1, "items": [{"sku": "a"}]}')
    assert project.say("run")[0] == 0
    table = project.folder / "lake/silver/orders"
    project.write(NESTED, "explode: filter(items, i -> i.qty > 0) AS item")
    told = (
        f"[TABLE_MISMATCH] flow orders: table {table} does not fit the flow: its rows are elements of items, "
        "those of the flow elements of filter(items, i -> i.qty > 0); nothing was written\n"
        "  at: rivermouth.yml:4\n"
        "  hint: write into a new table, or explode what the table was made of\n"
    )
    assert told in project.say("run")[1]
    project.write(NESTED)
    assert "its rows are elements of items, those of the flow whole records;" in project.say("run")[1]
    project.write(NESTED, "explode: items")
    code, text = project.say("tables", "forget", "silver.orders", "--where", "id = 1", "--yes")
    assert (code, text) == (
        1,
        (
            "[FORGET_REFUSED] table silver.orders: its rows are elements of records, and an element alone cannot be "
            "kept from being read again; nothing was erased\n"
            "  hint: leave explode out, into a table of its own, and erase there\n"
        ),
    )


@pytest.mark.long
def test_a_dead_letter_table_of_before_gets_the_position(project):
    project.write(ORDER)
    project.send(b"{bad")
    assert project.say("run")[0] == 0
    settings = (ORDER, "explode: '*'", "places: {dead_letter_table: ./lake/silver/orders__dead_letters}")
    project.write(*settings)
    text = (project.folder / "rivermouth.yml").read_text()
    project.save(text.replace("silver.orders", "silver.new").replace("  orders:", "  new:"))
    project.send(b'[{"id": 1}, 2]')
    code, said = project.say("run")
    assert code == 0, said
    assert by_place(project.letters("kafka_position", "flow")) == [(0, None, "orders"), (0, 0, "new"), (1, 1, "new")]
    assert project.say("dead-letters", "replay", "new", "--dry-run")[0] == 0


@pytest.mark.long
def test_of_an_inferred_schema_the_same_is_exploded_as_of_a_declared_one(project):
    lines = (
        "explode: items AS item",
        "select: [id, item.sku, item.qty]",
        "expectations: [{name: few, condition: qty < 5, action: dead_letter}]",
    )
    project.write("format: {type: json, schema: infer}", *lines)
    some = [{"sku": "a", "qty": 1}, {"sku": "b", "qty": 7}]
    project.send(json.dumps({"id": 1, "items": some}).encode(), b'{"id": 2, "items": []}')
    assert project.planned()[1] == [("id", "bigint"), ("sku", "string"), ("qty", "bigint")]
    assert project.say("run")[0] == 0
    project.declare_too(*lines)
    more = [{"sku": "c", "qty": 2, "new": 1}, {"sku": "d", "qty": 9}]
    project.send(
        json.dumps({"id": 3, "items": more, "new": 1}).encode(),
        b'{"id": 4, "items": [{"qty": 9223372036854775808}, {"qty": 3}]}',
        b'{"id": 5, "items": 1}',
        None,
    )
    code, said = project.say("run")
    assert code == 0, said
    assert project.is_as_declared()
    assert by_place(project.rows("kafka_position", "id", "sku")) == [(0, 0, 1, "a"), (2, 0, 3, "c")]
    assert by_place(project.letters("kafka_position", "reason", "field")) == [
        *((0, 1, "EXPECTATION", None), (2, 1, "EXPECTATION", None)),
        *((3, None, "FIELD_TYPE", "items[].qty"), (4, None, "FIELD_TYPE", "items")),
    ]
    project.write("format: {type: json, schema: infer}", *(line.replace("qty < 5", "qty < 8") for line in lines))
    assert project.say("dead-letters", "replay", "orders") == (
        0,
        (
            "orders: 4 dead letters tried, 1 moved into the table, 3 still fail: "
            "EXPECTATION 1, FIELD_TYPE items 1, FIELD_TYPE items[].qty 1\n"
        ),
    )
    code, said = project.say("audit")
    assert code == 0, said


def test_a_policy_judges_each_element(project):
    project.write(ORDER, "explode: '*'", "evolution: {on_new_column: dead_letter}")
    project.send(b'[{"id": 1, "new": 1}, {"id": 2}]')
    assert project.say("run")[0] == 0
    assert project.letters("kafka_position", "reason", "field") == [(0, 0, "FIELD_UNDECLARED", "/new")]
    assert project.rows("id") == [(0, 2)]


@pytest.mark.long
def test_policies_that_leave_columns_as_they_are_judge_each_element(project):
    project.write(ORDER, "explode: '*'", "evolution: {on_new_column: dead_letter}")
    project.send(b'[{"id": 1, "new": 1}, {"id": 2}]')
    assert project.say("run")[0] == 0
    assert project.letters("kafka_position", "reason", "field") == [(0, 0, "FIELD_UNDECLARED", "/new")]
    project.write(ORDER, "explode: '*'", "evolution: {on_new_column: fail}")
    project.send(b'[{"id": 3}, {"id": 4, "new": 1}]')
    code, said = project.say("run")
    assert code == 1
    assert "[SCHEMA_CHANGED] flow orders: a field is not in the schema, /new" in said
    assert project.rows("id") == [(0, 2)]
