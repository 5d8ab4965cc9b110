"""Schemas that grow while a flow runs: policies, over a real broker, tables read with a reader of others."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from unittest import mock

import pytest
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.engine.events import SchemaEvolved, Warned
from rivermouth.engine.schema import evolve
from rivermouth.errors import FlowsFailed
from rivermouth.ports.kafka.kafka_produce import produce
from rivermouth.rows import envelope

PROJECT = """
lake: ./lake
kafka: {{bootstrap_servers: '{servers}'}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: {schema}}}
    evolution: {evolution}
    table: silver.orders
"""


@pytest.fixture
def orders(tmp_path, monkeypatch, broker, topic, spark):
    """Documents into the topic, a run, and what the table and the dead letters hold then."""
    return Orders(tmp_path, monkeypatch, broker, topic(), spark)


class Orders:
    def __init__(self, folder, monkeypatch, broker, topic, spark):
        monkeypatch.chdir(folder)
        self.folder, self.broker, self.topic, self.spark = folder, broker, topic, spark
        self.events = []

    def declare(self, schema, evolution, project=PROJECT):
        text = project.format(
            servers=self.broker.bootstrap_servers, topic=self.topic, schema=schema, evolution=evolution
        )
        (self.folder / "rivermouth.yml").write_text(text)

    def run(self, *documents):
        texts = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in documents]
        produce(self.broker.bootstrap_servers, {}, self.topic, texts)
        self.events.clear()
        [outcome] = Project.load("rivermouth.yml").run(listener=self.events.append)
        return outcome.counts

    @property
    def evolved(self):
        return [each.changes for each in self.events if isinstance(each, SchemaEvolved)]

    def rows(self, *columns):
        found = rows_of(self.folder / "lake/silver/orders")
        return [tuple(row[name] for name in columns) for row in sorted(found, key=lambda row: row["kafka_offset"])]

    def spark_rows(self, *columns):
        """Of a table with wider types than at first, which deltalake does not read."""
        found = self.spark.read.format("delta").load(str(self.folder / "lake/silver/orders"))
        return [tuple(row) for row in found.orderBy("kafka_offset").select(*columns).collect()]

    def kinds(self):
        found = self.spark.read.format("delta").load(str(self.folder / "lake/silver/orders"))
        return dict(found.dtypes)

    def letters(self):
        place = self.folder / "lake/silver/orders__dead_letters"
        if not place.exists():
            return []
        return sorted((row["kafka_offset"], row["reason"], row["field"]) for row in rows_of(place))


def test_new_fields_come_into_the_table_with_their_first_record(orders):
    orders.declare('"id bigint, place struct<city string>"', "{on_new_column: evolve}")
    counts = orders.run(
        {"id": 1, "place": {"city": "Ulm"}},
        {"id": 2, "colour": "red", "place": {"city": "Ulm", "zip": "89073"}},
        b"not JSON",
        {"id": 4, "colour": 5, "tags": [{"a": 1}]},
    )
    assert orders.evolved == [
        ("adds column colour string", "adds place.zip string", "adds column tags array<struct<a:bigint>>")
    ]
    assert (counts.written, counts.dead_lettered) == (3, 1)
    assert orders.rows("id", "place", "colour", "tags") == [
        (1, {"city": "Ulm", "zip": None}, None, None),
        (2, {"city": "Ulm", "zip": "89073"}, "red", None),
        (4, None, "5", [{"a": 1}]),
    ]
    assert orders.letters() == [(2, "INVALID_JSON", None)]


@pytest.mark.long
def test_new_fields_come_before_their_records_and_none_is_lost(orders):
    orders.declare('"id bigint, place struct<city string>"', "{on_new_column: evolve}")
    orders.run({"id": 1, "place": {"city": "Ulm"}})
    counts = orders.run(
        {"id": 2, "colour": "red", "place": {"city": "Ulm", "zip": "89073"}},
        {"id": 3, "place": None, "nothing": None},
        b"not JSON",
        {"id": 4, "colour": 5, "tags": [{"a": 1}]},
    )
    assert orders.evolved == [
        ("adds column colour string", "adds place.zip string", "adds column tags array<struct<a:bigint>>")
    ]
    assert (counts.written, counts.dead_lettered) == (3, 1)
    assert orders.rows("id", "place", "colour", "tags") == [
        (1, {"city": "Ulm", "zip": None}, None, None),
        (2, {"city": "Ulm", "zip": "89073"}, "red", None),
        (3, None, None, None),
        (4, None, "5", [{"a": 1}]),
    ]
    assert orders.letters() == [(3, "INVALID_JSON", None)]
    orders.run({"id": 5, "tags": [{"a": 2, "b": True}]})
    assert orders.evolved == [("adds tags[].b boolean",)]
    assert orders.rows("id", "tags")[-1] == (5, [{"a": 2, "b": True}])


def test_what_is_rescued_stands_beside_as_it_was_sent(orders):
    orders.declare(
        '"id bigint NOT NULL, day date, amount decimal(6,2), place struct<city string, zip int>, tags array<int>, '
        'part double, at timestamp"',
        "{on_new_column: rescue, on_type_change: rescue}",
    )
    counts = orders.run(
        b'{"id": 1, "day": "2026-01-31", "amount": 1.50, "place": {"city": "Ulm", "zip": 1}, "tags": [1]}',
        b'{"id": 2, "day": "soon", "amount": 1.505, "place": {"city": "Ulm", "zip": "x", "more": 1}, "tags": [1, "2"]}',
        b'{"id": 3, "a/b~": {"x": [1.10, null]}, "place": {"city": "Ulm", "more": 1}, "tags": 5, "none": null}',
        b'{"id": "4", "new": 1}',
        b'{"id": 5, "day": {"y": 1}, "new": 1, "new": 2} and more',
        b'{"id": 6, "tags": [1], "tags": true, "tags": [2]}',
        b'{"id": 7, "part": 0.30000000000000004, "at": "2026-01-31T12:00:00.120000000Z"}',
        b'{"id": 8, "part": 0.1234567890123456789, "at": "2026-01-31T12:00:00.1234567Z"}',
    )
    assert (counts.written, counts.dead_lettered) == (6, 2)
    assert orders.rows("id", "day", "amount", "place", "tags", "_rescued") == [
        (1, dt.date(2026, 1, 31), Decimal("1.50"), {"city": "Ulm", "zip": 1}, [1], None),
        (2, None, None, None, None, RESCUED_2),
        (3, None, None, {"city": "Ulm", "zip": None}, None, RESCUED_3),
        (6, None, None, None, [2], '{"/tags":true}'),
        (7, None, None, None, None, None),
        (8, None, None, None, None, RESCUED_8),
    ]
    at = dt.datetime(2026, 1, 31, 12, 0, 0, 120_000, tzinfo=dt.UTC)
    assert orders.rows("part", "at")[4:] == [(0.30000000000000004, at), (None, None)]
    assert orders.letters() == [(3, "FIELD_TYPE", "id"), (4, "INVALID_JSON", None)]
    assert orders.evolved == []


RESCUED_2 = '{"/day":"soon","/amount":1.505,"/place":{"city": "Ulm", "zip": "x", "more": 1},"/tags":[1, "2"]}'
RESCUED_8 = '{"/part":0.1234567890123456789,"/at":"2026-01-31T12:00:00.1234567Z"}'
RESCUED_3 = '{"/tags":5,"/a~1b~0":{"x": [1.10, null]},"/place/more":1}'


def test_a_field_that_no_schema_has_is_a_dead_letter_where_the_policy_says_so(orders):
    orders.declare(
        '"id bigint, place struct<city string>, free map<string,bigint>"',
        "{on_new_column: dead_letter, columns: {note: {on_new_column: ignore}, place: {on_new_column: ignore}}}",
    )
    counts = orders.run(
        {"id": 1, "new": None, "note": 1, "place": {"city": "Ulm", "zip": 1}, "free": {"any": 1}},
        {"id": 2, "new": 0},
        {"id": 3, "a/b": {"c": 1}},
    )
    assert (counts.written, counts.dead_lettered) == (1, 2)
    assert orders.letters() == [(1, "FIELD_UNDECLARED", "/new"), (2, "FIELD_UNDECLARED", "/a~1b")]


@pytest.mark.long
def test_numbers_widen_their_column_where_delta_can_and_else_are_refused_or_rescued(orders):
    orders.declare(
        '"id int, small tinyint, price decimal(5,2), ratio float, text bigint, deep array<struct<n: smallint>>"',
        "{on_type_change: widen, columns: {text: {on_type_change: widen_or_rescue}}}",
    )
    orders.run({"id": 1, "small": 1, "price": 1.25, "ratio": 0.5, "text": 1, "deep": [{"n": 1}]})
    counts = orders.run(
        b'{"id": 3000000000, "small": 200, "price": 12345.678, "ratio": 1e300, "deep": [{"n": 1}, {"n": 70000}]}',
        b'{"id": "2"}',
        b'{"id": 2, "text": "a"}',
        b'{"id": 3, "text": 1234567890123456789012}',
    )
    assert (counts.written, counts.dead_lettered) == (3, 1)
    assert orders.evolved == [
        (
            "widens deep[].n to bigint",
            "widens id to bigint",
            "widens price to decimal(8,3)",
            "widens ratio to double",
            "widens small to bigint",
            "widens text to decimal(22,0)",
        )
    ]
    assert orders.letters() == [(2, "FIELD_TYPE", "id")]
    kinds = orders.kinds()
    assert kinds["id"] == "bigint"
    assert kinds["price"] == "decimal(8,3)"
    assert kinds["deep"] == "array<struct<n:bigint>>"
    assert orders.spark_rows("id", "small", "price", "ratio", "text", "_rescued") == [
        (1, 1, Decimal("1.250"), 0.5, Decimal(1), None),
        (3000000000, 200, Decimal("12345.678"), 1e300, None, None),
        (2, None, None, None, None, '{"/text":"a"}'),
        (3, None, None, None, Decimal(1234567890123456789012), None),
    ]


# Policy, its column, a document that stops the flow, and what is said.
MAY_FAIL = [
    # Another thing that is wrong with it is no reason to stop.
    ("on_new_column", "place", {"id": "1", "place": {"zip": 1}}, "a field is not in the schema, /place/zip"),
    ("on_type_change", "id", {"id": "1"}, "a value does not fit its column, id"),
    ("on_missing_column", "id", {"id": None}, "a column is missing, id"),
]
# What the hint offers in place of fail.
OTHER = {"on_new_column": "evolve", "on_type_change": "widen", "on_missing_column": "null"}


@pytest.mark.parametrize(("policy", "column", "document", "said"), MAY_FAIL)
def test_a_first_batch_that_makes_the_flow_fail_is_not_written(orders, policy, column, document, said):
    orders.declare('"id bigint, place struct<city string>"', f"{{columns: {{{column}: {{{policy}: fail}}}}}}")
    with pytest.raises(FlowsFailed) as stopped:
        orders.run({"id": 2}, b"broken", document)
    assert str(stopped.value.__cause__) == (
        f"[SCHEMA_CHANGED] flow orders: {said}: {orders.topic}-0 offset 2; the batch was not written\n"
        "  at: rivermouth.yml:5\n"
        f"  hint: evolution: {{{policy}: {OTHER[policy]}}}, then: rivermouth run orders"
    )
    assert orders.rows("id") == []


@pytest.mark.long
@pytest.mark.parametrize(("policy", "column", "document", "said"), MAY_FAIL)
def test_a_flow_that_may_fail_writes_nothing_of_that_batch(orders, policy, column, document, said):
    orders.declare('"id bigint, place struct<city string>"', f"{{columns: {{{column}: {{{policy}: fail}}}}}}")
    orders.run({"id": 1, "place": {"city": "Ulm"}})
    with pytest.raises(FlowsFailed) as stopped:
        orders.run({"id": 2}, b"broken", document)
    assert str(stopped.value.__cause__) == (
        f"[SCHEMA_CHANGED] flow orders: {said}: {orders.topic}-0 offset 3; the batch was not written\n"
        "  at: rivermouth.yml:5\n"
        f"  hint: evolution: {{{policy}: {OTHER[policy]}}}, then: rivermouth run orders"
    )
    assert orders.rows("id") == [(1,)]
    orders.declare('"id bigint, place struct<city string>"', f"{{{policy}: {OTHER[policy]}}}")
    counts = orders.run()
    refused = policy != "on_missing_column"
    assert (counts.written, counts.dead_lettered) == (2 - refused, 1 + refused)


def test_no_more_columns_than_the_flow_takes(orders):
    orders.declare('"id bigint, a bigint"', "{on_new_column: evolve, max_columns: 3}")
    counts = orders.run({"id": 1, "b": 1}, {"id": 2, "c": 1}, {"id": 3, "b": 2})
    assert orders.evolved == [("adds column b bigint",)]
    assert (counts.written, counts.dead_lettered) == (2, 1)
    assert orders.letters() == [(1, "FIELD_UNDECLARED", "/c")]


@pytest.mark.long
def test_an_inferred_schema_grows_by_itself_but_for_what_is_pinned(orders):
    text = PROJECT.replace("    evolution: {evolution}\n", "")
    orders.declare("infer, infer_times: true, schema_hints: 'amount decimal(6,2), rough double'", None, text)
    orders.run({"id": 1, "amount": 1.5, "part": 0.5, "seen": "2026-01-31T12:00:00Z"})
    counts = orders.run(
        {"id": 2, "amount": 1.5, "at": {"x": 1}},
        {"id": 3, "amount": 12345.5},
        {"id": 4.5},
        b'{"id": 5, "part": 0.1234567890123456789}',
        b'{"id": 6, "seen": "2026-01-31T12:00:00.1234567Z"}',
        b'{"id": 7, "rough": 0.1234567890123456789}',
    )
    assert orders.evolved == [("adds column at struct<x:bigint>", "widens id to decimal(21,1)")]
    assert (counts.written, counts.dead_lettered) == (3, 3)
    assert orders.letters() == [(2, "FIELD_TYPE", "amount"), (4, "FIELD_TYPE", "part"), (5, "FIELD_TYPE", "seen")]
    assert orders.spark_rows("rough")[-1] == (0.12345678901234568,)


@pytest.mark.long
def test_a_crash_between_the_kept_schema_and_a_new_table_is_made_up_for(orders):
    orders.declare('"id bigint"', "{on_new_column: evolve}")
    with mock.patch.object(evolve, "change_table", side_effect=RuntimeError("cut")), pytest.raises(FlowsFailed):
        orders.run({"id": 2, "new": "x"})
    assert orders.rows("id") == []
    orders.run()
    assert orders.rows("id", "new") == [(2, "x")]


@pytest.mark.long
def test_a_crash_between_the_kept_schema_and_the_table_is_made_up_for(orders):
    orders.declare('"id bigint"', "{on_new_column: evolve}")
    orders.run({"id": 1})
    with mock.patch.object(evolve, "change_table", side_effect=RuntimeError("cut")), pytest.raises(FlowsFailed):
        orders.run({"id": 2, "new": "x"})
    assert orders.rows("id") == [(1,)]
    orders.run()
    assert orders.rows("id", "new") == [(1, None), (2, "x")]


@pytest.mark.long
def test_an_error_between_the_kept_schema_and_the_table_is_tried_again(orders):
    orders.declare('"id bigint"', "{on_new_column: evolve}")
    real, errors = evolve.change_table, [RuntimeError("cut")]

    def change(*arguments):
        if errors:
            raise errors.pop()
        real(*arguments)

    with mock.patch.object(evolve, "change_table", change):
        orders.run({"id": 2, "new": "x"})
    assert errors == []
    assert orders.evolved == [("adds column new string",)]
    orders.declare('"id bigint"', "{}")
    orders.run({"id": 3, "new": "y"})
    words = "its schema had grown by new: not declared, and left out by on_new_column: ignore"
    assert [each.message for each in orders.events if isinstance(each, Warned)] == [words]
    assert orders.rows("id", "new") == [(2, "x"), (3, None)]


@pytest.mark.long
def test_an_error_that_looks_like_a_look_ends_the_batch(orders):
    def fail(note):
        raise ValueError(note)

    # A function in Python is not attempted: what it raises ends the batch.
    orders.spark.udf.register("rm_fail", fail, "boolean")
    expectation = "    expectations: [{{name: e, condition: rm_fail(note)}}]\n"
    orders.declare('"id bigint, note string"', "{on_new_column: evolve}", PROJECT + expectation)
    with pytest.raises(FlowsFailed) as stopped:
        orders.run({"id": 1, "note": "RIVERMOUTH_SCHEMA_NEEDS_A_LOOK"})
    failed = stopped.value.__cause__
    assert type(failed).__name__ == "BatchFailed"
    assert envelope.needs_look(str(failed.__cause__))


@pytest.mark.long
def test_no_document_keeps_others_from_growing_the_schema(orders):
    declared = "s string, place struct<city: string>, n int, small int"
    orders.declare(f'"id bigint, colour int, {declared}"', "{on_new_column: evolve, on_type_change: widen}")
    orders.run({"id": 1, "colour": 1, "small": 1})
    # The table has its column still.
    orders.declare(f'"id bigint, {declared}"', "{on_new_column: evolve, on_type_change: widen}")
    with mock.patch.object(evolve, "LOOKED_RECORDS", 1):
        counts = orders.run(
            {f"k{number}": 1 for number in range(6000)},
            {"id": 2, "place": {"City": "x"}, "n": "text"},
            {"id": 3, "s": "a", "\u017f": 5, "place": {"city": "a", "zip": 1}, "n": 5000000000, "small": 2},
            {"id": 4, "colour": "red"},
        )
    assert (counts.written, counts.dead_lettered) == (2, 2)
    assert orders.evolved == [
        ("widens n to bigint", "adds place.zip bigint", "adds column \u017f_2 bigint"),
        ("adds column colour_2 string",),
    ]
    assert orders.letters() == [(1, "FIELD_UNDECLARED", "/k0"), (2, "FIELD_TYPE", "n")]
    assert orders.spark_rows("id", "colour", "colour_2", "s", "\u017f_2", "place.zip", "n", "small") == [
        (1, 1, None, None, None, None, None, 1),
        (3, None, None, "a", 5, 1, 5000000000, 2),
        (4, None, "red", None, None, None, None, None),
    ]
    assert orders.kinds()["small"] == "int"


@pytest.mark.long
def test_what_has_grown_stays_where_the_declaration_is_edited(orders):
    orders.declare(
        '"id int, note string, place struct<city: string>"', "{on_new_column: evolve, on_type_change: widen}"
    )
    orders.run({"id": 3000000000, "note": "a", "colour": "red", "place": {"zip": 1}})
    declared = '"id int, place struct<city: string, country: string>"'
    orders.declare(declared, "{on_type_change: widen, columns: {COLOUR: {on_new_column: fail}}}")
    orders.run({"id": 3000000001, "note": "b", "colour": "blue", "place": {"zip": 2, "country": "D"}})
    assert orders.spark_rows("id", "note", "colour", "place.city", "place.zip", "place.country") == [
        (3000000000, "a", "red", None, 1, None),
        (3000000001, None, "blue", None, 2, "D"),
    ]


@pytest.mark.long
def test_a_keyed_table_has_what_is_rescued_and_no_row_of_a_key_that_is(orders):
    sink = "    sink: {{type: upsert, keys: [id], columns: [id, a], sequence_by: v, apply_as_deletes: gone = true}}\n"
    policies = "{on_new_column: rescue, on_type_change: rescue}"
    orders.declare('"id int, a int, v int, gone boolean"', policies, PROJECT + sink)
    counts = orders.run(
        {"id": "x", "v": 1},
        {"id": 1, "v": "x"},
        {"id": 2, "v": 1, "gone": "true"},
        {"id": 3, "v": 1, "a": "x", "new": 5},
    )
    assert (counts.merged, counts.dead_lettered) == (1, 3)
    assert orders.rows("id", "a", "_rescued") == [(3, None, '{"/a":"x","/new":5}')]
    assert orders.letters() == [(0, "FIELD_TYPE", "id"), (1, "FIELD_TYPE", "v"), (2, "FIELD_TYPE", "gone")]
