"""``select``: the table's columns made of those that a format reads."""

from __future__ import annotations

import json
import re

import pytest
from tests.doors.one_topic import OneFlow

ORDER = 'format: {type: json, schema: "id bigint NOT NULL, customer struct<name: string, city: string>, note string"}'


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())


def order(number, **more):
    return json.dumps({"id": number, **more}).encode()


def test_columns_are_picked_computed_and_named(project):
    project.write(
        ORDER,
        "metadata_columns: [kafka_timestamp, kafka_headers]",
        "select:",
        "  - id",
        "  - customer.name AS customer",
        "  - upper(customer.city) AS city",
        "  - CAST(filter(kafka_headers, h -> h.key = 'source')[0].value AS STRING) AS source",
        "  - date(kafka_timestamp) AS day",
        "expectations: [{name: named, condition: customer IS NOT NULL, action: dead_letter}]",
    )
    project.send(order(1, customer={"name": "Ada", "city": "Bonn"}, note="x"), headers={"source": b"web"}, timestamp=1)
    project.send(order(2, customer={"city": "Rom"}), order(3), order("x"), b"{", timestamp=86_400_000)
    code, said = project.say("run")
    assert code == 0, said
    (row,) = project.kept("orders")
    assert {name: row[name] for name in ("id", "customer", "city", "source")} == {
        "id": 1,
        "customer": "Ada",
        "city": "BONN",
        "source": "web",
    }
    assert str(row["day"]) == "1970-01-01"
    assert list(row) == [
        *("id", "customer", "city", "source", "day"),
        *("kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_headers"),
    ]
    assert project.letters("reason", "field") == [
        (1, "EXPECTATION", None),
        (2, "EXPECTATION", None),
        (3, "FIELD_TYPE", "id"),
        (4, "INVALID_JSON", None),
    ]


def test_a_star_is_what_the_format_reads_and_columns_may_come_later(project):
    project.write(ORDER, "select: '* EXCEPT (customer)'")
    project.send(order(1, note="a"))
    assert project.say("run")[0] == 0
    project.write(ORDER, "select: ['*', length(note) AS letters]")
    project.send(order(2, note="bcd", customer={"name": "Bo"}))
    assert project.say("run")[0] == 0
    assert [(row["id"], row["note"], row["customer"], row["letters"]) for row in project.kept("orders")] == [
        (1, "a", None, None),
        (2, "bcd", {"name": "Bo", "city": None}, 3),
    ]


def test_rows_by_a_key_that_is_selected(project):
    project.write(
        'format: {type: json, schema: "data struct<id: int, at: int, v: string>"}',
        "select: [data.id, data.at AS seen, data.v AS v]",
        "sink: {type: upsert, keys: [id], sequence_by: seen}",
    )
    project.send(
        *(order(0, data={"id": key, "at": at, "v": v}) for key, at, v in [(1, 1, "a"), (2, 1, "b"), (1, 0, "c")])
    )
    assert project.say("run")[0] == 0
    assert sorted((row["id"], row["seen"], row["v"]) for row in project.kept("orders")) == [(1, 1, "a"), (2, 1, "b")]


def test_text_is_taken_apart_and_replayed_after_a_fix(project):
    project.write(
        "format: text",
        "select: ['CAST(split(value, \";\")[0] AS INT) AS number', 'split(value, \";\")[1] AS word']",
        "expectations: [{name: numbered, condition: number > 0, action: dead_letter}]",
    )
    project.send(b"1;one", b"x2;two")
    assert project.say("run")[0] == 0
    assert project.rows("number", "word") == [(0, 1, "one")]
    project.write(
        "format: text",
        "select: [\"CAST(regexp_extract(value, '[0-9]+', 0) AS INT) AS number\", 'split(value, \";\")[1] AS word']",
        "expectations: [{name: numbered, condition: number > 0, action: dead_letter}]",
    )
    assert project.say("dead-letters", "replay", "orders")[0] == 0
    assert project.rows("number", "word") == [(0, 1, "one"), (1, 2, "two")]


