"""All jars in one file: written, refused where it is not right, used where there is no network."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile

import pytest
from tests.ports.test_jars import repository  # noqa: F401 - a fixture

from rivermouth.cli.main import invoke
from rivermouth.errors import BundleUnusable
from rivermouth.ports.spark import jar_bundle, jars

ADVICE = "with this version of rivermouth, where there is a network"


def refused(file, outcome, detail):
    return f"[BUNDLE_UNUSABLE] bundle {file}: {detail}; {outcome}\n  hint: rivermouth jars bundle jars.tar, {ADVICE}"


@pytest.fixture
def bundle(repository, tmp_path, monkeypatch):  # noqa: F811 - the fixture above
    """A bundle of two jars; the cache is empty again, and there is no mirror."""
    file = tmp_path / "jars.tar"
    assert [path.name for path in jar_bundle.write(file)] == ["one-1.0.jar", "two_2.13-2.0.jar"]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("RIVERMOUTH_MAVEN_URL", "http://127.0.0.1:9/")
    return file


def rewritten(file, contents):
    with tarfile.open(file, "w") as changed:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            changed.addfile(member, io.BytesIO(content))


def unpacking(file):
    with pytest.raises(BundleUnusable) as caught:
        jar_bundle.unpack(file)
    assert not jars.cache_folder().exists()
    return str(caught.value)


def test_what_was_unpacked_is_used_and_unpacking_it_again_changes_nothing(bundle):
    found = jar_bundle.unpack(bundle)
    assert found == jars.classpath("spark", fetch=False)
    assert {path.parent for path in found} == {jars.cache_folder()}
    for path in found:
        os.utime(path, (1, 1))
    assert jar_bundle.unpack(bundle) == found
    assert [path.stat().st_mtime for path in found] == [1, 1]
    found[0].write_bytes(b"damaged")
    assert jar_bundle.unpack(bundle) == jars.classpath("spark", fetch=False)
    assert sorted(path.name for path in jars.cache_folder().iterdir()) == sorted(path.name for path in found)
    assert {path.stat().st_mode & 0o777 for path in [*found, bundle]} == {0o644}


def test_another_content_is_refused_and_nothing_is_taken(bundle):
    rewritten(bundle, {"one-1.0.jar": b"first", "two_2.13-2.0.jar": b"second two"})
    detail = "two_2.13-2.0.jar is not the one that this version of rivermouth was locked to"
    assert unpacking(bundle) == refused(bundle, "nothing was unpacked", detail)


def test_a_jar_that_lacks_is_told(bundle):
    rewritten(bundle, {"one-1.0.jar": b"first"})
    assert unpacking(bundle) == refused(bundle, "nothing was unpacked", "it lacks two_2.13-2.0.jar")


def test_nothing_but_the_jars_of_the_lock_is_taken(bundle, tmp_path):
    good = {"one-1.0.jar": b"first", "two_2.13-2.0.jar": b"second one"}
    rewritten(bundle, {"../escaped.jar": b"x", **good, "another.jar": b"y"})
    assert len(jar_bundle.unpack(bundle)) == 2
    assert sorted(path.name for path in jars.cache_folder().iterdir()) == sorted(good)
    assert not list(tmp_path.rglob("escaped.jar"))


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b no archive", b"x" * 2048])
def test_another_file_is_refused(bundle, content):
    bundle.write_bytes(content)
    assert unpacking(bundle) == refused(bundle, "nothing was unpacked", "it is no bundle of jars")


def test_a_file_that_is_not_there_or_cannot_be_written(bundle, tmp_path, capsys):
    nowhere = tmp_path / "no folder" / "jars.tar"
    assert invoke(["jars", "unpack", str(nowhere)]) == 1
    said = refused(nowhere, "nothing was unpacked", "No such file or directory")
    assert capsys.readouterr() == ("", f"{said}\n")
    jar_bundle.unpack(bundle)
    assert invoke(["jars", "bundle", str(nowhere)]) == 1
    said = refused(nowhere, "it was not written", "No such file or directory")
    assert capsys.readouterr() == ("", f"{said}\n")


@pytest.mark.long
def test_a_bundle_serves_a_machine_without_network(tmp_path, monkeypatch, capsys):
    """The real jars, in a network namespace that has not even a loopback."""
    file = tmp_path / "jars.tar"
    assert invoke(["jars", "bundle", str(file)]) == 0
    found = jars.fetch_all()
    size = sum(path.stat().st_size for path in found) / 1e6
    assert capsys.readouterr().out == f"{len(found)} jars, {size:.0f} MB, written to {file}\n"
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for arguments, code in ((["fetch"], 1), (["unpack", str(file)], 0), (["fetch"], 0)):
        command = [sys.executable, "-m", "rivermouth", "jars", *arguments]
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--net", *command],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stderr
        if code:
            assert done.stderr.startswith("[JARS_MISSING] ")
        else:
            assert done.stdout == f"{len(found)} jars, {size:.0f} MB, ready in {tmp_path}/cache/rivermouth/jars\n"
