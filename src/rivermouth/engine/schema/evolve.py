"""A flow's schema grows as it runs: what a batch has besides is kept, and the table changed, before it is written."""

from __future__ import annotations

import datetime as dt
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.json.undeclared_fields import column_of
from rivermouth.decoding.registry.writer_format import WritersFormat
from rivermouth.engine.batch.pipeline import without_erased
from rivermouth.engine.events import SchemaEvolved
from rivermouth.engine.flow.column_starts import keep_column_starts
from rivermouth.engine.flow.running import TableView
from rivermouth.engine.schema.growth_limits import GrowthLimit, marked
from rivermouth.engine.schema.kept_schemas import look_of, newest, with_columns
from rivermouth.engine.schema.writer_schemas import grown_by, writers_of
from rivermouth.engine.table.flow_table import change_table, table_changes, table_shape
from rivermouth.engine.table.keyed_table import column_starts, columns_left
from rivermouth.errors import SchemaChanged
from rivermouth.ports.internals import delta_snapshot
from rivermouth.rows import conform, envelope, explode
from rivermouth.schemas import open_fields
from rivermouth.schemas.column_types import name_in_json
from rivermouth.schemas.evolution import Growth, GrowthBounds, grown, narrowed
from rivermouth.schemas.inference import Limits, Shape, ShapesExplode
from rivermouth.schemas.inferred import MAX_COLUMNS, SchemaTooWide, schema_of
from rivermouth.schemas.schema_versions import KeptSchema, file_name, versions_of
from rivermouth.spec import EvolvingFormat, require_capability

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyspark.sql import DataFrame, Row, SparkSession

    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.schemas.inference import Coordinate
    from rivermouth.spec import Flow

_CHANGES: Final = {
    "FIELD_UNDECLARED": ("a field is not in the schema", "on_new_column", "evolve"),
    "FIELD_TYPE": ("a value does not fit its column", "on_type_change", "widen"),
    "FIELD_MISSING": ("a column is missing", "on_missing_column", "null"),
}
LOOKED_RECORDS: Final = 10_000
LOOKED_BYTES: Final = 64 << 20
"""So much of what is new is looked at in one piece; what that brings is met first, and the rest later."""


def evolve(run: FlowRun, ranges: Ranges) -> None:
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
        rows = without_erased(envelope.read(run.source.batch(run.spark, ranges)), run, ranges)
        found = _grow(run, envelope.coalesce_small_batch(rows, ranges, run.flow), stops=run.flow.policies.says("fail"))
        run.looked_at = ranges if found is None else None
    if found is not None:
        _emit_grown(run, *found, began_at)


def grow(run: FlowRun, rows: DataFrame) -> None:
    """The flow's schema grown by all that envelope rows have, and its table with the new columns.

    As ``evolve``, but no policy stops the flow: the rows are no batch, and what stops it is refused.

    Raises:
        RivermouthError: The table cannot be changed.

    Guarantees:
        Those of ``evolve``.
    """
    if not run.flow.policies.grows:
        return
    with run.lock:
        began_at = time.monotonic()
        while (found := _grow(run, rows, stops=False)) is not None:
            _emit_grown(run, *found, began_at)
            began_at = time.monotonic()


def foreseen(context: FlowContext, view: TableView, rows: DataFrame) -> Flow:
    """The flow as ``grow`` would leave it; nothing is changed."""
    flow = view.flow
    if not flow.policies.grows:
        return flow
    room = _growth_limit(context, view)
    while (growth := _growth_by(flow, _suspects(context.spark, flow, rows), room)[1]) is not None:
        wider = with_columns(flow, marked(flow, growth.schema))
        if wider == flow:
            break
        flow = wider
    return flow


def _growth_limit(context: FlowContext, view: TableView) -> GrowthLimit:
    table = context.places.table
    return GrowthLimit(context.spark, table, delta_snapshot.table_state(context.spark, table), view.columns)


