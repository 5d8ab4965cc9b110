"""The columns that a flow's lookups add to those that its format reads, checked before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from rivermouth import names
from rivermouth.engine.flow.lookup_tables import state_of
from rivermouth.engine.table.problems import condition_over, fix_of
from rivermouth.errors import LookupInvalid, LookupTableMissing, first_line
from rivermouth.ports.internals.expressions import forbidden, forbidden_within, is_of_the_day, repeatable
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import lookups
from rivermouth.rows.conform import metadata_types
from rivermouth.schemas.column_types import nullable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType

    from rivermouth.engine.table.problems import Problems
    from rivermouth.spec import Flow, Lookup

_AGAIN = "it may be another at another time"


def looked_up_columns(
    spark: SparkSession,
    flow: Flow,
    payload: StructType,
    key: DataType,
    problems: Problems,
    columns_of: Callable[[SparkSession, Flow], StructType],
) -> StructType:
    """``payload``, and behind it the columns that the flow looks up; what cannot be had is kept in ``problems``.

    Args:
        spark: Any session.
        flow: The flow.
        payload: The columns that its format reads.
        key: The type of ``kafka_key``.
        problems: Gets a LookupInvalid or a LookupTableMissing for each lookup that cannot be used.
        columns_of: The columns of a flow's table, where that is not made yet.
    """
    found = list(payload.fields)
    metadata = metadata_types(flow, key)
    for index, lookup in enumerate(flow.lookup):
        with problems.kept(*lookup.columns.values()):
            table = _table(spark, flow, lookup, columns_of)
            _check_keys(flow, index, payload, metadata, table)
            _check_where(spark, flow, index, table)
            taken = [*(field.name for field in found), *metadata]
            found += _columns(flow, index, table, taken)
    return StructType(found)


def _table(
    spark: SparkSession, flow: Flow, lookup: Lookup, columns_of: Callable[[SparkSession, Flow], StructType]
) -> StructType:
    try:
        return state_of(spark, flow, lookup).columns
    except LookupTableMissing:
        if lookup.owner is None:
            raise
    # Another flow of the project makes it in the same run.
    return columns_of(spark, lookup.writer)


def _check_keys(flow: Flow, index: int, payload: StructType, metadata: dict[str, DataType], table: StructType) -> None:
    for column, other in flow.lookup[index].on.items():
        mine = lookups.payload_type(payload, column) or metadata.get(column)
        if mine is None:
            fix = names.did_you_mean(column, [*payload.names, *metadata])
            raise _refused(flow, index, f"the records have no column {column!r}", fix, "on")
        if other not in table.names:
            fix = names.did_you_mean(other, table.names)
            raise _refused(flow, index, f"the table has no column {other!r}", fix, "on")
        theirs = table[other].dataType.simpleString()
        if mine.simpleString() != theirs:
            detail = f"{column!r} of the records is {mine.simpleString()}, and {other!r} of the table is {theirs}"
            fix = f"declare it with the table's type in the schema of the format: {column} {theirs}"
            raise _refused(flow, index, detail, fix, "on")


def _columns(flow: Flow, index: int, table: StructType, taken: list[str]) -> list[StructField]:
    found = []
    for column, name in flow.lookup[index].columns.items():
        if column not in table.names:
            fix = names.did_you_mean(column, table.names)
            raise _refused(flow, index, f"the table has no column {column!r}", fix, "columns")
        if names.folded(name) in {names.folded(each) for each in taken}:
            others = [*taken, *table.names]
            free = next(
                n
                for n in (f"{column}_{i}" if i else f"looked_up_{column}" for i in range(len(others) + 1))
                if n not in others
            )
            detail = f"the flow has a column {name!r} already"
            raise _refused(flow, index, detail, f"give it another name: columns: {{{column}: {free}}}", "columns")
        found.append(StructField(name, nullable(table[column].dataType)))
        taken.append(name)
    return found


def _check_where(spark: SparkSession, flow: Flow, index: int, table: StructType) -> None:
    where = flow.lookup[index].where
    if where is None:
        return
    fix = f"where: {condition_over(table.names)}"
    try:
        # First: to analyse reflection is to load a class.
        detail = forbidden(spark, where) or (_AGAIN if is_of_the_day(where) else None)
        if detail is None:
            empty: Any = no_rows(spark, table)
            chosen = empty.where(names.as_sql(where, table.names))
            detail = forbidden_within(chosen) or (None if repeatable(chosen) else _AGAIN)
    except PySparkException as error:
        raise _refused(flow, index, first_line(error), fix_of(error, table.names, fix), "where") from error
    if detail:
        raise _refused(flow, index, detail, fix, "where")


def _refused(flow: Flow, index: int, detail: str, fix: str, setting: str) -> LookupInvalid:
    table = flow.lookup[index].table
    return LookupInvalid(flow=flow.name, table=table, detail=detail, fix=fix).about("lookup", index, setting)
