"""The Spark session and the folder of a test."""

from __future__ import annotations

import atexit
import datetime as dt
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from rivermouth.errors import ArgumentInvalid
from rivermouth.ports.spark import session
from rivermouth.spec import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def session_for_tests() -> SparkSession:
    """The session of this process; a new one with two cores and rivermouth's settings where there is none.

    Raises:
        JavaNotFound, JarsMissing, SparkNotStarted: There is none, and none can be started.
    """
    if session.is_given():
        return SparkSession.builder.getOrCreate()
    handle, log = tempfile.mkstemp(prefix="rivermouth-spark-", suffix=".log")
    os.close(handle)
    settings = SparkSettings(master="local[2]", driver_memory="1g")
    return session.start(settings, app_name="rivermouth tests", log=Path(log))


def time_of(now: dt.datetime | str | None) -> dt.datetime | None:
    """The time that a test sets, in UTC.

    Args:
        now: A time with a time zone, or its text as of ISO 8601.

    Raises:
        ArgumentInvalid: It is no time, or has no time zone.
    """
    if now is None:
        return None
    try:
        found = dt.datetime.fromisoformat(now) if isinstance(now, str) else now
    except ValueError:
        found = None
    if not isinstance(found, dt.datetime) or found.tzinfo is None:
        detail = "it is no time with a time zone"
        raise ArgumentInvalid(argument="now", detail=detail, fix='now="2026-01-31T12:00:00Z"')
    return found.astimezone(dt.UTC)


class Folder:
    """A folder for the lake and the sources of a test, which is gone when it is closed or the process ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rivermouth-test-"))
        # A frame of a table may outlive the object that made it: garbage collection must not remove the folder.
        atexit.register(self.close)

    def close(self) -> None:
        """Removes the folder; frames of its tables cannot be read any more."""
        shutil.rmtree(self.path, ignore_errors=True)
        atexit.unregister(self.close)


def table_frame(spark: SparkSession, location: str) -> DataFrame:
    """A Delta table as it is now."""
    return spark.read.format("delta").load(location)