@pytest.mark.parametrize(
    ("expression", "detail"),
    [
        (
            "explode(split(note, ' ')) AS word",
            "it goes over several rows, or makes several of one: each record is one row",
        ),
        ("max(id) AS most", "it goes over several rows, or makes several of one: each record is one row"),
        (
            "row_number() OVER (ORDER BY id) AS n",
            "it goes over several rows, or makes several of one: each record is one row",
        ),
        ("reflect('java.lang.System', 'exit', 1) AS x", "it calls reflect(), which could run any code"),
        ("(SELECT 1) AS one", "it holds a subquery, which Spark would run again with every batch"),
        ("to_json(struct(*)) AS whole", "a * for all columns stands alone: name the columns"),
        ("id + 1", "it has no name that a column can bear: write AS and a name behind it"),
        ("NULL AS none", "column none is void, which no table has: write CAST(… AS type)"),
        ("note AS ID", "column ID stands twice"),
    ],
)
def test_what_is_no_column_of_each_record_is_refused(project, expression, detail):
    project.write(ORDER, f"select: {json.dumps(['id', expression])}")
    told = (
        f"[SELECT_INVALID] flow orders: select {expression!r} cannot be used: {detail}; nothing was run\n"
        "  at: rivermouth.yml:4\n"
        "  hint: rivermouth plan orders\n"
    )
    assert project.say("validate") == (1, told)


def test_a_column_that_is_not_there_is_refused_in_sparks_words(project):
    project.write(ORDER, "select: [nte]")
    code, text = project.say("validate")
    assert code == 1
    assert re.fullmatch(
        r"\[SELECT_INVALID\] flow orders: select 'nte' cannot be used: \[UNRESOLVED_COLUMN.+`note`.+; nothing was run\n"
        r"  at: rivermouth\.yml:4\n  hint: rivermouth plan orders\n",
        text,
    )


@pytest.mark.parametrize(
    ("column", "problem", "hint"),
    [
        (
            "kafka_offset",
            "[COLUMN_COLLISION] column 'kafka_offset' stands both in the payload and in the metadata columns",
            "metadata_columns: {kafka_offset: another_name}",
        ),
        (
            "__offset",
            "[COLUMN_RESERVED] column '__offset' has a name that rivermouth keeps for itself",
            "leave __offset out of the schema, or write the value whole: format: text",
        ),
    ],
)
def test_a_column_in_the_way_is_refused_also_if_it_is_not_selected(project, column, problem, hint):
    project.write(f"format: {{type: json, schema: 'id int, {column} int'}}", "select: [id]")
    problem = problem.replace("] ", "] flow orders: ")
    told = f"{problem}; nothing was run\n  at: rivermouth.yml:4\n  hint: {hint}\n"
    assert project.say("validate") == (1, told)


GROWS = "select is of columns that are declared, and these may grow"
DECLARE = "write the schema, and leave evolution out"
WHOLE = "leave select out, and name their columns by columns of the sink"


@pytest.mark.parametrize(
    ("lines", "detail", "hint"),
    [
        (["format: {type: json, schema: infer}", "select: [id]"], GROWS, DECLARE),
        ([ORDER, "evolution: {on_new_column: rescue}", "select: [id]"], GROWS, DECLARE),
        ([ORDER, "select: []"], "select names no column", "leave it out for all that the format reads"),
        (
            ["format: {type: debezium, schema: 'id int'}", "select: [id]", "sink: upsert"],
            "a record of the format debezium is a change of whole rows",
            WHOLE,
        ),
        (
            [ORDER, "select: [id]", "sink: {type: upsert, keys: [id], from: snapshot, sequence_by: note}"],
            "a record is a snapshot of whole rows",
            WHOLE,
        ),
    ],
)
def test_where_there_is_nothing_to_select_it_is_refused(project, lines, detail, hint):
    project.write(*lines)
    assert project.say("validate") == (
        1,
        f"[PROJECT_INVALID] flows.orders: {detail}; nothing was run\n  at: rivermouth.yml:4\n  hint: {hint}\n",
    )


def test_a_table_of_selected_columns_is_no_source(project):
    project.write("format: raw", "select: [length(value) AS size]")
    file = project.folder / "rivermouth.yml"
    file.write_text(
        f"{file.read_text()}  copy: {{source: {{table: silver.orders}}, format: text, table: silver.copy}}\n"
    )
    told = (
        "[PROJECT_INVALID] flows.copy.source: silver.orders has what flow orders selects, and not the records as they "
        "were; nothing was run\n"
        "  at: rivermouth.yml:9\n"
        "  hint: read a table of a flow without select, or topics as flow orders does\n"
    )
    assert project.say("validate") == (1, told)
