"""What a table that another program wrote needs to become a keyed one: keys that are unique in its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.table.keyed_table import columns_left, keyed_properties
from rivermouth.ports.delta import delta_ddl
from rivermouth.rows.columns import table_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.engine.flow.table_shape import TableShape
    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.spec import Flow


def unfit_sink(flow: Flow) -> str | None:
    """Why no table of another program can be that of the flow's sink; None if one can."""
    sink = flow.keyed
    if sink is None:
        return None
    if sink.versions:
        return f"sink {flow.sink.type} needs to know since when a row is valid, and another program's rows do not say"
    if sink.partial_updates:
        return "a record updates parts of a row, and another program's rows do not say when each part was written"
    if sink.snapshots:
        return "the first snapshot replaces all rows, so there is nothing to go on with"
    return None


def unfit_keys(spark: SparkSession, flow: Flow, location: str, state: TableState) -> tuple[str, str] | None:
    """Why the flow's keys are not unique in the table's rows, and what to do; None if they are, or there are none.

    Args:
        spark: Reads the key columns of the whole table.
        flow: The flow.
        location: The table's folder.
        state: The snapshot that is looked at.
    """
    if flow.keyed is None:
        return None
    keys, there = table_columns.key_columns(flow), {field.name.lower() for field in state.columns}
    listed = ", ".join(keys)
    sink = f"sink: {{type: {flow.sink.type}, keys: [...]}}"
    other = f"in flow {flow.name}: {sink}, with the columns that the old job merged by"
    missing = [name for name in keys if name.lower() not in there]
    if missing:
        return f"the table has no column {', '.join(missing)}, and the keys of the flow are {listed}", other
    rows = spark.read.format("delta").option("versionAsOf", state.version).load(location)
    columns = [F.col(names.quoted(name)) for name in keys]
    no_key = F.expr(" OR ".join(f"{names.quoted(name)} IS NULL" for name in keys))
    # By the key as the table has it: of one with a null no more has to be known.
    counted = (
        rows.groupBy(*columns)
        .agg(F.count("*").alias("__rows"))
        .agg(F.sum(F.when(no_key, F.col("__rows"))), F.count_if(~no_key & (F.col("__rows") > 1)))
    )
    [(nulls, doubled)] = counted.collect()
    if nulls:
        return f"{nulls} of its rows have no {listed}, the key of the flow", other
    if doubled:
        fix = f"{other}; or remove the rows that are there twice"
        return f"{doubled} values of {listed} are in more than one of its rows, and the flow has one row for each", fix
    return None


def unwritten(flow: Flow, state: TableState, shape: TableShape) -> str:
    """What to say of columns that a keyed table has and the flow does not write; empty if there is nothing."""
    left = columns_left(shape.columns.names, state.columns.names) if flow.keyed is not None else ()
    if not left:
        return ""
    return f"the flow does not write the table's columns {', '.join(left)}: a row that a record replaces keeps theirs"


def mark(spark: SparkSession, flow: Flow, location: str, properties: Mapping[str, str]) -> None:
    """Writes the keys and the order of a keyed flow's rows into the table's properties; does nothing for other sinks.

    Guarantees:
        Run twice: the second time changes nothing. No row changes.
    """
    if flow.keyed is None:
        return
    for name, value in keyed_properties(flow).items():
        if properties.get(name) != value:
            delta_ddl.set_property(spark, location, name, value)
