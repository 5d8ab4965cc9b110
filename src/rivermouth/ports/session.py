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
from pyspark.errors import AnalysisException, PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from rivermouth.errors import RivermouthError, SessionSettled, SparkNotStarted, first_line
from rivermouth.ports import class_archive, jars, java, python_package
from rivermouth.ports.fencing import CONDITIONAL_LOG_STORE
from rivermouth.rows.kafka_options import text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from rivermouth.spec import SparkSettings

_SMALL_MACHINE_CORES: Final = 4
_END_TIMEOUT_S: Final = 10.0
# Not the chatter of a start, nor a stack, nor a line of the log.
_LAST_WORDS: Final = re.compile(r"^(?!WARNING:|Using Spark|\d\d/\d\d/\d\d |\s|$)")

REDACTION: Final = (
    r"(?i)secret|password|passwd|token|access[._-]?key|account[._-]?key|encryption[._-]?key|jaas|credential"
    r"|\.pem|private|keystore|truststore"
)

_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

# Hadoop's own start a process for each file that they make or rename.
_LOCAL_DISK: Final[Mapping[str, str]] = {
    "spark.hadoop.fs.file.impl": "rivermouth.disk.LocalDisk",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "rivermouth.disk.LocalDiskContext",
}
_OBJECT_STORE: Final[Mapping[str, str]] = {
    "spark.sql.streaming.checkpointFileManagerClass": "rivermouth.store.ConditionalCheckpointFiles",
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
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_PYTHON: Final = "spark.pyspark.python"

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

_OF_DELTA: Final = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog")
_JARS: Final = (_CLASS_PATH, "spark.jars")

_ASKED_FOR: Final = ("PythonUtils", "PythonSQLUtils", "functions", "org.apache.spark.sql.functions")


def start(
    settings: SparkSettings,
    *,
    app_name: str,
    schemes: Collection[str] = (),
    extra: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session with rivermouth's settings: a new one, or a clone of the one that this process has already.

    Args:
        settings: The project's; its ``conf`` wins over everything here.
        app_name: Shown by cluster managers.
        schemes: Of the places that it will read and write, where they are not on a local disk: ``s3a``.
        extra: Settings between ours and the user's.
        log: A file for all that the JVM says; without one it says it on this process's terminal.

    Raises:
        JavaNotFound: No usable Java on this machine.
        JarsMissing: The jars are neither cached nor to be had.
        SparkNotStarted: The JVM or its session did not come up; no JVM of ours is left behind.
        SessionSettled: The project wants a setting that a session which is there already has otherwise.

    Guarantees:
        A session that is there already is left as it is: the clone shares its context and jars, and has SQL settings
        of its own.
    """
    if _active():
        return _clone(SparkSession.builder.getOrCreate(), _texts(settings), schemes)
    if not _launches():
        return _clone(_submitted(_texts(settings), schemes), _texts(settings), schemes)
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    if _PYTHON in settings.conf:
        # Spark itself hears it from spark-submit only.
        os.environ["PYSPARK_PYTHON"] = text(settings.conf[_PYTHON])
    elif _IN_ONE_JVM.match(settings.master):
        # By default Spark's Python workers run whatever python3 is on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _IN_ONE_JVM.match(settings.master):
        # Whoever turns the UI on gets it here alone: it asks for no password.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = _conf(settings, found, app_name, extra or {}, schemes)
    try:
        _launch(conf, log)
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        # It prints every failed analysis, plan and all, to stderr; the error itself is raised and told.
        PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        _prepare(session)
    except RivermouthError:
        raise
    except Exception as error:
        _end_jvm(_END_TIMEOUT_S)
        fix = f"less {log}" if log is not None else "read what Spark said on this terminal"
        raise SparkNotStarted(detail=_cause(error, log), fix=fix) from error
    return session


def _active() -> bool:
    """Whether this process has a session already, ours or a user's own."""
    return SparkContext._active_spark_context is not None  # noqa: SLF001 - PySpark keeps it there


def _launches() -> bool:
    """Whether a session would start a JVM: none is there, nor is this process told of one, as by spark-submit."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ  # noqa: SLF001 - PySpark's


def _submitted(users: Mapping[str, str], schemes: Collection[str]) -> SparkSession:
    """The session of a job of spark-submit that has none yet; what was said there wins."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - or SparkConf would not hear of it
    said = SparkConf()
    wanted = {name: _SETTINGS[name] for name in _OF_DELTA} | (_log_store("s3a", users) if "s3a" in schemes else {})
    builder = SparkSession.builder
    for name, value in {**wanted, **users}.items():
        if not said.contains(name):
            builder = builder.config(name, value)
    return builder.getOrCreate()


def _clone(spark: SparkSession, users: Mapping[str, str], schemes: Collection[str]) -> SparkSession:
    """A clone of a session that is not ours, with our settings and the project's as far as a session has its own."""
    clone = for_flow(spark)
    context = spark.sparkContext.getConf()
    # Where our classes for it are there.
    if "s3a" in schemes and context.get("spark.delta.logStore.s3a.impl") == CONDITIONAL_LOG_STORE:
        users = {**_OBJECT_STORE, **users}
    ours = {name: value for name, value in _SETTINGS.items() if name not in _OF_DELTA or not context.contains(name)}
    for name, value in {**ours, **users}.items():
        # What is said of Hadoop to a context has a prefix, to a session it has none.
        try:
            clone.conf.set(name.removeprefix("spark.hadoop."), value)
        except AnalysisException:  # the context's, for good
            # Of the jars a context has more than the project names.
            there = context.get(name) or ""
            if name in users and value != there and not (name in _JARS and value in there):
                raise SessionSettled(name=name) from None
        except PySparkException as error:
            raise SparkNotStarted(detail=first_line(error), fix=f"correct {name} under spark: conf") from error
    _prepare(clone)
    return clone


def _texts(settings: SparkSettings) -> dict[str, str]:
    return {key: text(value) for key, value in settings.conf.items()}


def _prepare(spark: SparkSession) -> None:
    _keep_classes(spark)
    if not _IN_ONE_JVM.match(spark.sparkContext.master or ""):
        python_package.ship(spark)


def _keep_classes(spark: SparkSession) -> None:
    """Spares each batch PySpark's search for classes that it asks the JVM for by name, again and again.

    py4j looks for such a name in every package that was imported and in every jar, and does not remember.
    """
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark keeps it there
    for name in _ASKED_FOR:
        setattr(jvm, name, getattr(jvm, name))


def _conf(
    settings: SparkSettings,
    found: java.Java,
    app_name: str,
    extra: Mapping[str, str],
    schemes: Collection[str] = (),
) -> dict[str, str]:
    """All settings of a session whose JVM is started for it: ours, then those of ``extra``, then the user's."""
    cores = os.cpu_count() or 1
    conf: dict[str, str] = {
        **_SETTINGS,
        "spark.master": settings.master,
        "spark.app.name": app_name,
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.extraJavaOptions": _java_options(cores),
    }
    users = _texts(settings)
    files = jars.for_spark(schemes)
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
        conf |= {**_LOCAL_DISK, **_log_store("file", users)}
        if _CLASS_PATH in users:
            users[_CLASS_PATH] = os.pathsep.join([users[_CLASS_PATH], *ours])
    else:
        known = [path.as_uri() for path in files]
        conf |= {"spark.jars": ",".join(known), "spark.executor.extraJavaOptions": _COMPILE_HUGE_METHODS}
        if "spark.jars" in users:
            users["spark.jars"] = ",".join([users["spark.jars"], *known])
    if "s3a" in schemes:
        conf |= {**_OBJECT_STORE, **_log_store("s3a", users)}
    return {**conf, **extra, **users}


def _log_store(scheme: str, users: Mapping[str, str]) -> dict[str, str]:
    """Our log store for a scheme, unless the user chose one: Delta takes only one word for it."""
    words = ("delta.logStore.class", f"delta.logStore.{scheme}.impl")
    if any(key.removeprefix("spark.") in words for key in users):
        return {}
    return {f"spark.delta.logStore.{scheme}.impl": _LOG_STORES[scheme]}


def for_flow(spark: SparkSession) -> SparkSession:
    """A session of its own for one flow: same context and settings, own SQL configuration."""
    java_session = spark._jsparkSession.cloneSession()  # noqa: SLF001 - PySpark has no public clone
    return SparkSession(spark.sparkContext, java_session)


def is_given() -> bool:
    """Whether a session, or a JVM for one, is there that is not ours to end: a notebook's, or spark-submit's."""
    return _active() or not _launches()


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
