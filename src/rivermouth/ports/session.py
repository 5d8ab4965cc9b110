"""The Spark session: started with rivermouth's settings, one clone of it for each flow."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from rivermouth.errors import RivermouthError, SparkNotStarted
from rivermouth.ports import class_archive, jars, java
from rivermouth.rows.environment import expand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rivermouth.spec import SparkSettings

_SMALL_MACHINE_CORES: Final = 4
_END_TIMEOUT_S: Final = 10.0
# Not the chatter of a start, nor a stack, nor a line of the log.
_LAST_WORDS: Final = re.compile(r"^(?!WARNING:|Using Spark|\d\d/\d\d/\d\d |\s|$)")

REDACTION: Final = r"(?i)secret|password|passwd|token|access[._-]?key|jaas|credential|\.pem|private|keystore|truststore"

_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Hadoop's own start a process for each file that they make or rename.
_LOCAL_DISK: Final[Mapping[str, str]] = {
    "spark.hadoop.fs.file.impl": "rivermouth.disk.LocalDisk",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "rivermouth.disk.LocalDiskContext",
}
_LOG_STORE: Final[Mapping[str, str]] = {"spark.delta.logStore.file.impl": "rivermouth.disk.LocalDiskLogStore"}
# Delta takes only one word for its log store.
_OTHER_LOG_STORES: Final = ("delta.logStore.class", "delta.logStore.file.impl")

# Not local-cluster, whose executors are processes of their own.
_IN_ONE_JVM: Final = re.compile(r"local(\[|$)")
# HotSpot leaves methods as long as the code of a stage with a dozen columns interpreted.
_COMPILE_HUGE_METHODS: Final = "-XX:-DontCompileHugeMethods"
_CLASS_PATH: Final = "spark.driver.extraClassPath"

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
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
    # Spark's list without kafka: its newer reader does not turn each record into a Row and back.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark would ask Python for the line of every column expression: a batch makes some hundreds of them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
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

_ASKED_FOR: Final = ("PythonUtils", "PythonSQLUtils", "functions", "org.apache.spark.sql.functions")


def start(
    settings: SparkSettings, *, app_name: str, extra: Mapping[str, str] | None = None, log: Path | None = None
) -> SparkSession:
    """The session of this process, started if there is none.

    Args:
        settings: The project's; its ``conf`` wins over everything here.
        app_name: Shown by cluster managers.
        extra: Settings between ours and the user's.
        log: A file for all that the JVM says; without one it says it on this process's terminal.

    Raises:
        JavaNotFound: No usable Java on this machine.
        JarsMissing: The jars are neither cached nor to be had.
        SparkNotStarted: The JVM or its session did not come up; no JVM of ours is left behind.

    Guarantees:
        A session that is already there is returned as it is: its settings are not changed.
    """
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    # Spark's Python workers must find this package too; by default they run whatever python3 is on PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    launches = _launches()
    conf = _conf(settings, found, app_name, extra or {}, launches=launches)
    try:
        if launches:
            _launch(conf, log)
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        # It prints every failed analysis, plan and all, to stderr; the error itself is raised and told.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        _keep_classes(session)
    except RivermouthError:
        raise
    except Exception as error:
        if launches:
            _end_jvm(_END_TIMEOUT_S)
        fix = f"less {log}" if log is not None else "read what Spark said on this terminal"
        raise SparkNotStarted(detail=_cause(error, log), fix=fix) from error
    return session


def _launches() -> bool:
    """Whether a session would start a JVM: none is there, nor is this process told of one, as by spark-submit."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ  # noqa: SLF001 - PySpark's


def _keep_classes(spark: SparkSession) -> None:
    """Spares each batch PySpark's search for classes that it asks the JVM for by name, again and again.

    py4j looks for such a name in every package that was imported and in every jar, and does not remember.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark keeps it there
    for name in _ASKED_FOR:
        setattr(jvm, name, getattr(jvm, name))


def _conf(
    settings: SparkSettings, found: java.Java, app_name: str, extra: Mapping[str, str], *, launches: bool
) -> dict[str, str]:
    """All settings of a session: ours, then those of ``extra``, then the user's.

    Our own classes only where it ``launches`` a JVM: one that is there already has a class path of its own.
    """
    cores = os.cpu_count() or 1
    conf: dict[str, str] = {
        **_SETTINGS,
        "spark.master": settings.master,
        "spark.app.name": app_name,
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.extraJavaOptions": _java_options(cores),
    }
    users = {key: expand(_text(value), os.environ) for key, value in settings.conf.items()}
    files = jars.for_spark()
    if _IN_ONE_JVM.match(settings.master):
        # On the JVM's own class path, where an archive of classes reaches them, and no start makes copies of them.
        ours = [str(path) for path in files]
        conf |= {
            _CLASS_PATH: os.pathsep.join(ours),
            "spark.driver.defaultJavaOptions": class_archive.java_options(found),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
            # Delta's VACUUM makes so many tasks, by default ten thousand.
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(2 * cores),
        }
        if launches:
            conf |= _LOCAL_DISK
            if not any(key.removeprefix("spark.") in _OTHER_LOG_STORES for key in users):
                conf |= _LOG_STORE
        if _CLASS_PATH in users:
            users[_CLASS_PATH] = os.pathsep.join([users[_CLASS_PATH], *ours])
    else:
        conf |= {
            "spark.jars": ",".join(path.as_uri() for path in files),
            "spark.executor.extraJavaOptions": _COMPILE_HUGE_METHODS,
        }
    return {**conf, **extra, **users}


def for_flow(spark: SparkSession) -> SparkSession:
    """A session of its own for one flow: same context and settings, own SQL configuration."""
    java_session = spark._jsparkSession.cloneSession()  # noqa: SLF001 - PySpark has no public clone
    return SparkSession(spark.sparkContext, java_session)


def is_started() -> bool:
    """Whether this process has a session already, ours or a user's own."""
    return SparkContext._active_spark_context is not None  # noqa: SLF001 - PySpark keeps it there


