"""Delta tables as sources: versions to begin at, changes to skip, the change data feed; in Python and SQL."""

import pytest
from delta.tables import DeltaTable
from pyspark import SparkContext

from rivermouth.engine.query.nothing_new import NOTHING_NEW

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


BY_PATH = """
from pyspark import pipelines as dp

@dp.materialized_view
def by_argument():
    return spark.read.format("delta").load("/Volumes/main/facts")

@dp.materialized_view
def by_option():
    return spark.read.load(format="delta", PATH="/Volumes/main/facts")

@dp.table
def streamed():
    return spark.readStream.format("delta").option("path", "dbfs:/Volumes/main/facts").load()

@dp.table
def of_files():
    return spark.readStream.format("json").schema("id bigint").options(path="/Volumes/main/in").load()
"""


BY_PATH_SQL = """
CREATE MATERIALIZED VIEW sql_view AS SELECT id FROM delta.`dbfs:/Volumes/main/facts`;
CREATE STREAMING TABLE sql_stream AS SELECT id FROM STREAM delta.`/Volumes/main/facts`;
CREATE MATERIALIZED VIEW sql_files AS SELECT id FROM json.`/Volumes/main/in`;
"""


@pytest.mark.long
def test_tables_by_path_are_known_however_the_path_is_given(folder, spark):
    folder.write("src/a.py", BY_PATH)
    folder.write("src/b.sql", BY_PATH_SQL)
    paths = "configuration: {rivermouth.paths./Volumes/main: raw}\n"
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + paths)
    place = folder.folder / "raw/facts"
    for number in range(2):
        spark.range(number, number + 1).coalesce(1).write.format("delta").mode("append").save(str(place))
        folder.feed(f"raw/in/{number}.json", {"id": number})
        found = folder.run()
        assert {each.error and str(each.error) for each in found.values()} == {None}
    views = ("by_argument", "by_option", "sql_view")
    assert {found[name].refresh for name in views} == {"append"}
    assert {name: folder.rows(f"default.{name}") for name in found} == {name: [(0,), (1,)] for name in found}
    planned = folder.plan()
    assert {flow.action for name in views for flow in planned[name].flows} == {"nothing"}
    reasons = {name: each.reason for name, each in folder.run().items()}
    assert {reasons[name] for name in views} == {"no table that it reads has new rows"}
    assert (reasons["streamed"], reasons["sql_stream"], reasons["of_files"]) == (NOTHING_NEW, NOTHING_NEW, "")


PARTS = """
from pyspark import pipelines as dp

@dp.materialized_view
def first():
    return spark.read.format("delta").load("facts/day=1")

@dp.materialized_view
def both():
    reader = spark.read.format("delta")
    return reader.load("facts/day=1").unionAll(reader.load("../shop/facts//day=2"))

@dp.materialized_view
def again():
    reader = spark.read.schema("id bigint")
    return reader.format("json").load("in/1.json").unionAll(reader.json("in/2.json"))

@dp.materialized_view
def third():
    return spark.read.format("delta").option("versionAsOf", 0).load("facts")
"""


@pytest.mark.long
def test_folders_of_partitions_and_old_versions_are_read_as_they_are(folder, spark):
    folder.write("src/a.py", PARTS.replace("../shop", f"../{folder.folder.name}"))
    place = folder.folder / "facts"
    folder.feed("in/1.json", {"id": 1})
    folder.feed("in/2.json", {"id": 2})
    for number, days in enumerate(((1, 2), (2, 3)), start=1):
        rows = spark.createDataFrame([(number * 10 + day, day) for day in days], "id bigint, day int").coalesce(1)
        rows.write.format("delta").partitionBy("day").mode("append").save(str(place))
        assert {each.error and str(each.error) for each in folder.run().values()} == {None}
        assert folder.rows("default.first") == [(11, 1)]
        assert folder.rows("default.both") == [(11, 1), (12, 2), (22, 2)][: number + 1]
        assert folder.rows("default.again") == [(1,), (2,)]
        assert folder.rows("default.third") == [(11, 1), (12, 2)]


STREAMED = """
from pyspark import pipelines as dp

def copied(name):
    @dp.table(name=f"of_{name}")
    def copy():
        return spark.readStream.table(f"crm.{name}")

for each in NAMES:
    copied(each)
"""


def streamed(folder, *names):
    """A run of a pipeline with a streaming table of each of these tables; how many jobs it took."""
    jobs = SparkContext._active_spark_context._jsc.sc().dagScheduler()
    folder.write("src/a.py", STREAMED.replace("NAMES", repr(names)))
    before = jobs.numTotalJobs()
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    return jobs.numTotalJobs() - before


def test_a_stream_begins_with_the_rows_that_a_table_has(folder, spark):
    def append(name, *ids):
        rows = spark.createDataFrame([(each,) for each in ids], "id bigint").coalesce(1)
        rows.write.format("delta").mode("append").save(f"{folder.folder}/lake/crm/{name}")
        return DeltaTable.forPath(spark, f"{folder.folder}/lake/crm/{name}")

    for name in ("appended", "reduced", "compacted", "cut_off"):
        append(name, 1, 2)
        table = append(name, 3)
        if name == "reduced":
            table.delete("id = 2")
        if name == "compacted":
            table.optimize().executeCompaction()
    # The one job that writes the rows, and none that lists files, where no file was removed.
    assert streamed(folder, "appended") == 1 < streamed(folder, "compacted")

    def end(step):
        if step == "write":
            raise KeyError(step)

    folder.write("src/a.py", STREAMED.replace("NAMES", "['cut_off']"))
    assert folder.run(step=end)["of_cut_off"].error is not None
    append("cut_off", 4)
    streamed(folder, "appended", "reduced", "compacted", "cut_off")
    assert folder.rows("default.of_appended") == [(1,), (2,), (3,)]
    assert folder.rows("default.of_reduced") == [(1,), (3,)]
    assert folder.rows("default.of_compacted") == [(1,), (2,), (3,)]
    assert folder.rows("default.of_cut_off") == [(1,), (2,), (3,), (4,)]
    append("appended", 5)
    streamed(folder, "appended")
    assert folder.rows("default.of_appended") == [(1,), (2,), (3,), (5,)]
