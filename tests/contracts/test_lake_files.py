"""What every implementation of LakeFiles promises, on the real local and the real Hadoop file system."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rivermouth.errors import LakeNotReadable
from rivermouth.ports.lake.lake_files import HadoopFiles, LocalFiles, PlacedFiles, files_for


@pytest.fixture(params=["local", "local-uri", "hadoop", "placed", "s3"])
def place(request, tmp_path):
    """An implementation and a folder in its notation."""
    if request.param == "local":
        return LocalFiles(), str(tmp_path)
    if request.param == "local-uri":
        return LocalFiles(), tmp_path.as_uri()
    if request.param == "s3":
        return HadoopFiles(request.getfixturevalue("spark")), f"s3a://{request.getfixturevalue('bucket')()}/lake"
    if request.param == "placed":
        return PlacedFiles(request.getfixturevalue("spark")), str(tmp_path)
    return HadoopFiles(request.getfixturevalue("spark")), tmp_path.as_uri()


@pytest.fixture
def left(place):
    """What is listed of a folder ``sub`` after its files are gone: the S3 server keeps empty ones."""
    return ["sub"] if place[1].startswith("s3a:") else []


def test_a_file_that_is_not_there_reads_as_none(place):
    files, folder = place
    assert files.read(f"{folder}/nothing/here.json") is None
    assert files.size(f"{folder}/nothing/here.json") is None
    assert files.names(f"{folder}/nothing") == []


def test_written_text_is_read_back_and_replaced(place):
    files, folder = place
    for text in ("first", "größer ✓\n", ""):
        files.write(f"{folder}/a/b/c.json", text)
        assert files.read(f"{folder}/a/b/c.json") == text
        assert files.size(f"{folder}/a/b/c.json") == len(text.encode())
    assert files.names(f"{folder}/a/b") == ["c.json"]


def test_who_reads_a_file_that_is_replaced_reads_the_whole_old_text(spark, tmp_path):
    for files, name in ((LocalFiles(), "local"), (HadoopFiles(spark), "hadoop")):
        path = tmp_path / name / "c.json"
        files.write(path.as_uri(), "the old text")
        with path.open() as reader:
            files.write(path.as_uri(), "new")
            assert (reader.read(), files.read(path.as_uri())) == ("the old text", "new")
        assert files.names(path.parent.as_uri()) == ["c.json"]


def test_create_takes_only_a_free_place(place):
    files, folder = place
    assert files.create(f"{folder}/leases/x.json", "mine") is True
    assert files.create(f"{folder}/leases/x.json", "yours") is False
    assert files.read(f"{folder}/leases/x.json") == "mine"
    assert files.names(f"{folder}/leases") == ["x.json"]


def test_of_many_that_create_at_once_one_succeeds(place):
    files, folder = place
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: files.create(f"{folder}/one.json", str(n)), range(8)))
    assert sum(made) == 1
    assert files.read(f"{folder}/one.json") == str(made.index(True))


def test_delete_removes_files_and_whole_folders_and_never_complains(place, left):
    files, folder = place
    files.write(f"{folder}/tree/a.json", "1")
    files.write(f"{folder}/tree/sub/b.json", "2")
    files.delete(f"{folder}/tree/a.json")
    assert files.names(f"{folder}/tree") == ["sub"]
    files.delete(f"{folder}/tree")
    files.delete(f"{folder}/tree")
    assert files.read(f"{folder}/tree/sub/b.json") is None
    assert files.names(f"{folder}/tree") == left


def test_prune_removes_a_folder_only_if_nothing_is_in_it(place):
    files, folder = place
    files.write(f"{folder}/tree/a.json", "1")
    files.prune(f"{folder}/tree")
    assert files.read(f"{folder}/tree/a.json") == "1"
    files.delete(f"{folder}/tree/a.json")
    files.prune(f"{folder}/tree")
    files.prune(f"{folder}/tree")
    files.prune(f"{folder}/never")
    assert files.names(folder) == []


def test_rename_moves_a_folder_with_all_in_it(place, left):
    files, folder = place
    files.write(f"{folder}/old/sub/b.json", "2")
    files.rename(f"{folder}/old", f"{folder}/new")
    assert files.read(f"{folder}/new/sub/b.json") == "2"
    assert files.read(f"{folder}/old/sub/b.json") is None
    assert files.names(f"{folder}/old") == left


def test_a_file_that_is_moved_takes_the_place_of_another(place):
    """A store that moves by a copy may have made the copy, and then have failed."""
    files, folder = place
    files.write(f"{folder}/old.json", "new")
    files.write(f"{folder}/sub/new.json", "old")
    files.rename(f"{folder}/old.json", f"{folder}/sub/new.json")
    assert files.read(f"{folder}/sub/new.json") == "new"
    assert files.read(f"{folder}/old.json") is None


def test_a_scheme_without_classes_is_told_in_whole(spark):
    files, place = HadoopFiles(spark), "nofs://bucket/lake/a.json"
    for use in (files.read, files.delete, files.names, lambda path: files.write(path, "")):
        with pytest.raises(LakeNotReadable) as caught:
            use(place)
        assert str(caught.value) == (
            f"[LAKE_NOT_READABLE] cannot read {place}: org.apache.hadoop.fs.UnsupportedFileSystemException: "
            'No FileSystem for scheme "nofs"\n'
            "  hint: check the credentials and the address of the lake, in spark: conf for object stores"
        )


def test_the_scheme_decides_which_one_is_used(spark):
    assert isinstance(files_for("/tmp/x", spark), LocalFiles)
    assert isinstance(files_for("file:/tmp/x", spark), LocalFiles)
    assert isinstance(files_for("s3a://bucket/x", spark), HadoopFiles)
