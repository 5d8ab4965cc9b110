"""The settings of a Spark session: ours, and the user's that win over them."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pyspark

from rivermouth.domain.kafka.kafka_options import text
from rivermouth.ports import java
from rivermouth.ports.internals import settings as internals
from rivermouth.ports.lake.storage_checks import CONDITIONAL_LOG_STORE
from rivermouth.ports.spark import class_archive, jars

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rivermouth.ports.java import Java
    from rivermouth.spec import SparkSettings

_SMALL_MACHINE_CORES: Final = 4
_CATALOG: Final = "spark.sql.catalogImplementation"

REDACTION: Final = (
    # Spark looks for these in every plan that it writes down. Their first letters come first: elsewhere it tries none.
    r"(?i)(?=[aceijkpst.])"
    r"(?:secret|password|passwd|token|access[._-]?key|account[._-]?key|encryption[._-]?key|jaas|credential"
    r"|\.pem|private|keystore|truststore)"
)

# Hadoop's own start a process for each file that they make or rename.
_LOCAL_DISK: Final[Mapping[str, str]] = {
    "spark.hadoop.fs.file.impl": "rivermouth.disk.LocalDisk",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "rivermouth.disk.LocalDiskContext",
    "spark.sql.streaming.checkpointFileManagerClass": internals.CHECKPOINT_FILES,
}
OBJECT_STORE: Final[Mapping[str, str]] = {
    "spark.sql.streaming.checkpointFileManagerClass": internals.CONDITIONAL_CHECKPOINT_FILES,
    # Nothing is looked for before an object is made: names are new, or meant to be taken.
    "spark.hadoop.fs.s3a.performance.flags": "create",
}
_LOG_STORES: Final[Mapping[str, str]] = {
    "file": "rivermouth.disk.LocalDiskLogStore",
    # Delta's own overwrites a commit that another driver has made meanwhile.
    "s3a": CONDITIONAL_LOG_STORE,
}

# Not local-cluster, whose executors are processes of their own.
_IN_ONE_JVM: Final = re.compile(r"local(\[|$)")
# HotSpot leaves methods as long as the code of a stage with a dozen columns interpreted.
_COMPILE_HUGE_METHODS: Final = "-XX:-DontCompileHugeMethods"
JvmUse = Literal["look", "drain", "follow"]
"""A JVM that only looks at queries, one that processes what is there and ends, or one that goes on."""
_COMPILER: Final[Mapping[JvmUse, str]] = {
    # Its code runs a few times.
    "look": "-XX:TieredStopAtLevel=1",
    # Ten times HotSpot's own: its optimizing compiler takes up to half of the CPU of a short run. What runs for each
    # record is optimized all the same (docs/adr/0102).
    "drain": (
        "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
        " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
    ),
    "follow": "",
}
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_DEFAULT_OPTIONS: Final = "spark.driver.defaultJavaOptions"
DIST_CLASS_PATH: Final = "SPARK_DIST_CLASSPATH"
"""Spark's variable for the end of the class path, for which it has no setting."""

SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": internals.DELTA_CATALOG,
    # Any other zone makes Delta rebuild the table's state at every commit, and timestamps without an
    # offset are UTC by our own rule.
    "spark.sql.session.timeZone": "UTC",
    # A condition that cannot be evaluated is NULL, and NULL fails the expectation, not the batch.
    "spark.sql.ansi.enabled": "false",
    # Split at its operators, the code of a stage hands over more arguments than HotSpot's compilers take, and
    # stays interpreted.
    "spark.sql.codegen.splitConsumeFuncByOperator": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Delta makes this many tasks after every commit; the tables' states are small.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Only merges read the list of a table's files in its checksum; for a new table Delta makes it with a Spark job.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # Spark's list without kafka: its newer reader does not turn each record into a Row and back.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark would ask Python for the line of every column expression: a batch makes some hundreds of them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    # Where a stage has no rows it would leave out what is above it, and what is observed there.
    "spark.sql.adaptive.optimizer.excludedRules": internals.EMPTY_RELATIONS,
    # Spark writes down every plan in words, for its UI; these are the fewest.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.stopTimeout": "60s",
    # For five minutes Spark would keep the last records that it polled for each range. Only a range that begins
    # where one ended finds them again; dead letters are read where none did, with large batches a gigabyte a minute.
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "2s",
    "spark.redaction.regex": REDACTION,
    "spark.sql.redaction.string.regex": REDACTION,
    # The UI listens on all interfaces without a password.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

OF_FLOWS: Final[Mapping[str, str]] = {
    # Spark makes texts of this number of columns in each step of a plan; those of a flow are long expressions. Where
    # users ask for the type of a column, the text would be cut as well.
    "spark.sql.debug.maxToStringFields": "4",
    # The optimizer would work out what holds for every column, in the square of their number. That helps joins on
    # columns that are mostly null, and no others.
    "spark.sql.constraintPropagation.enabled": "false",
}

OF_FEW_ROWS: Final[Mapping[str, str]] = {
    # Code for a stage, and jobs of their own for parts of a plan, take longer than the rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # Spark's own 200 would be as many tasks.
    "spark.sql.shuffle.partitions": "4",
}

OF_DELTA: Final = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
JARS: Final = (_CLASS_PATH, "spark.jars")


