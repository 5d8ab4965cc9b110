"""What code finds in notebooks of Databricks without an import."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.pipelines.python.dbutils import DbUtils


def notebook_names(spark: SparkSession, dbutils: DbUtils) -> dict[str, Any]:
    """The global names (https://docs.databricks.com/aws/en/notebooks/notebooks-code)."""
    from pyspark.sql.functions import udf  # noqa: PLC0415 - files in SQL do not need it

    return {
        "spark": spark,
        "sc": spark.sparkContext,
        "sql": spark.sql,
        "table": spark.table,
        "udf": udf,
        "dbutils": dbutils,
        "getArgument": dbutils.widgets.getArgument,
        "display": silent,
        "displayHTML": silent,
    }


def silent(*_values: Any, **_options: Any) -> None:
    """``display``: nothing is shown in a run."""


@contextmanager
def frames_with_display() -> Iterator[None]:
    """In the block frames have the method ``display``, which shows nothing."""
    from pyspark.sql.classic.dataframe import DataFrame  # noqa: PLC0415 - as above

    before = DataFrame.__dict__.get("display")
    DataFrame.display = silent  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if before is None:
            del DataFrame.display  # type: ignore[attr-defined]
        else:
            DataFrame.display = before  # type: ignore[attr-defined]
