"""What a batch, its recovery and a replay have in common: they check records, count them and complete an entry."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.decoding.wrapped import unwrap
from rivermouth.domain.delta.merge_report import way
from rivermouth.domain.ledger.dropping import dropped_by
from rivermouth.domain.ledger.undeclared_names import NO_NAMES
from rivermouth.engine.events import BatchDone
from rivermouth.errors import CountsDisagree
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.internals.expressions import is_of_the_day
from rivermouth.ports.internals.prepared_plan import Prepared
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import (
    checks,
    conform,
    dead_letter,
    envelope,
    explode,
    lookups,
    partition_values,
    routing,
    split_changes,
)
from rivermouth.rows.columns import table_columns
from rivermouth.rows.columns.epochs import epoch_now, epoch_then
from rivermouth.rows.keyed import change_order, changes, partial_changes
from rivermouth.side_tables import erased_records
from rivermouth.sinks._target import Target
from rivermouth.sinks.append import Append

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.delta.merge_report import MergeReport
    from rivermouth.domain.ledger.ledger import Counts, Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.ledger.undeclared_names import UndeclaredNames
    from rivermouth.engine.flow.running import FlowContext, FlowRun, TableView
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.ports.delta.table_ledger import LedgerPosition
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.spec import Flow

_FAIL: Final = "fail"


def transformed(rows: DataFrame, run: FlowRun, beside: Sequence[str] = (), *, watched: bool = False) -> DataFrame:
    """Envelope rows with their columns, failed expectations and route.

    The further columns that the caller names stay as they are. Lookups find rows of the versions that ``run.lookups``
    holds. Where the rows are ``watched``, the job ends at a record whose fields are a case for the flow's schema
    policies.
    """
    for step in ("decode", "conform", "check", "route"):
        run.reached(step)
    flow, actions = run.flow, (each.action for each in run.flow.expectations)
    key = (*beside, *(("watched",) if watched else ()), *actions)
    tables = run.lookups.frames(run.spark, flow) if flow.lookup else ()
    if has_current_date(flow):
        return transform(rows, flow, beside, watched=watched, tables=tables)
    if key not in run.prepared:
        run.prepared[key] = Prepared(lambda frame: transform(frame, flow, beside, watched=watched, tables=tables))
    return run.prepared[key].over(rows)


def newest_lookups(run: FlowRun) -> dict[str, int]:
    """The newest versions of the tables in which the flow looks up columns, by their names; now they are read.

    Raises:
        RivermouthError: One cannot be used.
    """
    if run.lookups.refresh(run.spark, run.flow):
        run.prepared.clear()
    return lookup_versions(run)


def lookup_versions(run: FlowRun) -> dict[str, int]:
    """The versions in which the flow looks up columns, by the names of the tables."""
    return {each.table: version for each, version in zip(run.flow.lookup, run.lookups.versions, strict=True)}


def has_current_date(flow: Flow) -> bool:
    """Whether one of the flow's expressions may hold a literal that Spark's parser fills in: ``DATE 'today'``."""
    texts = [
        *(each.condition for each in flow.expectations),
        *table_columns.derived_columns(flow).values(),
        *flow.select,
    ]
    texts.append(flow.explode or "")
    if flow.keyed is not None:
        texts += [flow.keyed.apply_as_deletes or "", flow.keyed.apply_as_truncates or "", *flow.keyed.sequence_by]
    return any(map(is_of_the_day, texts))


def transform(
    rows: DataFrame,
    flow: Flow,
    beside: Sequence[str] = (),
    *,
    watched: bool = False,
    tables: Sequence[DataFrame] = (),
) -> DataFrame:
    """Decode, look up, conform, check and route envelope rows, with a plan that is built for these rows alone.

    The further columns that the caller names stay as they are. ``tables`` are those of the flow's lookups, as
    ``LookupTables.frames`` returns them.
    """
    rows = lookups.join(decoded(rows, flow, watched=watched), flow, tables)
    told = (
        *flow.value_format.further_columns,
        *record_keys.columns(flow),
        *flow.identity.keys() - names.IN_TABLE.keys(),
    )
    rows = conform.conform(rows, flow, (*beside, *told, *unwrap.columns(flow)))
    rows = partial_changes.with_places(changes.with_changes(rows, flow), flow)
    rows = partition_values.check(rows, flow)
    rows = checks.check(rows, flow.all_expectations)
    rows = split_changes.agreed(rows, flow, beside)
    return routing.route(rows, flow)


def decoded(rows: DataFrame, flow: Flow, *, watched: bool = False) -> DataFrame:
    """Envelope rows with their payload, a row for each change or element of a record."""
    rows = envelope.decode(explode.split(rows, flow), flow)
    rows = envelope.watch(rows, flow) if watched else rows
    return explode.explode(split_changes.split(rows, flow), flow)


def without_erased(rows: DataFrame, run: FlowRun, ranges: Ranges) -> DataFrame:
    """Envelope rows of ``ranges`` without the records that were erased: reading again does not bring them back."""
    gone = run.erased.within(run.spark, run.entry, ranges)
    return rows if gone is None else erased_records.without(rows, erased_records.whole(gone, run.flow))


def without_erased_changes(routed: DataFrame, run: FlowRun, ranges: Ranges) -> DataFrame:
    """Routed rows of ``ranges`` without the changes that were erased of records whose other changes stay."""
    marked = marked_changes(routed, run, ranges)
    return routed if marked is None else erased_records.kept(marked)


def marked_changes(routed: DataFrame, run: FlowRun, ranges: Ranges) -> DataFrame | None:
    """Routed rows of ``ranges`` as ``erased_records.marked`` returns them; None where no change was erased."""
    gone = run.erased.within(run.spark, run.entry, ranges) if run.flow.splits else None
    return None if gone is None else erased_records.marked(routed, gone, run.flow)


def beginning_offsets(kafka: OffsetSource, entry: Entry, topics: Collection[str]) -> Offsets:
    """The first offset that Kafka holds of each partition; of topics that are gone, or others by now, nothing."""
    known = entry.topic_ids
    found = {name: topic for name, topic in kafka.describe(topics).items() if topic.id == known.get(name, topic.id)}
    return kafka.beginning_offsets(found)


def table_rows(rows: DataFrame, run: FlowRun, beside: Sequence[str] = ()) -> DataFrame:
    """Conformed rows with the table's columns alone, in its order; the epoch too, once a topic had more than one.

    The further columns that the caller names come after them.

    Changes of a keyed table keep what they do to it: ``__delete``, ``__truncate``, ``__sequence``; where a record may
    be several of them, ``__ordinal``; and where one may leave values out, ``__places``.
    """
    way = () if run.flow.keyed is None else (names.DELETE, names.TRUNCATE, names.SEQUENCE)
    way = (*way, names.ORDINAL) if run.flow.splits else way
    way = way if run.flow.whole_columns is None else (*way, names.PLACES)
    columns = [names.quoted(name) for name in dict.fromkeys((*run.columns, *way, *beside))]
    entry = run.entry
    if not entry.epochs:
        return rows.selectExpr(*columns)
    now = epoch_now(entry, F.col(names.TOPIC), F.col(names.PARTITION))
    # A replay knows the epoch of each of its records.
    epoch = F.col(names.EPOCH) if names.EPOCH in rows.columns else now
    return rows.select(*columns, epoch.alias(names.EPOCH_COLUMN))


def table_order(view: TableView, entry: Entry) -> ChangeOrder | None:
    """How the flow's table orders its rows as it is now; None for a table without keys."""
    return change_order.order_of(view.flow, view.columns, epochs=bool(entry.epochs), left=view.left)


