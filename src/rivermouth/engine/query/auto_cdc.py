"""AUTO CDC: changes merged into a keyed table that has the columns of the changes and nothing else.

The order of the changes of a key is kept in a table behind the target, below the target's folder: ``_auto_cdc``. The
sinks of flows merge into that table. Then the rows of the changed keys are copied into the target.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.query import query_batch
from rivermouth.engine.query.cdc_settings import (
    EPOCH,
    FLOW,
    PART,
    ROW,
    TIME,
    CdcSettings,
    order_of,
    own_columns,
    payload,
    truncates,
    with_tracked,
    without_span,
)
from rivermouth.engine.query.query_table import QueryTable, conformed, prepare
from rivermouth.engine.query.steps.batch_letters import (
    MARK,
    Routed,
    at_its_time,
    counting_columns,
    hold,
    write_dead_letters,
    write_same,
)
from rivermouth.engine.query.steps.cdc_merges import KEYS_MARK, CdcTarget, TwoMerges
from rivermouth.errors import CdcOrderLost, CdcTargetChanged, CdcValueNull, SnapshotKeysRepeated
from rivermouth.names import quoted
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows import row_expectations
from rivermouth.rows.columns import attempts
from rivermouth.rows.columns.aggregates import Aggregate
from rivermouth.rows.keyed import partial_changes
from rivermouth.rows.keyed.changes import faults_of_sequences, is_no_sequence
from rivermouth.side_tables.deleted_keys import Tombstones

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry
    from rivermouth.engine.query.query_run import QueryContext, QueryRun
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.rows.row_expectations import RowExpectation

_TRUNCATES: Final = "rivermouth.autoCdc.truncates"
"""Property of the table behind a target: a flow of it may delete all keys."""
REMEMBER_S: Final = 2 * 86400.0
"""How long deleted keys are remembered, if ``pipelines.cdc.tombstoneGCThresholdInSeconds`` is not set."""
_MERGING: Final[WeakValueDictionary[str, threading.Lock]] = WeakValueDictionary()
"""By the folder of a target: held while one of its flows merges a batch."""
_MERGING_GUARD: Final = threading.Lock()


def open_target(
    spark: SparkSession,
    run: QueryRun,
    cdc: CdcSettings,
    sequence: T.DataType,
    *,
    remember_s: float = REMEMBER_S,
    snapshots: bool = False,
) -> CdcTarget:
    """The target of a flow, with the table behind it, which is made or given new columns.

    Args:
        spark: A session.
        run: The flow; its target is there.
        cdc: Its settings.
        sequence: The type of its sequence.
        remember_s: How long deleted keys are remembered.
        snapshots: Whether its changes are snapshots.

    Raises:
        CdcOrderLost: As ``check_order``.
        CdcTargetChanged: As ``_epoch_column``.
    """
    context = run.context
    backing, plain = _backing(context), without_span(run.columns, cdc)
    merging = _merging(context.places.table)
    with merging:
        check_order(context)
        epoch = _epoch_column(spark, run, cdc, backing.location)
        order = order_of(cdc, [each.name for each in plain], snapshots=snapshots, epoch=epoch)
        columns = T.StructType([*plain, *own_columns(cdc, order, sequence)])
        told = {_TRUNCATES: "true"} if truncates(cdc) else {}
        table = QueryTable(context.dataset, backing.location, columns, properties=told, keyed=True)
        state = prepare(spark, context.files, table)
    # Truncations apply also where no flow of the target has that setting any more.
    order = replace(order, truncates=order.truncates or _TRUNCATES in state.properties)
    order = with_tracked(order, cdc, state.columns.names)
    return CdcTarget(
        cdc=cdc,
        order=order,
        backing=backing,
        backing_id=state.table_id,
        columns=state.columns,
        tombstones=Tombstones(
            context.files,
            f"{context.places.table}/{names.AUTO_CDC_DELETED}",
            remember_s,
            alone=not cdc.others_truncate,
        ),
        merging=merging,
    )


def check_order(context: QueryContext) -> None:
    """Checks that the table behind a target has the changes whose rows the target has.

    Raises:
        CdcOrderLost: It is gone, or lacks the newest batch that the target has: a deletion of it ended half-way.
    """
    newest, backing = context.ledger.newest_batch(), _backing(context)
    is_there = delta_table.exists(context.files, backing.location)
    if newest is not None and (not is_there or backing.lacks(*newest)):
        table, folder = context.places.table, backing.location
        raise CdcOrderLost(flow=context.flow, dataset=context.dataset, table=table, folder=folder)


def _backing(context: QueryContext) -> QueryLedger:
    location = f"{context.places.table}/{names.AUTO_CDC_ROWS}"
    return QueryLedger(context.files, location, f"{context.places.side_file}.cdc", flow=context.flow)


def _epoch_column(spark: SparkSession, run: QueryRun, cdc: CdcSettings, location: str) -> str:
    """The column of the table behind a target for the number of a change's ledger entry.

    Raises:
        CdcTargetChanged: An earlier version made it with a column of a name that the target has, too.
    """
    context, other = run.context, names.EPOCH_COLUMN
    there = table_state(spark, location).columns.names if delta_table.exists(context.files, location) else [EPOCH]
    if EPOCH in there or other not in there:
        return EPOCH
    if other in {name.lower() for name in run.columns.names}:
        found, wanted = (
            f"SCD type {cdc.scd_type} {how} a column {other} of its changes" for how in ("without", "with")
        )
        raise CdcTargetChanged(dataset=context.dataset, found=found, wanted=wanted)
    return other


def _merging(location: str) -> threading.Lock:
    with _MERGING_GUARD:
        return _MERGING.setdefault(location, threading.Lock())


@dataclass(frozen=True)
class CdcBatch:
    """Writes the batches of an AUTO CDC flow; see ``query_batch.process``.

    Attributes:
        target: The target.
    """

    target: CdcTarget

    def __call__(self, frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
        """Merges one batch of changes.

        Guarantees:
            As ``query_batch.process``: each batch is in the target once, or comes again and comes to the same.
        """
        with self.target.merging:
            self._merge(frame, batch_id, query_id, run)

    def _merge(self, frame: DataFrame, batch_id: int, query_id: str, run: QueryRun) -> None:
        started, context = time.monotonic(), run.context
        if query_batch.is_known(frame, batch_id, query_id, run):
            return
        entry = query_batch.next_entry(batch_id, query_id, run)
        frame, entry = query_batch.sourced(frame, entry, run)
        context.step("check")
        expectations = context.expectations
        if names.TRUNCATE in frame.columns:  # one row marks a whole snapshot, and is none of the user's
            expectations = row_expectations.exempting(expectations, names.TRUNCATE)
        run.begin_counts()
        routed = at_its_time(row_expectations.route(frame, expectations), entry, run)
        write_same(routed, run, lambda rows: apply_changes(rows, entry, run, self.target))
        counts = run.entry.counts
        if counts.dead_lettered:
            write_dead_letters(frame.sparkSession, run)
        query_batch.report_batch(counts, started, run)


def apply_changes(routed: Routed, entry: QueryEntry, run: QueryRun, target: CdcTarget) -> None:
    """Merges routed changes, and commits ``entry`` with them in the target; their dead letters are held before.

    Where a try of the batch has merged its changes behind the target, and ended then, these are the batch: they are
    copied into the target, with the counts and the dead letters of that try, whatever the changes are by now.

    Raises:
        CdcValueNull: A key of a change is null, or its sequence is none, wholly or in part.
        SnapshotKeysRepeated: Several rows of a snapshot have the same keys.
    """
    expectations = run.context.expectations
    mark = row_expectations.letter_mark(routed.rows.schema, expectations)
    changes = _changes(routed.rows.withColumn(names.LETTER_MARK, F.expr(mark)), entry, run, target)
    nulls = _nulls(changes, target.order)
    with computed(changes, *_counting(changes, nulls, expectations, target.order)) as (ready, told):
        way_columns = [*row_expectations.way_columns(expectations), names.LETTER_MARK]
        rows = ready.where(row_expectations.IN_TABLE).drop(*way_columns)
        position, truncated = target.backing.position(rows.sparkSession), bool(told["truncations"])
        merges = TwoMerges(rows, target, run, position, int(told[KEYS_MARK]), truncated=truncated)
        begun = merges.begun(entry)
        if begun is None:
            counts = _checked(rows, told, nulls, run, target.order)
            entry = hold(routed, entry.counted(counts), told[MARK], run)
        else:
            entry = replace(entry, attempt=begun.attempt).counted(begun.counts)
        everything = merges.merge(entry)
        run.context.step("write")
        merges.copy(entry, everything=everything)
        run.context.step("written")


def _counting(
    changes: DataFrame,
    nulls: Mapping[tuple[str, str], str],
    expectations: Sequence[RowExpectation],
    order: ChangeOrder,
) -> list[Column]:
    """What is counted of the changes."""
    in_table = row_expectations.IN_TABLE
    # A truncation is about all keys: it is in the mark too.
    keys = row_expectations.mark_where(in_table, changes.select(*map(quoted, order.keys), names.TRUNCATE).schema)
    return [
        *counting_columns(expectations, names.LETTER_MARK),
        *(F.expr(f"count_if({in_table} AND {test})").alias(f"null {part}") for (part, _), test in nulls.items()),
        F.expr(f"count_if({in_table} AND {names.TRUNCATE})").alias("truncations"),
        F.expr(Aggregate("sum", keys).sql).alias(KEYS_MARK),
    ]


def _checked(
    rows: DataFrame, told: Row, nulls: Iterable[tuple[str, str]], run: QueryRun, order: ChangeOrder
) -> QueryCounts:
    """The counts of a batch whose changes can be merged.

    Raises:
        CdcValueNull, SnapshotKeysRepeated: They cannot.
    """
    for part, fault in nulls:
        if found := told[f"null {part}"]:
            where = {"flow": run.context.flow, "dataset": run.context.dataset}
            raise CdcValueNull(part=part, fault=fault, rows=found, **where)
    counts = run.whole_counts(row_expectations.counted(run.context.expectations, told.asDict()))
    if order.snapshots:  # the row that marks the whole is none of the snapshot's
        counts = replace(counts, read=counts.read - 1, written=counts.written - 1)
        _check_keys(rows, run, order.keys)
    return counts


def _nulls(changes: DataFrame, order: ChangeOrder) -> dict[tuple[str, str], str]:
    """SQL of what no change may be, by the name of a value and what is wrong with it then."""
    keys = {(f"key {name}", "null"): f"NOT {names.TRUNCATE} AND {quoted(name)} IS NULL" for name in order.keys}
    kind = changes.schema[names.SEQUENCE].dataType
    part = "a part of sequence_by" if isinstance(kind, T.StructType) else "sequence_by"
    return keys | {(part, faults_of_sequences(kind)): is_no_sequence(changes.schema)}


def _check_keys(rows: DataFrame, run: QueryRun, keys: Sequence[str]) -> None:
    if repeated := query_batch.count_repeated(rows.where(f"NOT {names.TRUNCATE}"), keys):
        context, columns = run.context, ", ".join(keys)
        raise SnapshotKeysRepeated(flow=context.flow, dataset=context.dataset, keys=repeated, columns=columns)


def _changes(routed: DataFrame, entry: QueryEntry, run: QueryRun, target: CdcTarget) -> DataFrame:
    """Changes in the shape of the table behind the target, with what each of them does."""
    cdc, columns = target.cdc, routed.columns
    sequence = names.as_sql(cdc.sequence_by or "NULL", columns)
    marks = {
        names.DELETE: _is_true(cdc.apply_as_deletes, columns),
        names.TRUNCATE: _is_true(cdc.apply_as_truncates, columns),
        names.SEQUENCE: f"(\n{sequence}\n)",
    }
    if names.TRUNCATE in columns:  # of a snapshot, whose mark is a row
        marks = {}
    rows = routed.selectExpr("*", *(f"{sql} AS {name}" for name, sql in marks.items()))
    rows = attempts.instead(rows, [name for name in marks if name == names.SEQUENCE])
    # A declared column of the target that the flow leaves out is null, whatever the changes have.
    brought = {name.lower() for name in payload(routed.schema, cdc).names} | target.computed
    mine = {name.lower() for name in run.columns.names}
    rows = rows.drop(*(name for name in columns if name.lower() in mine and name.lower() not in brought))
    here = {
        FLOW: F.lit(run.context.flow),
        PART: F.lit(0),
        # A snapshot is one record, whatever rows it has.
        ROW: F.lit(0).cast("bigint") if target.order.snapshots else F.monotonically_increasing_id(),
        TIME: F.timestamp_seconds(F.lit(0)),
        target.order.epoch: F.lit(entry.number),
    }
    rows = rows.withColumns(here)
    if cdc.scd_type != 1:
        nothing = F.expr(f"IF(false, {names.SEQUENCE}, NULL)")
        rows = rows.withColumns({names.START_AT: F.col(names.SEQUENCE), names.END_AT: nothing})
    if target.order.partial:
        rows = rows.withColumn(names.PLACES, _brought(rows, target))
    way_columns = row_expectations.way_columns(run.context.expectations)
    ways = rows.select(names.DELETE, names.TRUNCATE, names.LETTER_MARK, *way_columns).schema
    return conformed(rows, T.StructType([*target.columns, *ways]))


def _brought(rows: DataFrame, target: CdcTarget) -> Column:
    """``__places`` of a change: null, or an entry without a place for each column that it lists."""
    kind = partial_changes.places_type(target.order, rows.schema[names.SEQUENCE].dataType)
    listed = target.cdc.columns_to_update
    if listed is None:
        return F.lit(None).cast(kind)
    wanted = F.array_compact(F.array_distinct(F.transform(quoted(listed), F.lower)))
    nowhere = F.lit(None).cast(kind.valueType)
    entries = F.transform(wanted, lambda name: F.struct(name.alias("key"), nowhere.alias("value")))
    return F.map_from_entries(entries)


def _is_true(condition: str | None, columns: Sequence[str]) -> str:
    return f"coalesce((\n{names.as_sql(condition, columns)}\n), false)" if condition else "false"