def _grow(run: FlowRun, rows: DataFrame, *, stops: bool) -> tuple[KeptSchema, int] | None:
    """The kept version that the flow has now, and how many records were looked at; None where it grew by none."""
    suspects = _suspects(run.spark, run.flow, rows)
    if stops:
        _stop_on_change(run.flow, suspects)
    kept = newest(run.flow, run.files, run.places)
    flow = run.flow if kept is None else with_columns(run.flow, kept.schema)
    room = _growth_limit(run.context, run.view)
    records, growth, writers = _growth_by(flow, suspects, room)
    if growth is not None:
        kept = _keep(run, flow, growth, records, () if kept is None else kept.open)
        flow = with_columns(flow, kept.schema)
    is_new = kept is not None and flow != run.flow
    if writers and _by_writers(flow, writers, room) is None:
        # They brought what they could, and are no reason to stop another batch.
        form = require_capability(flow.format, WritersFormat)
        flow = flow.model_copy(update={"format": form.knowing_writers(writers)})
    if kept is None or not is_new:
        if flow != run.flow:
            run.view = replace(run.view, flow=flow)
            run.prepared.clear()
        return None
    reshape(run, flow)
    return kept, records


def _suspects(spark: SparkSession, flow: Flow, rows: DataFrame) -> DataFrame:
    decoded = envelope.decode(explode.split(rows, flow), flow)
    return decoded.where(require_capability(flow.value_format, EvolvingFormat).rows_to_inspect(spark))


def _growth_by(flow: Flow, suspects: DataFrame, room: GrowthLimit) -> tuple[int, Growth | None, Collection[int]]:
    """How many of the suspects were looked at, how the schema grows by them, and the ids of their writers' schemas."""
    writers = writers_of(flow, suspects)
    if writers is None:
        return (*_looked_at(flow, suspects, room), ())
    return sum(writers.values()), _by_writers(flow, writers, room), writers


def _emit_grown(run: FlowRun, kept: KeptSchema, records: int, began_at: float) -> None:
    run.emit(SchemaEvolved(run.flow.name, kept.version, kept.changes, records, time.monotonic() - began_at))


def reshape(run: FlowRun, flow: Flow) -> None:
    """The running flow with another schema, and its table with what that adds.

    Raises:
        TableMismatch: The table cannot be changed so.

    Guarantees:
        No row is written. Run twice: the second time finds the table changed.
    """
    shape = table_shape(run.spark, flow)
    state = delta_snapshot.table_state(run.spark, run.places.table)
    changes = table_changes(flow, run.places.table, state, shape)
    columns = shape.columns.names
    left = columns_left(columns, state.columns.names)
    starts = column_starts(flow, columns, state, left, run.entry)
    view = TableView(flow, columns, left, starts, changes)
    keep_column_starts(run.context, view)
    if changes:
        change_table(run.spark, flow, run.places.table, changes)
    run.view = view
    run.prepared.clear()


def _stop_on_change(flow: Flow, suspects: DataFrame) -> None:
    """Looks at all of them: nothing may slip through that a policy stops the flow for."""
    policies = flow.policies
    columns = {name_in_json(each): each.name for each in flow.evolving_format.schema_as_declared()}
    asked: dict[str, Callable[[str], str | None]] = {
        "FIELD_UNDECLARED": policies.new_column,
        "FIELD_TYPE": policies.type_change,
        "FIELD_MISSING": policies.missing_column,
    }
    place = (names.TOPIC, names.PARTITION, names.OFFSET)
    # A record may be refused for one thing, and stop the flow for another.
    told = require_capability(flow.value_format, EvolvingFormat).stop_reasons(suspects.where(~F.col(names.DECODED)))
    told = told.where(F.col(names.REASON).isin(*asked))
    for reason, field, *at in told.select(names.REASON, names.FIELD, *place).toLocalIterator():
        if asked[reason](column_of(field, columns)) == "fail":
            topic, partition, offset = at
            words, policy, other = _CHANGES[reason]
            raise SchemaChanged(
                flow=flow.name,
                change=names.printable(f"{words}, {field}"),
                topic=topic,
                partition=partition,
                offset=offset,
                policy=policy,
                other=other,
            )


