"""Frames of no rows or a few, which Spark holds itself.

PySpark's ``createDataFrame`` of a list is read by Python's workers, which Spark would start for it, also for no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from rivermouth.decoding.jvm.java_objects import java_class, java_session, jvm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def no_rows(spark: SparkSession, columns: StructType) -> DataFrame:
    """A frame with these columns and no rows."""
    java_columns = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(columns.json())
    return DataFrame(java_session(spark).createDataFrame(jvm(spark).java.util.ArrayList(), java_columns), spark)


def few_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], columns: StructType) -> DataFrame:
    """A frame of these rows.

    Args:
        spark: The session.
        rows: Values by column; structs as mappings too, times with their zone.
        columns: Those of the frame.
    """
    return spark.createDataFrame(arrow_table(rows, columns), columns)


def arrow_table(rows: Sequence[Mapping[str, Any]], columns: StructType) -> pa.Table:
    """The same rows as a table of Arrow's."""
    import pyarrow as pa  # noqa: PLC0415 - for those who have rows
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415

    return pa.Table.from_pylist([dict(each) for each in rows], schema=to_arrow_schema(columns, timezone="UTC"))
