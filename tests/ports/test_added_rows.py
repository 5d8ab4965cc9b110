"""Rows of the newest commits, found by the log alone, held against what Delta reads of the same table."""

from __future__ import annotations

import pytest
from delta.tables import DeltaTable

from rivermouth.ports.delta.added_rows import added_rows, rows_behind
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.spark.session import for_flow


@pytest.mark.long
def test_they_are_those_that_delta_reads(spark, tmp_path):
    spark, location, files = for_flow(spark), str(tmp_path / "t"), LocalFiles()
    spark.sql(
        f"CREATE TABLE delta.`{location}` (`an id` bigint, part string) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES (delta.columnMapping.mode = 'name', delta.enableDeletionVectors = 'true')"
    )
    for number, part in enumerate(("a ü/b", "a ü/b", "c")):
        rows = spark.range(10 * number, 10 * number + 10, 1, 1).selectExpr("id AS `an id`", f"'{part}' AS part")
        rows.write.format("delta").mode("append").option("userMetadata", str(number)).save(location)

    def ids(found):
        return sorted(row[0] for row in found.collect())

    def behind(number):
        return rows_behind(spark, files, location, lambda metadata: metadata == str(number))

    assert ids(added_rows(spark, files, location, 2)) == [*range(10, 20)]
    assert added_rows(spark, files, location, 0) is None
    assert ids(behind(1)) == [*range(20, 30)]
    assert ids(behind(0)) == [*range(10, 30)]
    assert ids(behind("no commit")) == [*range(30)]
    # A file where rows were marked as gone counts as added again, with the rows that are left.
    table = DeltaTable.forPath(spark, location)
    table.delete("`an id` IN (15, 25)")
    assert ids(behind(1)) == [number for number in range(10, 30) if number not in {15, 25}]
    table.delete("`an id` >= 20")
    assert ids(behind(1)) == [number for number in range(10, 20) if number != 15]
    (tmp_path / f"t/_delta_log/{0:020d}.json").unlink()
    assert behind("no commit") is None
