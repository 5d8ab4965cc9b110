"""The table of a dataset: made by its definition, and changed where its query or its definition does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rivermouth.domain.delta.table_transaction import NewLayout
from rivermouth.engine.query.cdc_settings import CdcSettings, change_of_target, target_properties
from rivermouth.errors import CdcTargetChanged, TablePartitionsChanged, TableSchemaChanged
from rivermouth.ports.delta import delta_ddl, delta_table
from rivermouth.ports.delta.query_ledger import is_written_by_queries
from rivermouth.ports.internals.delta_snapshot import TableState, clustering_columns, table_state
from rivermouth.schemas.column_types import is_padded, made_as, nullable_columns
from rivermouth.schemas.type_widening import holds, widens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from rivermouth.ports.lake.lake_files import LakeFiles

_MADE_FOR: Final = "rivermouth_dataset"
"""In the metadata of the commit that makes a table."""
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
        cdc: The settings of its AUTO CDC flows; None where it has none.
        sequences: What orders the changes of each of them, by its name.
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
    cdc: CdcSettings | None = None
    sequences: Mapping[str, str] = field(default_factory=dict)


def prepare(spark: SparkSession, files: LakeFiles, table: QueryTable) -> TableState:
    """The table as it is defined, which can take the columns of its query afterwards.

    It is made, or given new columns and wider types, and its properties, comment and clustering columns are set. A
    property or a comment that the definition does not have any more stays.

    Raises:
        TableSchemaChanged: A column has another type than the query brings, and Delta cannot widen it.
        TablePartitionsChanged: It is partitioned by other columns.

    Guarantees:
        Run twice: the second time changes nothing. Stopped half-way: some columns are there already.
    """
    if delta_table.exists(files, table.location):
        return adapt(spark, table_state(spark, table.location), table)
    delta_table.create(spark, table.location, _layout(table), metadata=_made_for(table))
    return table_state(spark, table.location)


def adapt(spark: SparkSession, state: TableState, table: QueryTable) -> TableState:
    """As ``prepare``, of a table that is there and has this state."""
    added, widened = changes(state, table)
    if added or widened:
        delta_ddl.alter(spark, table.location, added=added, widened=widened)
    if _set_others(spark, state, table) or added or widened:
        return table_state(spark, table.location)
    return state


def redefine(spark: SparkSession, table: QueryTable) -> None:
    """Gives a table without rows the columns and partitions of its definition, whatever it has.

    Guarantees:
        As ``delta_table.redefine``. Stopped half-way: the table does not fit its definition.
    """
    _allow_layout(spark, table)
    delta_table.redefine(spark, table.location, _layout(table), metadata=_made_for(table))
    if table.cdc is not None:
        delta_ddl.set_properties(spark, table.location, target_properties(table.cdc, table.sequences))


def prepare_layout(spark: SparkSession, table: QueryTable) -> NewLayout:
    """What a table gets by its definition when all of its rows are replaced; afterwards it can have these columns.

    Where the definition has no clustering columns, the table keeps those of its own that are among the new columns.

    Guarantees:
        Run twice: the second time changes nothing. Readers see the same rows.
    """
    _allow_layout(spark, table)
    known, schema = clustering_columns(spark, table.location), nullable_columns(table.columns).json()
    if known is None:
        return NewLayout(schema, table.partition_by)
    there = {each.name.lower() for each in table.columns}
    kept = tuple(each for each in known if each.lower() in there)
    return NewLayout(schema, table.partition_by, table.cluster_by or (() if table.partition_by else kept))


def _allow_layout(spark: SparkSession, table: QueryTable) -> None:
    """Lets a table have the columns and partition columns of its definition alone."""
    delta_ddl.allow_columns(spark, table.location, table.columns)
    partitions = {each.lower() for each in table.partition_by}
    kept = [each.name for each in table.columns if each.name.lower() not in partitions]
    delta_ddl.forget_statistics(spark, table.location, kept)


def has_never_had_rows(files: LakeFiles, location: str) -> bool:
    """Whether nothing was written to the table since it was made for a dataset, as its log shows."""
    versions = delta_table.commit_versions(files, location)
    commits = [delta_table.read_commit(files, location, version) for version in versions]
    if not commits or versions[0] != 0 or commits[0] is None or _MADE_FOR not in (commits[0].user_metadata or ""):
        return False
    return not any(
        each is None or each.changes_data or is_written_by_queries(each.user_metadata or "") for each in commits
    )


def has_other_columns(state: TableState, table: QueryTable) -> bool:
    """Whether the table has columns that its definition does not have."""
    defined = {each.name.lower() for each in table.columns}
    return any(each.name.lower() not in defined for each in state.columns)


def _made_for(table: QueryTable) -> str:
    return json.dumps({_MADE_FOR: table.dataset})


def _layout(table: QueryTable) -> delta_table.TableLayout:
    return delta_table.TableLayout(
        columns=nullable_columns(table.columns),
        partition_by=table.partition_by,
        cluster_by=table.cluster_by,
        properties=_properties(table),
        comment=table.comment,
    )


def _set_others(spark: SparkSession, state: TableState, table: QueryTable) -> bool:
    """Sets what else the definition says; whether there was something to set."""
    known = {"comment": state.comment, **{name.lower(): value for name, value in state.properties.items()}}
    wanted = {**_said(table, state.properties), **({"comment": table.comment} if table.comment else {})}
    changed = {name: value for name, value in wanted.items() if known.get(name.lower()) != value}
    if changed:
        delta_ddl.set_properties(spark, table.location, changed)
    clusters = table.cluster_by and clustering_columns(spark, table.location) != table.cluster_by
    if clusters:
        delta_ddl.set_clustering(spark, table.location, table.cluster_by)
    return bool(changed or clusters)


def _properties(table: QueryTable) -> dict[str, str]:
    """The user's, and those that the user does not set."""
    mine = {name.lower() for name in table.properties}
    ours = _PROPERTIES | (_BY_KEY if table.keyed else {})
    return {name: value for name, value in ours.items() if name.lower() not in mine} | _said(table)


