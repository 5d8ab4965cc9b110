"""The JVM behind PySpark, as PySpark keeps it for this process: found, ended and forgotten."""

# ruff: noqa: SLF001 - PySpark has no public way to any of it

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import ForeachBatchFunction

if TYPE_CHECKING:
    from collections.abc import Callable

    from py4j.java_gateway import JavaGateway


def context_is_active() -> bool:
    """Whether this process has a session already, ours or a user's own."""
    return SparkContext._active_spark_context is not None


def launches() -> bool:
    """Whether a session would start a JVM: none is there, and the environment names none, as spark-submit does."""
    return SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ


def connect(gateway: JavaGateway | None = None) -> None:
    """Has PySpark use the JVM of a gateway, or of the one that spark-submit named; SparkConf then asks that JVM."""
    SparkContext._ensure_initialized(gateway=gateway)


def process_of(spark: SparkSession) -> Any:
    """The process of the session's JVM (``subprocess.Popen``); None where this process did not start it."""
    return getattr(spark.sparkContext._gateway, "proc", None)


def has_ended(spark: SparkSession, timeout_s: float) -> bool:
    """Whether the process of the session's JVM is gone; never of one that this process did not start.

    The connections of a JVM that is killed end before its process does. So one that does not answer is waited for.

    Args:
        spark: A session.
        timeout_s: How long to wait for the end of a JVM that does not answer.
    """
    process = process_of(spark)
    if process is None:
        return False
    if process.poll() is None:
        jvm: Any = spark._jvm
        try:
            jvm.System.nanoTime()
        except Exception:  # noqa: BLE001 - whatever py4j makes of a connection that is gone
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
    return process.poll() is not None


def release_function(spark: SparkSession, function: Callable[..., None] | None) -> None:
    """Has PySpark forget what it was given as ``foreachBatch(function)``.

    PySpark keeps the function, its session and its last exception as long as the JVM has the query. They have Java
    objects of that query, which keep it in the JVM: neither side would ever free its part.

    Args:
        spark: A session of the same JVM.
        function: Of a query that has ended; None for one that has no function.

    Guarantees:
        Run twice: no change. A batch that is still in hand ends; one that begins after this fails.
    """
    gateway: Any = spark.sparkContext._gateway
    if gateway is None or function is None:
        return
    pool = gateway.gateway_property.pool
    with pool.lock:
        given = [each for each in pool.dict.values() if isinstance(each, ForeachBatchFunction)]
    for each in given:
        if getattr(each, "func", None) is function:
            vars(each).clear()


def disconnect(spark: SparkSession) -> None:
    """Closes the connections to a JVM that is gone, and forgets it."""
    gateway: Any = spark.sparkContext._gateway
    if gateway is not None:
        gateway.close(keep_callback_server=False, close_callback_server_connections=True)
    _forget()


def end_jvm(timeout_s: float) -> None:
    """Ends the JVM of this process, if there is one: asked first, killed if that takes longer than ``timeout_s``."""
    gateway: Any = SparkContext._gateway
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


def _forget() -> None:
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkSession._activeSession = None