def table_coordinates(run: FlowRun, *more: Column, version: int | None = None) -> DataFrame:
    """``__topic``, ``__partition``, ``__offset`` and ``__epoch`` of the table's rows: which records they are.

    And ``__position`` where records are exploded, and the columns in ``more``. Of an older ``version`` of the table, if
    one is named.
    """
    called = run.flow.metadata_columns
    renamed = [F.col(names.quoted(called[name])).alias(target) for target, name in run.flow.identity.items()]
    epoch = F.coalesce(F.col(names.EPOCH_COLUMN), F.lit(0)) if run.entry.epochs else F.lit(0)
    reader = run.spark.read.format("delta")
    table = (reader if version is None else reader.option("versionAsOf", version)).load(run.places.table)
    return table.select(*renamed, epoch.alias(names.EPOCH), *more)


def rows_within(run: FlowRun, ranges: Ranges, version: int | None = None) -> DataFrame:
    """``__topic``, ``__partition`` and ``__offset`` of the table's rows within ``ranges``, of the epoch of now.

    And ``__position`` where records are exploded. Of an older ``version`` of the table, if one is named.
    """
    found = table_coordinates(run, version=version).where(envelope.inside(ranges))
    if run.entry.epochs:
        now = epoch_now(run.entry, F.col(names.TOPIC), F.col(names.PARTITION))
        found = found.where(F.col(names.EPOCH) == now)
    return found.drop(names.EPOCH)


def write_rows(rows: DataFrame, run: FlowRun, entry: Entry) -> Commit:
    """The commit that brought ``rows``, as ``table_rows`` returns them, and ``entry`` into the table.

    Raises:
        CommitLost: Another process committed an entry of this number first.

    Guarantees:
        Those of the flow's sink.
    """
    target = Target(run.ledger, run.table_id, run.position.version, table_order(run.view, run.entry), run.tombstones)
    return run.sink.write(rows, target, entry)


