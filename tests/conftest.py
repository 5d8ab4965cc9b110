"""What all tests of a process share: one broker, topics of their own, the same examples everywhere."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import settings

from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.dev.s3_server import S3Server

# Fast ones first, and such as can be shared out last; a folder that is not named here comes after them.
ORDER = ("rows", "laws", "contracts", "ports", "pipelines", "doors", "audit", "crashes", "docs")

# Folders and files whose tests ask what becomes of records, not what Spark makes of an expression.
OF_FEW_RECORDS = {
    *(
        "doors",
        "crashes",
        "pipelines",
        "test_sinks",
        "test_delta",
        "test_delta_files",
        "test_delta_merge",
        "test_erased",
    ),
    *("test_upsert_law", "test_history_law", "test_snapshot_law", "test_partial_law", "test_envelope_history"),
}
FACTORY_MODE = "spark.sql.codegen.factoryMode"

# Spark's and Kafka's own variables for the options of every JVM that they start, here and in processes of their own.
# The second compiler pays off only in processes that do the same for longer than a test run; without it, Java would
# take 48 MB for compiled code, less than a suite's worth of Spark, and compile it again and again.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
os.environ.setdefault("KAFKA_OPTS", "-XX:TieredStopAtLevel=1")

# No deadline: the first example of a law pays for Spark's start. No database: nothing but the printed
# seed decides which examples there are.
settings.register_profile("rivermouth", deadline=None, database=None, print_blob=True)
settings.load_profile("rivermouth")


def pytest_report_header(config):
    return f"hypothesis seed: {config.getoption('--hypothesis-seed')}"


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in its own
def pytest_collection_modifyitems(items):
    root = Path(__file__).parent

    def place(item):
        folder = item.path.relative_to(root).parts[0]
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    items.sort(key=place)
    for item in items:
        # Of several processes (-n), one does all the tests that share something costly.
        shared = [each.scope for found in item._fixtureinfo.name2fixturedefs.values() for each in found]
        if "nursery" in item.fixturenames and item.get_closest_marker("long") is None:
            item.add_marker(pytest.mark.xdist_group("nursery"))
        elif "module" in shared:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark session for the whole suite; flows and tests take clones of it."""
    from rivermouth.ports.spark import session, session_conf
    from rivermouth.spec import SparkSettings

    settings = SparkSettings(master="local[2]", driver_memory="3g")
    extra = {
        **session_conf.local_folder_conf(tmp_path_factory.mktemp("spark")),
        "spark.driver.extraJavaOptions": "-Xss16m -XX:+UseSerialGC -Xmn1500m",
    }
    running = session.start(settings, app_name="rivermouth-tests", schemes=["s3a"], extra=extra)
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def few_records(request):
    """Where tests are about what becomes of a few records, Spark evaluates its plans without making code of them.

    For each plan, those of Delta's log above all, it would write, compile and load code that runs once. What formats
    and rules make of rows is seen by tests of other folders, and by all that runs in a process of its own.
    """
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    if not {folder, request.path.stem} & OF_FEW_RECORDS or "spark" not in request.fixturenames:
        yield
        return
    with without_generated_code(request.getfixturevalue("spark")):
        yield


@contextmanager
def without_generated_code(spark):
    """Spark evaluates its plans as they are; for fixtures of a module, which come before those of a test."""
    before = spark.conf.get(FACTORY_MODE)
    spark.conf.set(FACTORY_MODE, "NO_CODEGEN")
    try:
        yield
    finally:
        spark.conf.set(FACTORY_MODE, before)


@pytest.fixture(scope="session")
def s3():
    """One S3 server for the whole suite."""
    with S3Server.start() as running:
        yield running


@pytest.fixture
def bucket(s3, spark):
    """Makes buckets that ``spark`` writes to: ``bucket()``; ``bucket(endpoint)`` goes there by way of a proxy.

    ``bucket(server=...)`` is one of another server, ``bucket(exists=False)`` one that is not there.
    """
    known = spark.sparkContext._jsc.hadoopConfiguration()

    def make(endpoint=None, *, server=s3, exists=True):
        name = f"b-{uuid.uuid4().hex[:12]}"
        if exists:
            server.store.create_dir(name)
        for option, value in server.spark_conf.items():
            word = option.removeprefix("spark.hadoop.fs.s3a.")
            known.set(f"fs.s3a.bucket.{name}.{word}", endpoint if endpoint and word == "endpoint" else value)
        return name

    return make


@pytest.fixture(scope="session")
def broker():
    """One broker for the whole suite."""
    with Broker.start() as running:
        yield running


@pytest.fixture(scope="session")
def topic(broker):
    """Makes topics with names of their own: ``topic()``, ``topic(partitions=4, **{"cleanup.policy": "compact"})``."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def make(partitions=1, name=None, **config):
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
        admin.create_topics([new])[name].result(30)
        # The controller has answered; the broker learns of it a moment later.
        deadline = time.monotonic() + 30
        while admin.list_topics(name, timeout=30).topics[name].error is not None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return name

    return make
