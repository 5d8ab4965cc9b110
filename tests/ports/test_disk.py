"""The local disk as Hadoop sees it: the same files as with Hadoop's own classes, no processes, and one winner."""

import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from rivermouth.ports import java
from rivermouth.ports.spark import session_conf
from rivermouth.spec import SparkSettings

WRITERS = 8
FILES, CONTEXT = "spark.hadoop.fs.file.impl", "spark.hadoop.fs.AbstractFileSystem.file.impl"
LOG = "spark.delta.logStore.file.impl"


class Disk:
    """Hadoop's doors to the local disk: ours, its own, and the one of Delta's log."""

    def __init__(self, spark):
        self._jvm = spark._jvm
        self._fs = spark._jvm.org.apache.hadoop.fs
        conf = spark._jsc.hadoopConfiguration()
        self.ours = self.path("/").getFileSystem(conf)
        self.hadoops = self._fs.LocalFileSystem()
        self.hadoops.initialize(self._jvm.java.net.URI("file:///"), conf)
        self.context = self._fs.FileContext.getFileContext(conf)
        self._no_options = spark.sparkContext._gateway.new_array(self._fs.Options.Rename, 0)

    def path(self, path):
        return self._fs.Path(str(path))

    def write(self, files, path, text):
        out = files.create(self.path(path), True)
        out.writeBytes(text)
        out.close()

    def read(self, files, path):
        opened = files.open(self.path(path))
        text = bytes(opened.readAllBytes()).decode()
        opened.close()
        return text

    def rename(self, source, target):
        self.context.rename(self.path(source), self.path(target), self._no_options)

    def processes(self):
        """Page faults of all processes that the JVM started and saw end: any process has some."""
        pid = self._jvm.java.lang.ProcessHandle.current().pid()
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


@pytest.fixture(scope="module")
def disk(spark):
    return Disk(spark)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.long
def test_spark_and_delta_get_it(disk):
    assert disk.ours.getClass().getName() == "rivermouth.disk.LocalDisk"
    assert disk.context.getDefaultFileSystem().getClass().getName() == "rivermouth.disk.LocalDiskContext"


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, {FILES, CONTEXT, LOG}),
        ({"spark.delta.logStore.class": "mine"}, {FILES, CONTEXT}),
        ({"delta.logStore.file.impl": "mine"}, {FILES, CONTEXT}),
        ({LOG: "mine"}, {FILES, CONTEXT, LOG}),
    ],
)
def test_who_gets_it(conf, expected):
    made = session_conf.new_session_conf(SparkSettings(conf=conf), java.find(), "test", {})
    assert {FILES, CONTEXT, LOG} & set(made) == expected
    assert made.get(LOG) == conf.get(LOG, "rivermouth.disk.LocalDiskLogStore" if LOG in expected else None)


def test_no_process_is_started(disk, spark, tmp_path):
    table = str(tmp_path / "table")
    spark.range(10).write.format("delta").save(table)
    spark._jvm.org.apache.spark.executor.ProcfsMetricsGetter.pTreeInfo()  # asks for the page size, at some moment, once
    started = []
    for _ in range(3):
        before = disk.processes()
        spark.range(10).write.format("delta").mode("append").save(table)
        started.append(disk.processes() - before)
    assert spark.read.format("delta").load(table).count() == 40
    # A Python worker of an earlier test may end meanwhile; what a write itself starts would be there each time.
    assert min(started) == 0, started
    before = disk.processes()
    disk.write(disk.hadoops, tmp_path / "file", "x")
    assert disk.processes() > before


def test_permissions_are_those_of_hadoops_own(disk, tmp_path):
    for name, files in (("ours", disk.ours), ("hadoops", disk.hadoops)):
        disk.write(files, tmp_path / name / "folder" / "file", "text")
    for part in ("", "folder", "folder/file", "folder/.file.crc"):
        assert mode(tmp_path / "ours" / part) == mode(tmp_path / "hadoops" / part), part
    assert mode(tmp_path / "ours" / "folder" / "file") & 0o600 == 0o600


def test_a_folder_that_a_team_shares_stays_shared(disk, tmp_path):
    for name, files in (("ours", disk.ours), ("hadoops", disk.hadoops)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o2775)
        files.mkdirs(disk.path(tmp_path / name / "folder"))
    found = mode(tmp_path / "ours" / "folder")
    assert found == mode(tmp_path / "hadoops" / "folder")
    assert found & 0o2000


@pytest.mark.parametrize("wanted", [0o600, 0o751, 0o1777])
def test_permissions_that_are_asked_for(wanted, disk, tmp_path):
    disk.write(disk.ours, tmp_path / "file", "text")
    permission = disk._fs.permission.FsPermission(f"{wanted:o}")
    disk.ours.setPermission(disk.path(tmp_path / "file"), permission)
    assert mode(tmp_path / "file") == wanted


def test_each_reads_what_the_other_wrote_and_wrote_over(disk, tmp_path):
    for first, second in ((disk.ours, disk.hadoops), (disk.hadoops, disk.ours)):
        disk.write(first, tmp_path / "file", "short")
        assert disk.read(second, tmp_path / "file") == "short"
        disk.write(second, tmp_path / "file", "something longer")
        assert disk.read(first, tmp_path / "file") == "something longer"


def test_a_damaged_file_is_found_out(disk, tmp_path):
    disk.write(disk.ours, tmp_path / "file", "text")
    (tmp_path / "file").write_text("next")
    with pytest.raises(Py4JJavaError) as caught:
        disk.read(disk.ours, tmp_path / "file")
    assert caught.value.java_exception.getClass().getSimpleName() == "ChecksumException"


