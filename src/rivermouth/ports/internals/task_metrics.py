"""What Spark's tasks needed for a piece of work: memory, and what did not fit into it."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_TIMEOUT_MS: Final = 2_000


@dataclass(slots=True)
class TaskMetrics:
    """What the tasks of one piece of work needed, once that is done.

    Attributes:
        task_peak_bytes: Execution memory of the task that had the most: what it sorted, joined and aggregated in.
        spilled_bytes: What did not fit into memory and went to the workers' disks, of all tasks together.

    Both are None where Spark is too busy to report them.
    """

    task_peak_bytes: int | None = None
    spilled_bytes: int | None = None


@contextmanager
def spent(spark: SparkSession) -> Iterator[TaskMetrics]:
    """Counts what the jobs of the calling thread need; what is yielded has the figures once the block is left."""
    found = TaskMetrics()
    java = java_class(spark, "rivermouth.internals.plan.TaskTotals")
    context, tag = spark.sparkContext, f"rivermouth-{uuid.uuid4()}"
    listener = java(sessions.context(spark), tag)
    context.addJobTag(tag)
    try:
        yield found
        if (told := listener.told(_TIMEOUT_MS)) is not None:
            found.task_peak_bytes, found.spilled_bytes, _tasks = told
    finally:
        context.removeJobTag(tag)
        listener.end()
