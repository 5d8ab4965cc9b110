"""Delta as the ledger relies on it: what lands in one commit, what is skipped, what the log says."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql.types import LongType, StringType, StructField, StructType

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.lake.lake_files import LocalFiles

FILES = LocalFiles()
COLUMNS = StructType([StructField("id", LongType(), metadata={"comment": "who"}), StructField("name", StringType())])


@pytest.fixture
def location(spark, tmp_path):
    place = str(tmp_path / "t")
    delta_table.create(spark, place, delta_table.TableLayout(columns=COLUMNS), metadata="entry 0")
    return place


def commit(location, version):
    return delta_table.read_commit(FILES, location, version)


def append(spark, location, ids, number, metadata="m", onto=None):
    rows = spark.createDataFrame([(each, "x") for each in ids], COLUMNS)
    delta_append.append(rows, location, TableTransaction("app", number, metadata), onto=onto)


def test_a_table_is_made_with_its_metadata_in_the_commit_that_makes_it(spark, location):
    assert delta_table.exists(FILES, location)
    assert delta_table.commit_versions(FILES, location) == [0]
    first = commit(location, 0)
    assert (first.operation, first.user_metadata, first.changes_data) == ("CREATE TABLE", "entry 0", False)
    assert spark.conf.get(delta_table.METADATA_CONF, None) is None


@pytest.mark.parametrize("staged", [True, False], ids=["staged", "plain"])
@pytest.mark.parametrize(
    "files",
    [(), (f".{0:020}.json.1ad59734-2c18.tmp", f"..{0:020}.json.1ad59734-2c18.tmp.crc")],
    ids=["empty", "temporary"],
)
def test_where_making_it_was_cut_off_it_is_made(files, staged, spark, tmp_path):
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    if staged:
        (log / "_staged_commits").mkdir()
    for name in files:
        (log / name).write_text("cut off")
    delta_table.create(spark, str(tmp_path / "t"), delta_table.TableLayout(columns=COLUMNS), metadata="entry 0")
    assert commit(str(tmp_path / "t"), 0).user_metadata == "entry 0"
    assert not {path.name for path in log.iterdir()} & set(files)


def test_what_somebody_else_keeps_in_the_folder_of_the_log_stays(spark, tmp_path):
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    (log / "notes.txt").write_text("mine")
    with pytest.raises(AnalysisException, match="DELTA_TABLE_NOT_FOUND"):
        delta_table.create(spark, str(tmp_path / "t"), delta_table.TableLayout(columns=COLUMNS), metadata="entry 0")
    assert (log / "notes.txt").read_text() == "mine"


def test_making_it_again_changes_nothing(spark, location):
    delta_table.create(spark, location, delta_table.TableLayout(columns=COLUMNS), metadata="another entry 0")
    assert delta_table.commit_versions(FILES, location) == [0]
    assert commit(location, 0).user_metadata == "entry 0"


def test_layout_properties_and_comments(spark, tmp_path):
    columns = StructType([*COLUMNS.fields, StructField("odd, name", StringType())])
    layout = delta_table.TableLayout(
        columns=columns, partition_by=["name"], properties={"delta.checkpointInterval": "7"}, comment="all of it"
    )
    delta_table.create(spark, str(tmp_path / "t"), layout, metadata="m")
    state = delta_snapshot.table_state(spark, str(tmp_path / "t"))
    assert state.partition_by == ("name",)
    assert state.columns.names == ["id", "name", "odd, name"]
    detail = DeltaTable.forPath(spark, str(tmp_path / "t")).detail().collect()[0]
    assert detail["description"] == "all of it"
    assert detail["properties"]["delta.checkpointInterval"] == "7"
    assert detail["properties"]["delta.columnMapping.mode"] == "name"
    assert state.columns["id"].metadata["comment"] == "who"


def test_an_append_carries_metadata_and_number_and_counts_its_rows(spark, location):
    append(spark, location, [1, 2, 3], 1, "entry 1")
    found = commit(location, 1)
    assert (found.user_metadata, found.rows_written, found.changes_data) == ("entry 1", 3, True)
    state = delta_snapshot.table_state(spark, location)
    assert (state.version, dict(state.transactions)) == (1, {"app": 1})
    copy = shutil.copytree(location, f"{location}-copy", ignore=shutil.ignore_patterns("*.crc"))
    assert dict(delta_snapshot.table_state(spark, copy).transactions) == {"app": 1}  # of the log alone


def test_an_append_of_nothing_is_a_commit_too(spark, location):
    append(spark, location, [], 1, "entry 1")
    found = commit(location, 1)
    assert (found.user_metadata, found.rows_written, found.changes_data) == ("entry 1", 0, False)


def test_the_same_number_again_is_skipped_without_a_word(spark, location):
    append(spark, location, [1], 1)
    append(spark, location, [2], 1)
    assert delta_table.commit_versions(FILES, location) == [0, 1]
    assert [row["id"] for row in spark.read.format("delta").load(location).collect()] == [1]


@pytest.mark.long
def test_what_others_do_is_told_apart_by_whether_it_changes_data(spark, location):
    append(spark, location, [1, 2], 1)
    append(spark, location, [3, 4], 2)
    table = DeltaTable.forPath(spark, location)
    table.optimize().executeCompaction()
    table.delete("id = 3")
    table.restoreToVersion(2)
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('a' = 'b')")
    commits = [commit(location, version) for version in delta_table.commit_versions(FILES, location)[3:]]
    assert [(each.operation, each.changes_data, each.restored_version) for each in commits] == [
        ("OPTIMIZE", False, None),
        ("DELETE", True, None),
        ("RESTORE", True, 2),
        ("SET TBLPROPERTIES", False, None),
    ]


def test_a_commit_that_is_not_there_is_none(location):
    assert commit(location, 1) is None


def test_the_newest_commit_of_a_flow_names_the_table(tmp_path):
    log = tmp_path / "t" / "_delta_log"
    log.mkdir(parents=True)
    # Version 0, which made the table, was cleaned; the newest commit is another one's.
    for version, action in (
        (7, {"txn": {"appId": "rivermouth/shop/id-1", "version": 3}}),
        (8, {"txn": {"appId": "others/1", "version": 9}}),
    ):
        (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": {}}) + "\n" + json.dumps(action))
    assert delta_table.table_id(LocalFiles(), str(tmp_path / "t")) == "id-1"


def test_a_folder_without_a_log_is_no_table(tmp_path):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "part-0.parquet").write_text("")
    (tmp_path / "t" / "_delta_log" / ".00000000000000000000.json.tmp").write_text("")
    assert not delta_table.exists(FILES, str(tmp_path / "t"))
    (tmp_path / "t" / "_delta_log" / "_last_checkpoint").write_text("{}")
    assert delta_table.exists(FILES, str(tmp_path / "t"))


def ids_of(spark, location):
    return sorted(row["id"] for row in spark.read.format("delta").load(location).collect())


def test_an_append_onto_the_version_that_stands_leaves_the_same_commit(spark, location):
    began = time.time()
    append(spark, location, [1, 2, 3], 1, "entry 1", onto=0)
    append(spark, location, [], 2, "entry 2", onto=1)
    found = [commit(location, version) for version in (1, 2)]
    assert all(began - 1 <= each.committed_at <= time.time() + 1 for each in found)
    assert [replace(each, committed_at=None, metrics={}) for each in found] == [
        delta_table.Commit(1, "WRITE", "entry 1", 3, changes_data=True),
        delta_table.Commit(2, "WRITE", "entry 2", 0, changes_data=False),
    ]
    assert [each.metrics["numOutputRows"] for each in found] == [3, 0]
    assert dict(delta_snapshot.table_state(spark, location).transactions) == {"app": 2}
    assert ids_of(spark, location) == [1, 2, 3]


def test_an_append_onto_a_version_that_has_passed_asks_delta_for_the_number(spark, location):
    append(spark, location, [1], 1)
    append(spark, location, [2], 1, onto=0)
    assert ids_of(spark, location) == [1]
    append(spark, location, [3], 2, onto=0)
    assert ids_of(spark, location) == [1, 3]


def test_rows_of_another_shape_are_refused_onto_a_version_too(spark, location):
    rows = spark.range(1).selectExpr("id", "id AS another")
    with pytest.raises(AnalysisException, match="schema mismatch"):
        delta_append.append(rows, location, TableTransaction("app", 1, "m"), onto=0)
    assert delta_table.commit_versions(FILES, location) == [0]


def test_an_append_that_another_one_of_its_number_overtakes_is_refused(spark, location, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"

    def waiting(rows):
        begun.touch()
        while not go.exists():
            time.sleep(0.01)
        yield from rows

    slow = spark.range(1, 2, 1, 1).selectExpr("id", "'x' AS name").mapInArrow(waiting, COLUMNS)
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(delta_append.append, slow, location, TableTransaction("app", 1, "slow"), onto=0)
        while not begun.exists():
            time.sleep(0.01)
        append(spark, location, [2], 1, onto=0)
        go.touch()
        error = outcome.exception()
    assert "DELTA_CONCURRENT_TRANSACTION" in str(error)
    assert ids_of(spark, location) == [2]
