"""The Spark session: started with rivermouth's settings, one clone of it for each flow."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from rivermouth.ports import jars, java
from rivermouth.rows.environment import expand

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rivermouth.spec import SparkSettings

_SMALL_MACHINE_CORES: Final = 4

REDACTION: Final = r"(?i)secret|password|passwd|token|access[._-]?key|jaas|credential|\.pem|private|keystore|truststore"

_CHECKPOINT_FILES: Final = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

_SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Any other zone makes Delta rebuild the table's state at every commit, and timestamps without an
    # offset are UTC by our own rule.
    "spark.sql.session.timeZone": "UTC",
    # A condition that cannot be evaluated is NULL, and NULL fails the expectation, not the batch.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Delta makes this many tasks after every commit; the tables' states are small.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.stopTimeout": "60s",
    "spark.redaction.regex": REDACTION,
    "spark.sql.redaction.string.regex": REDACTION,
    # The UI listens on all interfaces without a password.
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def start(settings: SparkSettings, *, app_name: str, extra: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process, started if there is none.

    Args:
        settings: The project's; its ``conf`` wins over everything here.
        app_name: Shown by cluster managers.
        extra: Settings between ours and the user's.

    Raises:
        JavaNotFound: No usable Java on this machine.
        JarsMissing: The jars are neither cached nor to be had.

    Guarantees:
        A session that is already there is returned as it is: its settings are not changed.
    """
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    local = settings.master.startswith("local")
    cores = os.cpu_count() or 1
    conf: dict[str, str] = {
        **_SETTINGS,
        "spark.master": settings.master,
        "spark.app.name": app_name,
        "spark.driver.memory": settings.driver_memory,
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.jars": ",".join(path.as_uri() for path in jars.classpath("spark")),
        "spark.driver.extraJavaOptions": _java_options(cores),
    }
    if local:
        conf |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        }
    conf |= dict(extra or {})
    conf |= {key: expand(_text(value), os.environ) for key, value in settings.conf.items()}
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def for_flow(spark: SparkSession) -> SparkSession:
    """A session of its own for one flow: same context and settings, own SQL configuration."""
    java_session = spark._jsparkSession.cloneSession()  # noqa: SLF001 - PySpark has no public clone
    return SparkSession(spark.sparkContext, java_session)


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
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001


def local_folder_conf(folder: Path) -> dict[str, str]:
    """Settings that keep Spark's own local files under ``folder``."""
    return {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}


def _java_options(cores: int) -> str:
    # Stopping a query in mid-batch from Python needs a deep stack in the query's thread.
    collector = "-XX:+UseParallelGC" if cores <= _SMALL_MACHINE_CORES else "-XX:+UseG1GC"
    return f"-Xss16m {collector}"


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
