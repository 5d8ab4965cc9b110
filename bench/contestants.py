"""The contestants: each as its users write and configure it. Imported in the worker's process alone.

All read the same topics and write the same columns in the same order; all have two gigabytes of heap.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from bench import encodings, records, wide_documents
from rivermouth.domain.ledger.offset_ranges import between
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.events import BatchDone, Event
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.ports import java
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.spark import jars, session
from rivermouth.project.commands.schema import infer_schema
from rivermouth.spec import Flow, ProjectSpec, SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEAP = "2g"
_WIDE: Final = {"wide_few": wide_documents.FEW, "wide_all": wide_documents.FIELDS}
KINDS: Final = ("bronze", *encodings.FORMATS, *_WIDE)
"""Of flows of rivermouth."""


@dataclass(frozen=True, slots=True)
class Job:
    """The work of a contestant: write all of ``topic`` into tables under ``folder``."""

    servers: str
    topic: str
    folder: str


Contestant = Callable[[SparkSession, Job], dict[str, Any]]


def tuned_session() -> SparkSession:
    """rivermouth's own; the limit gets it too."""
    return session.start(SparkSettings(driver_memory=HEAP), app_name="bench")


def default_session() -> SparkSession:
    """What Delta's quick start says, and nothing else."""
    os.environ["JAVA_HOME"] = str(java.find().home)
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("bench")
        .config("spark.driver.memory", HEAP)
        .config("spark.jars", ",".join(path.as_uri() for path in jars.classpath("spark")))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


# --- the limit ---


