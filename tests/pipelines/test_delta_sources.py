"""Delta tables as sources: versions to begin at, changes to skip, the change data feed; in Python and SQL."""

import pytest
from delta.tables import DeltaTable

PYTHON = """
from pyspark import pipelines as dp

@dp.table
def fed():
    feed = spark.readStream.option("readChangeFeed", "true").option("startingVersion", "1").table("crm.customers")
    return feed.select("id", "name", "_change_type", "_commit_version")

@dp.table
def later():
    return spark.readStream.option("startingVersion", "1").option("skipChangeCommits", "true").table("crm.customers")

@dp.table
def by_place():
    return spark.readStream.format("delta").option("ignoreChanges", "true").load("lake/crm/customers").select("id")
"""
SQL = """
CREATE OR REFRESH STREAMING TABLE fed_sql AS
SELECT id, _change_type, _commit_version
FROM STREAM(crm.customers) WITH (readChangeFeed = true, startingVersion = 1);

CREATE OR REFRESH STREAMING TABLE skipped AS
SELECT id FROM STREAM(crm.customers) WITH (SKIPCHANGECOMMITS);

CREATE OR REFRESH MATERIALIZED VIEW changes AS
SELECT id, _change_type FROM table_changes('crm.customers', 1);
"""


@pytest.mark.long
def test_streams_begin_and_skip_as_they_are_told_and_read_the_change_feed(folder, spark):
    place = f"{folder.folder}/lake/crm/customers"

    def append(*rows):
        frame = spark.createDataFrame(rows, "id bigint, name string")
        frame.write.format("delta").option("delta.enableChangeDataFeed", "true").mode("append").save(place)

    append((1, "a"))
    append((2, "b"))
    folder.write("src/a.py", PYTHON)
    folder.write("src/b.sql", SQL)
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    DeltaTable.forPath(spark, place).update("id = 1", {"name": "'z'"})
    append((3, "c"))
    # What Spark knows of the streams is gone: they go on where their tables are.
    checkpoints = folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints"
    assert checkpoints.is_dir()
    for name in ("default.fed", "default.later"):
        (checkpoints / name).rename(checkpoints / f"{name}.gone")
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert folder.rows("default.fed", "id, name, _change_type, _commit_version") == [
        (1, "a", "update_preimage", 2),
        (1, "z", "update_postimage", 2),
        (2, "b", "insert", 1),
        (3, "c", "insert", 3),
    ]
    feed = [(1, "update_postimage", 2), (1, "update_preimage", 2), (2, "insert", 1), (3, "insert", 3)]
    assert folder.rows("default.fed_sql") == feed
    assert folder.rows("default.changes") == [each[:2] for each in feed]
    assert folder.rows("default.later") == [(2, "b"), (3, "c")]
    assert folder.rows("default.skipped") == [(1,), (2,), (3,)]
    # Rows of files that were written again come once more: so Delta says of ignoreChanges.
    assert sorted(folder.rows("default.by_place")) == [(1,), (1,), (2,), (3,)]
