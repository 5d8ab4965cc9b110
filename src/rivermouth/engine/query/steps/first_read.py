"""The first batch of a streaming query over Delta tables, without a Spark job that lists their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.ports.delta.young_table import is_young
from rivermouth.ports.internals.query_plans import from_first_version, plain_tables
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.ports.lake.query_checkpoint import FixedOffsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.engine.query.query_run import QueryRun


def by_commits(frame: DataFrame, run: QueryRun) -> DataFrame:
    """A streaming query that reads young tables commit by commit, from their first one on; else the same query.

    A query that begins lists the files of each table with jobs of Delta's, which take about a second. The few commits
    of a young table name the same files. A query that has planned a batch goes on as it was planned.

    Args:
        frame: The query.
        run: The flow; its checkpoint is made ready.
    """
    checkpoint = run.context.checkpoint
    if run.entry.offsets or isinstance(checkpoint, FixedOffsets):
        return frame
    tables = plain_tables(frame)
    if not tables or checkpoint.inspect().planned >= 0:
        return frame
    files = PlacedFiles(frame.sparkSession)
    young = [each for each in dict.fromkeys(tables) if is_young(files, each)]
    return from_first_version(frame, young) if young else frame
