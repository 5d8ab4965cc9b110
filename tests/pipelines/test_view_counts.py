"""Expectations of views: rows that they fail are counted in each batch of a stream that reads the view."""

import pytest
from delta.tables import DeltaTable

from rivermouth.cli.main import invoke
from rivermouth.domain.query.query_entry import QueryCounts

PYTHON = """
import dlt

@dlt.view
@dlt.expect("named", "name IS NOT NULL")
@dlt.expect_or_drop("an id", "id > 0")
def good():
    return spark.readStream.schema("id bigint, name string, at bigint").json("data")

@dlt.view
@dlt.expect_all_or_drop({f"not {number}": f"id <> {number}" for number in range(100, 170)})
def better():
    return dlt.read_stream("good").where("id < 1000")

@dlt.table
def once():
    return dlt.read_stream("better").where("name = 'a'")

@dlt.table
@dlt.expect_or_drop("one", "id = 1")
def twice():
    good = dlt.read_stream("good")
    return good.unionByName(dlt.read_stream("good"))

@dlt.table
def by_name():
    return dlt.read_stream("good").groupBy("name").count()

dlt.create_streaming_table("customers")
dlt.apply_changes(target="customers", source="better", keys=["id"], sequence_by="at")

@dlt.view
@dlt.expect_or_drop("no deletes", "_change_type <> 'delete'")
def fed():
    return spark.readStream.option("readChangeFeed", "true").option("startingVersion", "0").table("crm.people")

@dlt.table
def people():
    return dlt.read_stream("fed").where("id > 1")

dlt.create_sink("out", "parquet", {"path": "out"})

@dlt.append_flow(target="out")
def to_out():
    return dlt.read_stream("good")

@dlt.view
@dlt.expect_or_drop("an id", "id > 0")
def batch():
    return spark.read.table("once")

@dlt.table
def computed():
    return dlt.read("batch")
"""
FIRST = [{"id": 1, "name": "a", "at": 1}, {"id": 2, "at": 2}, {"id": 0, "name": "z", "at": 3}, {"id": 100, "name": "a"}]
GOOD = QueryCounts(4, 3, 1, 0, {"named": 1, "an id": 1})


@pytest.fixture
def shop(folder, spark):
    place = f"{folder.folder}/lake/crm/people"
    for rows in ([(1, "a"), (2, "b")], [(3, "c")]):
        frame = spark.createDataFrame(rows, "id bigint, name string").coalesce(1)
        frame.write.format("delta").option("delta.enableChangeDataFeed", "true").mode("append").save(place)
    DeltaTable.forPath(spark, place).delete("id = 2")
    folder.write("src/a.py", PYTHON)
    folder.feed("data/1.json", *FIRST)
    return folder


@pytest.mark.long
def test_rows_that_a_view_leaves_out_are_counted_by_each_stream_that_reads_it(shop, monkeypatch, capsys):
    found = shop.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    counts = {name: each.counts for name, each in found.items()}
    none = {f"not {number}": 0 for number in range(100, 170)}
    better = QueryCounts(3, 2, 1, 0, {**none, "not 100": 1})
    # Below what the query itself leaves out.
    assert counts["once"] == QueryCounts(1, 1, views={"good": GOOD, "better": better})
    assert counts["twice"] == QueryCounts(6, 2, 4, 0, {"one": 4}, {"good": GOOD + GOOD})
    assert counts["by_name"].views == {"good": GOOD}
    assert counts["customers"].views == {"good": GOOD, "better": better}
    # Delta's change data feed applies filters of Spark's itself: rows are counted once all the same.
    assert counts["people"].views == {"fed": QueryCounts(4, 3, 1, 0, {"no deletes": 1})}
    assert counts["out"].views == {"good": GOOD}
    assert counts["computed"].views == {}
    assert shop.rows("default.once", "id") == [(1,)]
    assert shop.rows("default.customers", "id") == [(1,), (2,)]

    # A batch that comes again counts from 0, and the sums are those of all batches.
    def fail(step):
        if step == "write":
            msg = "stopped"
            raise RuntimeError(msg)

    shop.feed("data/2.json", {"id": -1}, {"id": 5, "name": "a", "at": 4})
    assert shop.run(refresh=("once",), step=fail)["once"].result == "failed"
    second = QueryCounts(2, 1, 1, 0, {"named": 1, "an id": 1})
    assert shop.run(refresh=("once",))["once"].counts.views["good"] == second
    monkeypatch.chdir(shop.folder)
    capsys.readouterr()
    assert invoke(["status"]) == 0
    once = capsys.readouterr().out.partition("once: ")[2].split("\n\n")[0]
    assert [line.split() for line in once.splitlines() if "good:" in line] == [
        ["good:", "named", "warn", "1", "of", "2,", "1", "of", "4", "2", "of", "6"],
        ["good:", "an", "id", "drop", "1", "of", "2,", "1", "of", "4", "2", "of", "6"],
    ]
    log = shop.rows("_rivermouth.pipelines.shop.event_log", "details")
    assert any('"dropped_records": 1' in text and '"dataset": "good"' in text for (text,) in log)
    assert invoke(["audit"]) == 0


BY_BATCHES = """
from pyspark import pipelines as dp

@dp.temporary_view
@dp.expect_or_drop("an id", "id > 0")
def good():
    return spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json("data")

@dp.foreach_batch_sink
def copies(frame, number):
    frame.limit(1).collect()
    frame.collect()

@dp.append_flow(target="copies")
def to_copies():
    return spark.readStream.table("good")

dp.create_sink("out", "noop")

@dp.append_flow(target="out")
def to_out():
    return spark.readStream.table("good")
"""


def test_counts_of_views_are_the_sums_of_all_batches_of_a_sink(folder):
    folder.write("src/a.py", BY_BATCHES)
    for number in range(3):
        folder.feed(f"data/{number}.json", *({"id": each} for each in range(number + 1)))
    for found in folder.run().values():
        assert (found.error, found.counts.read, found.counts.views) == (
            None,
            3,
            {"good": QueryCounts(6, 3, 3, 0, {"an id": 3})},
        )
    log = folder.rows("_rivermouth.pipelines.shop.event_log", "details")
    assert sum('"dataset": "good", "passed_records": 3, "failed_records": 3' in text for (text,) in log) == 2
