"""The Spark session: started with rivermouth's settings, one clone of it for each flow."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from pyspark import SparkConf
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from rivermouth.domain.kafka.kafka_options import text
from rivermouth.domain.project.catalog import METASTORE_URIS, OF_THE_METASTORE
from rivermouth.errors import RivermouthError, SessionSettled, SparkNotStarted, first_line
from rivermouth.ports import java
from rivermouth.ports.internals import gateway, sessions, versions
from rivermouth.ports.lake.storage_checks import CONDITIONAL_LOG_STORE
from rivermouth.ports.spark import python_package, session_checks, session_conf

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from rivermouth.ports.java import Java
    from rivermouth.spec import SparkSettings

_END_TIMEOUT_S: Final = 10.0
# The process of a JVM that does not answer any more may still be there for so long.
_LISTED_S: Final = 1.0
# Not the chatter of a start, nor a stack, nor a line of the log.
_LAST_WORDS: Final = re.compile(
    r"^(?!WARNING:|.* VM warning:|\[\d|(?:NOTE: )?Picked up |Error occurred during initialization of VM|Using Spark"
    r"|\d\d/\d\d/\d\d |\s|$)"
)

_PYTHON: Final = "spark.pyspark.python"


def start(
    settings: SparkSettings,
    *,
    app_name: str,
    schemes: Collection[str] = (),
    users_jars: Sequence[Path] = (),
    extra: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> SparkSession:
    """A session with rivermouth's settings: a new one, or a clone of the one that this process has already.

    Args:
        settings: The project's; its ``conf`` wins over everything here.
        app_name: Shown by cluster managers.
        schemes: Of the places that it will read and write, where they are not on a local disk: ``s3a``.
        users_jars: Files with classes that its flows name.
        extra: Settings between ours and the user's.
        log: A file for all that the JVM says; without one it says it on this process's terminal.

    Raises:
        JavaNotFound: No usable Java on this machine.
        JarsMissing: The jars are neither cached nor to be had.
        SparkNotStarted: The JVM or its session did not come up; no JVM of ours is left behind.
        SessionSettled: The project wants a setting that a session which is there already has otherwise.
        SessionJarMissing: A session which is there already was started without ``rivermouth.jar``.
        SparkConnectSession: Sessions of this process are of Spark Connect.

    Guarantees:
        A session that is there already is left as it is: the clone shares its context and jars, and has SQL settings
        of its own.
    """
    session_checks.check_classic()
    users = session_conf.users_conf(settings)
    if gateway.context_is_active():
        return _clone(SparkSession.builder.getOrCreate(), users, schemes)
    if not gateway.launches():
        return _clone(_submitted(users, schemes), users, schemes)
    found = java.find()
    _set_environment(settings, found)
    conf = session_conf.new_session_conf(settings, found, app_name, extra or {}, schemes, users_jars)
    try:
        _launch(conf, log, session_conf.last_jars(settings, schemes, users_jars))
        session = _built(conf)
        versions.check(session)
        sessions.forget_sources(session, schemes)
        _prepare(session)
    except RivermouthError:
        raise
    except Exception as error:
        # Java's exceptions are asked for their text where they are.
        detail = _cause(error, log)
        gateway.end_jvm(_END_TIMEOUT_S)
        fix = f"less {log}" if log is not None else "read what Spark said on this terminal"
        if isinstance(error, CapturedException):  # of the session, and nowhere else
            fix = "correct what it names under spark: conf"
        raise SparkNotStarted(detail=detail, fix=fix) from error
    return session


def _set_environment(settings: SparkSettings, found: Java) -> None:
    """What Spark reads from this process's environment when it starts."""
    os.environ["JAVA_HOME"] = str(found.home)
    if _PYTHON in settings.conf:
        # Spark itself hears it from spark-submit only.
        os.environ["PYSPARK_PYTHON"] = text(settings.conf[_PYTHON])
    elif session_conf.in_one_jvm(settings.master):
        # By default Spark's Python workers run whatever python3 is on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if session_conf.in_one_jvm(settings.master):
        # If the UI is turned on, only this machine reaches it: it asks for no password.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _built(conf: Mapping[str, str]) -> SparkSession:
    """The session of the JVM that was launched."""
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    # It prints every failed analysis, plan and all, to stderr; the error itself is raised and reported.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    # Spark reads most of its SQL settings no sooner than this: a wrong one is reported here, with its name.
    sessions.read_settings(session)
    return session


def _submitted(users: Mapping[str, str], schemes: Collection[str]) -> SparkSession:
    """The session of a job of spark-submit that has none yet; the settings given there win."""
    gateway.connect()  # or SparkConf would not hear of it
    said = SparkConf()
    wanted = {name: session_conf.SETTINGS[name] for name in session_conf.OF_DELTA}
    if "s3a" in schemes:
        wanted |= session_conf.log_store("s3a", users)
    builder = SparkSession.builder
    for name, value in {**wanted, **users}.items():
        if not said.contains(name):
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    sessions.forget_sources(session, schemes)
    return session


