"""The columns of a pipeline's tables: those of their queries, by name, and no column or value is lost."""

import pytest
from deltalake import DeltaTable

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
