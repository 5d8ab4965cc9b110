"""A topic copied into another one: by a Kafka sink of a pipeline, and by Spark's own writer. For the worker alone."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from bench import records
from bench.contestants import Job
from bench.pipelines import Following, update

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_FOLLOWED_S: Final = 900.0
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


def _writer(spark: SparkSession, job: Job, out: str) -> DataStreamWriter:
    """Spark's own writer: at least once, no ledger."""
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    stream = stream.option("subscribe", job.topic).option("startingOffsets", "earliest")
    rows = stream.load().select("key", F.from_json(F.col("value").cast("string"), records.SCHEMA).alias("row"))
    writer = rows.select("key", F.to_json("row").alias("value")).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", job.servers).option("topic", out)
    return writer.option("checkpointLocation", f"{job.folder}/checkpoint")


def kafka_plain(spark: SparkSession, job: Job, *, out: str) -> dict[str, Any]:
    """All that there is, by Spark's own writer."""
    query = _writer(spark, job, out).trigger(availableNow=True).start()
    query.awaitTermination()
    return {"written": sum(max(0, each["numInputRows"]) for each in query.recentProgress)}


def kafka_sink(spark: SparkSession, job: Job, *, out: str, guarantee: str) -> dict[str, Any]:
    """All that there is, by a Kafka sink of a pipeline."""
    _write(job, out, guarantee, {})
    return update(spark, Job(job.servers, job.folder, job.folder))


def follow_plain(spark: SparkSession, job: Job, *, out: str, trigger: dict[str, str], until: str) -> dict[str, Any]:
    """Records as they come, by Spark's own writer, until the file ``until`` is there."""
    # Real-time mode refuses "append"; without state both write the same.
    query = _writer(spark, job, out).outputMode("update").trigger(**trigger).start()
    try:
        while not Path(until).exists() and not query.awaitTermination(1):
            pass
    finally:
        query.stop()
    return {}


def follow_sink(
    _spark: SparkSession, job: Job, *, out: str, guarantee: str, configuration: dict[str, str], until: str
) -> dict[str, Any]:
    """Records as they come, by a Kafka sink of a pipeline, until the file ``until`` is there."""
    _write(job, out, guarantee, configuration)
    with Following(job.folder) as flow:
        flow.wait(Path(until).exists, _FOLLOWED_S)
    return {}


def _write(job: Job, out: str, guarantee: str, configuration: dict[str, str]) -> None:
    """Puts the files of a pipeline into the folder of the job."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    settings = "".join(f'  {name}: "{value}"\n' for name, value in {"bench": "true", **configuration}.items())
    libraries = "libraries:\n  - file: {path: copy.py}\n"
    (folder / "pipeline.yml").write_text(f"name: bench\n{libraries}configuration:\n{settings}")
    texts = {"servers": job.servers, "topic": job.topic, "schema": records.SCHEMA}
    (folder / "copy.py").write_text(_PIPELINE.format(out=out, guarantee=guarantee, **texts))


KAFKA_SINKS: Final = {
    "kafka_plain": ("tuned", kafka_plain),
    "kafka_at_least_once": ("tuned", functools.partial(kafka_sink, guarantee="at_least_once")),
    "kafka_exactly_once": ("tuned", functools.partial(kafka_sink, guarantee="exactly_once")),
    "follow_plain": ("tuned", follow_plain),
    "follow_sink": ("tuned", follow_sink),
}
"""Name to session and door."""