def _clone(spark: SparkSession, users: Mapping[str, str], schemes: Collection[str]) -> SparkSession:
    """A clone of a session that is not ours, with our settings and the project's as far as a session has its own."""
    versions.check(spark)
    session_checks.check_jar(spark, schemes)
    clone = sessions.cloned(spark)
    context = sessions.all_settings(spark)
    if "s3a" in schemes and context.get("spark.delta.logStore.s3a.impl") == CONDITIONAL_LOG_STORE:
        users = {**session_conf.OBJECT_STORE, **users}
    of_delta = {name for name in session_conf.OF_DELTA if name in context}
    ours = {name: value for name, value in session_conf.SETTINGS.items() if name not in of_delta}
    hadoop = sessions.context_hadoop_conf(spark)
    there = hadoop.get(METASTORE_URIS.removeprefix("spark.hadoop."))
    # A session would take it, and go on with the metastore of its context.
    if users.get(METASTORE_URIS, there) != there:
        raise SessionSettled(name=METASTORE_URIS, fix=_unsettled(METASTORE_URIS))
    known = sessions.all_settings(clone)
    for name, value in {**ours, **users}.items():
        if known.get(name) == value and not name.startswith("spark.hadoop."):
            continue  # a call of the JVM for each of them takes longer than all that is there
        # Settings of Hadoop have a prefix in a context, and none in a session.
        try:
            clone.conf.set(name.removeprefix("spark.hadoop."), value)
        except AnalysisException:  # the context's, for good
            # Of the jars a context has more than the project names.
            there = context.get(name) or ""
            if name in users and value != there and not (name in session_conf.JARS and value in there):
                raise SessionSettled(name=name, fix=_unsettled(name)) from None
        except PySparkException as error:
            raise SparkNotStarted(detail=first_line(error), fix=f"correct {name} under spark: conf") from error
    _prepare(clone)
    return clone


def _unsettled(name: str) -> str:
    if name in OF_THE_METASTORE:
        return "catalog: {metastore: session}, for that session's own catalog"
    return f"remove {name} from spark: conf, or start Spark with it: spark-submit --conf {name}=..."


def _prepare(spark: SparkSession) -> None:
    sessions.keep_classes(spark)
    if not session_conf.in_one_jvm(spark.sparkContext.master or ""):
        python_package.ship(spark)


def for_flow(spark: SparkSession) -> SparkSession:
    """A session of its own for one flow: same context and settings, own SQL configuration."""
    clone = sessions.cloned(spark)
    _set_where_unsaid(clone, session_conf.OF_FLOWS)
    return clone


def for_few_rows(spark: SparkSession) -> None:
    """Lets the queries of a session start sooner; those over many rows take longer then. What the user set stays."""
    _set_where_unsaid(spark, session_conf.OF_FEW_ROWS)


def _set_where_unsaid(spark: SparkSession, settings: Mapping[str, str]) -> None:
    said = spark.conf.getAll
    for name, value in settings.items():
        if name not in said:
            spark.conf.set(name, value)


def is_given() -> bool:
    """Whether a session, or a JVM for one, is there that is not ours to end: a notebook's, or spark-submit's."""
    return gateway.context_is_active() or not gateway.launches()


def has_ended(spark: SparkSession) -> bool:
    """Whether the JVM behind the session is gone: killed, or out of memory."""
    return gateway.has_ended(spark, _LISTED_S)


def abandon(spark: SparkSession) -> None:
    """Forgets a session whose JVM is gone, so that ``start`` makes another one in this process.

    PySpark's own ``stop`` would talk to the JVM first.
    """
    gateway.disconnect(spark)


def end(spark: SparkSession, timeout_s: float = _END_TIMEOUT_S) -> None:
    """Ends the session and its JVM, asked first, killed if that takes longer than ``timeout_s``.

    Guarantees:
        Afterwards the JVM is gone and ``start`` makes a new one. Calling it for a JVM that is gone is harmless.
    """
    process = gateway.process_of(spark)
    if process is None or process.poll() is None:
        # A stop that waits for a JVM that does not answer must not keep this process.
        stopping = threading.Thread(target=_stop_quietly, args=(spark,), name="spark-stop", daemon=True)
        stopping.start()
        stopping.join(timeout_s)
    gateway.end_jvm(timeout_s)


def kill(spark: SparkSession) -> None:
    """Ends the JVM at once. What it was about to commit is lost, and the ledger knows that."""
    process = gateway.process_of(spark)
    if process is not None:
        process.kill()


def _stop_quietly(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the JVM is ended by its pid right after, whatever was wrong here
        spark.stop()


def _launch(conf: Mapping[str, str], log: Path | None, last_jars: Sequence[Path]) -> None:
    """Starts the JVM; with a ``log`` its output goes there, and no signal of the terminal reaches it.

    Settings with names like those of secrets are not among its arguments, which every user of the machine can
    read: the session's builder hands them over.
    """
    settings = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        if not re.search(session_conf.REDACTION, key):
            settings.set(key, value)
    with contextlib.ExitStack() as opened:
        how: dict[str, Any] = {}
        if log is not None:
            output = opened.enter_context(log.open("ab"))
            how = {"stdout": output, "stderr": output, "start_new_session": True}
        opened.enter_context(_at_the_end_of_the_class_path(last_jars))
        launched = launch_gateway(settings, how)  # type: ignore[no-untyped-call]
    gateway.connect(launched)


@contextlib.contextmanager
def _at_the_end_of_the_class_path(files: Sequence[Path]) -> Iterator[None]:
    """For a JVM that is started in the block."""
    if files:
        os.environ[session_conf.DIST_CLASS_PATH] = os.pathsep.join(map(str, files))
    try:
        yield
    finally:
        if files:
            os.environ.pop(session_conf.DIST_CLASS_PATH, None)


def _cause(error: Exception, log: Path | None) -> str:
    """One line of what went wrong: that of Java where there is one, in an exception or in its last output."""
    java_error = getattr(error, "java_exception", None)
    text = str(java_error.toString()) if java_error is not None else str(error)
    if isinstance(error, CapturedException):
        # What it says itself may be no more than whom it befell.
        deeper = [line.strip().removeprefix("Caused by: ") for line in text.splitlines() if "Caused by: " in line]
        text = deeper[-1] if deeper else text
    elif java_error is None and log is not None:
        said = [line for line in log.read_text(errors="replace").splitlines() if _LAST_WORDS.match(line)]
        text = said[0] if said else text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
