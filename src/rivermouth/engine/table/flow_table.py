"""A flow's table: the shape that the flow wants, the table made, registered, and changed with its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from rivermouth import names
from rivermouth.domain.kafka.kafka_options import text
from rivermouth.engine.flow.table_shape import TableChanges, TableShape
from rivermouth.engine.table.analyse import check_expectations, check_layout, check_sink, with_derived_columns
from rivermouth.engine.table.declared_columns import declared_columns
from rivermouth.engine.table.exploded import exploded_columns, exploded_properties, other_elements
from rivermouth.engine.table.keyed_table import columns_of_rows, keyed_columns, keyed_properties, keys_fix, other_keys
from rivermouth.engine.table.looked_up import looked_up_columns
from rivermouth.engine.table.problems import Problems
from rivermouth.engine.table.selected import selected_columns
from rivermouth.errors import (
    MetastoreUnavailable,
    TableMismatch,
    first_line,
)
from rivermouth.ports.delta import delta_ddl, delta_table
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows import conform, reserved_names
from rivermouth.rows.columns import table_columns
from rivermouth.schemas import type_widening
from rivermouth.schemas.column_types import has_bounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.spec import Flow

# Of Hive's client, after its own attempts.
_NO_METASTORE = "SessionHiveMetaStoreClient"

_TABLE_DEFAULTS = {
    # A checkpoint of the table's log costs about a second: not at every tenth commit.
    "delta.checkpointInterval": "100",
}


def table_shape(spark: SparkSession, flow: Flow) -> TableShape:
    """The columns of the flow's table, with every expression of the flow analysed over them.

    Raises:
        ProjectProblems: Several of these; all are reported.
        SchemaInvalid: The declared schema cannot be read.
        PatternInvalid: The pattern of the format regex cannot be used.
        ColumnCollision: A payload column has the name of a metadata column.
        ExplodeInvalid: What is exploded cannot be had.
        LookupInvalid: A lookup cannot be used.
        LookupTableMissing: The table of a lookup does not exist.
        SelectInvalid: What is selected cannot be had.
        ExpectationInvalid: A condition cannot be analysed, or is refused.
        LayoutInvalid: A partition or cluster column does not exist, is of no simple type, or is refused.
        KeysInvalid: A keyed table's keys, order or conditions cannot be had from the columns.
        ColumnReserved: A column has a name that records have on their way, or that Spark or Delta uses itself.
    """
    problems = Problems(flow.name)
    payload, key = declared_columns(spark, flow, problems)
    payload = columns_of_rows(flow, payload)
    with problems.kept(*_of_elements(flow)):
        payload = exploded_columns(spark, flow, payload)
    payload = looked_up_columns(spark, flow, payload, key, problems, _columns_of)
    payload = selected_columns(spark, flow, _with_own_names(flow, payload, problems), problems)
    payload = _with_own_names(flow, payload, problems)
    columns = problems.of(lambda: conform.table_columns(flow, payload, key))
    columns = with_derived_columns(spark, flow, columns, problems)
    incomplete = bool(problems)
    check_expectations(spark, flow, columns, problems)
    if not incomplete:
        with problems.kept():
            columns = keyed_columns(spark, flow, payload, columns, problems)
        check_layout(flow, columns, problems)
        check_sink(spark, flow, columns, problems)
        with problems.kept():
            reserved_names.check(flow, columns.names, payload.names)
    problems.report()
    return TableShape(payload.names, _commented(columns, flow), table_columns.partition_columns(flow))


def _of_elements(flow: Flow) -> tuple[str, ...]:
    """The names that the columns of an element have, as far as the flow says them."""
    if flow.explosion is None:
        return ()
    return flow.explosion.called or ((flow.explosion.column,) if flow.explosion.column else ())


def _with_own_names(flow: Flow, payload: StructType, problems: Problems) -> StructType:
    """The columns whose names nothing else has; each of the others is kept in ``problems``."""
    taken = conform.taken_names(flow, payload)
    for name, problem in taken.items():
        with problems.kept(name):
            raise problem
    return StructType([field for field in payload if field.name not in taken])


def _columns_of(spark: SparkSession, flow: Flow) -> StructType:
    return table_shape(spark, flow).columns


def create_table(spark: SparkSession, flow: Flow, places: FlowPlaces, shape: TableShape, entry: Entry) -> None:
    """Makes the flow's table with entry 0 in the commit that makes it."""
    properties = {
        **_TABLE_DEFAULTS,
        # A changed row is marked as deleted in its file, which is not rewritten for it.
        **({"delta.enableDeletionVectors": "true", **keyed_properties(flow)} if flow.keyed else {}),
        **exploded_properties(flow),
        "delta.dataSkippingStatsColumns": ",".join(_statistics(flow, shape)),
        **{name: text(value) for name, value in flow.table.properties.items()},
    }
    layout = delta_table.TableLayout(
        columns=shape.columns,
        partition_by=shape.partition_by,
        cluster_by=flow.table.cluster_by,
        properties=properties,
        comment=flow.table.comment,
    )
    delta_table.create(spark, places.table, layout, metadata=entry.to_json())


def register_table(spark: SparkSession, flow: Flow, places: FlowPlaces) -> None:
    """Makes the table known in its catalog, if it shall be.

    Raises:
        TableMismatch: The catalog has a table of that name elsewhere, or does not take it.
        MetastoreUnavailable: The metastore cannot be reached, or another process has the embedded one open.
    """
    if places.registered is not None:
        register(spark, places.registered, places.table, flow=flow.name)