def test_a_name_that_is_taken_is_not_given_again(disk, tmp_path):
    for name in ("one", "two"):
        disk.write(disk.ours, tmp_path / name, name)
    with pytest.raises(Py4JJavaError) as caught:
        disk.rename(tmp_path / "one", tmp_path / "two")
    assert caught.value.java_exception.getClass().getSimpleName() == "FileAlreadyExistsException"
    assert [disk.read(disk.ours, tmp_path / name) for name in ("one", "two")] == ["one", "two"]


def test_a_rename_moves_files_and_folders(disk, tmp_path):
    disk.write(disk.ours, tmp_path / "file", "text")
    disk.rename(tmp_path / "file", tmp_path / "moved")
    assert disk.read(disk.ours, tmp_path / "moved") == "text"
    disk.write(disk.ours, tmp_path / "folder" / "file", "text")
    disk.rename(tmp_path / "folder", tmp_path / "other")
    assert disk.read(disk.ours, tmp_path / "other" / "file") == "text"
    assert not (tmp_path / "file").exists()
    assert not (tmp_path / "folder").exists()


def test_of_a_rename_without_a_source_nothing_is_left(disk, tmp_path):
    with pytest.raises(Py4JJavaError) as caught:
        disk.rename(tmp_path / "nothing", tmp_path / "moved")
    assert caught.value.java_exception.getClass().getSimpleName() == "FileNotFoundException"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("round_", range(20))
def test_of_many_that_want_one_name_one_gets_it(round_, disk, tmp_path):
    for writer in range(WRITERS):
        disk.write(disk.ours, tmp_path / f"{writer}.tmp", str(writer))
    together = threading.Barrier(WRITERS)

    def try_it(writer):
        together.wait()
        try:
            disk.rename(tmp_path / f"{writer}.tmp", tmp_path / "commit.json")
        except Py4JJavaError as error:
            return error.java_exception.getClass().getSimpleName()
        return "it has it"

    with ThreadPoolExecutor(WRITERS) as pool:
        ends = list(pool.map(try_it, range(WRITERS)))
    assert sorted(ends) == ["FileAlreadyExistsException"] * (WRITERS - 1) + ["it has it"]
    assert (tmp_path / "commit.json").read_text() == str(ends.index("it has it"))


def test_of_many_that_make_one_file_one_does(disk, tmp_path):
    together = threading.Barrier(WRITERS)

    def try_it(writer, path):
        together.wait()
        try:
            out = disk.ours.create(disk.path(path), False)
        except Py4JJavaError as error:
            return error.java_exception.getClass().getSimpleName()
        out.writeBytes(str(writer))
        out.close()
        return "it has it"

    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(30):
            path = tmp_path / "new folder" / str(number)
            ends = list(pool.map(try_it, range(WRITERS), [path] * WRITERS))
            assert sorted(ends) == ["FileAlreadyExistsException"] * (WRITERS - 1) + ["it has it"]
            # Hadoop's, which compares the file with its checksums.
            assert disk.read(disk.hadoops, path) == str(ends.index("it has it"))


def test_a_file_that_cannot_be_made_is_told_in_hadoops_words(disk, tmp_path):
    (tmp_path / "file").write_text("in the way")
    told = []
    for files in (disk.ours, disk.hadoops):
        with pytest.raises(Py4JJavaError) as error:
            files.create(disk.path(tmp_path / "file/below"), False)
        told.append(error.value.java_exception.toString())
    assert told[0] == told[1]
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


class Log:
    """A Delta log as Delta's own store and ours list it."""

    def __init__(self, disk, spark, folder):
        conf = spark._jsc.hadoopConfiguration()
        jvm, self._disk, self._conf, self.folder = spark._jvm, disk, conf, folder
        self.ours, self.deltas = jvm.rivermouth.disk.LocalDiskLogStore(conf), jvm.io.delta.storage.HDFSLogStore(conf)

    def listed(self, store, first):
        found, names = store.listFrom(self._disk.path(self.folder / first), self._conf), []
        while found.hasNext():
            status = found.next()
            names.append((status.getPath().toString(), status.getLen(), status.getModificationTime()))
        return names


def test_a_log_is_listed_as_by_deltas_own_store(disk, spark, tmp_path):
    table = tmp_path / "table"
    for _ in range(3):
        spark.range(3).write.format("delta").mode("append").save(str(table))
    log = Log(disk, spark, table / "_delta_log")
    (log.folder / "_staged_commits").mkdir(exist_ok=True)
    (log.folder / f"{2:020d}.json.bak-12:30").touch()
    for first in (f"{0:020d}.", f"{1:020d}.json", f"{2:020d}.", f"{9:020d}.", "_last", "zzz"):
        assert log.listed(log.ours, first) == log.listed(log.deltas, first), first
    assert len(log.listed(log.ours, f"{1:020d}.")) > 2


def test_a_log_that_is_not_there_is_said_as_by_deltas_own_store(disk, spark, tmp_path):
    log, kinds = Log(disk, spark, tmp_path / "no" / "_delta_log"), []
    for store in (log.ours, log.deltas):
        with pytest.raises(Py4JJavaError) as caught:
            log.listed(store, f"{0:020d}.")
        kinds.append(caught.value.java_exception.toString())
    assert kinds[0] == kinds[1]
    assert kinds[0].startswith("java.io.FileNotFoundException")


def test_links_are_followed_and_kept(disk, tmp_path):
    disk.write(disk.ours, tmp_path / "real" / "file", "text")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "name").symlink_to(tmp_path / "real" / "file")
    assert disk.read(disk.ours, tmp_path / "linked" / "file") == "text"
    status = disk.context.getFileLinkStatus(disk.path(tmp_path / "name"))
    assert status.isSymlink()
    disk.rename(tmp_path / "name", tmp_path / "renamed")
    assert (tmp_path / "renamed").is_symlink()
