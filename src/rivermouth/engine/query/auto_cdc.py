"""AUTO CDC: changes merged into a keyed table that has the columns of the changes and nothing else.

The order of the changes of a key is kept in a table behind the target, below the target's folder: ``_auto_cdc``. The
sinks of flows merge into that table. Then the rows of the changed keys are copied into the target.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.merge_report import BROADCAST_CHANGES
from rivermouth.domain.query.query_entry import ONE_BATCH, QueryCounts
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
from rivermouth.errors import CdcOrderLost, CdcTargetChanged, CdcValueNull, SnapshotKeysRepeated
from rivermouth.names import quoted
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.ports.internals.delta_snapshot import newest_rows, table_state
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows import row_expectations
from rivermouth.rows.columns import attempts
from rivermouth.rows.keyed import partial_changes
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.rows.keyed.changes import faults_of_sequences, is_no_sequence
from rivermouth.rows.keyed.compared_rows import differences
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.sinks._target import Target
from rivermouth.sinks.history import History
from rivermouth.sinks.upsert import Upsert

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.query_run import QueryContext, QueryRun

_TRUNCATES: Final = "rivermouth.autoCdc.truncates"
"""Property of the table behind a target: a flow of it may delete all keys."""
REMEMBER_S: Final = 2 * 86400.0
"""How long deleted keys are remembered, if ``pipelines.cdc.tombstoneGCThresholdInSeconds`` is not set."""
_MERGING: Final[WeakValueDictionary[str, threading.Lock]] = WeakValueDictionary()
"""By the folder of a target: held while one of its flows merges a batch."""
_MERGING_GUARD: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class CdcTarget:
    """The target of AUTO CDC flows at work.

    Attributes:
        cdc: The settings of the flow.
        order: Which of two changes of a key is newer.
        backing: The ledger of the table behind the target.
        backing_id: Delta's UUID of it.
        columns: Of the table behind the target.
        tombstones: The deleted keys.
        merging: Held while a flow of the target merges a batch: what it copies is then what the table behind has.
        computed: Names, in lower case, of columns that the changes have because the pipeline computes them.
    """

    cdc: CdcSettings
    order: ChangeOrder
    backing: QueryLedger
    backing_id: str
    columns: T.StructType
    tombstones: Tombstones
    merging: threading.Lock
    computed: frozenset[str] = frozenset()


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
        routed = row_expectations.route(frame, expectations)
        counts = apply_changes(routed, entry, run, self.target)
        query_batch.report_batch(counts, started, run)


def apply_changes(routed: DataFrame, entry: QueryEntry, run: QueryRun, target: CdcTarget) -> QueryCounts:
    """Merges routed changes, writes their dead letters, and commits ``entry`` with them in the target.

    Raises:
        CdcValueNull: A key of a change is null, or its sequence is none, wholly or in part.
        SnapshotKeysRepeated: Several rows of a snapshot have the same keys.
    """
    expectations = run.context.expectations
    counting = row_expectations.counting_columns(expectations)
    changes = _changes(routed, entry, run, target)
    nulls, in_table = _nulls(changes, target.order), row_expectations.IN_TABLE
    counting += [F.expr(f"count_if({in_table} AND {test})").alias(f"null {part}") for (part, _), test in nulls.items()]
    counting.append(F.expr(f"count_if({in_table} AND {names.TRUNCATE})").alias("truncations"))
    run.begin_counts()
    with computed(changes, *counting) as (ready, told):
        for part, fault in nulls:
            if rows := told[f"null {part}"]:
                where = {"flow": run.context.flow, "dataset": run.context.dataset}
                raise CdcValueNull(part=part, fault=fault, rows=rows, **where)
        counts = run.whole_counts(row_expectations.counted(expectations, told.asDict()))
        if target.order.snapshots:  # the row that marks the whole is none of the snapshot's
            counts = replace(counts, read=counts.read - 1, written=counts.written - 1)
        way_columns = row_expectations.way_columns(expectations)
        rows = ready.where(in_table).drop(*way_columns)
        if target.order.snapshots:
            _check_keys(rows, run, target.order.keys)
        entry = query_batch.held(routed, run, entry.counted(counts))
        ended = _merge_behind(rows, entry, run, target)
        run.context.step("write")
        _copy(rows, entry, run, target, truncated=bool(told["truncations"]), everything=ended)
        run.context.step("written")
    if counts.dead_lettered:
        query_batch.write_dead_letters(routed, run)
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
    way_columns = [names.DELETE, names.TRUNCATE, *row_expectations.way_columns(run.context.expectations)]
    ways = rows.select(*way_columns).schema
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


def _merge_behind(rows: DataFrame, entry: QueryEntry, run: QueryRun, target: CdcTarget) -> bool:
    """Merges into the table behind the target, unless it has that batch already.

    Returns:
        Whether a try of the batch that ended before its commit in the target had other rows: a snapshot, or what a
        query gave that runs once. The table behind the target may have keys of it that the target does not know.
    """
    context = run.context
    position = target.backing.position(rows.sparkSession)
    has_one = position.entry.holds(entry.query_id, entry.batch_id)
    if has_one and _comes_again(entry, position.entry, target):
        return False
    context.step("cdc")
    number = target.backing.newest_number(rows.sparkSession) + 1
    mine = replace(entry, number=number, onto=entry.number, counts=QueryCounts(), totals=QueryCounts())
    sink = History(type="history", sequence_by=(names.SEQUENCE,)) if target.cdc.scd_type != 1 else Upsert(type="upsert")
    where = Target(target.backing, target.backing_id, position.version, target.order, target.tombstones)
    sink.write(rows, where, mine)
    return has_one


def _comes_again(entry: QueryEntry, before: QueryEntry, target: CdcTarget) -> bool:
    """Whether the batch of an entry has the rows that it had when it was tried before; a version may be given again."""
    if entry.query_id != ONE_BATCH:
        return True
    return target.order.snapshots and (before.offsets, before.onto) == (entry.offsets, entry.number)


def _copy(
    rows: DataFrame, entry: QueryEntry, run: QueryRun, target: CdcTarget, *, truncated: bool, everything: bool
) -> None:
    """Makes the rows of the changed keys in the target what they are behind it, in one commit with ``entry``.

    Args:
        rows: The changes.
        entry: Their ledger entry.
        run: The flow.
        target: The target.
        truncated: Whether keys that the target has may be gone.
        everything: Whether keys may have changed that are not among the changes.
    """
    spark, context, order = rows.sparkSession, run.context, target.order
    behind, there = (newest_rows(spark, at) for at in (target.backing.location, context.places.table))
    keys = [quoted(name) for name in order.keys]
    wanted = rows.where(f"NOT {names.TRUNCATE}").select(*keys).distinct()
    if not (truncated or everything) and entry.counts.written <= BROADCAST_CHANGES:
        wanted = F.broadcast(wanted)
    if truncated:
        wanted = wanted.unionByName(there.select(*keys)).distinct()
    if everything:
        wanted = wanted.unionByName(behind.select(*keys)).distinct()
    columns = [each.name for each in run.columns]
    with computed(differences(behind, there, wanted, columns, order, versions=target.cdc.scd_type != 1)) as (
        ready,
        told,
    ):
        on = F.expr(order.same_key("s", "t"))
        if target.cdc.scd_type != 1:
            on = on & F.expr(f"s.{names.START_AT} = t.{names.START_AT}")
        plan = Merge(
            on=on,
            ranges={},
            delete=f"s.{names.DELETE}",
            update=f"NOT s.{names.DELETE}",
            insert=f"NOT s.{names.DELETE}",
            values={quoted(name): f"s.{quoted(name)}" for name in columns},
        )
        query_batch.merge_rows(ready, told["rows"], plan, entry, run)