def limit(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Kafka to Parquet in one Spark batch job: no table, no ledger, no statistics, nothing to be sure of."""
    with Kafka(job.servers) as kafka:
        topics = kafka.describe([job.topic])
        ranges = between(kafka.beginning_offsets(topics), kafka.end_offsets(topics))
    frame = KafkaSource(job.servers, headers=False).batch(spark, ranges)
    bronze(frame).write.option("compression", "zstd").parquet(f"{job.folder}/table")
    return {}


def bronze(frame: DataFrame) -> DataFrame:
    """The columns of a bronze table."""
    return frame.select("value", *_coordinates(), F.col("key").alias("kafka_key"), _now())


def _coordinates() -> list[Any]:
    return [F.col(name).alias(f"kafka_{name}") for name in ("topic", "partition", "offset", "timestamp")]


def _now() -> Any:
    return F.current_timestamp().alias("ingested_at")


# --- what people write themselves ---


def _stream(spark: SparkSession, job: Job) -> DataFrame:
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", job.topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def _parsed(frame: DataFrame) -> DataFrame:
    return frame.select(
        F.from_json(F.col("value").cast("string"), records.SCHEMA).alias("data"),
        *_coordinates(),
        F.col("key").cast("string").alias("kafka_key"),
        F.col("value"),
    )


def native_bronze(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Kafka into Delta's own sink."""
    query = (
        bronze(_stream(spark, job))
        .writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", f"{job.folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{job.folder}/table")
    )
    query.awaitTermination()
    return {}


def native_json(spark: SparkSession, job: Job) -> dict[str, Any]:
    """``from_json`` and ``data.*`` into Delta's own sink; nothing is checked."""
    frame = _parsed(_stream(spark, job)).select("data.*", "kafka_topic", *_REST, _now())
    query = (
        frame.writeStream.format("delta")
        .outputMode("append")
        .option("checkpointLocation", f"{job.folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{job.folder}/table")
    )
    query.awaitTermination()
    return {}


_REST = ("kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key")


def usual(spark: SparkSession, job: Job) -> dict[str, Any]:
    """``foreachBatch`` with ``from_json``, a condition, two counts and two writes."""
    return _usual(spark, job, cached=False)


def usual_cached(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The usual script with the advice of Spark's guide followed: the parsed batch is cached."""
    return _usual(spark, job, cached=True)


def _usual(spark: SparkSession, job: Job, *, cached: bool) -> dict[str, Any]:
    condition = " AND ".join(["order_id IS NOT NULL", *(text for _name, text in records.EXPECTATIONS)])
    is_good = F.coalesce(F.expr(condition), F.lit(False))

    def write(batch: DataFrame, batch_id: int) -> None:
        parsed = _parsed(batch).select("data.*", "kafka_topic", *_REST, "value")
        if cached:
            parsed.persist()
        good, bad = parsed.filter(is_good).drop("value"), parsed.filter(~is_good)
        print(f"batch {batch_id}: {good.count()} good, {bad.count()} bad")
        good.withColumn("ingested_at", F.current_timestamp()).write.format("delta").mode("append").save(
            f"{job.folder}/table"
        )
        bad.select("kafka_topic", *_REST, "value").write.format("delta").mode("append").save(f"{job.folder}/bad")
        if cached:
            parsed.unpersist()

    query = (
        _stream(spark, job)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{job.folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {}


# --- rivermouth ---


def order(job: Job, kind: str, **changes: Any) -> FlowJob:
    """The flow as ``rivermouth.yml`` would say it."""
    flow = Flow.model_validate(
        {"name": "orders", "topics": [job.topic], "table": "main.orders", **_flow(kind, job), **changes}
    )
    project = ProjectSpec(lake=job.folder, flows={"orders": flow})
    places = resolve(project, flow, base=Path(job.folder), environ={})
    return FlowJob(flow, places, job.servers, {})


def _flow(kind: str, job: Job) -> dict[str, Any]:
    if kind == "bronze":
        return {"format": "raw"}
    if kind in _WIDE:
        return {"format": {"type": "json", "schema": wide_documents.schema(_WIDE[kind])}}
    return {
        "format": _format(kind, job),
        "expectations": [
            {"name": name, "condition": condition, "action": "dead_letter"} for name, condition in records.EXPECTATIONS
        ],
    }


def _format(kind: str, job: Job) -> dict[str, Any]:
    if kind == "avro":
        return {"type": "avro", "schema": encodings.AVRO_SCHEMA}
    if kind == "protobuf":
        file = Path(job.folder) / "orders.desc"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encodings.descriptor())
        return {"type": "protobuf", "descriptor": str(file), "message": encodings.MESSAGE}
    return {"type": kind, "schema": records.SCHEMA}


def _rivermouth(spark: SparkSession, job: Job, *, kind: str) -> dict[str, Any]:
    """A flow of a kind, drained: raw, of a format with expectations and dead letters, or of wide documents."""
    batches: list[BatchDone] = []

    def hear(event: Event) -> None:
        if isinstance(event, BatchDone):
            batches.append(event)

    supervisor = Supervisor(spark, hear, lambda _run: None)
    outcome = supervisor.run([order(job, kind)], keep_following=False)[0]
    if outcome.error is not None:
        raise outcome.error
    counts = outcome.counts
    return {
        "consumed": counts.consumed,
        "written": counts.written,
        "dead_lettered": counts.dead_lettered,
        "batches_s": [round(done.duration_s, 3) for done in batches],
    }


# --- schemas ---


def rivermouth_infer(_spark: SparkSession, job: Job) -> dict[str, Any]:
    """The schema of a sample; needs no Spark."""
    return _inferred(job)


def rivermouth_infer_all(_spark: SparkSession, job: Job) -> dict[str, Any]:
    """The schema of everything."""
    return _inferred(job, whole=True)


def _inferred(job: Job, **asked: Any) -> dict[str, Any]:
    found = infer_schema(job.topic, bootstrap_servers=job.servers, **asked)
    return {"columns": found.inferred.schema.names}


def usual_infer(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The whole topic as an RDD of strings into ``spark.read.json``."""
    batch = (
        spark.read.format("kafka").option("kafka.bootstrap.servers", job.servers).option("subscribe", job.topic).load()
    )
    lines = batch.select(F.col("value").cast("string")).rdd.map(lambda row: row[0])
    return {"columns": spark.read.json(lines).schema.names}


SESSIONS: dict[str, Callable[[], SparkSession]] = {"tuned": tuned_session, "default": default_session}

CONTESTANTS: dict[str, tuple[str, Contestant]] = {
    "limit": ("tuned", limit),
    "native_bronze": ("default", native_bronze),
    "usual": ("default", usual),
    "usual_cached": ("default", usual_cached),
    "native_json": ("default", native_json),
    **{f"rivermouth_{kind}": ("tuned", functools.partial(_rivermouth, kind=kind)) for kind in KINDS},
    "rivermouth_infer": ("tuned", rivermouth_infer),
    "rivermouth_infer_all": ("tuned", rivermouth_infer_all),
    "usual_infer": ("default", usual_infer),
}
"""Name to session and door."""
