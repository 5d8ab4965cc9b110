"""Delta tables changed by statements: columns, properties, and their names in a catalog. No row is rewritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rivermouth.names import quoted
from rivermouth.ports.delta.delta_table import MAPPING, needs_mapping
from rivermouth.ports.internals.delta_snapshot import table_state

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField

_STATISTICS: Final = "delta.dataskippingstatscolumns"
"""The property, in lower case, that lists the columns of statistics."""


def alter(spark: SparkSession, location: str, *, added: Sequence[StructField], widened: Sequence[StructField]) -> None:
    """Changes the table's columns, each change a commit of its own that touches no row.

    Args:
        spark: Any session.
        location: The table's folder.
        added: New columns, at the end; old rows have nulls there. Where one has a name that no Parquet file can have
            as it is, the table then needs readers that know Delta's column mapping.
        widened: Columns with their new, wider type: other numbers, or structs with further fields. With other numbers
            the table then needs readers that know Delta's type widening.
    """
    from rivermouth.schemas.column_types import ddl  # noqa: PLC0415 - loads Spark, which reading a log does not need

    table = f"delta.{quoted(location)}"
    allow_columns(spark, location, (*added, *widened))
    for column in added:
        spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({quoted(column.name)} {ddl(column.dataType)})")
    there = {each.name.lower(): each.dataType for each in table_state(spark, location).columns} if widened else {}
    steps = [step for each in widened for step in _steps(quoted(each.name), there[each.name.lower()], each.dataType)]
    if any(not step.is_new for step in steps):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for step in steps:
        what = (
            f"ADD COLUMNS ({step.path} {ddl(step.to)})"
            if step.is_new
            else f"ALTER COLUMN {step.path} TYPE {ddl(step.to)}"
        )
        spark.sql(f"ALTER TABLE {table} {what}")


def allow_columns(spark: SparkSession, location: str, columns: Iterable[StructField]) -> None:
    """Lets the table have such columns, in a commit of its own that touches no row; nothing where it can have them.

    Where one has a name that no Parquet file can have as it is, the table then needs readers that know Delta's column
    mapping; where one is a timestamp without a zone, readers that know this type.
    """
    columns, missing = tuple(columns), dict[str, str]()
    if needs_mapping(columns) or _have_ntz(columns):
        state = table_state(spark, location)
        if needs_mapping(columns) and state.properties.get(MAPPING, "none") == "none":
            missing[MAPPING] = "name"
        if _have_ntz(columns) and not _have_ntz(state.columns):
            missing["delta.feature.timestampNtz"] = "supported"
    if missing:
        set_properties(spark, location, missing)


def _have_ntz(columns: Iterable[StructField]) -> bool:
    return any("timestamp_ntz" in each.dataType.simpleString() for each in columns)


def forget_statistics(spark: SparkSession, location: str, kept: Sequence[str]) -> None:
    """Unsets the list of columns for which the table has statistics, where it names one that is not ``kept``.

    Delta refuses each commit that takes such a column out of the table. It is a commit that touches no row.

    Args:
        spark: Any session.
        location: The table's folder.
        kept: Names of the columns that it has then, without partition columns.
    """
    said = next(
        (text for name, text in table_state(spark, location).properties.items() if name.lower() == _STATISTICS), ""
    )
    named = {each.strip().strip("`").partition(".")[0].lower() for each in said.split(",") if each.strip()}
    if named - {each.lower() for each in kept}:
        spark.sql(
            f"ALTER TABLE delta.{quoted(location)} UNSET TBLPROPERTIES IF EXISTS ('delta.dataSkippingStatsColumns')"
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """One change within a column: a new field, or another type of one."""

    path: str
    to: DataType
    is_new: bool


def _steps(path: str, old: DataType, new: DataType) -> Iterator[_Step]:
    """What makes ``new`` of ``old``, which it holds."""
    from pyspark.sql.types import ArrayType, MapType, StructType  # noqa: PLC0415 - as above

    match old, new:
        case StructType(), StructType():
            there = {each.name: each.dataType for each in old.fields}
            for each in new.fields:
                name = f"{path}.{quoted(each.name)}"
                if each.name in there:
                    yield from _steps(name, there[each.name], each.dataType)
                else:
                    yield _Step(name, each.dataType, is_new=True)
        case ArrayType(), ArrayType():
            yield from _steps(f"{path}.element", old.elementType, new.elementType)
        case MapType(), MapType():
            yield from _steps(f"{path}.key", old.keyType, new.keyType)
            yield from _steps(f"{path}.value", old.valueType, new.valueType)
        case _ if old.simpleString() != new.simpleString():
            yield _Step(path, new, is_new=False)


def set_property(spark: SparkSession, location: str, name: str, value: str) -> None:
    """Sets a table property, in a commit of its own that touches no row."""
    set_properties(spark, location, {name: value})


def set_properties(spark: SparkSession, location: str, properties: Mapping[str, str]) -> None:
    """Sets table properties, in a commit of their own that touches no row."""
    pairs = ", ".join(f"{_literal(name)} = {_literal(value)}" for name, value in properties.items())
    spark.sql(f"ALTER TABLE delta.{quoted(location)} SET TBLPROPERTIES ({pairs})")


def _literal(text: str) -> str:
    # A property is a literal and no expression; a dollar could begin a variable.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
    return f"'{escaped}'"


def set_clustering(spark: SparkSession, location: str, columns: Sequence[str]) -> None:
    """Sets the columns by which new files of a clustered table are clustered, in a commit that touches no row.

    Raises:
        AnalysisException: The table is partitioned, or a column cannot be one of these.
    """
    names = ", ".join(".".join(map(quoted, each.split("."))) for each in columns)
    spark.sql(f"ALTER TABLE delta.{quoted(location)} CLUSTER BY ({names})")


def register(spark: SparkSession, name: str, location: str) -> str:
    """Makes the table at ``location`` known in a catalog as ``name`` and says where the catalog has it.

    Args:
        spark: Any session; the catalog is shared.
        name: ``catalog.schema.table``.
        location: The table's folder; the table is there.

    Returns:
        The location that the catalog has for the name: another one if the name was taken.

    Guarantees:
        Run twice: the second call finds the name and changes nothing. The table itself is never changed.
    """
    *schema, _table = name.split(".")
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(quoted(part) for part in schema)}")
    full = ".".join(quoted(part) for part in name.split("."))
    escaped = location.replace("\\", "\\\\").replace("'", "\\'")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {full} USING delta LOCATION '{escaped}'")
    found: str = spark.sql(f"DESCRIBE DETAIL {full}").select("location").collect()[0][0]
    return found
