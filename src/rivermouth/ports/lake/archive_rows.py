"""How many rows the files of an archive have, counted by Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.ports.lake.file_archive import Archive

_NO_COLUMN: Final = "__none string"
"""No file has it; rows are counted without their values."""


def rows_by_batch(spark: SparkSession, archive: Archive, paths: Sequence[str]) -> Counter[int]:
    """How many rows these files have, by the number of the manifest that lists them.

    Args:
        spark: A session.
        archive: The archive.
        paths: In the archive.

    Raises:
        PySparkException: A file cannot be read.
    """
    if not paths:
        return Counter()
    # A value of CSV may have line breaks. Partition columns of earlier batches may be others.
    reader = spark.read.format(archive.format).schema(_NO_COLUMN).options(**archive.options)
    found = reader.options(multiLine=archive.format == "csv", recursiveFileLookup=True).load(
        [f"{archive.location}/{each}" for each in paths]
    )
    number = F.regexp_extract("_metadata.file_name", r"-(\d+)-\d+\.[^-]*$", 1).cast("bigint").alias("number")
    counted = found.select(number).groupBy("number").agg(F.count(F.lit(1)).alias("rows")).collect()
    return Counter({row["number"]: row["rows"] for row in counted})
