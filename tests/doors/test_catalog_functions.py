"""Functions that a catalog keeps: a flow may call them, and what is within them is looked into."""

from __future__ import annotations

import json

import pytest
from tests.doors.one_topic import OneFlow

JSON = "format: {type: json, schema: 'id int, note string'}"
FUNCTIONS = {
    "rm_shout": "upper(x) || '!'",
    "rm_hidden": "x || reflect('java.util.UUID', 'randomUUID')",
    "rm_within": "rm_hidden(upper(x))",
    "rm_looks": "(SELECT first(word) FROM rm_words)",
}
REFLECTS = "it calls a function that calls reflect(), which could run any code"
LOOKS = "it calls a function that holds a subquery, which Spark would run again with every batch"


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    spark.sql(f"CREATE TABLE rm_words (word STRING) USING parquet LOCATION '{tmp_path}/words'")
    for name, body in FUNCTIONS.items():
        spark.sql(f"CREATE FUNCTION {name}(x STRING) RETURNS STRING RETURN {body}")
    yield OneFlow(tmp_path, capsys, broker.bootstrap_servers, topic())
    for name in FUNCTIONS:
        spark.sql(f"DROP FUNCTION {name}")
    spark.sql("DROP TABLE rm_words")


def test_a_function_of_the_catalog_is_called(project):
    project.write(
        JSON,
        "select: [id, rm_shout(note) AS loud]",
        "expectations: [{name: told, condition: rm_shout(loud) <> 'NO!!', action: dead_letter}]",
    )
    project.send(b'{"id": 1, "note": "yes"}', b'{"id": 2, "note": "no"}')
    code, said = project.say("run")
    assert code == 0, said
    assert project.rows("id", "loud") == [(0, 1, "YES!")]
    assert project.letters("reason") == [(1, "EXPECTATION")]


@pytest.mark.parametrize(
    ("function", "refused"), [("rm_hidden", REFLECTS), ("rm_within", REFLECTS), ("rm_looks", LOOKS)]
)
def test_what_is_refused_is_refused_within_functions_too(project, function, refused):
    for setting, code, what in (
        (
            f"select: [{function}(note) AS loud]",
            "SELECT_INVALID",
            f"select '{function}(note) AS loud' cannot be used: ",
        ),
        (
            f"expectations: [{{name: told, condition: {function}(note) > ''}}]",
            "EXPECTATION_INVALID",
            "expectation 'told' cannot be used: ",
        ),
    ):
        project.write(JSON, setting)
        told = f"[{code}] flow orders: {what}{refused}; nothing was run\n  at: rivermouth.yml:8\n"
        assert project.say("validate") == (1, f"{told}  hint: write it with the record's own columns\n")


def test_it_is_refused_of_keys_and_partitions(project):
    project.write(JSON, "sink: {type: upsert, keys: [id], apply_as_deletes: rm_hidden(note) > ''}")
    what = f"[KEYS_INVALID] flow orders: sink upsert: apply_as_deletes: {REFLECTS}; nothing was run"
    assert project.say("validate") == (
        1,
        f"{what}\n  at: rivermouth.yml:8\n  hint: write it with the record's own columns\n",
    )
    project.write(JSON)
    file = project.folder / "rivermouth.yml"
    parts = json.dumps({"name": "silver.orders", "partition_by": [{"part": "rm_hidden(note)"}]})
    file.write_text(file.read_text().replace("table: silver.orders", f"table: {parts}"))
    what = f"[LAYOUT_INVALID] flow orders: the table's layout cannot be used: rm_hidden(note): {REFLECTS}"
    assert project.say("validate") == (
        1,
        f"{what}; nothing was run\n  at: rivermouth.yml:6\n  hint: write it with the record's own columns\n",
    )
