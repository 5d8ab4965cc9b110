"""Tables of the lake by their names, for what Spark and Delta run by themselves: sinks, ``MERGE``, ``DeltaTable``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from delta.tables import DeltaTable, DeltaTableBuilder

from rivermouth.pipelines.names import Names, TableName
from rivermouth.ports.internals import sessions
from rivermouth.ports.internals import settings as internals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CATALOG: Final = "spark.sql.catalog"
_DEFAULT_FORMAT: Final = "spark.sql.sources.default"
_CATALOG_OF_NAMES: Final = "spark.rivermouth.catalog"


def find_by_name(spark: SparkSession, lake: str, names: Names) -> None:
    """Spark and Delta find and make the tables of a lake by name, in this session and in those of its queries.

    Args:
        spark: A session of the pipeline's own. If its catalog is not Delta's, it keeps it.
        lake: The folder of the lake.
        names: The schema and the catalog of names that have none.

    Guarantees:
        A name is a folder of the lake and is registered nowhere. A new table without a location, as of
        ``saveAsTable``, is a Delta table in the lake, unless the settings of Spark name another format.
    """
    if spark.conf.get(f"{_CATALOG}.spark_catalog", None) != internals.DELTA_CATALOG:
        return
    found = {
        f"{_CATALOG}.spark_catalog": internals.LAKE_CATALOG,
        internals.LAKE_OF_CATALOG: lake,
        internals.SCHEMA_OF_CATALOG: names.schema,
    }
    if _DEFAULT_FORMAT not in sessions.all_settings(spark):
        # What saveAsTable makes where no format is named, as on Databricks.
        found[_DEFAULT_FORMAT] = "delta"
    if names.catalog is not None and spark.conf.get(f"{_CATALOG}.{names.catalog}", None) is None:
        found |= {f"{_CATALOG}.{names.catalog}": internals.LAKE_CATALOG, _CATALOG_OF_NAMES: names.catalog}
    for name, value in found.items():
        spark.conf.set(name, value)
    _teach_delta()


def without_names(spark: SparkSession) -> SparkSession:
    """A session, which finds no tables of the lake by their names any more."""
    spark.conf.unset(internals.LAKE_OF_CATALOG)
    return spark


def find_at(spark: SparkSession, name: TableName, place: str) -> None:
    """A table with a folder of its own is found by its name too, in this session and in those of its queries."""
    spark.conf.set(f"{internals.PATH_OF_TABLE}.{name}", place)


def location(spark: SparkSession, name: str) -> str | None:
    """The folder of the table that a name means in a session of a pipeline; None elsewhere, and for other names."""
    lake = spark.conf.get(internals.LAKE_OF_CATALOG, None)
    if lake is None:
        return None
    schema, catalog = (spark.conf.get(each, None) for each in (internals.SCHEMA_OF_CATALOG, _CATALOG_OF_NAMES))
    table = Names(schema or "default", catalog).resolve(name)
    if table is None:
        return None
    return spark.conf.get(f"{internals.PATH_OF_TABLE}.{table}", f"{lake}/{table.schema}/{table.table}")


@functools.cache
def _teach_delta() -> None:
    """``DeltaTable.forName`` and ``tableName`` of its builder ask a catalog of Spark's that no session can replace."""
    by_name, named = DeltaTable.forName.__func__, DeltaTableBuilder.tableName  # type: ignore[attr-defined]

    @functools.wraps(by_name)
    def for_name(cls: type[DeltaTable], sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:  # noqa: N803
        place = location(sparkSession, tableOrViewName)
        if place is not None and cls.isDeltaTable(sparkSession, place):
            return cls.forPath(sparkSession, place)
        found: DeltaTable = by_name(cls, sparkSession, tableOrViewName)
        return found

    @functools.wraps(named)
    def table_name(self: Any, identifier: str) -> DeltaTableBuilder:
        place = location(self._spark, identifier)
        return named(self, identifier) if place is None else self.location(place)

    DeltaTable.forName = classmethod(for_name)  # type: ignore[assignment,method-assign]
    DeltaTableBuilder.tableName = table_name  # type: ignore[method-assign]