def write_entry(context: FlowContext, position: LedgerPosition, entry: Entry) -> Commit:
    """The commit that brought ``entry`` into the table, and no row.

    Raises:
        CommitLost: Another process committed an entry of this number first.

    Guarantees:
        Run twice: once. Stopped half-way: the entry is there or not.
    """
    empty = no_rows(context.spark, delta_snapshot.table_state(context.spark, context.places.table).columns)
    return Append().write(empty, Target(context.ledger, context.table_id, position.version), entry)


def with_epoch(entry: Entry, letters: DataFrame) -> DataFrame:
    """Dead letters with ``__epoch``: that of the batch which wrote them."""
    columns = (F.col(name) for name in ("kafka_topic", "kafka_partition", "batch"))
    return letters.withColumn(names.EPOCH, epoch_then(entry, *columns))


def as_coordinates(letters: DataFrame, *more: str) -> DataFrame:
    """``__topic``, ``__partition`` and ``__offset`` of dead letters, and the columns in ``more``.

    And ``__position`` where their table has it; of a letter that is a whole record ``explode.WHOLE``.
    """
    columns = [F.col(column).alias(name) for name, column in names.IN_TABLE.items()]
    if dead_letter.POSITION.name in letters.columns:
        columns.append(F.coalesce(dead_letter.POSITION.name, F.lit(explode.WHOLE)).alias(names.POSITION))
    return letters.select(*columns, *more)


def dead_letters_of(routed: DataFrame, run: FlowRun) -> DataFrame:
    """The dead letters among routed rows, as those of the newest entry."""
    entry = run.entry
    return dead_letter.dead_letters(
        routed, run.flow, target=run.dead_letters.target, entry=entry.number, topic_ids=entry.topic_ids
    )


def complete(
    run: FlowRun,
    ranges: Ranges,
    counts: Counts,
    duration_s: float,
    merge: MergeReport | None = None,
    undeclared: UndeclaredNames = NO_NAMES,
) -> BatchDone:
    """Keeps the counts of the newest entry and reports its batch, with what its MERGE came to where that is known.

    ``undeclared`` are the names of fields that no column has.

    Raises:
        CountsDisagree: The counts do not add up.
    """
    entry = run.entry
    if not counts.adds_up:
        detail = (
            f"of {counts.consumed} records {counts.written} were written, {counts.merged} merged, {counts.dropped} "
            f"dropped and {counts.dead_lettered} dead-lettered, which does not add up"
        )
        raise CountsDisagree(flow=run.flow.name, entry=entry.number, detail=detail)
    done = BatchDone(
        flow=run.flow.name,
        entry=entry.number,
        version=run.position.version,
        ranges=ranges,
        counts=counts,
        duration_s=duration_s,
        merge=merge,
        dropped_by=dropped_by(run.flow, counts),
        undeclared_names=undeclared.of_batch,
    )
    report = {
        "finished_at": time.time(),
        "duration_s": round(duration_s, 3),
        "rows_per_s": round(done.rows_per_s, 1),
        "ranges": {topic: {str(p): list(ends) for p, ends in parts.items()} for topic, parts in ranges.items()},
        "merge": None if merge is None else asdict(merge),
        "undeclared_names": undeclared.so_far,
    }
    run.advance(entry, run.position.version, counts=counts, report=report)
    run.ledger.keep(run.position)
    return done


def agree(flow: Flow, entry: Entry, what: str, found: int | None, expected: int) -> None:
    """Nothing, where as many rows were found as were counted, or nobody knows how many were found.

    Raises:
        CountsDisagree: There are more or fewer.
    """
    if found is not None and found != expected:
        detail = f"{found} {what}, {expected} were counted; is an expectation or expression not deterministic?"
        raise CountsDisagree(flow=flow.name, entry=entry.number, detail=detail)


def without_fail(flow: Flow, instead: str) -> Flow:
    """The flow with expectations that stop nothing: those that would do what the action ``instead`` does."""
    if all(each.route != _FAIL for each in flow.expectations):
        return flow
    expectations = tuple(
        each.model_copy(update={"action": instead}) if each.route == _FAIL else each for each in flow.expectations
    )
    return flow.model_copy(update={"expectations": expectations})


def without_fail_policies(run: FlowRun, instead: str = "warn") -> FlowRun:
    """The run of ``without_fail``."""
    flow = without_fail(run.flow, instead)
    return run if flow is run.flow else dataclasses.replace(run, view=dataclasses.replace(run.view, flow=flow))


def as_few(frame: DataFrame, rows: int) -> DataFrame:
    """A frame of that many rows for a join: each task gets all of them where they are few.

    More are sorted on disk, as the driver collects what it sends.
    """
    return F.broadcast(frame) if way(rows, None).join == "broadcast" else frame
