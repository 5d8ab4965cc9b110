"""One record becomes several rows: what each of them is, where it goes, and what is counted."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.engine.batch.pipeline import transform
from rivermouth.rows import dead_letter, envelope, routing
from rivermouth.rows import explode as exploding
from rivermouth.rows.columns.aggregates import struct_of
from rivermouth.spec import Flow
from rivermouth.spec.explosion import Explosion, parsed

AT = dt.datetime(2026, 1, 2, 3, 4, 5)
SOURCE = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
ITEMS = "id bigint NOT NULL, items array<struct<sku: string, qty: int>>, tags map<string, int>"


def a_flow(explode="*", schema="id bigint NOT NULL", **fields):
    return Flow.model_validate(
        {
            "name": "f",
            "topics": ["t"],
            "format": {"type": "json", "schema": schema},
            "explode": explode,
            "table": "s.t",
            **fields,
        }
    )


def judged(spark, flow, *values, key=b"k"):
    rows = [(key, value, "t", 0, offset, AT, 0) for offset, value in enumerate(values)]
    return transform(envelope.read(spark.createDataFrame(rows, SOURCE)), flow)


def placed(routed, *columns):
    """Offset, position, route and more of each row, in their order."""
    rows = routed.select(names.OFFSET, names.POSITION, names.ROUTE, *columns).collect()
    return sorted((tuple(row) for row in rows), key=lambda row: row[:2])


def counts(routed, flow):
    aggregates = routing.counting(flow, 1)
    return routing.counted(flow, routed.agg(F.expr(struct_of(aggregates))).collect()[0][0].asDict())


ARRAYS = {
    b'[{"id": 1}, {"id": 2}]': [(0, "table"), (1, "table")],
    b'{"id": 1}': [(0, "table")],
    b' [ {"id": 1} ,\n{"id": "x"}\t, {"id": 3} ]\r\n': [(0, "table"), (1, "dead_letter"), (2, "table")],
    b'[{"id": 1}, {bad}, "a,b]", [{"id": 2}], 7, null, {"id": 3}]': [
        *((0, "table"), (1, "dead_letter"), (2, "dead_letter"), (3, "dead_letter")),
        *((4, "dead_letter"), (5, "dead_letter"), (6, "table")),
    ],
    b'[{"id": 1, "note": "],[\\",{"}, {"id": 2}]': [(0, "table"), (1, "table")],
    b'[{"id": 1}, {"id": 2, "note": "\xff"}]': [(0, "table"), (1, "dead_letter")],
    b'[{"id": 1} {"id": 2}, {"id": 3}]': [(0, "dead_letter"), (1, "table")],
    b"[]": [(exploding.NONE, "dropped")],
    b" [ ] ": [(exploding.NONE, "dropped")],
    None: [(exploding.WHOLE, "dropped")],
    # Values that cannot be split into elements.
    b"[": [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1}': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1},]': [(exploding.WHOLE, "dead_letter")],
    b'[,{"id": 1}]': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1}] []': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1}}]': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1]]': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1}, {"note": "open}]': [(exploding.WHOLE, "dead_letter")],
    b'[{"id": 1}, "\\': [(exploding.WHOLE, "dead_letter")],
    # No arrays.
    b"": [(0, "dead_letter")],
    b"7": [(0, "dead_letter")],
    b"no json": [(0, "dead_letter")],
    b'\xef\xbb\xbf[{"id": 1}]': [(0, "dead_letter")],
}


def test_each_element_of_an_array_goes_its_own_way(spark):
    flow = a_flow()
    routed = judged(spark, flow, *ARRAYS)
    assert placed(routed) == [(offset, *place) for offset, places in enumerate(ARRAYS.values()) for place in places]
    found = counts(routed, flow)
    assert found.adds_up
    rows = sum(map(len, ARRAYS.values()))
    assert (found.consumed, found.exploded) == (len(ARRAYS), rows - len(ARRAYS))
    assert (found.null_values, found.no_elements, found.dropped) == (1, 2, 3)


def test_a_dead_letter_is_the_element_byte_for_byte_or_the_whole_record(spark):
    flow = a_flow()
    routed = judged(spark, flow, b'[{"id": 1},  {"id" :"x"} ,7]', b'[{"id": 1},')
    letters = dead_letter.dead_letters(routed, flow, target="s.t", entry=1, topic_ids={})
    assert letters.schema.names == dead_letter.columns(flow).names
    rows = letters.select("kafka_offset", "kafka_position", "kafka_value", "reason", "field").collect()
    assert sorted(rows, key=lambda row: (row[0], row[1] or 0)) == [
        (0, 1, b'{"id" :"x"}', "FIELD_TYPE", "id"),
        (0, 2, b"7", "NOT_AN_OBJECT", None),
        (1, None, b'[{"id": 1},', "INVALID_JSON", None),
    ]


def test_one_element_is_judged_again_alone(spark):
    """A dead letter of an element holds that; one of a whole record, or of an element of a column, the record."""
    values = [b'{"id": 5}', b'[{"id": 1}, {"id": 2}]', b'[{"id": 3}]']
    for flow, wanted, expected in (
        (a_flow(), [7, -1, 3], [(0, 7), (1, 0), (1, 1), (2, 3)]),
        (a_flow("items AS item", ITEMS), [1, -1, 2], [(0, 1), (1, 0), (1, 1)]),
    ):
        if not flow.explosion.is_whole:
            values = [b'{"id": 1, "items": [null, {"sku": "a"}]}'] * 2 + [b'{"id": 1, "items": []}']
        rows = [(b"k", value, "t", 0, offset, AT, 0) for offset, value in enumerate(values)]
        read = envelope.read(spark.createDataFrame(rows, SOURCE))
        place = F.element_at(F.array(*map(F.lit, wanted)), (F.col(names.OFFSET) + 1).cast("int"))
        routed = transform(read.withColumn(exploding.WANTED, place), flow, (exploding.WANTED,))
        assert [row[:2] for row in placed(routed)] == expected


@pytest.mark.parametrize(
    ("explode", "columns", "rows"),
    [
        pytest.param(
            "items",
            ["id", "items", "tags"],
            [(0, 0, (1, ("a", 1), {"x": 1})), (0, 1, (1, ("b", None), {"x": 1})), (1, 0, (2, None, None))],
            marks=pytest.mark.long,
        ),
        (
            "items AS item",
            ["id", "item", "tags"],
            [(0, 0, (1, ("a", 1), {"x": 1})), (0, 1, (1, ("b", None), {"x": 1})), (1, 0, (2, None, None))],
        ),
        (
            "filter(items, i -> i.qty > 0).sku AS sku",
            ["id", "items", "tags", "sku"],
            None,
        ),
        pytest.param(
            *("tags", ["id", "items", "key", "value"], [(0, 0, (1, [("a", 1), ("b", None)], "x", 1))]),
            marks=pytest.mark.long,
        ),
        ("tags as (`a tag`, n)", ["id", "items", "a tag", "n"], [(0, 0, (1, [("a", 1), ("b", None)], "x", 1))]),
        pytest.param(
            "if(size(items) > 0, items, array(NULL)) AS item",
            ["id", "items", "tags", "item"],
            None,
            marks=pytest.mark.long,
        ),
    ],
)
def test_elements_of_a_column_stand_in_its_place_and_those_of_an_expression_behind(spark, explode, columns, rows):
    flow = a_flow(explode, ITEMS)
    values = [
        b'{"id": 1, "items": [{"sku": "a", "qty": 1}, {"sku": "b"}], "tags": {"x": 1}}',
        b'{"id": 2, "items": [null]}',
        b'{"id": 3, "items": [], "tags": {}}',
        b'{"id": 4}',
        b'{"id": 5, "items": [{"qty": "x"}]}',
        None,
    ]
    routed = judged(spark, flow, *values)
    assert routed.columns[: len(columns)] == columns
    found = counts(routed, flow)
    assert found.adds_up
    assert (found.consumed, found.dead_lettered, found.null_values) == (6, 1, 1)
    whole = [row for row in placed(routed) if row[1] < 0]
    if rows is None:
        assert found.dropped - found.null_values == found.no_elements
        return
    assert [row[0] for row in whole if row[1] == exploding.NONE] == [1, 2, 3][-found.no_elements :]
    plain = routed.where(f"{names.ROUTE} = 'table'").select(
        names.OFFSET, names.POSITION, F.struct(*map(names.quoted, columns))
    )
    made = [(row[0], row[1], tuple(row[2])) for row in plain.collect()]
    assert sorted(made, key=lambda row: row[:2]) == rows


def test_an_outer_explosion_is_an_expression(spark):
    flow = a_flow("if(size(items) > 0, items, array(NULL)) AS item", ITEMS)
    routed = judged(spark, flow, b'{"id": 1, "items": []}', b'{"id": 2}', b'{"id": 3, "items": [{"sku": "a"}]}')
    assert placed(routed, "item.sku") == [(0, 0, "table", None), (1, 0, "table", None), (2, 0, "table", "a")]


def test_a_record_whose_array_cannot_be_computed_is_a_dead_letter(spark):
    flow = a_flow(
        "sequence(1L, id, step) AS nth", "id bigint, step bigint", select=["nth", "assert_true(nth < 3) IS NULL AS a"]
    )
    values = [b'{"id": 2, "step": 1}', b'{"id": 2, "step": -1}', b'{"id": 3, "step": 1}', b'{"id": null}', None]
    routed = judged(spark, flow, *values)
    assert placed(routed, "nth", f"{names.UNMADE}.field") == [
        (0, 0, "table", 1, None),
        (0, 1, "table", 2, None),
        (1, exploding.WHOLE, "dead_letter", None, "explode"),
        (2, 0, "table", 1, None),
        (2, 1, "table", 2, None),
        (2, 2, "dead_letter", 3, "a"),
        (3, exploding.NONE, "dropped", None, None),
        (4, exploding.WHOLE, "dropped", None, None),
    ]
    found = counts(routed, flow)
    assert found.adds_up
    assert (found.consumed, found.dead_lettered, found.no_elements) == (5, 2, 1)
    letters = dead_letter.dead_letters(routed, flow, target="s.t", entry=1, topic_ids={})
    told = letters.select("kafka_offset", "kafka_position", "reason", "field").collect()
    assert sorted(map(tuple, told)) == [
        (1, None, "EXPRESSION_FAILED", "explode"),
        (2, 2, "EXPRESSION_FAILED", "a"),
    ]


def test_expectations_are_about_elements(spark):
    flow = a_flow(
        "items AS item",
        ITEMS,
        select=["id", "item.sku AS sku", "item.qty AS qty", "kafka_position AS nth"],
        expectations=[
            {"name": "sold", "condition": "qty > 0", "action": "drop"},
            {"name": "known", "condition": "sku <> 'x'", "action": "dead_letter"},
        ],
    )
    value = b'{"id": 1, "items": [{"sku": "a", "qty": 1}, {"sku": "x", "qty": 0}, {"sku": "b", "qty": 0}]}'
    routed = judged(spark, flow, value, b'{"id": 2}')
    assert placed(routed, "sku", "nth") == [
        *((0, 0, "table", "a", 0), (0, 1, "dead_letter", "x", 1), (0, 2, "dropped", "b", 2)),
        (1, exploding.NONE, "dropped", None, exploding.NONE),
    ]
    found = counts(routed, flow)
    assert found.expectations == {"sold": 2, "known": 1}
    letters = dead_letter.dead_letters(routed, flow, target="s.t", entry=1, topic_ids={})
    (letter,) = letters.select("kafka_position", "kafka_value", "failed_expectations").collect()
    assert letter == (1, value, ["sold", "known"])


def test_a_key_that_is_no_text_refuses_each_row_of_its_record(spark):
    routed = judged(spark, a_flow(), b'[{"id": 1}, {"id": 2}]', b"[]", key=b"\xff")
    assert placed(routed) == [(0, 0, "dead_letter"), (0, 1, "dead_letter"), (1, exploding.NONE, "dead_letter")]


def test_undeclared_fields_are_counted_once(spark):
    value = b'{"id": 1, "items": [{"sku": "a"}, {"sku": "b"}], "more": 1}'
    for flow, sent in ((a_flow("items", ITEMS), value), (a_flow(schema=ITEMS), b"[" + value + b"]")):
        assert counts(judged(spark, flow, sent), flow).undeclared_fields == 1
    assert counts(judged(spark, a_flow(), b"[]"), a_flow()).undeclared_fields == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("items", Explosion("items")),
        (" items  AS item ", Explosion("items", ("item",))),
        ("tags as (name, `a tag`)", Explosion("tags", ("name", "a tag"))),
        ("CAST(items AS array<int>)", Explosion("CAST(items AS array<int>)")),
        ("from_json(x, 'array<int>')\nAS n", Explosion("from_json(x, 'array<int>')", ("n",))),
        ("*", Explosion("*")),
    ],
)
def test_what_is_exploded_and_what_it_is_called(text, expected):
    assert parsed(text) == expected


def test_the_position_stands_beside_the_offset():
    assert list(a_flow().metadata_columns)[:4] == ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_position"]
    renamed = a_flow(metadata_columns={"kafka_position": "nth"}).metadata_columns
    assert renamed == {
        "kafka_topic": "kafka_topic",
        "kafka_partition": "kafka_partition",
        "kafka_offset": "kafka_offset",
        "kafka_position": "nth",
    }
    plain = a_flow(None)
    assert "kafka_position" not in plain.metadata_columns
    assert plain.identity == names.IN_TABLE