def _said(table: QueryTable, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The properties that its definition says, of a table that has the properties ``known``."""
    told = target_properties(table.cdc, table.sequences, known) if table.cdc is not None else {}
    return dict(table.properties) | told


def changes(state: TableState, table: QueryTable) -> tuple[list[StructField], list[StructField]]:
    """The columns that the table lacks, and those that become wider.

    Raises:
        TableSchemaChanged: A column has another type than the query brings, and Delta cannot widen it.
        TablePartitionsChanged: It is partitioned by other columns.
        CdcTargetChanged: Its AUTO CDC flows have other settings than it was written with.
    """
    if table.cdc is not None:
        change = change_of_target(state.columns, state.properties, table.cdc, table.sequences)
        if change is not None:
            raise CdcTargetChanged(at=table.at, dataset=table.dataset, found=change[0], wanted=change[1])
    if [each.lower() for each in state.partition_by] != [each.lower() for each in table.partition_by]:
        raise TablePartitionsChanged(
            at=table.at,
            dataset=table.dataset,
            found=", ".join(state.partition_by) or "no column",
            wanted=", ".join(table.partition_by) or "no column",
        )
    known = {each.name.lower(): each for each in state.columns}
    added, widened = [], []
    for column in table.columns:
        mine = known.get(column.name.lower())
        if mine is None:
            added.append(column)
        elif not _is_same(mine, column):
            if widens(mine.dataType, column.dataType):
                widened.append(column)
            elif not holds(column.dataType, mine.dataType):
                raise TableSchemaChanged(
                    at=table.at,
                    dataset=table.dataset,
                    column=column.name,
                    found=made_as(mine).simpleString(),
                    wanted=column.dataType.simpleString(),
                )
    return added, widened


def _is_same(mine: StructField, column: StructField) -> bool:
    """Whether a column of a table has the type that is wanted; never with padded texts, so that a view is computed."""
    kind = mine.dataType if is_padded(column.dataType) else made_as(mine)
    return column.dataType.simpleString() in (mine.dataType.simpleString(), kind.simpleString())


def conformed(rows: DataFrame, columns: StructType) -> DataFrame:
    """Rows in the table's columns, order and types; columns and fields of structs that they lack are null.

    A number that the table's type cannot hold ends the job.
    """
    return rows.to(nullable_columns(columns))
