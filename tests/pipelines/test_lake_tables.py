"""Functions of sinks find and make tables of the lake by name, as they do on Databricks."""

import pytest

PYTHON = r"""
from delta.tables import DeltaTable
from pyspark import pipelines as dp

@dp.table(path="moved/events")
def events():
    return spark.readStream.format("json").schema("id bigint, name string").load("in")

@dp.foreach_batch_sink(name="merged")
def merged(batch, number):
    mine = batch.sparkSession
    batch.createOrReplaceTempView("batch")
    batch.write.mode("append").saveAsTable("copies")
    DeltaTable.createIfNotExists(mine).tableName("Newest").addColumns(batch.schema).execute()
    mine.sql("MERGE INTO newest t USING batch b ON t.id = b.id "
             "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    mine.sql("CREATE TABLE IF NOT EXISTS main.silver.names (id bigint, name string)")
    (DeltaTable.forName(spark, "main.silver.names").alias("t").merge(batch.alias("b"), "t.id = b.id")
        .whenNotMatchedInsertAll().execute())
    batch.write.insertInto("silver.names")
    assert mine.table("silver.names").count() == mine.sql("SELECT * FROM silver.names VERSION AS OF 1").count() * 2
    assert mine.sql("DESCRIBE HISTORY gold.newest").count() > 1
    assert mine.table("events").count() == DeltaTable.forName(spark, "gold.events").toDF().count() == 2
    batch.write.format("json").option("path", ELSEWHERE).saveAsTable("placed")
    refused = [
        lambda: mine.sql("DROP TABLE newest"),
        lambda: mine.sql("ALTER TABLE newest RENAME TO other"),
        lambda: mine.sql("CREATE TABLE files (id bigint) USING parquet"),
        lambda: batch.write.format("csv").saveAsTable("files"),
    ]
    for each in refused:
        try:
            each()
        except Exception as error:
            with open(TOLD, "a") as told:
                told.write(f"{error}\n")

@dp.append_flow(target="merged")
def to_merged():
    return spark.readStream.table("events")
"""

WITHOUT_PATH = "it has no path, and only Delta tables are made by name"


def test_a_function_of_a_sink_makes_a_table_of_the_lake_and_does_not_drop_it(folder):
    told = folder.folder / "told.txt"
    folder.write(
        "src/a.py",
        "from pathlib import Path\n"
        "from pyspark import pipelines as dp\n\n"
        "@dp.foreach_batch_sink(name='saved')\n"
        "def saved(batch, number):\n"
        "    batch.write.mode('append').saveAsTable('copies')\n"
        "    try:\n"
        "        batch.sparkSession.sql('DROP TABLE copies')\n"
        "    except Exception as error:\n"
        f"        Path({str(told)!r}).write_text(str(error))\n\n"
        "@dp.append_flow(target='saved')\n"
        "def to_saved():\n"
        "    return spark.readStream.schema('id bigint').json('in')\n",
    )
    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    assert folder.run()["saved"].error is None
    place = folder.folder / "lake/default/copies"
    assert told.read_text() == f"the table in {place} is not dropped: it is a table of the lake"
    assert folder.rows("default.copies") == [(1,), (2,)]


@pytest.mark.long
def test_functions_of_sinks_find_and_make_them_by_name(folder):
    lake, told = folder.folder / "lake", folder.folder / "told.txt"
    elsewhere = folder.folder / "elsewhere"
    folder.write("src/a.py", PYTHON.replace("TOLD", repr(str(told))).replace("ELSEWHERE", repr(str(elsewhere))))
    folder.write("pipeline.yml", "name: shop\ncatalog: main\nschema: gold\nlibraries: [{glob: {include: src/**}}]\n")
    folder.feed("in/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    done = folder.run()["merged"]
    # Each action of the function reads the batch.
    assert (done.error, done.counts.read, done.counts.written) == (None, 2, 2)
    assert told.read_text().splitlines() == [
        f"the table in {lake}/gold/newest is not dropped: it is a table of the lake",
        f"the table in {lake}/gold/newest is not renamed: it is a table of the lake",
        f"the table files of format parquet is not made: {WITHOUT_PATH}",
        f"the table files of format csv is not made: {WITHOUT_PATH}",
    ]
    rows = [(1, "a"), (2, "b")]
    assert folder.rows("gold.copies") == folder.rows("gold.newest") == rows
    assert folder.rows("silver.names") == sorted(rows * 2)
    assert not (lake / "default").exists()
    assert list(elsewhere.glob("*.json"))


def test_a_format_that_the_settings_name_is_meant_where_none_is_given(folder):
    folder.write(
        "src/a.py",
        "from pyspark import pipelines as dp\n\n@dp.materialized_view\ndef ids():\n    return spark.read.load('in')\n",
    )
    settings = "configuration: {spark.sql.sources.default: json}\n"
    folder.write("pipeline.yml", f"name: shop\n{settings}libraries: [{{glob: {{include: src/**}}}}]\n")
    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    done = folder.run()
    assert {name: each.error for name, each in done.items()} == {"ids": None}
    assert folder.rows("default.ids") == [(1,), (2,)]


NAMED = """
from pyspark import pipelines as dp
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

class Read(DataSourceReader):
    def __init__(self, text):
        self.text = text

    def read(self, partition):
        yield (self.text,)

class Named(DataSource):
    @classmethod
    def name(cls):
        return "named"

    def schema(self):
        return "text string"

    def reader(self, schema):
        return Read(self.options["path"])

    def streamReader(self, schema):
        return DataSourceStreamReader()

spark.dataSource.register(Named)

@dp.materialized_view
def loaded():
    read = spark.read.format("named")
    return read.load("db.orders").union(read.load("SELECT a / b FROM db.orders")).union(read.load("some/files"))

@dp.table
def streamed():
    return spark.readStream.format("named").load("db.orders")
"""


def test_a_plan_names_what_a_format_without_files_loads_as_it_is_written(folder):
    folder.write("src/a.py", NAMED)
    assert folder.plan()["streamed"].reads == ("named db.orders (stream)",)


@pytest.mark.long
def test_what_a_format_without_files_loads_is_no_folder(folder):
    folder.write("src/a.py", NAMED)
    assert folder.plan()["streamed"].reads == ("named db.orders (stream)",)
    assert folder.run(refresh=("loaded",))["loaded"].error is None
    texts = ["SELECT a / b FROM db.orders", "db.orders", f"{folder.folder}/some/files"]
    assert folder.rows("default.loaded") == sorted([(each,) for each in texts], key=repr)
