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
    # Some of its records are of 1970, which Kafka would delete as soon as it looks.
    return OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic(**{"retention.ms": "-1"}))


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


def test_a_record_for_which_an_expression_throws_stops_no_flow(project):
    project.write(
        'format: {type: json, schema: "id bigint, ms bigint"}',
        "select: ['*', timestamp_millis(ms) AS at]",
        'expectations: [{name: old, condition: "timestamp_micros(ms * 1000) < now()", action: drop},',
        "  {name: small, condition: timestamp_seconds(id) IS NOT NULL, action: dead_letter}]",
    )
    project.send(order(1, ms=1), order(2, ms=1_767_225_600_000_000_000), order(3, ms=2), order(10**18, ms=1))
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("id") == [(0, 1), (2, 3)]
    assert project.letters("reason", "field") == [(1, "EXPRESSION_FAILED", "at"), (3, "EXPECTATION", None)]
    code, said = project.say("dead-letters", "replay", "orders")
    assert code == 0, said
    assert "2 dead letters tried" in said
    assert project.rows("id") == [(0, 1), (2, 3)]


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


@pytest.mark.long
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


SEVERAL = "it goes over several rows, or makes several of one: each record is one row"
ONE = "select one column of each record; for a row of each element of an array write explode:"
OWN = "write it with the record's own columns"


@pytest.mark.parametrize(
    ("expression", "detail", "hint"),
    [
        ("explode(split(note, ' ')) AS word", SEVERAL, ONE),
        ("max(id) AS most", SEVERAL, ONE),
        ("row_number() OVER (ORDER BY id) AS n", SEVERAL, ONE),
        ("reflect('java.lang.System', 'exit', 1) AS x", "it calls reflect(), which could run any code", OWN),
        ("(SELECT 1) AS one", "it holds a subquery, which Spark would run again with every batch", OWN),
        (
            "to_json(struct(*)) AS whole",
            "a * for all columns cannot be part of an expression: name the columns",
            "select: ['*']",
        ),
        ("id + 1", "it has no name that a column can have: write AS and a name after it", "id + 1 AS a_name"),
        (
            "NULL AS none",
            "column none is void, which no table has: write CAST(… AS type)",
            "CAST(NULL AS string) AS none",
        ),
        ("note AS ID", "column ID is there twice", "note AS another_name"),
    ],
)
def test_what_is_no_column_of_each_record_is_refused(project, expression, detail, hint):
    project.write(ORDER, f"select: {json.dumps(['id', expression])}")
    project.refuses("select", expression, re.escape(detail), hint)


def test_a_column_that_is_not_there_is_refused_in_sparks_words(project):
    project.write(ORDER, "select: [nte]")
    project.refuses("select", "nte", r"\[UNRESOLVED_COLUMN.+`note`.+", "did you mean 'note'?")


