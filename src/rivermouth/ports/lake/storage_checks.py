"""Whether the places of a flow are what they must be: the same for everybody, and safe from a second writer."""

from __future__ import annotations

import contextlib
import os
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import urlparse

from py4j.protocol import Py4JJavaError

from rivermouth.errors import LakeNotFenced, LakeNotReadable, LakeNotWritable, PlaceAmbiguous, first_line
from rivermouth.ports.internals.sessions import hadoop_conf
from rivermouth.ports.lake.lake_files import files_for, is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.project.locations import FlowPlaces

CONDITIONAL_LOG_STORE: Final = "rivermouth.store.ConditionalLogStore"
# Delta's default for S3: it looks whether a commit is there, and then overwrites.
_UNFENCED_LOG_STORE: Final = "S3SingleDriverLogStore"
# Its own runtime brings a service for commits.
_DATABRICKS: Final = "DATABRICKS_RUNTIME_VERSION"


def check_fenced(spark: SparkSession, places: FlowPlaces) -> None:
    """Checks that the flow's stores create a file for only one of two writers, and that Delta commits in that way.

    Args:
        spark: The session that will write.
        places: The flow's; each store among them is tried once, a local disk is not.

    Raises:
        LakeNotFenced: The store does not do conditional writes, or Delta would not use them.
        LakeNotWritable: The store takes no file of ours.
        PlaceAmbiguous: A place is on this machine, and this Spark would look for it elsewhere.

    Guarantees:
        Leaves nothing behind; stopped half-way, a file of a few bytes whose name begins with ``_rivermouth-probe``.
    """
    tables = (places.table, places.dead_letter_table)
    check_same_place(spark, places)
    on_s3 = any(urlparse(table).scheme == "s3a" for table in tables)
    if on_s3 and not _has_log_store(spark) and _DATABRICKS not in os.environ:
        raise LakeNotFenced(
            flow=places.flow,
            detail="Delta's own log store for s3a:// looks for a commit and then overwrites it",
            fix=f"start Spark with --conf spark.delta.logStore.s3a.impl={CONDITIONAL_LOG_STORE} and the jars that "
            "this prints: rivermouth jars paths --s3",
        )
    for place in stores_of(places).values():
        if not _is_conditional(spark, place):
            raise LakeNotFenced(
                flow=places.flow,
                detail=f"the store of {place} overwrites a file that it should create only once",
                fix="set lake: to a store with conditional writes (If-None-Match)",
            )


def stores_of(places: FlowPlaces) -> dict[str, str]:
    """A place of the flow in each store that is not on this machine, by the store: ``s3a://bucket``."""
    found = [place for place in (places.table, places.dead_letter_table, places.state) if not is_local(place)]
    return {"{}://{}".format(*urlparse(place)[:2]): place for place in found}


def _has_log_store(spark: SparkSession) -> bool:
    # Delta asks the context, not the session.
    conf = spark.sparkContext.getConf()
    chosen = [conf.get(f"spark.delta.logStore.{word}", "") or "" for word in ("class", "s3a.impl")]
    return any(chosen) and not any(name.endswith(_UNFENCED_LOG_STORE) for name in chosen)


def _is_conditional(spark: SparkSession, place: str) -> bool:
    # Not in the place itself: Delta makes no table in a folder in which something is.
    folder = place.rpartition("/")[0]
    probe, files = f"{folder}/_rivermouth-probe-{uuid.uuid4().hex}", files_for(place, spark)
    try:
        return files.create(probe, "first") and not files.create(probe, "second")
    except (LakeNotReadable, LakeNotWritable) as error:
        raise LakeNotWritable(lake=folder, detail=error.facts["detail"], fix=_leave(folder)) from error
    except Py4JJavaError as error:
        raise LakeNotWritable(lake=folder, detail=first_line(error), fix=_leave(folder)) from error
    finally:
        # It stays if this process may not delete here, or has no classes for it.
        with contextlib.suppress(LakeNotReadable, LakeNotWritable, Py4JJavaError):
            files.delete(probe)


def _leave(folder: str) -> str:
    """What lets a run write there, as a remedy."""
    if urlparse(folder).scheme != "s3a":
        return "check the credentials in spark: conf, and that the store's connector is in spark.jars"
    bucket = f"s3a://{urlparse(folder).netloc}"
    return f"let its keys or role s3:Get*, s3:Put* and s3:Delete* in {folder}/*, and s3:ListBucket in {bucket}"


def check_same_place(spark: SparkSession, places: FlowPlaces) -> None:
    """Checks that the tables, the checkpoint and the archive lie where Python and this Spark both look for them.

    Raises:
        PlaceAmbiguous: A place is on this machine, and this Spark would look for it elsewhere.
    """
    archive = (places.archive,) if places.archive else ()
    check_place(spark, places.flow, places.table, places.dead_letter_table, places.checkpoint, *archive)


def check_place(spark: SparkSession, flow: str, *places: str) -> None:
    """Checks that Python and this Spark look for these places of a flow on the same machine.

    Raises:
        PlaceAmbiguous: A place is on this machine, and this Spark would look for it elsewhere.
    """
    # What Python reads of a table and a checkpoint must be what Spark wrote.
    default = str(hadoop_conf(spark).get("fs.defaultFS", "file:///"))
    if default.startswith("file:"):
        return
    on_databricks = default.startswith("dbfs:")
    for place in places:
        # There this is one place for Spark and for everybody else.
        if is_local(place) and not (on_databricks and place.startswith("/Volumes/")):
            inner = place.removeprefix("/dbfs") if on_databricks else place
            system = default.rstrip("/")
            raise PlaceAmbiguous(flow=flow, place=place, file_system=system, instead=f"{system}{inner}")
