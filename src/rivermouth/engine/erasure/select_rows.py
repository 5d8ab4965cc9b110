"""What conditions choose to be erased: rows, dead letters, and the records that they were made of."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    beginning_offsets,
    marked_changes,
    table_coordinates,
    table_order,
    table_rows,
    transformed,
    with_epoch,
    without_erased,
    without_fail_policies,
)
from rivermouth.engine.erasure.erasure_conditions import MET, OWN, RECORD, as_place, key_columns_of, meets, of_keys
from rivermouth.engine.erasure.select_dead_letters import chosen_letters, count_unchecked, kafka_keys, went_on
from rivermouth.errors import ForgetRefused
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.internals.expressions import columns_in
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.epochs import epoch_now
from rivermouth.side_tables import erased_records
from rivermouth.side_tables.erased_records import CHANGE, COORDINATES, ELSEWHERE, PLACE, TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, Row

    from rivermouth.domain.ledger.erasure import ForgetRequest
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.spec import Flow

_APPEND_ONLY: Final = "delta.appendOnly"


@dataclass(frozen=True, slots=True)
class ErasureSelection:
    """What is to be erased, computed and kept.

    Attributes:
        rows: How many rows of the table.
        matches: What these are found by: their coordinates, or the keys of a keyed table.
        remembered: How many rows of a keyed table's memory.
        shared: How many Kafka keys they have that rows which stay have too.
        records: What is erased: coordinates, ``place``, the ``batch`` of dead letters, and the ``change`` of a record
            that goes in part.
        dead_letters: How many dead letters.
        unjudged: How many dead letters stay without a Kafka key that shows to which rows they belong.
        known: How many records, each as a whole.
        in_part: How many others, whose other changes stay.
        least: The least offset of the rows; None without any.
        greatest: The greatest.
    """

    rows: int
    matches: DataFrame
    remembered: int
    shared: int
    records: DataFrame
    dead_letters: int
    unjudged: int
    known: int
    in_part: int
    least: int | None
    greatest: int | None


def select_for_erasure(run: FlowRun, request: ForgetRequest, ends: ExitStack) -> ErasureSelection:
    """What the request's conditions choose, computed and kept until ``ends`` closes.

    Raises:
        ForgetRefused: A condition is none, or the table's rows cannot be erased.
    """
    _check_table(run.context)
    table = run.spark.read.format("delta").load(run.places.table)
    met = meets(run.context, table, "--where", request.where)
    order = table_order(run.view, run.entry)
    rows = _rows_that_go(run, table, met, request.where, ends)
    _check_coordinates(run.places, run.flow, rows.counts["placeless"])
    kafka = kafka_keys(run.dead_letters, run.flow, table, met, rows.matches, order)
    records = rows.gone.select(*RECORD, *as_place(TABLE))
    if order is not None and rows.keys and (found_in_kafka := _held(run, rows.matches, order)) is not None:
        held, _ = ends.enter_context(computed(found_in_kafka))
        records = held.unionByName(_not_held(run, records, held, rows.matches, order))
    letters, unjudged = chosen_letters(run, request, kafka, records), 0
    if letters is not None:
        letters, _ = ends.enter_context(computed(letters))
        unjudged = (
            0 if request.dead_letters is not None else count_unchecked(run.dead_letters, run.flow, letters, kafka)
        )
    records = records if letters is None else records.unionByName(letters)
    ready, counts = ends.enter_context(computed(records.distinct(), _count_letters()))
    known, in_part = _counted(ready)
    return ErasureSelection(
        rows=rows.counts["rows"],
        matches=rows.matches,
        remembered=rows.remembered,
        shared=0 if kafka is None else kafka.shared,
        records=ready,
        dead_letters=counts["letters"],
        unjudged=unjudged,
        known=known,
        in_part=in_part,
        least=rows.counts["least"],
        greatest=rows.counts["greatest"],
    )


@dataclass(frozen=True, slots=True)
class _RowsThatGo:
    """The rows that a condition chooses.

    Attributes:
        matches: As of ``ErasureSelection``.
        gone: The coordinates of the rows.
        counts: As ``_row_counts`` counts them.
        keys: How many keys of a keyed table; else 0.
        remembered: As of ``ErasureSelection``.
    """

    matches: DataFrame
    gone: DataFrame
    counts: Row
    keys: int = 0
    remembered: int = 0


def _rows_that_go(run: FlowRun, table: DataFrame, met: Column, condition: str | None, ends: ExitStack) -> _RowsThatGo:
    order, stamp = table_order(run.view, run.entry), _stamp(run.flow, table)
    if order is None:
        rows = table_coordinates(run, stamp, met.alias(MET)).where(MET).select(*RECORD)
        gone, told = ends.enter_context(computed(rows, *_row_counts()))
        return _RowsThatGo(gone.distinct(), gone, told)
    matches, found = ends.enter_context(computed(_keys(run.context, table.where(met), order, condition)))
    rows = of_keys(table_coordinates(run, stamp, *key_columns_of(order)), matches, order).select(*RECORD)
    gone, told = ends.enter_context(computed(rows, *_row_counts()))
    return _RowsThatGo(matches, gone, told, found["rows"], _in_memory(run.context, matches, order))


def _stamp(flow: Flow, table: DataFrame) -> Column:
    """Kafka's timestamp of a row's record; null where the table has none."""
    column = flow.metadata_columns.get("kafka_timestamp")
    if column is None or column not in table.columns:
        return F.lit(None).cast("timestamp").alias(names.TIMESTAMP)
    return F.col(names.quoted(column)).alias(names.TIMESTAMP)


def _check_table(context: FlowContext) -> None:
    """Raises ForgetRefused if rows of this table cannot be erased."""
    table = context.places.name
    properties = delta_snapshot.table_state(context.spark, context.places.table).properties
    if properties.get(_APPEND_ONLY, "").lower() == "true":
        fix = f"ALTER TABLE delta.{names.quoted(context.places.table)} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')"
        raise ForgetRefused(table=table, detail=f"its property {_APPEND_ONLY} lets no row go", fix=fix)


def _check_coordinates(places: FlowPlaces, flow: Flow, placeless: int) -> None:
    """Raises ForgetRefused if rows have no coordinates, so that they do not say which record they are."""
    if not placeless:
        return
    detail = f"{placeless} of the rows have no coordinates, because another program wrote them"
    fix = f"delete these in Spark, then: rivermouth run {flow.name}, which says how it goes on"
    raise ForgetRefused(table=places.name, detail=detail, fix=fix)


def _row_counts() -> tuple[Column, ...]:
    missing = F.expr(" OR ".join(f"{name} IS NULL" for name in names.IN_TABLE))
    ends = F.min(names.OFFSET).alias("least"), F.max(names.OFFSET).alias("greatest")
    return (*ends, F.count_if(missing).alias("placeless"))


def _count_letters() -> Column:
    return F.count_if(F.col(PLACE) != TABLE).alias("letters")


def _counted(records: DataFrame) -> tuple[int, int]:
    """How many records go as a whole, and how many others in part."""
    gone = records.where(F.col(PLACE) != ELSEWHERE).groupBy(*COORDINATES)
    row = gone.agg(F.bool_or(F.col(CHANGE).isNull()).alias("whole"))
    found = row.agg(F.count_if("whole"), F.count_if(~F.col("whole"))).collect()[0]
    return found[0], found[1]


def _keys(context: FlowContext, meant: DataFrame, order: ChangeOrder, condition: str | None) -> DataFrame:
    """Keys of the rows that are meant, and of deleted ones if the condition is about nothing but keys."""
    keys = meant.select(*key_columns_of(order))
    memory = context.tombstones
    known = {key.lower() for key in order.keys}
    about_keys = condition is not None and {name.lower() for name in columns_in(context.spark, condition)} <= known
    if memory is not None and about_keys and memory.exists():
        frame = memory.frame(context.spark, order)
        deleted = frame.where(f"NOT {names.TRUNCATE}").where(meets(context, frame, "--where", condition))
        keys = keys.unionByName(deleted.select(*key_columns_of(order)))
    return keys.distinct()


def _in_memory(context: FlowContext, keys: DataFrame, order: ChangeOrder) -> int:
    """How many rows the memory of a keyed table has of these keys."""
    memory = context.tombstones
    if memory is None or not memory.exists():
        return 0
    return of_keys(memory.frame(context.spark, order).where(f"NOT {names.TRUNCATE}"), keys, order).count()


def _not_held(run: FlowRun, records: DataFrame, held: DataFrame, keys: DataFrame, order: ChangeOrder) -> DataFrame:
    """Records of rows that go and that ``held`` does not have.

    A record that also has rows that stay is left out: Kafka does not hold it any more, so it cannot be read again.
    """
    rest = records.join(held.select(*COORDINATES).distinct(), [*COORDINATES], "left_anti")
    if not run.flow.splits:
        return rest
    staying = of_keys(table_coordinates(run, *key_columns_of(order)), keys, order, "left_anti")
    return rest.join(staying.select(*COORDINATES).distinct(), [*COORDINATES], "left_anti")


def _held(run: FlowRun, keys: DataFrame, order: ChangeOrder) -> DataFrame | None:
    """The records of these keys that Kafka holds: of a keyed table only the newest of a key is a row.

    Those that are dead letters are left out. Where a record may be several changes, those of these keys, or the record
    as a whole if no other change of it is left.
    """
    ranges = _readable(run.kafka, run.entry)
    if not ranges:
        return None
    source = run.source.with_headers(headers=run.flow.reads_headers)
    held = without_erased(envelope.read(source.batch(run.spark, ranges)), run, ranges)
    routed = transformed(held, without_fail_policies(run))
    marked = marked_changes(routed, run, ranges)
    routed = routed if marked is None else marked.where(~F.col(erased_records.IS_ERASED))
    rows = table_rows(routed.where(F.col(names.ROUTE) == routing.TABLE), run)
    columns = [*order.coordinates, F.col(names.quoted(order.timestamp)).alias(names.TIMESTAMP)]
    if run.flow.splits:
        found = _changes(rows, keys, order, columns)
    else:
        found = of_keys(rows.where(~F.col(names.TRUNCATE)), keys, order).select(*columns, *as_place(TABLE))
    now = epoch_now(run.entry, F.col(names.TOPIC), F.col(names.PARTITION))
    records = found.withColumn(names.EPOCH, now)
    if run.dead_letters.exists():
        letters = with_epoch(run.entry, run.dead_letters.frame().where(~went_on(run, *names.IN_TABLE.values())))
        records = records.join(as_coordinates(letters, names.EPOCH), [*COORDINATES], "left_anti")
    return records.select(*RECORD, PLACE, "batch", CHANGE)


def _changes(rows: DataFrame, keys: DataFrame, order: ChangeOrder, columns: Sequence[Column]) -> DataFrame:
    """Of the records in ``rows`` the changes of these keys, or the record as a whole where there are no others."""
    mine = keys.withColumn(OWN, F.lit(True)).alias("s")
    told = rows.alias("t").join(mine, F.expr(order.same_key("t", "s")), "left")
    own = F.coalesce(F.col(f"s.{OWN}"), F.lit(False)) & ~F.col(f"t.{names.TRUNCATE}")
    parts = told.select("t.*", own.alias(OWN)).select(*columns, names.ORDINAL, OWN)
    found = parts.groupBy(*names.IN_TABLE, names.TIMESTAMP).agg(
        F.collect_set(F.when(F.col(OWN), F.col(names.ORDINAL))).alias("__own_changes"),
        F.bool_and(OWN).alias("__whole"),
    )
    change = F.when(F.col("__whole"), F.array(F.lit(None).cast("int"))).otherwise(F.col("__own_changes"))
    return found.select(*names.IN_TABLE, names.TIMESTAMP, *as_place(TABLE, F.explode(change)))


def _readable(kafka: OffsetSource, entry: Entry) -> Ranges:
    """What Kafka still holds of what the flow has read."""
    read = entry.next_offsets
    return offset_ranges.between(beginning_offsets(kafka, entry, read.keys()), read)
