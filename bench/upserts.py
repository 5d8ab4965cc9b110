"""Batches of changes merged into a large table, by the usual script and by rivermouth; in the worker's process."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from bench import records
from bench.contestants import Job
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.events import BatchDone, Event, Maintained
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.spec import Flow, ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def usual_upsert_load(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The first rows, appended by one batch job: not what is compared."""
    frame = spark.read.format("kafka").option("kafka.bootstrap.servers", job.servers).option("subscribe", job.topic)
    _parsed(frame.load()).write.format("delta").save(f"{job.folder}/table")
    return {}


def usual_upsert(spark: SparkSession, job: Job, *, batch: int, table: str) -> dict[str, Any]:
    """``foreachBatch`` with ``row_number`` per key and ``MERGE … ON key``."""
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    seconds: list[float] = []

    def write(changes: DataFrame, _batch_id: int) -> None:
        started = time.monotonic()
        newest_first = Window.partitionBy("id").orderBy(F.col("updated_at").desc())
        numbered = _parsed(changes).withColumn("n", F.row_number().over(newest_first))
        newest = numbered.where("n = 1").drop("n")
        merging = DeltaTable.forPath(spark, f"{table}/table").alias("t").merge(newest.alias("s"), "t.id = s.id")
        merging.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        seconds.append(time.monotonic() - started)

    first = newest_version(f"{table}/table") + 1
    query = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{job.folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"batches_s": seconds, "bytes": _bytes_since(f"{table}/table", first)}


def _parsed(frame: DataFrame) -> DataFrame:
    parsed = frame.select(F.from_json(F.col("value").cast("string"), records.CHANGES_SCHEMA).alias("data"))
    return parsed.select("data.*")


def rivermouth_upsert(
    spark: SparkSession, job: Job, *, batch: int, table: str, topics: list[str], optimize_every: str | None = None
) -> dict[str, Any]:
    """A flow with ``sink: upsert`` that drains what is new in all ``topics``, and what its maintenance took."""
    sink = {"type": "upsert", "keys": ["id"], "sequence_by": "updated_at"}
    care = {"maintenance": {"optimize": {"every": optimize_every}}} if optimize_every else {}
    order = _order(job, table, topics=topics, sink=sink, trigger={"max_offsets": batch}, **care)
    first = newest_version(order.places.table) + 1
    done, maintained = _drained(spark, order)
    merges = [each.merge for each in done if each.merge is not None]
    return {
        "batches_s": [each.duration_s for each in done],
        "maintained_s": maintained,
        "bytes": _bytes_since(order.places.table, first),
        "task_peak_bytes": max((each.task_peak_bytes or 0 for each in merges), default=0),
        "spilled_bytes": sum(each.spilled_bytes or 0 for each in merges),
    }


def many_batches(spark: SparkSession, job: Job, *, batch: int) -> dict[str, Any]:
    """A flow that appends a topic in many small batches; each batch leaves a file."""
    done, _ = _drained(spark, _order(job, job.folder, topics=[job.topic], trigger={"max_offsets": batch}))
    return {"batches_s": [each.duration_s for each in done]}


def _order(job: Job, lake: str, **settings: Any) -> FlowJob:
    json_format = {"type": "json", "schema": records.CHANGES_SCHEMA}
    flow = Flow.model_validate({"name": "orders", "table": "main.orders", "format": json_format, **settings})
    project = ProjectSpec(lake=lake, flows={"orders": flow})
    return FlowJob(flow, resolve(project, flow, base=Path(lake), environ={}), job.servers, {})


def _drained(spark: SparkSession, order: FlowJob) -> tuple[list[BatchDone], list[float]]:
    """The batches, and the seconds of each maintenance between them."""
    done: list[BatchDone] = []
    maintained: list[float] = []

    def hear(event: Event) -> None:
        if isinstance(event, BatchDone):
            done.append(event)
        if isinstance(event, Maintained):
            maintained.append(event.report.duration_s)

    outcome = Supervisor(spark, hear, lambda _run: None).run([order], keep_following=False)[0]
    if outcome.error is not None:
        raise outcome.error
    return done, maintained


def read_table(spark: SparkSession, job: Job, *, table: str, times: int) -> dict[str, Any]:
    """Seconds of one query over the whole table, before and after ``OPTIMIZE``."""
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    def ask() -> float:
        started = time.monotonic()
        spark.read.format("delta").load(table).groupBy("status").agg(F.sum("amount"), F.max("updated_at")).collect()
        return time.monotonic() - started

    before = [ask() for _ in range(times)]
    DeltaTable.forPath(spark, table).optimize().executeCompaction()
    return {"before_s": before, "after_s": [ask() for _ in range(times)], "topic": job.topic}


def newest_version(table: str) -> int:
    """The number of the newest commit; -1 without a table."""
    return max((int(each.stem) for each in Path(table).glob("_delta_log/*.json") if each.stem.isdigit()), default=-1)


def _bytes_since(table: str, first: int) -> list[int]:
    """Bytes of the files that each commit from ``first`` on added, with their deletion vectors."""
    found = []
    for version in range(first, newest_version(table) + 1):
        text = (Path(table) / "_delta_log" / f"{version:020d}.json").read_text()
        added = [action["add"] for action in map(json.loads, text.splitlines()) if "add" in action]
        vectors = sum((each.get("deletionVector") or {}).get("sizeInBytes", 0) for each in added)
        whole = sum(each["size"] for each in added if not each.get("deletionVector"))
        if added:
            found.append(whole + vectors)
    return found


UPSERTS = {
    "usual_upsert_load": ("default", usual_upsert_load),
    "usual_upsert": ("default", usual_upsert),
    "rivermouth_upsert": ("tuned", rivermouth_upsert),
    "many_batches": ("tuned", many_batches),
    "read_table": ("tuned", read_table),
}
"""Name to session and door."""
