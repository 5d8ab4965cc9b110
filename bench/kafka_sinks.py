"""A topic copied into another one: by a Kafka sink of a pipeline, and by Spark's own writer. For the worker alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from bench import records
from bench.contestants import Job
from bench.pipelines import update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PIPELINE: Final = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, from_json, struct, to_json

options = {{"kafka.bootstrap.servers": "{servers}", "topic": "{out}", "deliveryGuarantee": "{guarantee}"}}
dp.create_sink("out", "kafka", options)


@dp.append_flow(target="out", name="copy")
def copy():
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
    stream = stream.option("subscribe", "{topic}").option("startingOffsets", "earliest").load()
    rows = stream.select("key", from_json(col("value").cast("string"), "{schema}").alias("row"))
    return rows.select("key", to_json("row").alias("value"))
"""


def _out(job: Job) -> str:
    """A new topic for what a run writes."""
    name = f"{job.topic}-{Path(job.folder).name}"
    records.create(job.servers, name)
    return name


def kafka_plain(spark: SparkSession, job: Job) -> dict[str, Any]:
    """Spark's own writer: at least once, no ledger."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    stream = stream.option("subscribe", job.topic).option("startingOffsets", "earliest")
    rows = stream.load().select("key", F.from_json(F.col("value").cast("string"), records.SCHEMA).alias("row"))
    writer = rows.select("key", F.to_json("row").alias("value")).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", job.servers).option("topic", _out(job))
    query = writer.option("checkpointLocation", f"{job.folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return {"written": sum(max(0, each["numInputRows"]) for each in query.recentProgress)}


def kafka_exactly_once(spark: SparkSession, job: Job) -> dict[str, Any]:
    """A Kafka sink of a pipeline: each batch is a transaction."""
    return _by_pipeline(spark, job, "exactly_once")


def kafka_at_least_once(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The same without transactions: a header with an id for each record."""
    return _by_pipeline(spark, job, "at_least_once")


def _by_pipeline(spark: SparkSession, job: Job, guarantee: str) -> dict[str, Any]:
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yml").write_text("name: bench\nlibraries:\n  - file: {path: copy.py}\n")
    texts = {"servers": job.servers, "topic": job.topic, "schema": records.SCHEMA}
    (folder / "copy.py").write_text(_PIPELINE.format(out=_out(job), guarantee=guarantee, **texts))
    return update(spark, Job(job.servers, str(folder), job.folder))


KAFKA_SINKS: Final = {
    "kafka_plain": ("tuned", kafka_plain),
    "kafka_exactly_once": ("tuned", kafka_exactly_once),
    "kafka_at_least_once": ("tuned", kafka_at_least_once),
}
"""Name to session and door."""
