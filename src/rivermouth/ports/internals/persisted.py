"""Frames that are computed once and kept until they are not needed any more."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation, Row
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.decoding.jvm.java_objects import java_frame
from rivermouth.ports.internals import sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame


@contextmanager
def computed(frame: DataFrame, *counts: Column) -> Iterator[tuple[DataFrame, Row]]:
    """The rows of ``frame``, computed now, in memory and, where that is too small, on the workers' disks.

    Not ``persist``: Delta's MERGE refuses a source that is cached in that way. Here nothing is left of the frame's
    plan, so that what is observed in it is observed once, now.

    Args:
        frame: Read once.
        counts: Aggregates over it, in the same pass; each with a name.

    Yields:
        The rows, and one row with the aggregates.

    Guarantees:
        Afterwards memory and disk are free again. A worker that ends takes its rows along: the job that needs them
        fails.
    """
    observation = Observation()
    ready = frame.observe(observation, *counts, F.count(F.lit(1)).alias("rows")).localCheckpoint(eager=True)
    try:
        yield ready, Row(**observation.get)
    finally:
        _rdd(ready).unpersist(False)


def held_bytes(ready: DataFrame) -> int | None:
    """What a frame that ``computed`` yielded takes in memory and on disk; None if Spark holds no such frame."""
    number = _rdd(ready).id()
    stored = sessions.context(ready.sparkSession).getRDDStorageInfo()
    return next((int(each.memSize() + each.diskSize()) for each in stored if each.id() == number), None)


def _rdd(ready: DataFrame) -> Any:
    return java_frame(ready).queryExecution().logical().rdd()
