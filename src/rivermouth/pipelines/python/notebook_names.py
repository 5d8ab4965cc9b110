"""What code finds in notebooks of Databricks without an import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rivermouth.pipelines.python.dbutils import DbUtils

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def names_of_file(names: Mapping[str, Any]) -> dict[str, Any]:
    """The names as one file has them: its widgets are its own."""
    if not isinstance(names.get("dbutils"), DbUtils):
        return dict(names)
    own = names["dbutils"].of_file()
    return {**names, "dbutils": own, "getArgument": own.widgets.getArgument}


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
