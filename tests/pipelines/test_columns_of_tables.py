"""The columns of a pipeline's tables: those of their queries, by name, and no column or value is lost."""

import pytest
from deltalake import DeltaTable
from tests.pipelines.conftest import refusal

from rivermouth.errors import NewColumnsNotTaken
from rivermouth.pipelines import commands
from rivermouth.pipelines.running.flows.flow_runs import evaluated_flow

PYTHON = """
from pyspark import pipelines as dp

def files():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("in")

@dp.table
def free():
    return files()

@dp.table(schema="a string, _rescued_data string")
def declared():
    return files()

@dp.materialized_view(schema="id string, pair struct<a: int, b: int>, at timestamp, price double, none int")
def fitting():
    return spark.range(1).selectExpr("id", "named_struct('b', 2, 'a', 1) AS pair", "DATE'2026-01-01' AS at", "1 price")

@dp.temporary_view
def changes():
    return files().selectExpr("a AS id", "named_struct('b', 2, 'a', 1) AS pair")

dp.create_streaming_table("keyed", schema="id string, pair struct<a: int, b: int>")
dp.create_auto_cdc_flow("keyed", "changes", ["id"], "id")
"""


def test_they_are_filled_by_name_and_grow_with_a_query_that_is_evaluated_again(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("in/1.json", {"a": "1"})
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    (fitting,) = DeltaTable(folder.folder / "lake/default/fitting").to_pyarrow_table().to_pylist()
    assert (fitting["id"], fitting["pair"], str(fitting["at"])[:10]) == ("0", {"a": 1, "b": 2}, "2026-01-01")
    assert (fitting["price"], fitting["none"]) == (1.0, None)
    assert folder.rows("default.keyed", "id, pair['a'], pair['b']") == [("1", 1, 2)]
    # As where a flow that follows begins again after an error.
    with commands.opened(folder.pipeline(), writes=True) as loaded:
        nodes = {node.name.table: node for node in loaded.graph.nodes}
        folder.feed("in/2.json", {"a": "2", "b": "3"})
        for name in ("free", "declared"):
            evaluated_flow(loaded, nodes[name], nodes[name].flows[0])
        evaluated_flow(loaded, nodes["free"], nodes["free"].flows[0])
        with pytest.raises(NewColumnsNotTaken) as refused:
            evaluated_flow(loaded, nodes["declared"], nodes["declared"].flows[0])
    assert str(refused.value) == (
        "[NEW_COLUMNS_NOT_TAKEN] dataset declared: the query has column b, which is not declared; the flow was not "
        "started again\n"
        "  at: src/a.py:11\n"
        "  hint: add b string to the columns of declared, or leave it out of the query"
    )
    table = DeltaTable(folder.folder / "lake/default/free")
    assert [each.name for each in table.schema().fields] == ["a", "_rescued_data", "b"]
    folder.write("src/a.py", PYTHON.partition("@dp.table(schema")[0])
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert sorted(folder.rows("default.free"), key=str) == [("1", None, None), ("2", None, "3")]


def test_a_plan_knows_the_schema_that_is_kept_and_changes_nothing(folder):
    place = folder.folder / "kept"
    options = f'.option("cloudFiles.schemaLocation", {str(place)!r}).option("cloudFiles.inferColumnTypes", "true")'
    folder.write("src/a.py", PYTHON.partition("@dp.table(schema")[0].replace('.load("in")', f'{options}.load("in")'))
    folder.feed("in/1.json", {"a": 1})
    folder.plan()
    assert not place.exists()
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    before = {file: file.read_text() for file in place.rglob("*.json")}
    # What the first file says of its type is kept: the text is rescued.
    folder.feed("in/2.json", {"a": "x", "b": 2})
    folder.plan()
    assert {file: file.read_text() for file in place.rglob("*.json")} == before != {}
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert {row[0] for row in folder.rows("default.free")} == {1, None}


NOT_NULL = """
CREATE STREAMING TABLE raw AS SELECT *, struct(g, b) AS deep, array(struct(g)) AS many, map('k', n) AS named
FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT, g INT, b INT, n INT, op STRING');

CREATE STREAMING TABLE whole (id BIGINT NOT NULL, g INT NOT NULL DEFAULT 7) AS SELECT id FROM STREAM(raw);
CREATE MATERIALIZED VIEW viewed (`n.n` INT NOT NULL) AS SELECT n AS `n.n` FROM raw;
CREATE STREAMING TABLE within (deep STRUCT<g: INT NOT NULL, b: INT NOT NULL>) AS SELECT deep FROM STREAM(raw);
CREATE STREAMING TABLE in_array (many ARRAY<STRUCT<g: INT NOT NULL>>) AS SELECT many FROM STREAM(raw);

CREATE STREAMING TABLE newest (id BIGINT NOT NULL, g INT NOT NULL, b INT);
CREATE FLOW into_newest AS AUTO CDC INTO newest FROM (SELECT id, IF(op = 'D', NULL, g) AS g, b, op FROM STREAM(raw))
KEYS (id) APPLY AS DELETE WHEN op = 'D' SEQUENCE BY id COLUMNS * EXCEPT (op);
CREATE STREAMING TABLE history (id BIGINT NOT NULL, b INT NOT NULL, __START_AT BIGINT NOT NULL, __END_AT BIGINT);
CREATE FLOW into_history AS AUTO CDC INTO history FROM (SELECT id, b FROM STREAM(raw))
KEYS (id) SEQUENCE BY id STORED AS SCD TYPE 2;
"""
NOT_NULL_IN_PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql.types import *

@dp.table(schema=StructType([StructField("m", MapType(StringType(), IntegerType(), False), False)]))
def mapped():
    return spark.readStream.table("raw").selectExpr("named AS m")
"""


def test_a_null_in_a_column_that_is_not_null_ends_the_flow_before_its_commit(folder):
    read = "AS SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT, n INT');\n"
    folder.write(
        "src/a.sql",
        f"CREATE STREAMING TABLE strict (id BIGINT PRIMARY KEY NOT NULL, n INT) {read}"
        "CREATE STREAMING TABLE lenient (id BIGINT NOT NULL, n INT, "
        "CONSTRAINT n EXPECT (n > 0) ON VIOLATION DROP ROW) "
        f"{read}",
    )
    folder.feed("in/1.json", {"id": 1, "n": 1}, {"id": None, "n": 0})
    found = folder.run()
    assert str(found["strict"].error) == (
        "[NULL_IN_COLUMN] flow strict: column id is declared NOT NULL, and at least one row has null in it; "
        "the batch was not written\n"
        "  at: src/a.sql:1\n"
        "  hint: correct the rows, or remove NOT NULL from the column, then: rivermouth run"
    )
    assert folder.rows("default.strict") == []
    # A row that is left out is not judged.
    assert (folder.rows("default.lenient"), found["lenient"].counts.expectations) == ([(1, 1)], {"n": 1})
    assert folder.plan()["lenient"].expectations == ("n: n > 0 (drop)", "id NOT NULL (fail)")


@pytest.mark.long
def test_not_null_holds_in_views_and_keyed_tables_and_within_values(folder):
    folder.write("src/a.sql", NOT_NULL)
    folder.write("src/b.py", NOT_NULL_IN_PYTHON)
    folder.feed("in/1.json", {"id": 1, "g": 1, "b": None, "n": 3}, {"id": 2, "g": 1, "b": 1, "op": "D"})
    found = folder.run()
    assert {name: each.error.column for name, each in found.items() if each.error} == {
        "viewed": "n.n",
        "within": "deep.b",
        "history": "b",
        "mapped": "m.value",
    }
    assert [folder.rows(f"default.{name}") for name in ("viewed", "within", "history", "mapped")] == [[]] * 4
    assert folder.rows("default.whole") == [(1, 7), (2, 7)]
    assert folder.rows("default.newest") == [(1, 1, None)]


REFUSED = [
    ("id BIGINT, x INT NOT NULL", "KEYS (id) SEQUENCE BY id", "flow f does not bring x, which is declared NOT NULL",
     "add x to the query, or remove NOT NULL from it in the columns of t"),
    ("id BIGINT, s STRUCT<a: INT, b: INT NOT NULL>", "KEYS (id) SEQUENCE BY id",
     "flow f does not bring s.b, which is declared NOT NULL",
     "add s.b to the query, or remove NOT NULL from it in the columns of t"),
    ("id BIGINT NOT NULL, g INT NOT NULL", "KEYS (id) IGNORE NULL UPDATES SEQUENCE BY id",
     "g is declared NOT NULL, and a null in a change keeps the value that the row has",
     "remove NOT NULL from g, or let its nulls count"),
    ("id BIGINT, __START_AT BIGINT, __END_AT BIGINT NOT NULL", "KEYS (id) SEQUENCE BY id STORED AS SCD TYPE 2",
     "__END_AT is declared NOT NULL, and it is null in the newest row of a key", "remove NOT NULL from __END_AT"),
]  # fmt: skip


def test_not_null_is_refused_where_it_cannot_hold(folder):
    folder.feed("in/1.json", {"id": 1})
    for columns, clauses, detail, fix in REFUSED:
        missing = "" if "g INT" in columns else ", g INT"
        folder.write(
            "src/a.sql",
            f"CREATE STREAMING TABLE t ({columns.replace('id BIGINT', f'id BIGINT{missing}', 1)});\n"
            "CREATE FLOW f AS AUTO CDC INTO t FROM (SELECT id, g, struct(g AS a) AS s\n"
            f"FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT, g INT')) {clauses}\n"
            f"COLUMNS id, g{', s' if 's STRUCT' in columns else ''};",
        )
        assert refusal(folder.plan) == (
            f"[DEFINITION_INVALID] dataset t: {detail}; the pipeline was not run\n  at: src/a.sql:2\n  hint: {fix}"
        )
