"""A flow's schema grows as it runs: what a batch has besides is kept, and the table changed, before it is written."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructField, StructType

from rivermouth import names
from rivermouth.engine.events import SchemaEvolved
from rivermouth.engine.keyed_table import column_starts, columns_left, keep_column_starts
from rivermouth.engine.schemas import look_of, newest, with_columns
from rivermouth.engine.steps import unerased
from rivermouth.engine.table import change_table, table_changes, table_shape
from rivermouth.errors import SchemaChanged
from rivermouth.ports import delta
from rivermouth.rows import envelope
from rivermouth.rows.evolution import Growth, grown
from rivermouth.rows.inference import Limits, Shape, ShapesExplode
from rivermouth.rows.inferred import SchemaTooWide, schema_of
from rivermouth.rows.kept_schema import KeptSchema, file_name, versions_of
from rivermouth.rows.schema import is_taken
from rivermouth.rows.undeclared import column_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from rivermouth.engine.running import RunningFlow
    from rivermouth.rows.ledger import Ranges
    from rivermouth.spec import Flow

_CHANGES: Final = {
    "FIELD_UNDECLARED": ("a field is not in the schema", "on_new_column", "evolve"),
    "FIELD_TYPE": ("a value does not fit its column", "on_type_change", "widen"),
    "FIELD_MISSING": ("a column is missing", "on_missing_column", "null"),
}
LOOKED_RECORDS: Final = 10_000
LOOKED_BYTES: Final = 64 << 20
"""So much of what is new is looked at before the batch is tried again; the rest is met then."""


def evolve(run: RunningFlow, ranges: Ranges) -> None:
    """The flow's schema grown by what records of ``ranges`` have, and its table with the new columns.

    Where it cannot grow by them, ``ranges`` are ready to be written as it is.

    Args:
        run: The flow; afterwards it has the new schema.
        ranges: What could not be written as it is.

    Raises:
        SchemaChanged: A policy says that a change stops the flow, and a record has one.
        RivermouthError: The table cannot be changed.

    Guarantees:
        No row is written. Run twice: the second time nothing grows. Stopped half-way: the table is given what the
        newest kept version has when this is run again, or when the flow is opened.
    """
    began_at = time.monotonic()
    with run.lock:
        rows = unerased(envelope.read(run.source.batch(run.spark, ranges)), run, ranges)
        decoded = envelope.decode(rows, run.flow)
        suspects = decoded.where(run.flow.value_format.suspects(run.spark))
        if run.flow.policies.says("fail"):
            _stop_on_change(run.flow, suspects)
        shape = _seen(run.flow, suspects)
        kept = newest(run.flow, run.files, run.places)
        flow = run.flow if kept is None else with_columns(run.flow, kept.schema)
        growth = _growth(flow, shape)
        if growth is not None and growth.changes:
            kept = _keep(run, growth.schema, growth.changes, shape.records)
            flow = with_columns(flow, kept.schema)
        if kept is None or flow == run.flow:
            run.looked_at = ranges
            return
        reshape(run, flow)
        run.looked_at = None
    run.emit(SchemaEvolved(run.flow.name, kept.version, kept.changes, shape.records, time.monotonic() - began_at))


def reshape(run: RunningFlow, flow: Flow) -> None:
    """The running flow with another schema, and its table with what that adds.

    Raises:
        TableMismatch: The table cannot be changed so.

    Guarantees:
        No row is written. Run twice: the second time finds the table changed.
    """
    shape = table_shape(run.spark, flow)
    state = delta.table_state(run.spark, run.places.table)
    changes = table_changes(flow, run.places.table, state, shape)
    columns = shape.columns.names
    left = columns_left(columns, state.columns.names)
    run.starts = column_starts(flow, columns, state, left, run.standing.entry)
    run.flow, run.columns, run.left, run.changes = flow, columns, left, changes
    run.prepared.clear()
    keep_column_starts(run)
    if changes:
        change_table(run.spark, flow, run.places.table, changes)


def _stop_on_change(flow: Flow, suspects: DataFrame) -> None:
    """Looks at all of them: nothing may slip through that a policy stops the flow for."""
    policies, columns = flow.policies, flow.format.schema_as_declared().names
    asked: dict[str, Callable[[str], str]] = {
        "FIELD_UNDECLARED": policies.new_column,
        "FIELD_TYPE": policies.type_change,
        "FIELD_MISSING": policies.missing_column,
    }
    place = (names.TOPIC, names.PARTITION, names.OFFSET)
    explained = flow.value_format.explain(suspects).where(F.col(names.REASON).isin(*asked))
    for reason, field, *at in explained.select(names.REASON, names.FIELD, *place).toLocalIterator():
        if asked[reason](column_of(field, columns)) == "fail":
            topic, partition, offset = at
            words, policy, other = _CHANGES[reason]
            raise SchemaChanged(
                flow=flow.name,
                change=f"{words}, {field}",
                topic=topic,
                partition=partition,
                offset=offset,
                policy=policy,
                other=other,
            )


def _seen(flow: Flow, suspects: DataFrame) -> Shape:
    """What is in some of the suspects."""
    look = look_of(flow)
    shape, size = Shape(Limits(max_fields=look.max_fields)), 0
    wanted = suspects.select(names.TOPIC, names.PARTITION, names.OFFSET, names.VALUE).limit(LOOKED_RECORDS)
    with suppress(ShapesExplode):  # what was seen until then is enough for one step
        for topic, partition, offset, value in wanted.toLocalIterator():
            shape.add(bytes(value), (topic, partition, offset))
            size += len(value)
            if size > LOOKED_BYTES:
                break
    return shape


def _growth(flow: Flow, shape: Shape) -> Growth | None:
    if not shape.documents.fields:
        return None
    times = look_of(flow).times
    try:
        inferred = schema_of(shape, times=times, is_taken=lambda name: is_taken(flow, name))
    except SchemaTooWide:
        return None
    declared = flow.format.schema_as_declared()
    return grown(declared, inferred.found, inferred.numbers, flow.policies, pinned=flow.format.pinned)


def _keep(run: RunningFlow, schema: StructType, changes: tuple[str, ...], records: int) -> KeptSchema:
    """The next version of the flow's kept schema.

    Guarantees:
        A version is never written over.
    """
    folder = run.places.schemas()
    number = max(versions_of(run.files.names(folder)), default=0) + 1
    kept = KeptSchema(
        flow=run.flow.name,
        version=number,
        kept_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        records=records,
        corrupt=0,
        whole=False,
        changes=changes,
        schema=StructType([StructField(each.name, each.dataType, True, each.metadata) for each in schema.fields]),
    )
    table_shape(run.spark, with_columns(run.flow, kept.schema))  # what speaks against it is raised before it is kept
    if run.files.create(f"{folder}/{file_name(number)}", kept.to_text()):
        return kept
    # Somebody has updated it meanwhile: what that lacks is met when the batch is tried again.
    return newest(run.flow, run.files, run.places) or kept
