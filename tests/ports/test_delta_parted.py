"""Files of many tables, written by one job: each table has its own only once it has committed them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyspark.sql import DataFrame
from tests.crashes.oracle import rows_of

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.delta_table import conflicts
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.internals.delta_transaction import STATISTICS_CONF
from rivermouth.ports.internals.multi_table_write import PartedFiles, takes
from rivermouth.ports.lake.lake_files import LocalFiles

LAYOUT = "id bigint, name string, at timestamp"
OPTIMIZED = "spark.databricks.delta.optimizeWrite.enabled"
SKIPPING = {"delta.dataSkippingStatsColumns": "id,at"}


@pytest.fixture
def made(spark, tmp_path):
    """Makes a table and says where it is."""

    def made(name, *, columns=LAYOUT, properties=SKIPPING, partition_by=()):
        location = str(tmp_path / name)
        schema = spark.createDataFrame([], columns).schema
        delta_table.create(
            spark, location, delta_table.TableLayout(schema, partition_by, properties=properties), metadata="entry 0"
        )
        return location

    return made


@pytest.fixture
def rows(spark):
    values = "timestamp_micros(1767225600000000 + id)"
    return spark.range(0, 100, 1, 2).selectExpr(
        "id", "concat('n', id) AS name", f"{values} AS at", "CAST(id % 3 AS INT) AS __number"
    )


@pytest.fixture
def committed(spark):
    """Commits the files of a table; whether it did."""

    def committed(files, place, number, version=1, onto=0, table_id=None):
        table_id = table_id or delta_snapshot.table_state(spark, place).table_id
        transaction = TableTransaction("app", version, f"entry {version}")
        return files.commit(spark, number, transaction, table_id=table_id, onto=onto)

    return committed


def test_one_table_gets_its_rows_by_its_own_commit_and_another_nothing(made, rows, committed):
    places = [made(name) for name in ("a", "b")]
    files = PartedFiles(rows.where("__number < 2"), "__number", places)
    # Stopped between two commits: the other is as it was.
    assert committed(files, places[1], 1)
    assert rows_of(places[0]) == []
    assert sorted(row["id"] for row in rows_of(places[1])) == list(range(1, 100, 3))
    commit = delta_table.read_commit(LocalFiles(), places[1], 1)
    assert (commit.operation, commit.user_metadata, commit.changes_data) == ("WRITE", "entry 1", True)
    assert commit.rows_written == 33


@pytest.mark.long
def test_each_table_gets_its_rows_by_its_own_commit_and_nothing_before(spark, made, rows, committed):
    places = [made(name) for name in ("a", "b", "c", "none")]
    assert all(takes(rows.drop("__number"), place, 0) for place in places)
    files = PartedFiles(rows, "__number", places)
    assert [rows_of(place) for place in places] == [[], [], [], []]
    # Stopped between two commits: the others are as they were.
    assert committed(files, places[0], 0)
    assert [len(rows_of(place)) for place in places] == [34, 0, 0, 0]
    assert [committed(files, places[number], number) for number in (1, 2, 3)] == [True] * 3
    for number, place in enumerate(places[:3]):
        assert sorted(row["id"] for row in rows_of(place)) == list(range(number, 100, 3))
        assert sorted(row.id for row in spark.read.format("delta").load(place).collect()) == list(range(number, 100, 3))
        commit = delta_table.read_commit(LocalFiles(), place, 1)
        assert (commit.operation, commit.user_metadata, commit.changes_data) == ("WRITE", "entry 1", True)
        assert commit.rows_written == len(range(number, 100, 3))
    assert rows_of(places[3]) == []
    assert delta_table.read_commit(LocalFiles(), places[3], 1).user_metadata == "entry 1"
    assert delta_snapshot.table_state(spark, places[3]).transactions["app"] == 1


def test_the_statistics_are_those_that_delta_works_out(spark, made, rows, committed):
    ours, theirs = made("ours"), made("theirs")
    one = rows.where("__number = 0").coalesce(1)
    files = PartedFiles(one, "__number", [ours])
    assert committed(files, ours, 0)
    one.drop("__number").write.format("delta").mode("append").save(theirs)
    assert statistics(ours) == statistics(theirs)


def statistics(place):
    text = LocalFiles().read(f"{place}/_delta_log/{1:020d}.json")
    (added,) = [json.loads(line)["add"] for line in delta_table.actions_of(text) if '"add"' in line]
    return json.loads(added["stats"])


def test_a_table_that_has_moved_or_is_another_is_left_alone(spark, made, rows, committed):
    moved, raced = made("moved"), made("raced")
    files = PartedFiles(rows.where("__number < 2"), "__number", [moved, raced])
    spark.sql(f"ALTER TABLE delta.`{moved}` SET TBLPROPERTIES (a = 'b')")
    assert not committed(files, moved, 0)
    assert rows_of(moved) == []
    assert not committed(files, raced, 1, table_id="another's")
    assert rows_of(raced) == []
    assert committed(files, raced, 1)
    assert not committed(files, raced, 1)
    assert len(rows_of(raced)) == 33


def test_of_many_at_once_one_commits(made, rows, committed):
    place = made("raced")
    files = PartedFiles(rows.where("__number = 0"), "__number", [place])

    def commit(_turn):
        try:
            return committed(files, place, 0)
        except conflicts():
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(commit, range(8))) == [False] * 7 + [True]
    assert sorted(row["id"] for row in rows_of(place)) == list(range(0, 100, 3))


@pytest.mark.parametrize(
    "unfit",
    [
        {"partition_by": ("name",)},
        {"columns": "id bigint, at timestamp, name string"},
        {"columns": "id bigint, name string", "properties": {"delta.dataSkippingStatsColumns": "id"}},
        {"properties": {**SKIPPING, "delta.columnMapping.mode": "name"}},
        {"properties": {**SKIPPING, "delta.constraints.c": "id > 0"}},
        {"properties": {**SKIPPING, "delta.enableRowTracking": "true"}},
        {"properties": {**SKIPPING, "delta.autoOptimize.optimizeWrite": "true"}},
        {"properties": {**SKIPPING, "delta.enableInCommitTimestamps": "true"}},
        {"properties": {**SKIPPING, "parquet.block.size": "1048576"}},
    ],
)
def test_a_table_that_wants_more_than_a_file_is_not_for_that(made, rows, unfit):
    assert not takes(rows.drop("__number"), made("unfit", **unfit), 0)


def test_a_table_with_statistics_of_its_texts_is_taken(made, rows, committed):
    place = made("texts", properties={})
    assert takes(rows.drop("__number"), place, 0)
    assert committed(PartedFiles(rows.where("__number = 0").coalesce(1), "__number", [place]), place, 0)
    assert statistics(place)["minValues"]["name"] == min(row["name"] for row in rows_of(place))


def test_nor_is_one_whose_statistics_no_footer_tells(made, rows):
    listed = rows.selectExpr("id", "array(name) AS names", "at")
    columns = "id bigint, names array<string>, at timestamp"
    assert takes(listed, made("without", columns=columns), 0)
    assert not takes(listed, made("with", columns=columns, properties={}), 0)


@pytest.mark.parametrize(("setting", "value"), [(STATISTICS_CONF, "false"), (OPTIMIZED, "true")])
def test_nor_is_one_whose_session_says_how_files_are_made(spark, made, rows, setting, value):
    session = spark.newSession()
    session.conf.set(setting, value)
    assert not takes(DataFrame(rows.drop("__number")._jdf, session), made("unfit"), 0)


def test_nor_is_one_with_variants(spark, made, rows):
    place = made("unfit", columns="id bigint, name struct<v: variant>, at timestamp")
    found = rows.selectExpr("id", "named_struct('v', parse_json('1')) AS name", "at")
    assert not takes(found, place, 0)


def test_nor_is_one_at_another_version(made, rows):
    assert not takes(rows.drop("__number"), made("elsewhere"), 7)
