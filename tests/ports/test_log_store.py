"""Commits of Delta tables on S3: of two writers one is told that it came second, however late it is."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from py4j.protocol import Py4JJavaError
from tests.ports.s3_proxy import S3Proxy


class LogStore:
    """rivermouth's store for Delta's log, as Delta calls it."""

    def __init__(self, spark, folder, **options):
        self._jvm = spark._jvm
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        for name, value in options.items():
            self._conf.set(name.replace("_", "."), value)
        self._store = self._jvm.rivermouth.store.ConditionalLogStore(self._conf)
        self._folder = folder

    def path(self, version, ending="json"):
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/_delta_log/{version:020d}.{ending}")

    def write(self, version, *lines, overwrite=False):
        actions = self._jvm.java.util.ArrayList()
        for line in lines:
            actions.add(line)
        self._store.write(self.path(version), actions.iterator(), overwrite, self._conf)

    def read(self, version):
        lines = self._store.read(self.path(version), self._conf)
        found = []
        while lines.hasNext():
            found.append(lines.next())
        return found

    def names_from(self, version):
        found = self._store.listFrom(self.path(version), self._conf)
        statuses = []
        while found.hasNext():
            statuses.append(found.next())
        return [(status.getPath().getName(), status.getLen()) for status in statuses]


def refusal(error):
    return error.value.java_exception.getClass().getName()


@pytest.fixture
def folder(bucket):
    return f"s3a://{bucket()}/lake/table"


@pytest.fixture
def log(spark, folder):
    return LogStore(spark, folder)


def test_what_is_written_is_read_back(log):
    log.write(0, '{"größe": 1}', "{}")
    assert log.read(0) == ['{"größe": 1}', "{}"]


def test_a_second_commit_of_the_same_version_is_refused_and_changes_nothing(log):
    log.write(0, "first")
    with pytest.raises(Py4JJavaError) as error:
        log.write(0, "second")
    assert refusal(error) == "java.nio.file.FileAlreadyExistsException"
    assert log.read(0) == ["first"]


def test_what_may_be_overwritten_is(log):
    log.write(0, "first")
    log.write(0, "second", overwrite=True)
    assert log.read(0) == ["second"]


def test_ones_own_commit_whose_answer_was_lost_is_known_again(log):
    log.write(0, "mine")
    log.write(0, "mine")
    assert log.read(0) == ["mine"]


def test_a_writer_that_slept_in_mid_commit_does_not_destroy_what_came_meanwhile(spark, s3, bucket):
    name = bucket()
    with S3Proxy(s3.port) as proxy:
        proxy.holds_back = "0.json"
        slow = LogStore(
            spark,
            f"s3a://{name}/lake/table",
            **{f"fs.s3a.bucket.{name}.endpoint": proxy.endpoint, "fs_s3a_impl_disable_cache": "true"},
        )
        came = []

        def commit():
            with pytest.raises(Py4JJavaError) as error:
                slow.write(0, "late")
            came.append(refusal(error))

        late = threading.Thread(target=commit)
        late.start()
        assert proxy.held.wait(30)
        quick = LogStore(spark, f"s3a://{name}/lake/table")
        quick.write(0, "in time")
        proxy.let_go()
        late.join(60)
    assert came == ["java.nio.file.FileAlreadyExistsException"]
    assert quick.read(0) == ["in time"]


def test_a_listing_begins_where_it_is_asked_to(log):
    for version in (7, 8, 9, 10, 11):
        log.write(version, "x" * version)
    assert log.names_from(9) == [(f"{version:020d}.json", version + 1) for version in (9, 10, 11)]
    assert log.names_from(11) == [(f"{11:020d}.json", 12)]
    assert log.names_from(12) == []


def test_a_listing_of_a_log_that_is_not_there_says_so(spark, bucket):
    with pytest.raises(Py4JJavaError) as error:
        LogStore(spark, f"s3a://{bucket()}/nothing").names_from(0)
    assert refusal(error) == "java.io.FileNotFoundException"


def test_a_listing_of_data_has_the_folders_too(log, folder, s3):
    bucket = folder.removeprefix("s3a://")
    for name in ("_SUCCESS", "p=1/a.parquet", "p=2/b.parquet"):
        with s3.store.open_output_stream(f"{bucket}/{name}") as file:
            file.write(b"x")
    first = log._jvm.org.apache.hadoop.fs.Path(f"{folder}/\0")
    found = log._store.listFrom(first, log._conf)
    names = set()
    while found.hasNext():
        names.add(found.next().getPath().getName())
    assert names == {"_SUCCESS", "p=1", "p=2"}


@pytest.mark.long
def test_a_long_log_costs_one_request(spark, s3, bucket):
    name = bucket()
    store = s3.store

    def put(number):
        with store.open_output_stream(f"{name}/t/_delta_log/{number:020d}.json") as file:
            file.write(b"{}")

    with ThreadPoolExecutor(8) as pool:  # a page of S3 has a thousand
        list(pool.map(put, range(1100)))
    with S3Proxy(s3.port) as proxy:
        options = {f"fs.s3a.bucket.{name}.endpoint": proxy.endpoint, "fs_s3a_impl_disable_cache": "true"}
        found = LogStore(spark, f"s3a://{name}/t", **options).names_from(1090)
    assert len(found) == 10
    assert proxy.counted() == {"GET": 1}


class CheckpointFiles:
    """rivermouth's way of writing Spark's checkpoint, as Spark calls it."""

    def __init__(self, spark, folder):
        self._jvm, self._folder = spark._jvm, folder
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._jvm.rivermouth.internals.checkpoints.ConditionalCheckpointFiles(self._path("offsets"), conf)

    def _path(self, name):
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._folder}/{name}")

    def write(self, name, content, *, overwrites=False, cancels=False):
        stream = self._files.createAtomic(self._path(name), overwrites)
        stream.write(bytearray(content))
        if cancels:
            stream.cancel()
        stream.close()

    def read(self, name):
        return bytes(self._files.open(self._path(name)).readAllBytes())

    def exists(self, name):
        return self._files.exists(self._path(name))


@pytest.mark.parametrize("place", ["s3", "disk"])
def test_a_checkpoints_file_is_there_whole_or_not_at_all(place, spark, folder, tmp_path):
    files = CheckpointFiles(spark, folder if place == "s3" else tmp_path.as_uri())
    files.write("offsets/0", b"given up", cancels=True)
    assert not files.exists("offsets/0")
    files.write("offsets/0", b"first")
    with pytest.raises(Py4JJavaError) as error:
        files.write("offsets/0", b"second")
    # Spark's own is one of Hadoop's.
    assert refusal(error).endswith("FileAlreadyExistsException")
    assert files.read("offsets/0") == b"first"
    files.write("offsets/0", b"third", overwrites=True)
    assert files.read("offsets/0") == b"third"


def test_a_checkpoints_file_whose_answer_was_lost_is_known_again(spark, folder):
    files = CheckpointFiles(spark, folder)
    files.write("offsets/0", b"mine")
    files.write("offsets/0", b"mine")
    assert files.read("offsets/0") == b"mine"


def test_without_the_bucket_the_reason_is_told(spark, bucket):
    with pytest.raises(Py4JJavaError) as error:
        LogStore(spark, f"s3a://{bucket(exists=False)}/t").write(0, "x")
    assert refusal(error) == "org.apache.hadoop.fs.s3a.UnknownStoreException"
