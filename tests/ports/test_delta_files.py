"""A table's files as its log tells them, held against what Delta itself and deltalake say of the same tables."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from delta.tables import DeltaTable

from rivermouth.domain.delta.table_files import unneeded, unreadable
from rivermouth.errors import LakeNotReadable
from rivermouth.ports.delta.delta_log import read_removals, read_snapshot, stored_files
from rivermouth.ports.delta.delta_table import read_commit
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lake_reader import LakeReader, reader_for
from rivermouth.ports.spark.session import for_flow

READER = LakeReader({}, timeout_s=5)


def make(spark, location, columns, rest=""):
    spark.sql(f"CREATE TABLE delta.`{location}` ({columns}) USING delta {rest}")


def add(spark, location, *expressions, times=1):
    for _ in range(times):
        spark.range(100).selectExpr(*expressions).repartition(2).write.format("delta").mode("append").save(location)


def says_the_same(spark, location):
    """What was read, once Delta says the same of the newest version."""
    found = read_snapshot(READER, location)
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{location}`").collect()[0]
    # Delta's own sum leaves the deletion vectors out.
    sizes = sum(each.bytes for each in found.files)
    assert (len(found.files), sizes) == (detail.numFiles, detail.sizeInBytes)
    assert found.rows == spark.read.format("delta").load(location).count()
    assert list(found.partition_by) == detail.partitionColumns
    assert list(found.cluster_by) == [name.strip("`") for name in detail.clusteringColumns]
    assert found.version == spark.sql(f"DESCRIBE HISTORY delta.`{location}`").collect()[0].version
    return found


def test_nothing_is_no_table(tmp_path):
    assert read_snapshot(READER, str(tmp_path)) is None
    assert read_snapshot(READER, str(tmp_path / "none")) is None
    assert stored_files(READER, str(tmp_path / "none")) == ([], 0)


def test_what_ends_a_line_for_python_alone_ends_none_of_the_log(spark, tmp_path):
    """Statistics, partitions and names of columns stand in the log as records have them."""
    spark, location = for_flow(spark), str(tmp_path / "t")
    odd = "a\u2028b\u2029c\u0085d"
    make(
        spark,
        location,
        f"`{odd}` string, part string",
        "PARTITIONED BY (part) TBLPROPERTIES (delta.columnMapping.mode = 'name')",
    )
    spark.createDataFrame([(odd, odd)], f"`{odd}` string, part string").write.format("delta").mode("append").save(
        location
    )
    log = Path(location, "_delta_log", f"{1:020}.json").read_text("utf-8")
    # Of the partition, and twice of the statistics.
    assert log.count("\u2028") == 3
    (file,) = says_the_same(spark, location).files
    assert list(json.loads(file.partition).values()) == [odd]
    spark.sql(f"DELETE FROM delta.`{location}`")
    ((removal,), first) = read_removals(READER, location, until=2)
    assert (removal.added_in, removal.removed_in, first) == (1, 2, 0)
    assert read_commit(LocalFiles(), location, 1).rows_written == 1


def test_a_store_that_is_not_there_is_told():
    reader = LakeReader({"spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}, timeout_s=1)
    with pytest.raises(LakeNotReadable):
        stored_files(reader, "s3a://none/t")


@pytest.mark.long
def test_commits_checkpoints_and_deletion_vectors_agree_with_delta(spark, tmp_path):
    spark, location = for_flow(spark), str(tmp_path / "t")
    make(
        spark,
        location,
        "id bigint, name string, day int",
        "PARTITIONED BY (day) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '5')",
    )
    columns = ("id", "'n' AS name", "CAST(id % 2 AS INT) AS day")
    add(spark, location, *columns, times=3)
    spark.sql(f"DELETE FROM delta.`{location}` WHERE id % 10 = 3")
    found = says_the_same(spark, location)  # from commits alone
    assert (found.operation, sum(each.deleted_rows for each in found.files)) == ("DELETE", 30)
    add(spark, location, *columns, times=3)
    found = says_the_same(spark, location)  # from a checkpoint and two commits
    assert Path(location, "_delta_log", "00000000000000000005.checkpoint.parquet").exists()
    assert (found.columns, found.properties["delta.checkpointInterval"]) == (("id", "name", "day"), "5")

    DeltaTable.forPath(spark, location).optimize().executeCompaction()
    found = says_the_same(spark, location)
    assert (found.operation, len(found.files)) == ("OPTIMIZE", 2)
    # VACUUM would delete what we say, and after it those versions are gone that we say.
    stored, log_bytes = stored_files(READER, location)
    assert log_bytes == sum(path.stat().st_size for path in Path(location, "_delta_log").rglob("*") if path.is_file())
    time.sleep(1)  # the clocks of files are as coarse as that
    going = unneeded(found, stored, before=time.time())
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    told = spark.sql(f"VACUUM delta.`{location}` RETAIN 0 HOURS DRY RUN").collect()
    assert {each.path for each in going} == {row.path.partition(f"{location}/")[2] for row in told}
    removals, oldest = read_removals(READER, location, until=found.version)
    paths = {each.path for each in going}
    lost = unreadable(removals, paths, {each.path for each in stored}, oldest)
    assert lost == ((1, 7),)
    DeltaTable.forPath(spark, location).vacuum(0)
    left, _ = stored_files(READER, location)
    assert {each.path for each in left} == {each.path for each in found.files}
    removals, oldest = read_removals(READER, location, until=found.version)
    assert unreadable(removals, paths, {each.path for each in left}, oldest) == ()


@pytest.mark.long
def test_a_clustered_table_with_mapped_columns_and_the_newer_checkpoints(spark, tmp_path):
    location = str(tmp_path / "t")
    make(
        spark,
        location,
        "id bigint, `a name` string",
        "CLUSTER BY (`a name`) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.checkpointPolicy' = 'v2',"
        " 'delta.checkpointInterval' = '2')",
    )
    add(spark, location, "id", "'n' AS `a name`", times=3)
    found = says_the_same(spark, location)
    assert any(".checkpoint." in path.name for path in Path(location, "_delta_log").iterdir())
    assert found.columns == ("id", "a name")


def test_a_table_in_an_object_store_is_read_with_the_addresses_of_the_session(spark, bucket):
    location = f"s3a://{bucket()}/lake/t"
    make(spark, location, "id bigint, day int", "PARTITIONED BY (day) TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    add(spark, location, "id", "CAST(id % 2 AS INT) AS day", times=3)
    reader = reader_for(spark, location)
    found = read_snapshot(reader, location)
    assert (found.version, found.rows) == (3, 300)
    stored, log_bytes = stored_files(reader, location)
    assert {each.path: each.bytes for each in stored} == {each.path: each.bytes for each in found.files}
    assert log_bytes > 0
    assert all(time.time() - 600 < each.modified_at < time.time() + 60 for each in stored)


def test_folders_of_others_are_not_the_tables(spark, tmp_path):
    location = str(tmp_path / "t")
    make(spark, location, "id bigint, _day int", "PARTITIONED BY (_day)")
    add(spark, location, "id", "1 AS _day")
    Path(location, "_checkpoint").mkdir()
    Path(location, "_checkpoint", "metadata").write_text("x")
    stored, _ = stored_files(READER, location)
    assert {each.path for each in stored} == {each.path for each in read_snapshot(READER, location).files}
