"""Frames that Spark analyses once, and that are then used for the rows of one batch after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from rivermouth.decoding.jvm.java_objects import java_class, java_frame, java_session

if TYPE_CHECKING:
    from collections.abc import Callable


def planned(rows: DataFrame) -> DataFrame:
    """The same rows of a plan that is made now and by itself, so that what is made of them is code of its own.

    What changes from batch to batch, such as the offsets by which files are left out, stays in the code that reads;
    all that follows is compiled once.
    """
    spark, java = rows.sparkSession, java_frame(rows)
    made = java.queryExecution().toRdd()
    found = java_session(spark).internalCreateDataFrame(made, java.schema(), False)
    return DataFrame(found, spark)


class Prepared:
    """What a function makes of rows, as a prepared statement: Spark analyses it for the first rows alone.

    To build and to analyse the frames of a batch takes longer than to process a hundred records. They are built again
    for each batch where Spark fixes something when it analyses them (the seed of ``rand()``, the files of another
    table).

    Args:
        build: A frame to a frame. It is called over a frame without rows.
        lasts: False where Spark's parser fixes something in it: ``DATE 'today'``.

    Attributes:
        lasts: Whether what was analysed is used again.
    """

    def __init__(self, build: Callable[[DataFrame], DataFrame], *, lasts: bool = True) -> None:
        self._build = build
        self._java: Any = None
        self.lasts = lasts
        # Empty frames with what was made of them; few, because rows come in few shapes.
        self._made: list[tuple[DataFrame, DataFrame]] = []

    def over(self, rows: DataFrame) -> DataFrame:
        """What the function makes of ``rows``; every column may be null, as Spark sees it."""
        if self._java is None:
            self._java = java_class(rows.sparkSession, "rivermouth.internals.plan.Prepared")
        if not self.lasts:
            return self._build(rows)
        for stand_in, frame in self._made:
            found = self._java.over(*map(java_frame, (frame, stand_in, rows)))
            if found is not None:
                return DataFrame(found, rows.sparkSession)
        stand_in = DataFrame(self._java.standIn(java_frame(rows)), rows.sparkSession)
        frame = self._build(stand_in)
        self.lasts = self._java.lasts(java_frame(frame))
        if self.lasts:
            self._made.append((stand_in, frame))
        return self.over(rows)
