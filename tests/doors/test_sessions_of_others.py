"""A session that is there already, such as a notebook's, serves a project and stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.crashes.oracle import rows_of

import rivermouth
from rivermouth.errors import SessionJarMissing, SessionSettled, SessionVersions, SparkConnectSession, SparkNotStarted
from rivermouth.ports import java
from rivermouth.ports.internals import versions
from rivermouth.ports.kafka.kafka_produce import produce
from rivermouth.ports.spark import session, session_checks
from rivermouth.spec import ProjectSpec, SparkSettings

THEIRS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "31",
}


@pytest.fixture
def theirs(spark):
    """The session of the tests with settings that rivermouth would never have."""
    before = {name: spark.conf.get(name) for name in THEIRS}
    for name, value in THEIRS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_it_is_used_and_stays_as_it_was(theirs, broker, topic, tmp_path):
    name = topic()
    produce(broker.bootstrap_servers, {}, name, [b'{"id": 1, "at": "2026-01-02T03:04:05"}', b'{"id": "x"}'])
    everything = dict(theirs.sparkContext.getConf().getAll())
    spec = ProjectSpec(
        lake=str(tmp_path / "lake"),
        kafka={"bootstrap_servers": broker.bootstrap_servers},
        spark={"conf": {"spark.sql.shuffle.partitions": 3}},
        flows={
            "orders": {
                "topics": name,
                "format": {"type": "json", "schema": "id bigint, at timestamp"},
                "expectations": [{"name": "no_division", "condition": "1 / (id - 1) > 0", "action": "warn"}],
                "table": "silver.orders",
            }
        },
    )
    [outcome] = rivermouth.Project.from_spec(spec).run()
    assert outcome.error is None
    assert (outcome.counts.written, outcome.counts.dead_lettered) == (1, 1)
    [row] = rows_of(tmp_path / "lake/silver/orders")
    # In Tokyo it would have been nine hours before; and under ANSI's rules the division had ended the run.
    assert row["at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert {name: theirs.conf.get(name) for name in THEIRS} == THEIRS
    assert dict(theirs.sparkContext.getConf().getAll()) == everything


def test_of_a_projects_settings_a_session_gets_those_that_it_may_have(theirs):
    conf = {"spark.sql.shuffle.partitions": 7, "spark.hadoop.fs.s3a.endpoint": "there"}
    ours = session.start(SparkSettings(conf=conf), app_name="test")
    assert ours.sparkContext is theirs.sparkContext
    assert ours.conf.get("spark.sql.shuffle.partitions") == "7"
    assert ours._jsparkSession.sessionState().newHadoopConf().get("fs.s3a.endpoint") == "there"
    assert theirs.conf.get("spark.sql.shuffle.partitions") == "31"
    assert theirs._jsparkSession.sessionState().newHadoopConf().get("fs.s3a.endpoint") != "there"


def test_a_setting_that_the_session_has_otherwise_for_good_is_refused(theirs):
    same = theirs.sparkContext.getConf().get("spark.driver.memory")
    session.start(SparkSettings(conf={"spark.driver.memory": same}), app_name="test")
    with pytest.raises(SessionSettled) as error:
        session.start(SparkSettings(conf={"spark.executor.memory": "3g"}), app_name="test")
    assert str(error.value) == (
        "[SESSION_SETTLED] spark.conf spark.executor.memory: the Spark session has another value, "
        "which cannot be changed any more; nothing was read\n"
        "  hint: remove spark.executor.memory from spark: conf, or start Spark with it: "
        "spark-submit --conf spark.executor.memory=..."
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.catalogImplementation", "hive"), ("spark.hadoop.hive.metastore.uris", "thrift://somewhere:9083")],
)
def test_a_metastore_that_the_session_does_not_have_is_refused(name, value, theirs):
    with pytest.raises(SessionSettled) as error:
        session.start(SparkSettings(conf={name: value}), app_name="test")
    assert str(error.value) == (
        f"[SESSION_SETTLED] spark.conf {name}: the Spark session has another "
        "value, which cannot be changed any more; nothing was read\n"
        "  hint: catalog: {metastore: session}, for that session's own catalog"
    )


def test_a_setting_that_no_session_takes_is_told(theirs):
    with pytest.raises(SparkNotStarted) as error:
        session.start(SparkSettings(conf={"spark.sql.shuffle.partitions": "many"}), app_name="test")
    assert str(error.value) == (
        "[SPARK_NOT_STARTED] Spark did not start: [INVALID_CONF_VALUE.TYPE_MISMATCH] The value 'many' in the config "
        "\"spark.sql.shuffle.partitions\" is invalid. It should be a/an 'int' value. SQLSTATE: 22022; "
        "nothing was read\n"
        "  hint: correct spark.sql.shuffle.partitions under spark: conf"
    )


def test_a_process_with_sessions_of_spark_connect_is_refused(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(SparkConnectSession) as error:
        session.start(SparkSettings(), app_name="test")
    assert str(error.value) == (
        "[SPARK_CONNECT_SESSION] Spark sessions of this process are of Spark Connect, which has no JVM here; "
        "nothing was read\n"
        "  hint: unset SPARK_REMOTE, and run it in a process of its own: rivermouth run"
    )


JOB = """
import sys
import rivermouth
from pyspark.sql import SparkSession
from rivermouth.errors import RivermouthError

SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for lake in sys.argv[3:]:
    try:
        common = {"bootstrap_servers": sys.argv[2], "format": "text", "sink": "append", "follow": False}
        outcome = rivermouth.ingest(sys.argv[1], lake=lake, **common)
        print(outcome.counts.written, outcome.error)
    except RivermouthError as error:
        print(error)
"""


@pytest.fixture
def job(broker, topic, tmp_path):
    """Runs a job in which somebody starts a session of Spark; it reads two records."""
    (tmp_path / "job.py").write_text(JOB)
    name = topic()
    produce(broker.bootstrap_servers, {}, name, [b"one", b"two"])
    environment = {**os.environ, "JAVA_HOME": str(java.find().home)}
    folder = Path(sys.executable).parent

    def run(how, *lakes):
        command = f"{how} job.py {name} {broker.bootstrap_servers} {' '.join(lakes)}"
        environment["PATH"] = f"{folder}:{environment['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


NO_JAR = """\
[SESSION_JAR_MISSING] the Spark session of this process does not have rivermouth.jar on its driver; nothing was read
  hint: start the session with --jars "$(rivermouth jars paths)"
"""


def test_one_without_a_class_of_the_jar_is_refused(theirs, monkeypatch):
    monkeypatch.setattr(session_checks, "java_class", lambda _spark, _name: None)
    with pytest.raises(SessionJarMissing) as error:
        session.start(SparkSettings(), app_name="test")
    assert f"{error.value}\n" == NO_JAR


@pytest.mark.long
def test_one_without_the_jar_is_refused(job):
    assert job("python", "lake", "s3a://there/lake") == NO_JAR + NO_JAR.replace("paths", "paths --s3")


@pytest.mark.long
def test_one_that_is_started_as_the_hint_says_is_used(job):
    option = NO_JAR.partition("start the session with ")[2].strip()
    delta = "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension"
    delta += " --conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert job(f"spark-submit {option} {delta}", "lake") == "2 None\n"


@pytest.mark.parametrize("other", [{"SPARK": "4.1"}, {"DELTA": "4.3"}])
def test_a_session_of_versions_for_which_rivermouth_is_not_written_is_refused(other, theirs, monkeypatch):
    for name, value in other.items():
        monkeypatch.setattr(versions, name, value)
    with pytest.raises(SessionVersions) as error:
        session.start(SparkSettings(), app_name="test")
    wanted = {"SPARK": versions.SPARK, "DELTA": versions.DELTA}
    assert str(error.value) == (
        f"[SESSION_VERSIONS] the session has Spark {theirs.version} and Delta 4.4.0, and this release is for "
        f"Spark {wanted['SPARK']} and Delta {wanted['DELTA']}; nothing was read\n"
        "  hint: start a session with these versions, or let rivermouth start its own: rivermouth run"
    )


ON_EXECUTORS = """
from pyspark.sql import SparkSession
from rivermouth.errors import RivermouthError
from rivermouth.ports.spark import jars, session
from rivermouth.spec import SparkSettings

builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
builder.config("spark.driver.extraClassPath", str(jars.OURS)).getOrCreate()
try:
    session.start(SparkSettings(), app_name="test")
except RivermouthError as error:
    print(error)
"""


@pytest.mark.long
def test_one_that_has_the_jar_on_its_driver_alone_is_refused(tmp_path):
    environment = {**os.environ, "JAVA_HOME": str(java.find().home)}
    done = subprocess.run(
        [sys.executable, "-c", ON_EXECUTORS], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == NO_JAR.replace("driver", "executors"), done.stderr
