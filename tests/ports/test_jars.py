"""The jars: where they are looked for, what is downloaded, what is refused."""

import hashlib
import json
import shutil

import pyspark
import pytest
from tools import java_sources

from rivermouth.errors import JarChecksum, JarNotCompiled, JarsMissing
from rivermouth.ports.spark import jars


def artifact(file_name):
    return file_name.rpartition("-")[0]


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A lock of two jars, a mirror that has them, an empty cache."""
    contents = {"org.example:one:1.0": b"first", "org.example.deep:two_2.13:2.0": b"second one"}
    lock = tuple(
        jars.Jar(coordinate, hashlib.sha256(content).hexdigest(), len(content))
        for coordinate, content in contents.items()
    )
    for jar in lock:
        put(tmp_path / "a mirror", jar.path, contents[jar.coordinate])
    monkeypatch.setattr(jars, "locked", lambda: {"spark": lock})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RIVERMOUTH_MAVEN_URL", (tmp_path / "a mirror").as_uri())
    monkeypatch.delenv("RIVERMOUTH_JARS_DIR", raising=False)
    return tmp_path / "a mirror"


def test_the_lock_names_each_file_once_and_nothing_that_pyspark_has():
    locked = jars.locked()
    assert set(locked) == {"spark", "s3", "broker", "compiler", "drivers"}
    every = [jar.file_name for group in locked.values() for jar in group]
    assert len(every) == len(set(every))
    shipped = {artifact(path.name) for path in (jars.Path(pyspark.__file__).parent / "jars").iterdir()}
    assert not {artifact(jar.file_name) for jar in locked["spark"]} & shipped


def test_a_jar_of_the_lock_knows_its_place():
    jar = jars.Jar("org.apache.kafka:kafka_2.13:4.2.1", "0", 1)
    assert jar.path == "org/apache/kafka/kafka_2.13/4.2.1/kafka_2.13-4.2.1.jar"


def test_the_default_repository_is_the_one_of_spark():
    repository = jars._repository_of_spark()
    assert repository is not None
    assert repository.startswith("https://")
    assert repository.endswith("/maven2/")


def test_missing_ones_come_from_the_mirror_and_stay(repository):
    paths = jars.classpath("spark")
    assert [path.name for path in paths] == ["one-1.0.jar", "two_2.13-2.0.jar"]
    assert [path.parent for path in paths] == [jars.cache_folder()] * 2
    assert paths[1].read_bytes() == b"second one"
    shutil.rmtree(repository)
    assert jars.classpath("spark") == paths
    assert jars.fetch_all() == paths


def test_half_a_download_is_finished_by_the_next(repository):
    (repository / jars.locked()["spark"][0].path).rename(repository / "kept")
    with pytest.raises(JarsMissing):
        jars.classpath("spark")
    assert [path.name for path in jars.cache_folder().iterdir()] in ([], ["two_2.13-2.0.jar"])
    (repository / "kept").rename(repository / jars.locked()["spark"][0].path)
    assert len(jars.classpath("spark")) == 2


def test_a_given_folder_needs_no_network(repository, monkeypatch, tmp_path):
    given = tmp_path / "given"
    put(given, "one-1.0.jar", b"first")
    put(given, "two_2.13-2.0.jar", b"second one")
    monkeypatch.setenv("RIVERMOUTH_JARS_DIR", str(given))
    monkeypatch.setenv("RIVERMOUTH_MAVEN_URL", "http://127.0.0.1:9/")
    assert [path.parent for path in jars.classpath("spark", fetch=False)] == [given, given]


def test_no_downloads_wanted(repository):
    with pytest.raises(JarsMissing) as caught:
        jars.classpath("spark", fetch=False)
    assert str(caught.value) == (
        f"[JARS_MISSING] 2 of 2 spark jars are not in {jars.cache_folder()}: downloads are switched off; "
        "nothing was started\n"
        "  hint: rivermouth jars fetch, where the network or the mirror in RIVERMOUTH_MAVEN_URL can be "
        "reached"
    )


def test_no_network(repository, monkeypatch):
    monkeypatch.setattr(jars, "_RETRIES", 0)
    monkeypatch.setenv("RIVERMOUTH_MAVEN_URL", "http://me:secret@127.0.0.1:9/maven")
    with pytest.raises(JarsMissing) as caught:
        jars.classpath("spark")
    assert caught.value.count == 2
    assert "http://127.0.0.1:9/maven/ gave ConnectionError" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_mirror_with_another_content_is_refused(repository):
    put(repository, jars.locked()["spark"][0].path, b"something else")
    with pytest.raises(JarChecksum) as caught:
        jars.classpath("spark")
    assert str(caught.value) == (
        f"[JAR_CHECKSUM] org.example:one:1.0 in {repository.as_uri()}/ does not have the sha256 "
        f"{hashlib.sha256(b'first').hexdigest()}; it was not used\n"
        "  hint: remove the copy, then: rivermouth jars fetch"
    )
    assert not (jars.cache_folder() / "one-1.0.jar").exists()


def test_a_spoiled_copy_is_refused(repository):
    jars.classpath("spark")
    put(jars.cache_folder(), "one-1.0.jar", b"spoiled")
    with pytest.raises(JarChecksum) as caught:
        jars.classpath("spark")
    assert str(jars.cache_folder()) in str(caught.value)


def test_the_lock_is_package_data():
    assert (
        json.loads((jars.importlib.resources.files("rivermouth.ports") / "jars.lock.json").read_text())["format"] == 1
    )


def test_our_own_jar_is_compiled_from_these_sources(tmp_path, monkeypatch):
    assert java_sources.compiled(), "make setup"
    changed = shutil.copytree(java_sources.FOLDER, tmp_path / "java")
    for path in changed.rglob("SinglePass.java"):
        path.write_text(path.read_text() + "\n")
    monkeypatch.setattr(java_sources, "ROOT", tmp_path)
    monkeypatch.setattr(java_sources, "FOLDER", changed)
    monkeypatch.setattr(java_sources, "_OTHERS", ())
    assert not java_sources.compiled()


def test_a_clone_without_it(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "OURS", tmp_path / "rivermouth.jar")
    with pytest.raises(JarNotCompiled) as caught:
        jars.for_spark()
    assert str(caught.value) == (
        f"[JAR_NOT_COMPILED] {tmp_path}/rivermouth.jar is missing: the Java sources of this clone were not compiled; "
        "no Spark was started\n"
        "  hint: make setup"
    )