def register(spark: SparkSession, name: str, location: str, *, flow: str) -> None:
    """Makes a table known in a catalog.

    Args:
        spark: Any session of Spark's own.
        name: ``catalog.schema.table``.
        location: Its folder; it is there.
        flow: The flow, or the dataset of a pipeline, that writes it.

    Raises:
        TableMismatch, MetastoreUnavailable: As ``register_table``.

    Guarantees:
        Run twice: as once. The table itself is not changed.
    """
    try:
        found = delta_ddl.register(spark, name, location)
    except PySparkException as error:
        if _NO_METASTORE in str(error):
            raise MetastoreUnavailable(flow=flow, table=name) from error
        raise TableMismatch(flow=flow, table=name, detail=first_line(error)) from error
    if found.removeprefix("file:").rstrip("/") != location.removeprefix("file:").rstrip("/"):
        detail = f"the catalog has it at {found}, the flow writes to {location}"
        raise TableMismatch(flow=flow, table=name, detail=detail)


def table_changes(
    flow: Flow, location: str, state: delta_snapshot.TableState, shape: TableShape, *, adopting: bool = False
) -> TableChanges:
    """How the table must be changed to take what the flow writes; nothing of it is done.

    Args:
        flow: The flow.
        location: The table's folder.
        state: Its newest snapshot.
        shape: What the flow writes.
        adopting: Whether another program wrote the table so far, so that it may lack coordinates.

    Raises:
        TableMismatch: A type changes otherwise than Delta can widen it, or the partitions differ.
    """
    if list(state.partition_by) != shape.partition_by:
        detail = f"it is partitioned by {list(state.partition_by)}, the flow by {shape.partition_by}"
        raise TableMismatch(flow=flow.name, table=location, detail=detail)
    if other := other_keys(flow, state.properties, adopting=adopting):
        raise TableMismatch(flow=flow.name, table=location, detail=other, fix=keys_fix(flow, state.properties))
    if other := other_elements(flow, state.properties):
        fix = "write into a new table, or explode what the table was made of"
        raise TableMismatch(flow=flow.name, table=location, detail=other, fix=fix)
    found = {field.name.lower(): field for field in state.columns}
    unfit = _unfit_for_adoption(found, shape) if adopting else _without_coordinates(found, flow)
    if unfit:
        raise TableMismatch(flow=flow.name, table=location, detail=unfit)
    changes = TableChanges([], [])
    for field in shape.columns:
        column = found.get(field.name.lower())
        if column is None:
            changes.added.append(field)
        elif type_widening.widens(column.dataType, field.dataType):
            changes.widened.append(field)
        elif column.dataType.simpleString() != field.dataType.simpleString():
            detail = (
                f"its column {column.name} is {column.dataType.simpleString()}, "
                f"the flow writes {field.dataType.simpleString()}"
            )
            raise TableMismatch(flow=flow.name, table=location, detail=detail)
    return changes


def _without_coordinates(found: Mapping[str, StructField], flow: Flow) -> str | None:
    """What is wrong with a table without coordinates, whose rows do not say which record they are; None if none is."""
    for name in flow.identity.values():
        if flow.metadata_columns[name].lower() not in found:
            return f"it has no column {flow.metadata_columns[name]}, in which the flow writes {name}"
    return None


def _unfit_for_adoption(found: Mapping[str, StructField], shape: TableShape) -> str | None:
    unwritten = found.keys() - {field.name.lower() for field in shape.columns}
    strict = [found[name].name for name in sorted(unwritten) if not found[name].nullable]
    return f"its column {strict[0]} takes no null, and the flow does not write it" if strict else None


def change_table(spark: SparkSession, flow: Flow, location: str, changes: TableChanges) -> None:
    """Adds and widens the table's columns. No row is rewritten, and the ledger stays as it is.

    Raises:
        TableMismatch: Delta refuses; what was changed before stays changed.

    Guarantees:
        Run twice, with the changes that are left: the second time has none. Stopped half-way: some columns are
        changed, the rest with the next run.
    """
    try:
        delta_ddl.alter(spark, location, added=changes.added, widened=changes.widened)
    except PySparkException as error:
        raise TableMismatch(flow=flow.name, table=location, detail=first_line(error)) from error


def _commented(columns: StructType, flow: Flow) -> StructType:
    comments = flow.table.column_comments
    return StructType(
        [
            StructField(field.name, field.dataType, metadata={**field.metadata, "comment": comments[field.name]})
            if field.name in comments
            else StructField(field.name, field.dataType, metadata=field.metadata)
            for field in columns
        ]
    )


def _statistics(flow: Flow, shape: TableShape) -> list[str]:
    """Columns that readers skip by: offset, Kafka's time, and the payload's own times."""
    wanted = {flow.metadata_columns.get(name) for name in ("kafka_offset", "kafka_timestamp")}
    # A merge looks for its keys.
    searched = {*table_columns.key_columns(flow), names.START_AT, names.END_AT}
    wanted |= {field.name for field in shape.columns if field.name in searched and has_bounds(field.dataType)}
    times = {"timestamp", "date", "timestamp_ntz"}
    return [
        names.quoted(field.name)
        for field in shape.columns
        if (
            field.name in wanted
            or (field.name in shape.payload and field.dataType.simpleString() in times)
            or field.name in (*flow.table.cluster_by, *flow.zorder)
        )
        and field.name not in shape.partition_by
    ]