def has_ended(spark: SparkSession) -> bool:
    """Whether the JVM behind the session is gone: killed, or out of memory."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 - PySpark keeps it there
    return process is not None and process.poll() is not None


def abandon(spark: SparkSession) -> None:
    """Forgets a session whose JVM is gone, so that ``start`` makes another one in this process.

    PySpark's own ``stop`` would talk to the JVM first.
    """
    gateway = spark.sparkContext._gateway  # noqa: SLF001 - as above
    if gateway is not None:
        gateway.close(keep_callback_server=False, close_callback_server_connections=True)
    _forget()


def _forget() -> None:
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001


def end(spark: SparkSession, timeout_s: float = _END_TIMEOUT_S) -> None:
    """Ends the session and its JVM, asked first, killed if that takes longer than ``timeout_s``.

    Guarantees:
        Afterwards the JVM is gone and ``start`` makes a new one. Calling it for a JVM that is gone is harmless.
    """
    if not has_ended(spark):
        # A stop that waits for a JVM that does not answer must not keep this process.
        stopping = threading.Thread(target=_stop_quietly, args=(spark,), name="spark-stop", daemon=True)
        stopping.start()
        stopping.join(timeout_s)
    _end_jvm(timeout_s)


def kill(spark: SparkSession) -> None:
    """Ends the JVM at once. What it was about to commit is lost, and the ledger knows that."""
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001 - as in has_ended
    if process is not None:
        process.kill()


def _stop_quietly(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the JVM is ended by its pid right after, whatever was wrong here
        spark.stop()


def _end_jvm(timeout_s: float) -> None:
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - as in has_ended
    if gateway is None:
        return
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):  # of a JVM that is gone already
        gateway.shutdown()
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()  # the JVM of PySpark ends with its input
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    _forget()


def _launch(conf: Mapping[str, str], log: Path | None) -> None:
    """Starts the JVM; with a ``log`` its output goes there, and no signal of the terminal reaches it.

    Settings with names like those of secrets are not among its arguments, which every user of the machine can
    read: the session's builder hands them over.
    """
    settings = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        if not re.search(REDACTION, key):
            settings.set(key, value)
    with contextlib.ExitStack() as opened:
        how: dict[str, Any] = {}
        if log is not None:
            output = opened.enter_context(log.open("ab"))
            how = {"stdout": output, "stderr": output, "start_new_session": True}
        gateway: Any = launch_gateway(settings, how)  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)  # noqa: SLF001 - PySpark takes a gateway only so


def _cause(error: Exception, log: Path | None) -> str:
    """One line of what went wrong: that of Java where Java said it, in an exception or in its last words."""
    java_error = getattr(error, "java_exception", None)
    text = str(java_error.toString()) if java_error is not None else str(error)
    if java_error is None and log is not None:
        said = [line for line in log.read_text(errors="replace").splitlines() if _LAST_WORDS.match(line)]
        text = said[0] if said else text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def local_folder_conf(folder: Path) -> dict[str, str]:
    """Settings that keep Spark's own local files under ``folder``."""
    return {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}


def _java_options(cores: int) -> str:
    collector = "-XX:+UseParallelGC" if cores <= _SMALL_MACHINE_CORES else "-XX:+UseG1GC"
    options = (
        # Stopping a query in mid-batch from Python needs a deep stack in the query's thread.
        "-Xss16m",
        # Out of memory, a JVM may live on without being able to do anything: better it ends and another one starts.
        "-XX:+ExitOnOutOfMemoryError",
        _COMPILE_HUGE_METHODS,
        collector,
    )
    return " ".join(options)


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
