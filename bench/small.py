"""What costs time when there is little to do: looks at nothing, batches of 100 records, one record's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bench import records
from bench.contestants import Job, order
from rivermouth.engine.events import BatchDone, Event, StepReached
from rivermouth.engine.run.supervisor import Supervisor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_PATIENCE_S = 60.0


class Following:
    """A flow that follows its topic in a thread, with all events that it emitted."""

    def __init__(self, spark: SparkSession, job: Job, every: str) -> None:
        self.done: list[BatchDone] = []
        self.steps: list[tuple[float, str]] = []
        self._ran: Any = None
        self._supervisor = Supervisor(spark, self._hear, self._between)
        self._order = order(job, "json", trigger={"every": every})
        self._thread = threading.Thread(target=self._follow)
        self.error: BaseException | None = None
        self._newest: Any = None

    def start(self) -> None:
        self._thread.start()
        self.wait(lambda: self._ran is not None and bool(self._ran.spark.streams.active))

    def stop(self) -> None:
        self._supervisor.stop()
        self._thread.join()
        if self.error is not None:
            raise self.error

    @property
    def query(self) -> StreamingQuery:
        return self._ran.spark.streams.active[0]

    @property
    def newest(self) -> Any:
        """Spark's report on the newest trigger that wrote a batch; None before the first."""
        last = self.query.lastProgress
        if last is not None and "addBatch" in last.durationMs:
            self._newest = last
        return self._newest

    @property
    def consumed(self) -> int:
        return sum(done.counts.consumed for done in self.done)

    def wait(self, condition: Any) -> None:
        """Until ``condition`` holds."""
        deadline = time.monotonic() + _PATIENCE_S
        while not condition():
            if self.error is not None:
                raise self.error
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(0.005)

    def _follow(self) -> None:
        outcome = self._supervisor.run([self._order], keep_following=True)[0]
        self.error = outcome.error

    def _between(self, run: Any) -> None:
        self._ran = run

    def _hear(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self.done.append(event)
        if isinstance(event, StepReached | BatchDone):
            self.steps.append((time.monotonic(), getattr(event, "step", "done")))


@contextmanager
def following(spark: SparkSession, job: Job, every: str) -> Iterator[Following]:
    """The flow while the block runs."""
    flow = Following(spark, job, every)
    flow.start()
    try:
        yield flow
    finally:
        flow.stop()


def looks(spark: SparkSession, job: Job, *, count: int) -> dict[str, Any]:
    """Milliseconds of each trigger that found nothing, as Spark itself reports them."""
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "0")
    found: dict[str, float] = {}
    try:
        with following(spark, job, "50 ms") as flow:
            deadline = time.monotonic() + _PATIENCE_S
            while len(found) < count and time.monotonic() < deadline:
                for progress in flow.query.recentProgress:
                    if not progress.numInputRows:
                        found[progress.timestamp] = progress.durationMs["triggerExecution"]
                time.sleep(0.5)
    finally:
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
    # The first ones are still warming up.
    return {"ms": list(found.values())[count // 4 : count], "consumed": flow.consumed}


def hundreds(spark: SparkSession, job: Job, *, batches: int, warm_up: int, bad_every: int) -> dict[str, Any]:
    """Milliseconds of triggers with 100 records each, and of the steps in them."""
    client = records.producer(job.servers)
    triggers, steps, number = [], [], 0
    with following(spark, job, "20 ms") as flow:
        # Now and then a trigger comes between the records of a hundred: that is no batch of 100.
        while len(triggers) < batches:
            before, newest = len(flow.done), _batch_id(flow.newest)
            sent = flow.consumed + 100
            flow.steps.clear()
            hundred = records.values(100, bad_every=bad_every, first=100 * number)
            for at, (key, value) in enumerate(hundred):
                client.produce(job.topic, value, key, partition=at % records.PARTITIONS)
            client.flush()
            number += 1
            flow.wait(lambda: flow.consumed >= sent)  # noqa: B023 - used at once
            flow.wait(lambda: _batch_id(flow.newest) > newest)  # noqa: B023 - used at once
            whole = len(flow.done) == before + 1
            if number > warm_up and (whole or number > warm_up + 3 * batches):
                triggers.append(flow.newest.durationMs)
                steps.append(_durations(flow.steps))
        counts = sum((done.counts for done in flow.done[1:]), flow.done[0].counts)
    return {
        "ms": [each["triggerExecution"] for each in triggers],
        "triggers": triggers,
        "steps": steps,
        "consumed": counts.consumed,
        "written": counts.written,
        "dead_lettered": counts.dead_lettered,
    }


def _batch_id(progress: Any) -> int:
    return -1 if progress is None else int(progress.batchId)


def _durations(steps: list[tuple[float, str]]) -> dict[str, float]:
    """Milliseconds from each step to the next."""
    return {step: round(1000 * (later - at), 1) for (at, step), (later, _next) in pairwise(steps)}


def follow(spark: SparkSession, job: Job, *, seconds: float) -> dict[str, Any]:
    """Follows for a while at a trigger of one second; the parent produces and reads meanwhile."""
    with following(spark, job, "1 second") as flow:
        time.sleep(seconds)
    return {"consumed": flow.consumed, "batches": len(flow.done)}