@pytest.mark.parametrize(
    ("column", "problem", "hint"),
    [
        (
            "kafka_offset",
            "[COLUMN_COLLISION] column 'kafka_offset' is both in the payload and in the metadata columns",
            (
                "metadata_columns: {kafka_topic: kafka_topic, kafka_partition: kafka_partition, "
                "kafka_offset: record_kafka_offset, kafka_timestamp: kafka_timestamp, kafka_key: kafka_key, "
                "ingested_at: ingested_at}"
            ),
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
    told = f"{problem}; nothing was run\n  at: rivermouth.yml:7\n  hint: {hint}\n"
    assert project.say("validate") == (1, told)


NO_PLACE = "new columns have no place in a select without *"
KEYED = "select may make the keys and the order of the sink upsert of any column, so none becomes wider, or is rescued"
WHOLE = "leave select out, and name their columns by columns of the sink"


@pytest.mark.parametrize(
    ("lines", "detail", "hint"),
    [
        (
            ["format: {type: json, schema: infer}", "evolution: {on_new_column: evolve}", "select: [id]"],
            NO_PLACE,
            "write '*' into it, or on_new_column: ignore",
        ),
        *(
            (
                [ORDER, f"evolution: {{{policy}}}", "select: ['*']", "sink: {type: upsert, keys: [id]}"],
                KEYED,
                "write on_type_change: dead_letter, or fail",
            )
            for policy in ("on_type_change: widen", "columns: {note: {on_type_change: rescue}}")
        ),
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


INFERRED = "format: {type: json, schema: infer}"
STAYS = "evolution: {on_new_column: ignore, on_type_change: dead_letter}"


def kinds(project, spark):
    """The types of the table's payload columns."""
    found = spark.read.format("delta").load(str(project.folder / "lake/silver/orders"))
    return {name: kind for name, kind in found.dtypes if not name.startswith(("kafka_", "ingested_"))}


def changes_of(project):
    """Of each version of the schema, the newest first."""
    code, said = project.say("schema", "show", "orders", "--history", "--output", "json")
    assert code == 0, said
    return [each["changes"] for each in json.loads(said)["versions"]]


@pytest.mark.long
def test_of_an_inferred_schema_the_same_is_selected_as_of_a_declared_one(project):
    lines = (
        "select: ['* EXCEPT (payload)', payload.a AS a, 'id % 2 = 0 AS even', date(kafka_timestamp) AS day]",
        "expectations: [{name: low, condition: a < 5, action: dead_letter}]",
    )
    project.write(INFERRED, STAYS, *lines)
    project.send(order(1, payload={"a": 1, "b": "x"}, note="n"), order(2, payload={"a": 7}))
    said, columns = project.planned()
    assert "the schema is inferred from 2 records, and kept by the first run" in said
    assert columns == [("id", "bigint"), ("note", "string"), ("a", "bigint"), ("even", "boolean"), ("day", "date")]
    assert project.say("run")[0] == 0
    read = "\n  id bigint\n  note string\n  payload struct<a:bigint,b:string>"
    assert read in project.say("schema", "show", "orders")[1]
    project.declare_too(*lines)
    project.send(*(order(n, payload={"a": n}, new=n) for n in range(3, 7)), order("x", payload={"a": 1}), b"{", None)
    code, said = project.say("run")
    assert code == 0, said
    assert project.is_as_declared()
    assert [row["a"] for row in project.kept("orders")] == [1, 3, 4]
    assert project.letters("reason") == [
        *((1, "EXPECTATION"), (4, "EXPECTATION"), (5, "EXPECTATION"), (6, "FIELD_TYPE"), (7, "INVALID_JSON"))
    ]
    project.write(INFERRED, STAYS, *(line.replace("a < 5", "a < 7") for line in lines))
    assert project.say("dead-letters", "replay", "orders") == (
        0,
        (
            "orders: 5 dead letters tried, 2 moved into the table, 3 still fail: "
            "EXPECTATION 1, FIELD_TYPE id 1, INVALID_JSON 1\n"
        ),
    )
    assert sorted(row["a"] for row in project.kept("orders")) == [1, 3, 4, 5, 6]
    code, said = project.say("audit")
    assert code == 0, said


def test_a_name_that_was_not_inferred_is_refused_before_anything_is_kept(project):
    project.write(INFERRED, "select: [id, payload.b AS b]")
    project.send(order(1, payload={"a": 1}))
    code, said = project.say("run")
    assert code == 1
    assert "[SELECT_INVALID] flow orders: select 'payload.b AS b' cannot be used: [FIELD_NOT_FOUND" in said
    assert "SELECT_INVALID" in project.say("plan")[1]
    assert not (project.folder / "lake/_rivermouth/schemas").exists()
    project.write(INFERRED, "select: ['*', 'id AS payload']")
    code, said = project.say("run")
    assert code == 1
    assert project.unusable("select", "id AS payload", "column payload is there twice", "id AS another_name") in said


@pytest.mark.long
def test_new_fields_come_where_the_star_stands_and_none_takes_the_name_of_what_is_computed(project, spark):
    lines = ("select: ['*', 'left(at, 7) AS month', id + 1 AS next]",)
    project.write(INFERRED, *lines)
    project.send(order(1, at="2026-01-31", place={"city": "Ulm"}))
    assert project.say("run")[0] == 0
    project.send(
        order(1 << 63, at="2026-02-01", colour="red", month=[5]),
        order(2, at="2026-03-01", place={"city": "Bonn", "zip": 53}, Next=True),
    )
    code, said = project.say("run")
    assert code == 0, said
    assert kinds(project, spark) == {
        "at": "string",
        "id": "decimal(20,0)",
        "place": "struct<city:string,zip:bigint>",
        "month": "string",
        "next": "decimal(21,0)",
        "colour": "string",
        "month_2": "array<bigint>",
        "Next_2": "boolean",
    }
    found = spark.read.format("delta").load(str(project.folder / "lake/silver/orders")).orderBy("kafka_offset")
    columns = ("id", "next", "month", "colour", "month_2", "Next_2", "place.zip")
    assert [tuple(row) for row in found.select(*columns).collect()] == [
        (1, 2, "2026-01", None, None, None, None),
        (1 << 63, (1 << 63) + 1, "2026-02", "red", [5], None, None),
        (2, 3, "2026-03", None, None, True, 53),
    ]
    assert sorted(changes_of(project)[0]) == [
        *("adds column Next_2 boolean", "adds column colour string", "adds column month_2 array<bigint>"),
        *("adds place.zip bigint", "widens id to decimal(20,0)"),
    ]
    # What came since is inferred by now, too.
    project.send(order(3, size=1.5, at="2026-04-01"))
    code, said = project.say("run", "--update-schema")
    assert code == 0, said
    assert kinds(project, spark)["size"] == "double"
    project.send(order("x", flavour="sour"))
    assert project.say("run")[0] == 0
    assert project.letters("reason", "field") == [(4, "FIELD_TYPE", "id")]


NO_PLACE_FOR_OTHER = """\
[PROJECT_INVALID] flows.orders: evolution.columns lets 'other' in, and new columns have no place in a select without \
*; nothing was run
  at: rivermouth.yml:4
  hint: write '*' into it, or leave other out
"""


def test_a_select_without_a_star_has_no_place_for_new_columns(project, spark):
    project.write(INFERRED, "select: [id, payload.a AS a]")
    project.send(*(order(n, payload={"a": n}) for n in range(2)))
    assert project.say("run")[0] == 0
    assert kinds(project, spark) == {"id": "bigint", "a": "bigint"}
    project.write(INFERRED, "evolution: {columns: {other: {on_new_column: evolve}}}", "select: [id]")
    assert project.say("validate") == (1, NO_PLACE_FOR_OTHER)


@pytest.mark.long
def test_a_select_without_a_star_ignores_new_fields_and_counts_them(project, spark):
    project.write(INFERRED, "select: [id, payload.a AS a]")
    project.send(*(order(n, payload={"a": n}) for n in range(2)))
    assert project.say("run")[0] == 0
    assert project.totals("written", "undeclared_fields") == {"written": 2, "undeclared_fields": 0}
    project.send(order(1, payload={"a": 1 << 63, "b": 1}, new=1))
    assert project.say("run")[0] == 0
    assert project.totals("written", "undeclared_fields") == {"written": 3, "undeclared_fields": 2}
    assert kinds(project, spark) == {"id": "bigint", "a": "decimal(20,0)"}
    project.write(INFERRED, "evolution: {columns: {other: {on_new_column: evolve}}}", "select: [id]")
    assert project.say("validate") == (1, NO_PLACE_FOR_OTHER)


@pytest.mark.long
@pytest.mark.parametrize(
    ("word", "rescued"), [pytest.param("widen", False, marks=pytest.mark.long), ("widen_or_rescue", True)]
)
def test_what_is_computed_keeps_a_column_from_types_that_its_own_cannot_become(project, spark, word, rescued):
    project.write(INFERRED, f"evolution: {{on_type_change: {word}}}", "select: [id, n / 2 AS half, m + 1 AS more]")
    project.send(order(1, n=1, m=1))
    assert project.say("run")[0] == 0
    project.send(order(2, n=1 << 63, m=1 << 63), order(3, n=3, m=1 << 63))
    code, said = project.say("run")
    assert code == 0, said
    found = spark.read.format("delta").load(str(project.folder / "lake/silver/orders")).orderBy("kafka_offset")
    rows = [(1, 0.5, 2), *([(2, None, (1 << 63) + 1)] if rescued else []), (3, 1.5, (1 << 63) + 1)]
    assert [tuple(row) for row in found.select("id", "half", "more").collect()] == rows
    if rescued:
        assert [row[0] for row in found.select("_rescued").collect()] == [None, '{"/n":9223372036854775808}', None]
    else:
        assert project.letters("reason", "field") == [(1, "FIELD_TYPE", "n")]
    assert changes_of(project) == [["widens m to decimal(20,0)"], []]


def test_no_column_has_the_name_of_that_of_what_is_rescued(project):
    policies = "evolution: {on_new_column: rescue, on_type_change: rescue}"
    project.write(ORDER, policies, "select: ['* EXCEPT (_rescued)']")
    assert project.say("validate")[0] == 0
    project.write(ORDER, policies, "select: [id, note AS _rescued]")
    detail = "column _rescued is that of what is rescued: write AS and another name"
    project.refuses("select", "note AS _rescued", re.escape(detail), "AS another_name")


@pytest.mark.long
def test_what_is_rescued_stands_behind_what_is_selected(project):
    policies = "evolution: {on_new_column: rescue, on_type_change: rescue}"
    project.write(ORDER, policies, "select: [id, upper(note) AS note]")
    project.send(order(1, note="a", new=1), order(2, customer=5))
    assert project.say("run")[0] == 0
    assert project.rows("id", "note", "_rescued") == [(0, 1, "A", '{"/new":1}'), (1, 2, None, '{"/customer":5}')]
    assert list(project.kept("orders")[0])[:3] == ["id", "note", "_rescued"]
    for selected in ("* EXCEPT (_rescued)", "*", "_rescued, id"):
        project.write(ORDER, policies, f"select: {json.dumps(selected.split(', '))}")
        code, said = project.say("validate")
        assert code == 0, said


@pytest.mark.long
def test_rows_by_a_key_that_is_selected_of_an_inferred_schema(project):
    project.write(
        INFERRED,
        "select: [data.id, data.at AS seen, '* EXCEPT (data)']",
        "sink: {type: upsert, keys: [id], sequence_by: seen}",
    )
    project.send(*(json.dumps({"data": {"id": key, "at": at}, "v": v}) for key, at, v in [(1, 1, "a"), (1, 0, "c")]))
    assert project.say("run")[0] == 0
    wide = {"data": {"id": 1 << 63, "at": 1}, "v": "d"}
    project.send(json.dumps({"data": {"id": 2, "at": 1}, "v": "b", "w": True}), json.dumps(wide))
    code, said = project.say("run")
    assert code == 0, said
    assert sorted((row["id"], row["v"], row["w"]) for row in project.kept("orders")) == [(1, "a", None), (2, "b", True)]
    assert project.letters("reason", "field") == [(3, "FIELD_TYPE", "data.id")]
