"""Declarative pipelines, and the flows that do the same work. Imported in the worker's process alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from bench import records
from bench.contestants import Job
from bench.pipeline_files import write
from rivermouth import Project
from rivermouth.engine.query.query_events import BatchWritten, QueryEvent
from rivermouth.pipelines import commands
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE_S: Final = 60.0
_RECORDS_A_BATCH: Final = 100
_COORDINATES: Final = ("topic", "partition", "offset", "timestamp", "key")


def two_flows(_spark: SparkSession, job: Job) -> dict[str, Any]:
    """A topic into a raw table, and from there into one of checked orders: two flows of a project."""
    flows = {
        "raw": {"topics": [job.topic], "format": "raw", "table": "main.raw"},
        "orders": {
            "source": {"table": "main.raw"},
            "format": {"type": "json", "schema": records.SCHEMA},
            "table": "main.orders",
            "expectations": [
                {"name": name, "condition": condition, "action": "dead_letter"}
                for name, condition in records.EXPECTATIONS
            ],
        },
    }
    spec = ProjectSpec.model_validate({"lake": job.folder, "kafka": {"bootstrap_servers": job.servers}, "flows": flows})
    return {"written": sum(each.counts.written for each in Project.from_spec(spec).run())}


def two_streams(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The same two tables by plain PySpark: no ledger, no counts of expectations, rows that fail them are filtered."""
    raw, orders = f"{job.folder}/main/raw", f"{job.folder}/main/orders"
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.servers)
    kafka = kafka.option("subscribe", job.topic).option("startingOffsets", "earliest")
    coordinates = [F.col(name).alias(f"kafka_{name}") for name in _COORDINATES]
    written = _streamed(kafka.load().select("value", *coordinates), raw, job)
    parsed = F.from_json(F.col("value").cast("string"), records.SCHEMA).alias("data")
    kept = [f"kafka_{name}" for name in _COORDINATES]
    rows = spark.readStream.format("delta").load(raw).select(parsed, *kept).select("data.*", *kept)
    good = " AND ".join(f"({condition})" for _, condition in records.EXPECTATIONS)
    return {"written": written + _streamed(rows.where(good), orders, job)}


def _streamed(rows: DataFrame, place: str, job: Job) -> int:
    """Rows that a streaming query read until there were no more; they are in the table afterwards."""
    checkpoint = f"{job.folder}/checkpoints/{Path(place).name}"
    stream = rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = stream.start(place)
    query.awaitTermination()
    return sum(max(0, each["numInputRows"]) for each in query.recentProgress)


def update(spark: SparkSession, job: Job, *, times: int = 1) -> dict[str, Any]:
    """Updates of the pipeline in the folder that ``topic`` names: seconds, Spark jobs and rows of each."""
    (pipeline,) = commands.pipelines(job.topic)
    found: dict[str, Any] = {"seconds_each": [], "jobs": [], "written": 0, "tables": 0}
    for _ in range(times):
        started, before = time.monotonic(), _jobs(spark)
        outcomes = commands.run(pipeline)
        commands.raise_failures(outcomes)
        found["seconds_each"].append(round(time.monotonic() - started, 3))
        found["jobs"].append(_jobs(spark) - before)
        found["written"] += sum(each.counts.written for each in outcomes)
        found["tables"] = len(outcomes)
    return found


def _jobs(spark: SparkSession) -> int:
    """How many jobs the context has run so far."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())  # noqa: SLF001 - there is no public way


class Following:
    """A pipeline that goes on in a thread, with the steps of its batches."""

    def __init__(self, folder: str) -> None:
        (self._pipeline,) = commands.pipelines(folder)
        self.done: list[BatchWritten] = []
        self.steps: list[tuple[float, str]] = []
        self._stopping = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._follow)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def wait(self, condition: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
        """Until ``condition`` holds."""
        deadline = time.monotonic() + patience_s
        while not condition():
            if self._failed:
                raise self._failed[0]
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.005)

    @property
    def read(self) -> int:
        """Rows so far."""
        return sum(each.counts.read for each in self.done)

    def _follow(self) -> None:
        options = commands.UpdateOptions(follow=True, listener=self._hear, step=self._step)
        try:
            with commands.opened(self._pipeline, writes=True) as loaded:
                commands.raise_failures(commands.updated(loaded, options, self._stopping))
        except BaseException as error:  # noqa: BLE001 - the one that waits raises it
            self._failed.append(error)

    def _hear(self, event: QueryEvent) -> None:
        if isinstance(event, BatchWritten):
            self.steps.append((time.monotonic(), "done"))
            self.done.append(event)

    def _step(self, name: str) -> None:
        self.steps.append((time.monotonic(), name))


def query_hundreds(_spark: SparkSession, job: Job, *, batches: int, warm_up: int, pipeline: str) -> dict[str, Any]:
    """Milliseconds of the steps of batches with 100 records each, of a pipeline that goes on."""
    client, found, number = records.producer(job.servers), [], 0
    with Following(pipeline) as flow:
        while len(found) < batches:
            before, sent = len(flow.done), flow.read + _RECORDS_A_BATCH
            flow.steps.clear()
            for at, (key, value) in enumerate(records.values(_RECORDS_A_BATCH, first=_RECORDS_A_BATCH * number)):
                client.produce(job.topic, value, key, partition=at % records.PARTITIONS)
            client.flush()
            number += 1
            flow.wait(lambda: flow.read >= sent)  # noqa: B023 - used at once
            whole = len(flow.done) == before + 1
            if number > warm_up and (whole or number > warm_up + 3 * batches):
                found.append(_durations(flow.steps))
    return {"steps": found, "batches": len(flow.done), "read": flow.read}


def _durations(steps: list[tuple[float, str]]) -> dict[str, float]:
    """Milliseconds from each step to the next."""
    return {step: round(1000 * (later - at), 1) for (at, step), (later, _) in pairwise(steps)}


def two_datasets(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The work of ``two_flows`` as a pipeline of two datasets, by Spark's ``from_json``."""
    return _carried(spark, job, "two")


def two_decoded(spark: SparkSession, job: Job) -> dict[str, Any]:
    """The work of ``two_flows`` as a pipeline of two datasets, by ``decode``: strictly, with dead letters."""
    return _carried(spark, job, "decoded")


def _carried(spark: SparkSession, job: Job, kind: str) -> dict[str, Any]:
    write(Path(job.folder), kind, job.servers, job.topic)
    return update(spark, Job(job.servers, job.folder, job.folder))


PIPELINES: Final = {
    "two_flows": ("tuned", two_flows),
    "two_datasets": ("tuned", two_datasets),
    "two_decoded": ("tuned", two_decoded),
    "two_streams": ("tuned", two_streams),
    "update": ("tuned", update),
    "query_hundreds": ("tuned", query_hundreds),
}
"""Name to session and door."""
