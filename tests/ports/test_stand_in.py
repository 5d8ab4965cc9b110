"""An empty table in the place of one that is not there yet: read as the one that Delta would make."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.stand_in import create_stand_in
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.schemas.column_types import nullable_columns

PLAIN = {
    "flat": "a tinyint, b smallint, c int, d bigint, e float, f double, g decimal(38,9), h string, i binary, "
    "j boolean, k date, l timestamp",
    "nested": "`größe` string COMMENT 'so \"wide\"', s struct<A: int, b: array<struct<c: date>>>, "
    "m map<string, array<decimal(3,1)>>",
}
BY_DELTA = {"feature": "t timestamp_ntz", "mapping": "`with space` int, s struct<`a,b`: int>"}


@pytest.mark.parametrize(
    "name", ["flat", "mapping", *(pytest.param(each, marks=pytest.mark.long) for each in ("nested", "feature"))]
)
def test_it_is_read_as_a_table_that_delta_made(name, spark, tmp_path):
    columns = nullable_columns(StructType.fromDDL((PLAIN | BY_DELTA)[name]))
    jobs = spark.sparkContext._jsc.sc().dagScheduler()
    before = jobs.numTotalJobs()
    location = create_stand_in(spark, tmp_path / "a täble %20", columns, {"delta.appendOnly": "false"})
    schemas = [spark.read.format("delta").load(location).schema, spark.readStream.format("delta").load(location).schema]
    if name in PLAIN:
        assert jobs.numTotalJobs() == before
    delta_table.create(spark, str(tmp_path / "made"), delta_table.TableLayout(columns), metadata="{}")
    made = spark.read.format("delta").load(str(tmp_path / "made"))
    assert schemas == [made.schema, made.schema]
    assert spark.read.format("delta").load(location).collect() == []
    assert table_state(spark, location).version == 0


def test_columns_that_delta_refuses_are_refused(spark, tmp_path):
    with pytest.raises(AnalysisException, match="COLUMN_ALREADY_EXISTS"):
        create_stand_in(spark, tmp_path / "t", StructType.fromDDL("a int, A string"), {})


@pytest.mark.parametrize("said", ["property", "default", "nothing"])
def test_its_change_data_feed_is_read_where_that_of_the_table_could_be(said, spark, tmp_path):
    session, name = spark.newSession(), "enableChangeDataFeed"
    if said == "default":
        session.conf.set(f"spark.databricks.delta.properties.defaults.{name}", "true")
    properties = {f"delta.{name}": "true"} if said == "property" else {}
    location = create_stand_in(session, tmp_path / "t", StructType.fromDDL("a int"), properties)

    def read():
        feed = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "0")
        return feed.load(location).collect()

    if said == "nothing":
        with pytest.raises(AnalysisException, match="DELTA_MISSING_CHANGE_DATA"):
            read()
    else:
        assert read() == []
