"""What the contract of the lake's files leaves to each: the error when a folder cannot be written."""

from __future__ import annotations

import errno
import os

import pytest

from rivermouth.errors import LakeNotWritable
from rivermouth.ports.lake.lake_files import LocalFiles


def test_bytes_that_are_no_text_are_read_all_the_same(tmp_path):
    (tmp_path / "x").write_bytes(b"a\xff\xfeb")
    assert LocalFiles().read(str(tmp_path / "x")) == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LakeNotWritable) as caught:
        LocalFiles().write(str(tmp_path / "file" / "x.json"), "text")
    assert str(caught.value) == (
        f"[LAKE_NOT_WRITABLE] cannot write into the lake {tmp_path / 'file'}: File exists; nothing was written\n"
        "  hint: check the owner and the free space of the folder, or set lake: to another one"
    )


def test_a_reader_never_sees_half_a_file(tmp_path):
    files, path = LocalFiles(), str(tmp_path / "x.json")
    files.write(path, "old")
    with open(path) as reader:  # noqa: PTH123 - it stays open while the file is replaced
        files.write(path, "new" * 10_000)
        assert reader.read() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_where_there_are_no_hard_links_a_file_is_made_only_once_all_the_same(number, monkeypatch, tmp_path):
    def link(*_):
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", link)
    files, path = LocalFiles(), str(tmp_path / "leases" / "x.json")
    assert files.create(path, "mine") is True
    assert files.create(path, "yours") is False
    assert files.read(path) == "mine"
    assert files.names(str(tmp_path / "leases")) == ["x.json"]
