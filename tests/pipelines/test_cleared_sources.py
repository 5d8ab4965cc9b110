"""Streams over a table of the pipeline that a full refresh empties: they stop, and say how they are read again."""

from __future__ import annotations

import pytest

from rivermouth.engine.query.query_events import Note

PYTHON = """
from pyspark import pipelines as dp

@dp.table
def orders():
    return spark.readStream.schema("id bigint").json("in")

@dp.temporary_view
def seen():
    return spark.readStream.table("orders")

@dp.table
def kept():
    return spark.readStream.table("seen")

@dp.table(table_properties={"pipelines.reset.allowed": "false"})
def frozen():
    return spark.readStream.table("orders")

dp.create_sink("copies", "delta", {"path": "lake/copies"})

@dp.append_flow(target="copies", name="copy")
def copy():
    return spark.readStream.table("orders")
"""
FIX = {
    "kept": "rivermouth run --full-refresh kept",
    "frozen": "rivermouth run --reset-checkpoint frozen: its rows stay, and those of orders are written once more",
    "copies": "rivermouth run --reset-checkpoint copies: all rows of orders are written to it once more",
}
FLOWS = {"kept": ("kept", 12), "frozen": ("frozen", 16), "copies": ("copy", 22)}


def cleared(name):
    return (
        f"[SOURCE_CLEARED] flow {FLOWS[name][0]} streams from the table orders, whose rows a full refresh removed "
        "in version 2; nothing more was written\n"
        f"  at: src/a.py:{FLOWS[name][1]}\n  hint: {FIX[name]}"
    )


def test_a_reader_of_a_cleared_table_stops(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("in/1.json", {"id": 1})
    assert folder.run(refresh=("orders", "kept"))["kept"].error is None
    assert folder.run(full_refresh=("orders",), refresh=("orders",))["orders"].error is None
    assert str(folder.run(refresh=("kept",))["kept"].error) == cleared("kept")


@pytest.mark.long
def test_readers_of_a_cleared_table_stop_with_a_hint_that_works(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("in/1.json", {"id": 1})
    assert {each.error for each in folder.run().values()} == {None}
    notes = {
        name: f"it streams from orders, whose rows are removed; without skipChangeCommits it stops then: {fix}"
        for name, fix in FIX.items()
    }
    planned = folder.plan(full_refresh=("orders",))
    assert {name: each.notes for name, each in planned.items() if each.notes} == {
        name: (text,) for name, text in notes.items()
    }
    assert folder.run(full_refresh=("orders",))["orders"].error is None
    assert {each.dataset: each.message for each in folder.events if isinstance(each, Note)} == notes
    found = folder.run()
    assert {name: str(found[name].error) for name in FIX} == {name: cleared(name) for name in FIX}
    found = folder.run(full_refresh=("kept",), reset_checkpoint=("frozen", "copies"))
    assert {each.error for each in found.values()} == {None}
    assert folder.rows("default.kept") == [(1,)]
    assert folder.rows("default.frozen") == folder.rows("copies") == [(1,), (1,)]
