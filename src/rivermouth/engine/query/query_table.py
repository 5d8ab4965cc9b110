"""The table of a dataset: made with its first columns, and given new ones when its query has some."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivermouth.errors import TableSchemaChanged
from rivermouth.ports.delta import delta_ddl, delta_table
from rivermouth.ports.internals.delta_snapshot import TableState, table_state
from rivermouth.schemas.column_types import nullable_columns
from rivermouth.schemas.type_widening import widens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from rivermouth.ports.lake.lake_files import LakeFiles

_PROPERTIES = {"delta.checkpointInterval": "100"}
"""Of tables that are committed often, unless the user says another number."""
_BY_KEY = {"delta.enableDeletionVectors": "true"}
"""Of tables whose rows are changed by key, as flows have them: a changed row is marked as gone in its file."""


@dataclass(frozen=True, slots=True)
class QueryTable:
    """How the table of a dataset is made.

    Attributes:
        dataset: Its name, as users write it.
        location: Its folder.
        columns: Those of its queries, or declared.
        partition_by: Names of partition columns.
        cluster_by: Names of clustering columns.
        properties: Delta's table properties.
        comment: Comment on the table.
        at: Where the dataset is defined.
        keyed: Whether its rows are changed by key.
    """

    dataset: str
    location: str
    columns: StructType
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    at: str | None = None
    keyed: bool = False


def prepare(spark: SparkSession, files: LakeFiles, table: QueryTable) -> TableState:
    """The table, which can take the columns of its query afterwards: made, or given new columns and wider types.

    Raises:
        TableSchemaChanged: A column has another type than the query brings, and Delta cannot widen it.

    Guarantees:
        Run twice: the second time changes nothing. Stopped half-way: some columns are there already.
    """
    if not delta_table.exists(files, table.location):
        layout = delta_table.TableLayout(
            columns=table.columns,
            partition_by=table.partition_by,
            cluster_by=table.cluster_by,
            properties=_properties(table),
            comment=table.comment,
        )
        delta_table.create(spark, table.location, layout, metadata=json.dumps({"rivermouth_dataset": table.dataset}))
        return table_state(spark, table.location)
    state = table_state(spark, table.location)
    added, widened = changes(state.columns, table)
    if added or widened:
        delta_ddl.alter(spark, table.location, added=added, widened=widened)
        return table_state(spark, table.location)
    return state


def _properties(table: QueryTable) -> dict[str, str]:
    """The user's, and those that the user does not set."""
    mine = {name.lower() for name in table.properties}
    ours = _PROPERTIES | (_BY_KEY if table.keyed else {})
    return {name: value for name, value in ours.items() if name.lower() not in mine} | dict(table.properties)


def changes(there: StructType, table: QueryTable) -> tuple[list[StructField], list[StructField]]:
    """The columns that the table lacks, and those that become wider.

    Raises:
        TableSchemaChanged: A column has another type than the query brings, and Delta cannot widen it.
    """
    known = {each.name.lower(): each for each in there}
    added, widened = [], []
    for column in table.columns:
        mine = known.get(column.name.lower())
        if mine is None:
            added.append(column)
        elif mine.dataType.simpleString() != column.dataType.simpleString():
            if widens(mine.dataType, column.dataType):
                widened.append(column)
            elif not _is_narrower(column, mine):
                raise TableSchemaChanged(
                    at=table.at,
                    dataset=table.dataset,
                    column=column.name,
                    found=mine.dataType.simpleString(),
                    wanted=column.dataType.simpleString(),
                )
    return added, widened


def _is_narrower(column: StructField, mine: StructField) -> bool:
    """Whether the table's type holds all values that the query's has."""
    return widens(column.dataType, mine.dataType)


def conformed(rows: DataFrame, columns: StructType) -> DataFrame:
    """Rows in the table's columns, order and types; columns and fields of structs that they lack are null.

    A number that the table's type cannot hold ends the job.
    """
    return rows.to(nullable_columns(columns))
