"""Archives of classes: which one a JVM takes, and that none is ever half made."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rivermouth.errors import ClassesNotArchived
from rivermouth.ports import java
from rivermouth.ports.spark import class_archive, jars, session, session_conf
from rivermouth.project.warm_up import warm_up
from rivermouth.spec import SparkSettings


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """A folder of archives of its own."""
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(jars.cache_folder()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert class_archive.kept() is None
    return class_archive.folder()


def run_java(options):
    """A small program in a JVM with these options."""
    path = f"{os.environ[jars.FOLDER_VARIABLE]}/*"
    command = [java.find().executable, *options.replace('"', "").split(), "-cp", path]
    done = subprocess.run(
        [*command, "kafka.tools.StorageTool", "random-uuid"], check=True, capture_output=True, text=True
    )
    return done.stdout + done.stderr


def record():
    with class_archive.recording() as options:
        run_java(options)
    return class_archive.kept()


def can_archive():
    """Whether this Java brings an archive of its own classes, without which it makes no other."""
    return any(java.find().home.glob("lib/server/classes*.jsa"))


@pytest.mark.long
def test_what_one_jvm_left_the_next_one_takes(archives):
    kept = record()
    assert (kept is not None) == can_archive()
    assert list(archives.iterdir()) == ([kept] if kept else [])
    options = class_archive.java_options(java.find())
    assert (str(kept) in options) == can_archive()
    assert len(run_java(options).split()) == 1


@pytest.mark.long
def test_a_newer_one_takes_the_place_of_this_environments_older_ones(archives):
    archives.mkdir(parents=True)
    mine = archives / f"{class_archive._environment()}-0123456789ab.4.jsa"
    others = archives / "0123456789ab-0123456789ab.4.jsa"
    for path in (mine, others):
        path.write_text("1234")
    kept = record()
    assert others.exists()
    assert mine.exists() == (kept is None)


def test_one_that_was_cut_short_is_not_taken(archives):
    archives.mkdir(parents=True)
    content = class_archive._content(java.find())
    whole = archives / f"{class_archive._environment()}-{content}.4.jsa"
    whole.write_text("1234")
    assert class_archive.kept() == whole
    assert f'-XX:SharedArchiveFile="{whole}"' in class_archive.java_options(java.find())
    whole.write_text("123")
    assert class_archive.kept() is None
    assert class_archive.java_options(java.find()) == ""


def test_one_for_a_jar_that_was_written_again_is_not_taken(archives, tmp_path, monkeypatch):
    jar = tmp_path / "jars" / jars.locked()["spark"][0].file_name
    jar.parent.mkdir()
    jar.write_bytes(b"jar")
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(jar.parent))
    archives.mkdir(parents=True)
    kept = archives / f"{class_archive._environment()}-{class_archive._content(java.find())}.4.jsa"
    kept.write_text("1234")
    assert class_archive.kept() == kept
    os.utime(jar, (1, 1))
    assert class_archive.kept() is None


@pytest.mark.parametrize("left", [pytest.param(None, marks=pytest.mark.long), "no archive"])
def test_a_jvm_that_left_nothing_usable_changes_nothing(left, archives):
    with class_archive.recording() as options:
        if left:
            Path(options.split('"')[1]).write_text(left)
    assert [path for path in archives.iterdir() if path.is_dir()] == []
    # A file that no JVM understands is passed over silently.
    assert len(run_java(class_archive.java_options(java.find())).split()) == 1


def test_a_java_without_an_archive_of_its_own_is_refused_at_once(archives, tmp_path, monkeypatch):
    bare = dataclasses.replace(java.find(), home=tmp_path)
    monkeypatch.setattr(java, "find", lambda: bare)
    with pytest.raises(ClassesNotArchived) as raised:
        warm_up(lambda folder, servers: pytest.fail(f"{servers} was started in {folder}"))
    assert str(raised.value) == (
        f"[CLASSES_NOT_ARCHIVED] Spark's classes were not archived: the Java in {tmp_path} has no "
        "lib/server/classes.jsa; Spark starts as before\n"
        "  hint: install a whole OpenJDK 17 or 21, and: JAVA_HOME=<its folder> rivermouth jars archive"
    )
    with pytest.raises(ClassesNotArchived) as raised:
        class_archive.made()
    assert str(raised.value).splitlines()[0] == (
        f"[CLASSES_NOT_ARCHIVED] Spark's classes were not archived: the Java in {tmp_path} wrote no archive that it "
        "can open; Spark starts as before"
    )


@pytest.mark.long
def test_the_command_archives_classes_of_flows_and_pipelines(archives, tmp_path):
    command = [sys.executable, "-m", "rivermouth", "jars", "archive", "--output", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    kept = class_archive.kept()
    assert done.returncode == (0 if can_archive() else 1)
    if not can_archive():
        assert "CLASSES_NOT_ARCHIVED" in done.stderr
        assert kept is None
        return
    assert json.loads(done.stdout) == {"bytes": kept.stat().st_size, "place": str(kept)}
    names = (b"kafka010/KafkaMicroBatchStream", b"sources/ForeachBatchSink", b"delta/sources/DeltaSource")
    archived = kept.read_bytes()
    assert [name for name in names if name not in archived] == []


def test_spark_takes_it(spark):
    """The suite's own session: the set-up made an archive before it, where this Java can make one."""
    kept = class_archive.kept()
    maps = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()
    assert kept is None or str(kept) in maps