def _by_writers(flow: Flow, writers: Collection[int], room: GrowthLimit) -> Growth | None:
    def grow(pinned: Collection[str]) -> Growth | None:
        table, is_taken = room.state.columns, room.is_taken(flow)
        return grown_by(flow, room.spark, writers, table, pinned=pinned, is_taken=is_taken)

    return room.fitting(flow, grow)


def _looked_at(flow: Flow, suspects: DataFrame, room: GrowthLimit) -> tuple[int, Growth | None]:
    """How many of the suspects were looked at, and how the schema grows by them; None where it does by none."""
    wanted = suspects.select(names.TOPIC, names.PARTITION, names.OFFSET, names.VALUE)
    records, rows, look = 0, wanted.toLocalIterator(), look_of(flow)
    empty = partial(Shape, Limits(max_fields=look.max_fields), apart=look.apart)
    while True:
        shape, is_last = _seen(rows, empty)
        records += shape.records
        growth = _growth(flow, shape, room)
        if growth is not None and growth.changes:
            return records, growth
        if is_last:
            return records, None


def _seen(rows: Iterator[Row], empty: Callable[[], Shape]) -> tuple[Shape, bool]:
    """What is in the next suspects, and whether they are the last."""
    shape, size = empty(), 0
    for topic, partition, offset, value in rows:
        document, at = bytes(value), (topic, partition, offset)
        size += len(document)
        if _is_too_wide(document, at, empty):
            shape.records += 1
            continue
        with suppress(ShapesExplode):  # as far as one is allowed to be wide, a piece never is
            shape.add(document, at)
        if shape.records >= LOOKED_RECORDS or size > LOOKED_BYTES or shape.nodes > MAX_COLUMNS:
            return shape, False
    return shape, True


def _is_too_wide(document: bytes, at: Coordinate, empty: Callable[[], Shape]) -> bool:
    """Whether a document has more fields than any schema: nothing else shall wait for what becomes of it."""
    if document.count(b":") <= MAX_COLUMNS:
        return False
    alone = empty()
    with suppress(ShapesExplode):
        alone.add(document, at)
    return alone.nodes > MAX_COLUMNS


def _growth(flow: Flow, shape: Shape, room: GrowthLimit) -> Growth | None:
    if not shape.documents.fields:
        return None
    look, declared = look_of(flow), flow.evolving_format.schema_as_declared()
    for each in declared:
        if (node := shape.documents.fields.get(name_in_json(each))) is not None:
            narrowed(node, each.dataType)
    try:
        inferred = schema_of(
            shape, times=look.times, is_taken=partial(conform.is_taken, flow), is_open=lambda _field, _column: True
        )
    except SchemaTooWide:
        return None
    found, numbers = open_fields.beside(inferred.found, declared), inferred.numbers
    table, is_taken = room.state.columns, room.is_taken(flow)

    def grow(pinned: Collection[str]) -> Growth | None:
        return grown(declared, found, numbers, flow.policies, GrowthBounds(pinned, table, is_taken))

    return room.fitting(flow, grow)


def _keep(run: FlowRun, flow: Flow, growth: Growth, records: int, was_open: Iterable[open_fields.Path]) -> KeptSchema:
    """The next version of the flow's kept schema, which ``flow`` has until now.

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
        changes=growth.changes,
        schema=marked(flow, growth.schema),
        open=open_fields.still_open(was_open, growth.schema),
    )
    # What speaks against it is raised before it is kept.
    wanted, table = with_columns(flow, kept.schema), run.places.table
    table_changes(wanted, table, delta_snapshot.table_state(run.spark, table), table_shape(run.spark, wanted))
    if run.files.create(f"{folder}/{file_name(number)}", kept.to_text()):
        return kept
    # Somebody has updated it meanwhile: what that lacks is met when the batch is tried again.
    return newest(run.flow, run.files, run.places) or kept
