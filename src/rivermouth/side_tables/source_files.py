"""The files that the queries of a table have read, kept in its folder: a lost checkpoint makes no file read twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.small_append import append_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from rivermouth.ports.lake.lake_files import LakeFiles

FOLDER: Final = "_source_files"
"""Below the table's folder; Delta leaves folders alone whose names begin with ``_``."""
_COLUMNS: Final = T.StructType(
    [
        T.StructField("flow", T.StringType()),
        T.StructField("entry", T.LongType()),
        T.StructField("source", T.IntegerType()),
        T.StructField("path", T.StringType()),
        T.StructField("timestamp", T.LongType()),
    ]
)


class SourceFiles:
    """A Delta table in the folder of a dataset's table: a row for each file that a flow has read.

    A batch's files are written before the commit that brings their rows; rows of a later entry than the table's ledger
    has do not count.

    Args:
        files: Where the table lies.
        table: The folder of the dataset's table.
    """

    def __init__(self, files: LakeFiles, table: str) -> None:
        self._files = files
        self.location = f"{table}/{FOLDER}"

    def add(self, spark: SparkSession, flow: str, entry: int, found: Sequence[tuple[int, str, int]]) -> None:
        """Keeps the files of one batch.

        Args:
            spark: Any session.
            flow: The flow's name.
            entry: The number of the batch's ledger entry.
            found: Of each file the number of its source, its path and its timestamp.

        Guarantees:
            Run twice: the files are there twice with one entry, which says the same. Stopped half-way: all or none.
        """
        if not found:
            return
        if not delta_table.exists(self._files, self.location):
            layout = delta_table.TableLayout(
                _COLUMNS,
                properties={"delta.checkpointInterval": "100", "delta.dataSkippingStatsColumns": "flow,entry"},
            )
            delta_table.create(spark, self.location, layout, metadata=json.dumps({"source_files_of": flow}))
        rows = [dict(zip(_COLUMNS.names, (flow, entry, *each), strict=True)) for each in found]
        append_rows(spark, self._files, self.location, rows, _COLUMNS)

    def known(self, spark: SparkSession, flow: str, entry: int) -> list[tuple[int, str, int]]:
        """The files of all batches of a flow up to an entry, each once."""
        if not delta_table.exists(self._files, self.location):
            return []
        rows = spark.read.format("delta").load(self.location).where(f"entry <= {entry}")
        rows = rows.where(rows["flow"] == flow).groupBy("source", "path").agg({"timestamp": "max"})
        return [(row[0], row[1], row[2]) for row in rows.collect()]

    def has_any(self, spark: SparkSession, flow: str, below: str = "") -> bool:
        """Whether a flow has read files, or was about to, whose addresses have the text ``below`` in them."""
        if not delta_table.exists(self._files, self.location):
            return False
        rows = spark.read.format("delta").load(self.location)
        addresses = F.expr("try_url_decode(replace(path, '+', '%2B'))")
        return not rows.where((rows["flow"] == flow) & addresses.contains(below)).isEmpty()

    def forget(self, spark: SparkSession, flow: str, up_to: int | None = None) -> None:
        """Forgets the files of a flow: its sources are read from their beginning.

        Args:
            spark: Any session.
            flow: The flow's name.
            up_to: The ledger entry up to which they are forgotten; None forgets all.

        Guarantees:
            Run twice: as once. Stopped half-way: all of them are there still, or none.
        """
        if delta_table.exists(self._files, self.location):
            from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

            table = DeltaTable.forPath(spark, self.location)
            mine = F.col("flow") == F.lit(flow)
            table.delete(mine if up_to is None else mine & (F.col("entry") <= F.lit(up_to)))
