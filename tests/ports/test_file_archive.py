"""Archives of files: a batch is in its place with its manifest, or is not there, wherever it is ended."""

import csv
import json

import pyarrow.dataset as ds
import pytest

from rivermouth.ports.lake.archive_reader import MANIFESTS
from rivermouth.ports.lake.file_archive import Archive, FileArchive, listed_files
from rivermouth.ports.lake.lake_files import HadoopFiles, LocalFiles

ROWS = [(1, "a", "x"), (2, "b", "x"), (3, None, "y")]


class Ended(Exception):
    """In the place of a process that is killed."""


class EndingFiles(LocalFiles):
    """Files of a process that ends before its next change of a file."""

    def __init__(self, changes):
        self.changes = changes

    def _change(self):
        self.changes -= 1
        if self.changes < 0:
            raise Ended

    def write(self, path, text):
        self._change()
        super().write(path, text)

    def rename(self, source, target):
        self._change()
        super().rename(source, target)

    def delete(self, path):
        self._change()
        super().delete(path)


def add(files, archive, rows, entry):
    flow = FileArchive(files, archive, "orders")
    if flow.newest_entry() == entry:
        return 0
    flow.begin()
    sent = flow.send(rows)
    flow.commit(entry)
    return sent


def found(archive):
    """What another tool reads of the folder, and of the files that manifests list."""
    wanted = {"parquet": "parquet", "orc": "orc"}[archive.format]
    options = {"format": wanted, "partitioning": "hive"}
    folder = ds.dataset(archive.location, **options).to_table().select(["id", "name"])
    listed = [f"{archive.location}/{each}" for each in listed_files(LocalFiles(), archive.location)]
    files = ds.dataset(listed, **options).to_table().select(["id", "name"])
    assert sorted(folder.to_pylist(), key=repr) == sorted(files.to_pylist(), key=repr)
    return sorted((row["id"], row["name"]) for row in folder.to_pylist())


def ended_at(archive, rows, changes):
    """Whether a batch that ends before ``changes`` changes of files is there once; False where it has fewer."""
    assert add(LocalFiles(), archive, rows.where("id = 1"), "first") == 1
    try:
        add(EndingFiles(changes), archive, rows.where("id > 1"), "second")
    except Ended:
        # Readers of the folder may see a part of a batch that is being moved, and never a row twice.
        assert add(LocalFiles(), archive, rows.where("id > 1"), "second") in (0, 2)
    else:
        assert found(archive) == [(1, "a"), (2, "b"), (3, None)]
        return False
    assert found(archive) == [(1, "a"), (2, "b"), (3, None)]
    assert add(LocalFiles(), archive, rows.where("id < 0"), "third") == 0
    assert found(archive) == [(1, "a"), (2, "b"), (3, None)]
    assert FileArchive(LocalFiles(), archive, "orders").newest_entry() == "third"
    return True


def test_ended_between_two_moves_a_batch_is_there_once(spark, tmp_path):
    # The folders of such a column begin as the names of Spark's files do.
    rows = spark.createDataFrame(ROWS, "id int, name string, `part-kind` string").repartition(2).localCheckpoint()
    assert ended_at(Archive(str(tmp_path), "parquet", {}, ("part-kind",)), rows, 2)
    assert {each.name for each in tmp_path.iterdir()} == {MANIFESTS, "part-kind=x", "part-kind=y"}


def test_a_batch_whose_moves_failed_half_way_is_not_taken_back(spark, tmp_path):
    rows = spark.createDataFrame(ROWS, "id int, name string, kind string").coalesce(1)
    archive, files = Archive(str(tmp_path), "parquet", {}, ("kind",)), EndingFiles(3)
    flow = FileArchive(files, archive, "orders")
    flow.begin()
    flow.send(rows)
    with pytest.raises(Ended):
        flow.commit("first")
    files.changes = 99
    flow.abandon()
    assert add(files, archive, rows, "first") == 0
    assert found(archive) == [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_wherever_it_is_ended_each_batch_is_there_once(spark, tmp_path, kind):
    rows = spark.createDataFrame(ROWS, "id int, name string, kind string").repartition(2).localCheckpoint()
    for changes in range(20):
        if not ended_at(Archive(str(tmp_path / str(changes)), kind, {}, ("kind",)), rows, changes):
            break
    else:
        pytest.fail("the batch changes more files than are tried")
    assert changes > 4


def test_text_formats_and_names(spark, tmp_path):
    rows = spark.createDataFrame(ROWS, "id int, name string, kind string").coalesce(1)
    for kind, options in (("csv", {"header": "true"}), ("json", {"compression": "gzip"}), ("avro", {})):
        place = tmp_path / kind
        add(LocalFiles(), Archive(str(place), kind, options), rows, "e")
        names = sorted(each.name for each in place.iterdir())
        suffix = {"csv": ".csv", "json": ".json.gz", "avro": ".snappy.avro"}[kind]
        assert names == [MANIFESTS, f"orders-0000000000-00000{suffix}"]
        assert json.loads((place / MANIFESTS / "orders-0000000000.manifest").read_text()) == {
            "flow": "orders",
            "number": 0,
            "format": kind,
            "files": [f"orders-0000000000-00000{suffix}"],
            "entry": "e",
        }
    with (tmp_path / "csv" / "orders-0000000000-00000.csv").open() as file:
        assert list(csv.reader(file)) == [["id", "name", "kind"], ["1", "a", "x"], ["2", "b", "x"], ["3", "", "y"]]


def test_flows_of_one_archive_have_names_of_their_own(spark, tmp_path):
    archive = Archive(str(tmp_path), "parquet")
    rows = spark.range(1).coalesce(1)
    for flow in ("a", "a-1", "a.b"):
        adding = FileArchive(LocalFiles(), archive, flow)
        assert adding.newest_entry() is None
        adding.begin()
        adding.send(rows)
        adding.commit(flow)
    assert [FileArchive(LocalFiles(), archive, flow).newest_entry() for flow in ("a", "a-1", "a.b")] == [
        "a",
        "a-1",
        "a.b",
    ]
    assert len(listed_files(LocalFiles(), archive.location)) == 3


class EndingOnS3(HadoopFiles):
    """Files in a bucket, of a process that ends at its second move."""

    def __init__(self, spark):
        super().__init__(spark)
        self.moves = 0

    def rename(self, source, target):
        self.moves += 1
        if self.moves == 2:
            raise Ended
        super().rename(source, target)


@pytest.mark.long
def test_in_a_bucket_a_batch_that_was_decided_is_completed(spark, bucket):
    archive = Archive(f"s3a://{bucket()}/archive", "parquet", {}, ("kind",))
    rows = spark.createDataFrame(ROWS, "id int, name string, kind string").coalesce(1)
    with pytest.raises(Ended):
        add(EndingOnS3(spark), archive, rows, "first")
    files = HadoopFiles(spark)
    assert FileArchive(files, archive, "orders").newest_entry() == "first"
    listed = listed_files(files, archive.location)
    assert listed == ["kind=x/orders-0000000000-00000.zstd.parquet", "kind=y/orders-0000000000-00001.zstd.parquet"]
    assert sorted(row["id"] for row in spark.read.parquet(archive.location).collect()) == [1, 2, 3]
    # Some stores keep folders whose files are all gone.
    assert [each for each in files.names(archive.location) if each != "_staged"] == [MANIFESTS, "kind=x", "kind=y"]
    assert add(files, archive, rows.where("id = 1"), "second") == 1
    assert sorted(row["id"] for row in spark.read.parquet(archive.location).collect()) == [1, 1, 2, 3]
    assert len(listed_files(files, archive.location)) == 3
