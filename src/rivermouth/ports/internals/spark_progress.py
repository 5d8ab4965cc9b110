"""What Spark is at now, as its status store has it: cheap enough to be asked a few times a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class Work:
    """The stages that are running.

    Attributes:
        records: Records that they have read; a task reports it at its end, and with each heartbeat of its executor.
        done: Tasks that have ended.
        tasks: All tasks.
    """

    records: int
    done: int
    tasks: int


def at_work() -> Work | None:
    """What the jobs of this process's session are at; None where there is no job, or no session that answers."""
    context: Any = SparkContext._active_spark_context  # noqa: SLF001 - PySpark keeps it there
    if context is None:
        return None
    try:
        stages = context._jsc.sc().statusStore().activeStages()  # noqa: SLF001 - as above
        found = [stages.apply(number) for number in range(stages.size())]
        work = Work(
            records=sum(each.inputRecords() for each in found),
            done=sum(each.numCompleteTasks() for each in found),
            tasks=sum(each.numTasks() for each in found),
        )
    except Exception:  # noqa: BLE001 - a JVM that is gone, or is just being ended, has nothing to report
        return None
    return work if work.tasks else None
