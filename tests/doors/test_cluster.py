"""The same project on a cluster of machines: Spark standalone, with nothing of rivermouth installed on its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from tests.crashes.scene import Scene
from tests.ports import cluster as clusters

from rivermouth.project.file.dump import to_yaml
from rivermouth.spec import ProjectSpec

RIVERMOUTH = [sys.executable, "-m", "rivermouth"]
# Not the one of the tests: it has neither rivermouth nor PySpark.
PYTHON = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"

WITH_A_SESSION = """
from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate().conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
"""
JOB = """
import rivermouth
from pyspark.sql import SparkSession

project = rivermouth.Project.load("rivermouth.yml")
[outcome] = project.run()
assert outcome.error is None, outcome.error
spark = SparkSession.builder.getOrCreate()
where = spark.sparkContext.master.partition(":")[0]
print("consumed", outcome.counts.consumed, "on", where, "in", spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with clusters.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def scene(broker, s3, tmp_path):
    """A flow whose lake is on S3, and a folder with its project file."""
    scene = Scene.make(broker, tmp_path / "scene", trigger={"every": "1 second", "max_offsets": 200})
    scene.folder.mkdir()
    name = f"cluster-{scene.topic}"
    s3.store.create_dir(name)
    scene.lake = f"s3a://{name}/lake"
    return scene


def project_file(scene, s3, cluster):
    conf = {
        **s3.spark_conf,
        "spark.executor.memory": "700m",
        # The second compiler pays off only in executors that live longer.
        "spark.executor.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": str(PYTHON),
    }
    spec = ProjectSpec(
        lake=scene.lake,
        kafka={"bootstrap_servers": scene.bootstrap_servers},
        spark={"master": cluster.master, "driver_memory": "1g", "conf": conf},
        flows={"shop": scene.flow},
    )
    (scene.folder / "rivermouth.yml").write_text(to_yaml(spec))


def test_the_workers_know_nothing_of_rivermouth():
    for name in ("rivermouth", "pyspark"):
        found = subprocess.run([PYTHON, "-I", "-c", f"import {name}"], capture_output=True, text=True, check=False)
        assert f"No module named '{name}'" in found.stderr


@pytest.mark.timeout(400)
@pytest.mark.long
def test_a_run_on_a_cluster_survives_the_end_of_a_worker(scene, s3, cluster):
    scene.produce(600)
    project_file(scene, s3, cluster)
    run = subprocess.Popen(
        [*RIVERMOUTH, "run"], cwd=scene.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    said = []
    for line in run.stdout:
        said.append(line)
        if "batch 1:" in line:
            cluster.workers[0].send_signal(signal.SIGKILL)
    run.stdout.close()
    assert run.wait() == 0, "".join(said)
    assert cluster.workers[0].poll() == -signal.SIGKILL
    assert "batch 3:" in "".join(said)
    fetched = scene.fetched(s3.store)
    assert fetched.audit().is_clean


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("before", "zone"), [(WITH_A_SESSION, "Asia/Tokyo"), ("", "Europe/Rome")])
def test_a_job_of_spark_submit_keeps_its_settings(before, zone, scene, s3, cluster):
    scene.produce(100)
    project_file(scene, s3, cluster)
    (scene.folder / "job.py").write_text(before + JOB)
    jars = subprocess.run([*RIVERMOUTH, "jars", "paths", "--s3"], capture_output=True, text=True, check=True).stdout
    conf = {
        "spark.sql.session.timeZone": "Europe/Rome",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.delta.logStore.s3a.impl": "rivermouth.store.ConditionalLogStore",
        "spark.executor.memory": "700m",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": str(PYTHON),
        "spark.pyspark.driver.python": sys.executable,
        **s3.spark_conf,
    }
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", cluster.master, "--jars", jars.strip()]
    command += [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [*command, "job.py"],
        cwd=scene.folder,
        env={**os.environ, "SPARK_HOME": str(Path(pyspark.__file__).parent)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[done.stderr.find("Traceback") :][:3000]
    assert done.stdout.splitlines()[-1] == f"consumed {len(scene.records())} on spark in {zone}"
    assert scene.fetched(s3.store).audit().is_clean
