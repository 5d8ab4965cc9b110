"""Rows appended without Spark: other readers find them, and what Spark has to do is left to Spark."""

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable
from pyspark.sql import types as T

from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.small_append import append_few
from rivermouth.ports.lake.lake_files import LocalFiles

FILES = LocalFiles()
COLUMNS = T.StructType(
    [
        T.StructField("id", T.LongType()),
        T.StructField("at", T.TimestampType()),
        T.StructField("who", T.StructType([T.StructField("name", T.StringType())])),
    ]
)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def make(spark, tmp_path):
    def make(**properties):
        place = str(tmp_path / f"t{len(list(tmp_path.iterdir()))}")
        named = {f"delta.{name}": value for name, value in properties.items()}
        delta_table.create(spark, place, delta_table.TableLayout(COLUMNS, properties=named), metadata="{}")
        return place

    return make


def rows(*ids):
    return [{"id": each, "at": NOON, "who": {"name": "a"} if each % 2 else None} for each in ids]


def ids(place):
    return sorted(each["id"] for each in DeltaTable(place).to_pyarrow_table().to_pylist())


@pytest.mark.long
def test_spark_and_others_read_them_also_those_of_several_writers_at_once(spark, make):
    place = make(checkpointInterval="100")
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda number: append_few(FILES, place, rows(number, number + 100), COLUMNS), range(12)))
    assert ids(place) == [*range(12), *range(100, 112)]
    found = spark.read.format("delta").load(place)
    assert found.where("who IS NULL").count() == 12
    assert found.selectExpr("max(at)").first()[0] == NOON.replace(tzinfo=None)
    found.limit(1).write.format("delta").mode("append").save(place)
    assert append_few(FILES, place, rows(7), COLUMNS)
    assert DeltaTable(place).version() == 14
    assert spark.read.format("delta").load(place).count() == 26


def test_what_spark_has_to_do_is_left_to_it(spark, make, tmp_path):
    due = make(checkpointInterval="2")
    assert append_few(FILES, due, rows(1), COLUMNS)
    assert not append_few(FILES, due, rows(2), COLUMNS)
    featured = make(enableDeletionVectors="true")
    other = make()
    spark.sql(f"ALTER TABLE delta.`{other}` ADD COLUMN more STRING")
    later = make(checkpointInterval="100")
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}
    FILES.write(f"{later}/_delta_log/{1:020d}.json", json.dumps(protocol))
    for place in (featured, other, later, str(tmp_path / "none"), "s3a://bucket/table"):
        assert not append_few(FILES, place, rows(1), COLUMNS), place
    assert ids(due) == [1]
    assert not list((tmp_path / "t1").glob("*.parquet"))
