"""The rows that one commit added to a Delta table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.ports.delta.delta_table import actions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.ports.lake.lake_files import LakeFiles


def added_rows(spark: SparkSession, files: LakeFiles, location: str, version: int) -> DataFrame | None:
    """The rows that the commit of a version added; None if there are none.

    Args:
        spark: A session.
        files: Where the table lies.
        location: The table's folder.
        version: Of a commit that only added rows.

    Raises:
        AnalysisException: The version can no longer be read.
    """
    text = files.read(f"{location.rstrip('/')}/_delta_log/{version:020d}.json") or ""
    added = [body for line in actions_of(text) if (body := json.loads(line).get("add")) and body["dataChange"]]
    if not added:
        return None
    names = [unquote(body["path"]).rsplit("/", 1)[-1] for body in added]
    table = spark.read.format("delta").option("versionAsOf", version).load(location)
    return table.where(F.col("_metadata.file_name").isin(names))