def in_one_jvm(master: str) -> bool:
    """Whether driver and executor are one process, which is started here."""
    return _IN_ONE_JVM.match(master) is not None


def users_conf(settings: SparkSettings) -> dict[str, str]:
    """What the project says under ``spark: conf``, in Spark's own notation."""
    return {key: text(value) for key, value in settings.conf.items()}


def new_session_conf(
    settings: SparkSettings,
    found: Java,
    app_name: str,
    extra: Mapping[str, str],
    schemes: Collection[str] = (),
    users_jars: Sequence[Path] = (),
) -> dict[str, str]:
    """All settings of a session whose JVM is started for it: ours, then those of ``extra``, then the user's."""
    cores = os.cpu_count() or 1
    conf = _everywhere(settings, app_name, cores)
    users = users_conf(settings)
    if in_one_jvm(settings.master):
        # On the JVM's own class path, where an archive of classes reaches them, and no start makes copies of them.
        at_the_end = not _user_may_set_dist_class_path()
        ours = [*jars.for_spark(() if at_the_end else schemes), *(() if at_the_end else users_jars)]
        conf |= {
            _CLASS_PATH: os.pathsep.join(map(str, ours)),
            _DEFAULT_OPTIONS: class_archive.java_options(found),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            # How often a task reports the number of records it has read; within one JVM that costs next to nothing.
            "spark.executor.heartbeatInterval": "2s",
            # The number of tasks of Delta's VACUUM, by default ten thousand.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(2 * cores),
        }
        if _CATALOG not in users:
            # Spark makes this folder, with no table in it: else spark-warehouse in the working folder.
            conf["spark.sql.warehouse.dir"] = Path(tempfile.gettempdir()).absolute().as_uri()
        conf |= {**_LOCAL_DISK, **log_store("file", users)}
        if _CLASS_PATH in users:
            users[_CLASS_PATH] = os.pathsep.join([users[_CLASS_PATH], *map(str, ours)])
    else:
        known = [path.as_uri() for path in (*jars.for_spark(schemes), *users_jars)]
        conf |= {"spark.jars": ",".join(known), "spark.executor.extraJavaOptions": _COMPILE_HUGE_METHODS}
        if "spark.jars" in users:
            users["spark.jars"] = ",".join([users["spark.jars"], *known])
    if "s3a" in schemes:
        conf |= {**OBJECT_STORE, **log_store("s3a", users)}
    return {**conf, **extra, **users}


def _everywhere(settings: SparkSettings, app_name: str, cores: int) -> dict[str, str]:
    """Our settings with any master."""
    return {
        **SETTINGS,
        "spark.master": settings.master,
        "spark.app.name": app_name,
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.extraJavaOptions": _java_options(cores, text(settings.conf.get(_DEFAULT_OPTIONS, ""))),
    }


def jvm_conf(use: JvmUse) -> dict[str, str]:
    """Settings of a JVM that is started for one use: how soon its code is optimized."""
    return {"spark.driver.extraJavaOptions": f"{_java_options(os.cpu_count() or 1)} {_COMPILER[use]}".rstrip()}


def log_store(scheme: str, users: Mapping[str, str]) -> dict[str, str]:
    """Our log store for a scheme, unless the user chose one: Delta takes only one word for it."""
    words = ("delta.logStore.class", f"delta.logStore.{scheme}.impl")
    if any(key.removeprefix("spark.") in words for key in users):
        return {}
    return {f"spark.delta.logStore.{scheme}.impl": _LOG_STORES[scheme]}


def last_jars(settings: SparkSettings, schemes: Collection[str], users_jars: Sequence[Path] = ()) -> list[Path]:
    """S3's jars and the user's, for the end of the class path.

    There they leave the archive of classes valid, and Spark's own classes win.

    None if the user sets SPARK_DIST_CLASSPATH, or may do so in spark-env.sh: that may bring another Hadoop, and ours
    are put in front instead.
    """
    if not in_one_jvm(settings.master) or _user_may_set_dist_class_path():
        return []
    return [*(jars.classpath(jars.S3) if "s3a" in schemes else ()), *users_jars]


def _user_may_set_dist_class_path() -> bool:
    # Spark reads that file after the environment that it was started with.
    home = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0])
    script = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-env.sh"
    return DIST_CLASS_PATH in os.environ or script.is_file()


def local_folder_conf(folder: Path) -> dict[str, str]:
    """Settings that keep Spark's own local files under ``folder``."""
    return {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}


def _java_options(cores: int, others: str = "") -> str:
    """Options of a JVM; ``others`` are options that it has besides."""
    ours = "-XX:+UseParallelGC" if cores <= _SMALL_MACHINE_CORES else "-XX:+UseG1GC"
    options = (
        # Stopping a query in mid-batch from Python needs a deep stack in the query's thread.
        "-Xss16m",
        # Out of memory, a JVM may live on without being able to do anything: better it ends and another one starts.
        "-XX:+ExitOnOutOfMemoryError",
        _COMPILE_HUGE_METHODS,
        # The database of an embedded metastore would leave a log in the working folder.
        f"-Dderby.stream.error.file={os.devnull}",
        *java.collector(ours, "SPARK_SUBMIT_OPTS", others),
    )
    return " ".join(options)
