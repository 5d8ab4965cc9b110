"""What all tests of a process share: one broker, topics of their own, the same examples everywhere."""

from __future__ import annotations

import argparse
import os
import time
import uuid
import zlib
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import settings

from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.dev.s3_server import S3Server
from rivermouth.ports.internals import sessions
from rivermouth.testing.plugin import run_flow, run_pipeline  # noqa: F401 - where the package was not installed again

# Fast ones first; a folder that is not named here comes after them. Of several processes (-n) each takes the next test
# when it is done with one: there the fast ones come last, so that all processes end at about the same time.
ORDER = ("rows", "laws", "contracts", "ports", "pipelines", "doors", "audit", "crashes", "docs")

# Folders and files whose tests ask what becomes of a few records. That Spark's own code for the expressions of formats
# does the same is asked by the laws and contracts.
OF_FEW_RECORDS = {
    *("rows", "pipelines", "doors", "audit", "crashes"),
    *("test_sinks", "test_delta", "test_delta_files", "test_delta_merge", "test_erased"),
    *("test_upsert_law", "test_history_law", "test_snapshot_law", "test_partial_law", "test_envelope_history"),
}
# Of these nothing hangs on where a shuffle puts records: laws see to that.
OF_ONE_TASK = {"rows", "pipelines", "doors", "audit", "crashes"}
# What costs more than the records: code of each plan, jobs of their own for the parts of a plan, plans put into words,
# and rules that are tried until nothing changes.
SIMPLE_PLANS = {
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.maxPlanStringLength": "0",
    "spark.sql.optimizer.maxIterations": "2",
    "spark.sql.lightweightPlanChangeValidation": "false",
}
PLANS_OF_SPARK = {
    "spark.sql.codegen.factoryMode": "FALLBACK",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.maxPlanStringLength": "2147483632",
    "spark.sql.optimizer.maxIterations": "100",
    "spark.sql.lightweightPlanChangeValidation": "true",
}
ONE_TASK = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
SEVERAL_TASKS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.leafNodeDefaultParallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "2",
}

# Delta keeps the plans of 10,000 tables for an hour, and each test has tables of its own. The heap need not grow, and
# there is room for classes: else the whole heap is collected for some more of either.
OF_MANY_TABLES = "-Ddelta.log.cacheSize=16 -Xms4g -XX:MetaspaceSize=400m"

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


def pytest_addoption(parser):
    parser.addoption(
        "--part", metavar="K/N", type=a_part, help="of N parts of the tests, by their names, only this one"
    )


def a_part(text):
    """Number and count, of a text as ``3/8``."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        msg = f"{text!r} is no part: write 1/8 to 8/8"
        raise argparse.ArgumentTypeError(msg)
    return int(number), int(count)


def part_of(test, count):
    """Number of the part that a test is in: the same in each process, and whatever other tests there are."""
    return zlib.crc32(test.encode()) % count + 1


def pytest_report_header(config):
    return f"hypothesis seed: {config.getoption('--hypothesis-seed')}"


def group_of(item):
    """What a test shares with others that is costly: one process does them all, and one part has them all."""
    scopes = [each.scope for found in item._fixtureinfo.name2fixturedefs.values() for each in found]
    return item.path.stem if "module" in scopes else None


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in its own
def pytest_collection_modifyitems(config, items):
    if part := config.getoption("--part"):
        number, count = part
        mine, others = [], []
        for item in items:
            (mine if part_of(group_of(item) or item.nodeid, count) == number else others).append(item)
        items[:] = mine
        config.hook.pytest_deselected(items=others)
    root = Path(__file__).parent

    def place(item):
        folder = item.path.relative_to(root).parts[0]
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    items.sort(key=place, reverse=hasattr(config, "workerinput"))
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark session for the whole suite; flows and tests take clones of it."""
    from rivermouth.ports.spark import jars, session, session_conf
    from rivermouth.spec import SparkSettings

    settings = SparkSettings(master="local[2]", driver_memory="4g")
    extra = {
        **session_conf.local_folder_conf(tmp_path_factory.mktemp("spark")),
        "spark.driver.extraJavaOptions": f"-Xss16m -XX:+UseSerialGC -Xmn2200m {OF_MANY_TABLES}",
        # For rows that Python gives to Spark one task; those of a topic and of a table have as many as they need.
        "spark.default.parallelism": "1",
        # By itself Spark takes 64 MB for each aggregation and join, clears them, and copies them when they are young.
        "spark.buffer.pageSize": "1m",
        "spark.rivermouth.tests.secret": "hunter2",
        # Also for fixtures of a module, which come before those of a test.
        **SIMPLE_PLANS,
        **ONE_TASK,
    }
    drivers = jars.classpath(jars.DRIVERS)
    running = session.start(settings, app_name="rivermouth-tests", schemes=["s3a"], users_jars=drivers, extra=extra)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def rivermouth_spark(spark):
    """What the plugin's ``run_pipeline`` and ``run_flow`` run in."""
    return spark


@pytest.fixture(autouse=True)
def plans(request):
    """How Spark carries out its plans: as it does by itself, or, for a few records, in the cheapest way.

    Where tests are about what becomes of a few records, it evaluates plans without making code of them, in one job,
    and does not write them down for a UI. For each plan, those of Delta's log above all, it would write, compile and
    load code that runs once. The laws and contracts of formats have plans as users do, and all that runs in a process
    of its own.

    For each task of a shuffle Spark sends the whole plan, and of a few records most tasks get none.
    """
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    names = {folder, request.path.stem}
    by_itself = ({} if names & OF_FEW_RECORDS else PLANS_OF_SPARK) | ({} if names & OF_ONE_TASK else SEVERAL_TASKS)
    if not by_itself or "spark" not in request.fixturenames:
        yield
        return
    with sessions.settings(request.getfixturevalue("spark"), by_itself):
        yield


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