def test_the_jars_stand_in_front_of_sparks_own_and_behind_the_users(monkeypatch):
    ours = os.pathsep.join(str(path) for path in jars.for_spark())
    found = java.find()
    alone = session_conf.new_session_conf(SparkSettings(master="local[2]"), found, "test", {})
    assert (alone["spark.driver.extraClassPath"], "spark.jars" in alone) == (ours, False)
    conf = {"spark.driver.extraClassPath": "/opt/mine.jar", "spark.jars": "/opt/other.jar"}
    both = session_conf.new_session_conf(SparkSettings(master="local[2]", conf=conf), found, "test", {})
    assert both["spark.driver.extraClassPath"] == f"/opt/mine.jar{os.pathsep}{ours}"
    assert both["spark.jars"] == "/opt/other.jar"


def test_spark_makes_no_folder_of_its_own_unless_the_user_chose_a_catalog():
    found, name = java.find(), "spark.sql.warehouse.dir"
    alone = session_conf.new_session_conf(SparkSettings(), found, "test", {})
    assert Path(alone[name].removeprefix("file://")).is_dir()
    hive = SparkSettings(conf={"spark.sql.catalogImplementation": "hive"})
    assert name not in session_conf.new_session_conf(hive, found, "test", {})
    mine = SparkSettings(conf={name: "/mine"})
    assert session_conf.new_session_conf(mine, found, "test", {})[name] == "/mine"
    state = {name: "file:/lake/_rivermouth/warehouse"}
    assert session_conf.new_session_conf(SparkSettings(), found, "test", state)[name] == state[name]


def test_the_jars_for_s3_and_those_of_users_are_behind_all_others_where_the_archive_stays_valid(spark):
    path = spark._jvm.java.lang.System.getProperty("java.class.path").split(os.pathsep)
    behind = [str(path) for path in (*jars.classpath(jars.S3), *jars.classpath(jars.DRIVERS))]
    assert path[-len(behind) :] == behind
    assert "SPARK_DIST_CLASSPATH" not in os.environ


def test_the_end_of_the_class_path_is_named_for_one_jvm_only(monkeypatch):
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    with session._at_the_end_of_the_class_path([Path("/jars/one.jar"), Path("/jars/two.jar")]):
        assert os.environ["SPARK_DIST_CLASSPATH"].split(os.pathsep) == ["/jars/one.jar", "/jars/two.jar"]
    assert "SPARK_DIST_CLASSPATH" not in os.environ


@pytest.mark.parametrize("taken", ["nobody", "variable", "script", "script at home"])
def test_where_somebody_else_names_the_end_s3s_jars_stand_in_front(taken, tmp_path, monkeypatch):
    """As an installation of Spark without Hadoop does, which may bring an older one."""
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    if taken == "variable":
        monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/opt/hadoop/*")
    elif taken != "nobody":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf/spark-env.sh").write_text("SPARK_DIST_CLASSPATH=/opt/hadoop/*")
        at_home = taken == "script at home"
        monkeypatch.setenv(*(("SPARK_HOME", str(tmp_path)) if at_home else ("SPARK_CONF_DIR", f"{tmp_path}/conf")))
    settings = SparkSettings(master="local[2]")
    conf = session_conf.new_session_conf(settings, java.find(), "test", {}, ["s3a"])
    in_front = conf["spark.driver.extraClassPath"].split(os.pathsep)
    behind = session_conf.last_jars(settings, ["s3a"])
    wanted = jars.classpath(jars.S3)
    assert ([path for path in wanted if str(path) in in_front], behind) == (
        ([], wanted) if taken == "nobody" else (wanted, [])
    )


@pytest.mark.parametrize("master", ["spark://somewhere:7077", "local-cluster[2,1,1024]"])
def test_executors_elsewhere_get_the_jars_from_the_driver(master):
    conf = session_conf.new_session_conf(SparkSettings(master=master), java.find(), "test", {})
    assert conf["spark.jars"].split(",") == [path.as_uri() for path in jars.for_spark()]
    assert conf["spark.executor.extraJavaOptions"] == "-XX:-DontCompileHugeMethods"
    assert not {"spark.driver.extraClassPath", "spark.driver.defaultJavaOptions", "spark.hadoop.fs.file.impl"} & set(
        conf
    )


@pytest.mark.parametrize(
    ("use", "options"),
    [
        ("look", " -XX:TieredStopAtLevel=1"),
        (
            "drain",
            (
                " -XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
                " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
            ),
        ),
        ("follow", ""),
    ],
)
def test_a_jvm_that_soon_ends_compiles_less_unless_the_user_says_how(use, options):
    name, of_use = "spark.driver.extraJavaOptions", session_conf.jvm_conf(use)
    usual = session_conf.new_session_conf(SparkSettings(), java.find(), "test", {})
    conf = session_conf.new_session_conf(SparkSettings(), java.find(), "test", of_use)
    assert conf == usual | {name: f"{usual[name]}{options}"}
    users = SparkSettings(conf={name: "-Xss16m"})
    assert session_conf.new_session_conf(users, java.find(), "test", of_use)[name] == "-Xss16m"
