"""The upsert sink: one row a key, the newest one."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructField

from rivermouth import names
from rivermouth.ports.delta import delta_ddl
from rivermouth.ports.internals.persisted import computed, held_bytes
from rivermouth.ports.internals.task_metrics import spent
from rivermouth.rows.keyed import change_order, key_ranges, partial_changes
from rivermouth.rows.keyed import changes as of_keys
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.rows.split_changes import FIRST
from rivermouth.sinks._merging import Ready, merged, with_metrics
from rivermouth.sinks._partial import merge_parts
from rivermouth.spec import KeyedSink
from rivermouth.spec.keyed import Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from rivermouth.ports.delta import delta_table
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.rows.keyed.key_ranges import Ranges
    from rivermouth.side_tables.deleted_keys import Tombstones
    from rivermouth.sinks._target import SinkEntry, Target

_PARTIAL: Final = (
    "ignore_null_updates",
    "ignore_null_updates_columns",
    "ignore_null_updates_except_columns",
    "columns_to_update",
)


class Upsert(KeyedSink):
    """Rows replace older ones of their key, and deletions take them away.

    Attributes:
        ignore_null_updates: Where a record has a null, the row of its key keeps the value that it has.
        ignore_null_updates_columns: As ``ignore_null_updates``, for these columns alone.
        ignore_null_updates_except_columns: As ``ignore_null_updates``, for all columns but these.
        columns_to_update: A column with an array of names: of the columns that the record changes. The others keep
            their value, and null is a value. Where the array is null the record changes all of them.
    """

    type: Literal["upsert"] = "upsert"
    ignore_null_updates: bool = False
    ignore_null_updates_columns: Texts = ()
    ignore_null_updates_except_columns: Texts = ()
    columns_to_update: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _says_once_what_is_updated(self) -> Self:
        for name in ("ignore_null_updates_columns", "ignore_null_updates_except_columns"):
            if name in self.model_fields_set and not getattr(self, name):
                msg = f"{name} names no column: write ignore_null_updates: true for all, or leave it out for none"
                raise ValueError(msg)
        settings = [name for name in _PARTIAL if getattr(self, name)]
        if len(settings) > 1:
            msg = f"what a record leaves as it was is said once: keep one of {' and '.join(settings)}"
            raise ValueError(msg)
        return self

    @property
    def keeps_values(self) -> bool:
        """Whether the row of a key keeps the values that a change does not tell."""
        return not self.snapshots

    @property
    def partial_updates(self) -> bool:
        """Whether a record need not bring all columns of its row."""
        return any(getattr(self, name) for name in _PARTIAL)

    @property
    def listed_by(self) -> str | None:
        """The column in which a record lists the columns that it brings; None if none does."""
        return self.columns_to_update

    def partial(self, payload: Sequence[str]) -> tuple[str, ...]:
        """Of these payload columns those that keep their value where a record does not bring one."""
        if self.ignore_null_updates_columns:
            return tuple(name for name in payload if name in self.ignore_null_updates_columns)
        kept = payload if self.partial_updates else ()
        return tuple(name for name in kept if name not in self.ignore_null_updates_except_columns)

    def write(self, rows: DataFrame, target: Target, entry: SinkEntry) -> delta_table.Commit:
        """Merges ``rows`` and commits ``entry`` with them, also if nothing changes.

        Args:
            rows: In the shape of the table, with ``__delete``, ``__truncate`` and ``__sequence``; read once.
            target: The table.
            entry: The ledger entry that becomes true with these rows.

        Returns:
            The commit; ``rows_written`` is how many rows there were, whatever became of them.

        Raises:
            CommitLost: Another process committed an entry of this number first.

        Guarantees:
            Run twice with one entry: as once. Stopped half-way: neither rows nor entry, or both; deleted keys may be
            remembered already.
        """
        order, tombstones = target.order, target.tombstones
        if order is None or tombstones is None:
            msg = "a keyed sink needs the order of its table"
            raise TypeError(msg)
        with spent(rows.sparkSession) as needed, _truncated(rows, order, tombstones) as found:
            changes = found.changes
            if order.kept and _keep_values(changes, order, target, leaves=found.leaves):
                order = replace(order, partial=order.kept, leaves=True)
            elif not order.partial:
                changes = _without_places(changes, order, target)
            into = merge_parts if order.partial else _merge_rows
            commit = into(changes, found.truncated, order, tombstones, target, entry)
        return with_metrics(replace(commit, rows_written=(commit.rows_written or 0) + found.cleared), needed)


def _keep_values(changes: DataFrame, order: ChangeOrder, target: Target, *, leaves: bool) -> bool:
    """Whether values are to be compared column by column: a change leaves one out, or one did before.

    The first time the table gets a column for the places of values that older changes brought.
    """
    spark, location = changes.sparkSession, target.ledger.location
    if _has_places(target, spark):
        return True
    if leaves:
        kind = partial_changes.places_type(order, changes.schema[names.SEQUENCE].dataType)
        delta_ddl.alter(spark, location, added=[StructField(names.PLACES, kind)], widened=[])
    return leaves


def _has_places(target: Target, spark: SparkSession) -> bool:
    return names.PLACES in spark.read.format("delta").load(target.ledger.location).columns


def _without_places(changes: DataFrame, order: ChangeOrder, target: Target) -> DataFrame:
    """Changes that bring whole rows; all values of such a row are from its record, whatever it had before."""
    # Where changes may leave values out, it is known that the table has no such column.
    if not order.kept and names.PLACES in changes.columns and _has_places(target, changes.sparkSession):
        return changes.withColumn(names.PLACES, F.lit(None).cast(changes.schema[names.PLACES].dataType))
    return changes.drop(names.PLACES)


def _merge_rows(
    changes: DataFrame,
    truncated: change_order.Truncations | None,
    order: ChangeOrder,
    tombstones: Tombstones,
    target: Target,
    entry: SinkEntry,
) -> delta_table.Commit:
    """Merges changes that bring whole rows and commits ``entry`` with them; ``rows_written`` is how many there were."""
    with _ready(changes, target.ledger.location, order) as found:
        if found.deletions:
            deletions = found.frame.where(names.DELETE).withColumn(names.TRUNCATE, F.lit(False))
            tombstones.remember(deletions, order)
        with _in_time(found.frame, order, tombstones) as in_time:
            ready = Ready(in_time, found.changes, held_bytes(found.frame))
            commit = merged(ready, _what(in_time, order, found, truncated), target, entry)
        return replace(commit, rows_written=found.records)


@dataclass(frozen=True, slots=True)
class _BatchChanges:
    """The newest change of each key, standing ready, and what one look at them told.

    Attributes:
        frame: The changes.
        records: Of how many records they are the newest.
        changes: How many they are.
        deletions: How many of them delete.
        ranges: Least and greatest value by key column, where the type has an order that files are skipped by.
    """

    frame: DataFrame
    records: int
    changes: int
    deletions: int
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class _Left:
    """What truncations leave of a batch.

    Attributes:
        changes: The rows that none of them clears away.
        truncated: The truncations, if some are new.
        cleared: Of how many records no row is left.
        leaves: Whether a change leaves out a value that the row of its key has.
    """

    changes: DataFrame
    truncated: change_order.Truncations | None = None
    cleared: int = 0
    leaves: bool = False


@contextmanager
def _truncated(rows: DataFrame, order: ChangeOrder, tombstones: Tombstones) -> Iterator[_Left]:
    """The rows that no truncation clears away. Of a record with several changes its first is taken for all."""
    if not (order.truncates or order.kept):
        yield _Left(rows.drop(names.TRUNCATE))
        return
    first = F.expr(FIRST) if names.ORDINAL in rows.columns else F.lit(True)
    counts = [F.count_if(names.TRUNCATE).alias("truncations"), F.count_if(first).alias("records")]
    if order.kept:
        kept = F.array(*(F.lit(name.lower()) for name in order.kept))
        counts.append(F.count_if(F.arrays_overlap(F.map_keys(names.PLACES), kept)).alias("leaves"))
    with computed(rows, *counts) as (ready, told):
        marks = ready.where(names.TRUNCATE)
        if told["truncations"]:
            tombstones.remember(marks.withColumns({name: F.lit(None) for name in order.keys}), order, truncate=True)
        kind = ready.schema[names.SEQUENCE].dataType.simpleString()
        known = tombstones.truncations(ready.sparkSession, order, kind)
        rest = ready.where(f"NOT {names.TRUNCATE}").drop(names.TRUNCATE).alias("s")
        if known is not None:
            rest = rest.where(~known.older("s", names.SEQUENCE))
        # What was there before an older truncation went with that.
        cleared = told["records"] - rest.where(first).count()
        yield _Left(
            rest, known if told["truncations"] else None, cleared, leaves=order.kept != () and told["leaves"] > 0
        )


@contextmanager
def _ready(changes: DataFrame, location: str, order: ChangeOrder) -> Iterator[_BatchChanges]:
    """The newest change of each key. What a tombstone deletes is looked up in the table, if there is one."""
    parts = of_keys.by_partition(changes, order)
    with ExitStack() as ends:
        there = None
        if order.unplaced and order.sequence is not None:
            some = F.count_if(F.expr(of_keys.HAS_TOMBSTONE)).alias("tombstones")
            parts, told = ends.enter_context(computed(parts, some))
            if told["tombstones"]:
                table = parts.sparkSession.read.format("delta").load(location)
                there = of_keys.followed(parts, table, order)
        newest = of_keys.newest(parts, order, there).withColumn(names.CHANGE, F.monotonically_increasing_id())
        ranged = key_ranges.ranged(newest, order.keys)
        frame, told = ends.enter_context(computed(newest, *_counts(ranged)))
        yield _BatchChanges(
            frame=frame,
            records=told["records"] or 0,
            changes=told["rows"],
            deletions=told["deletions"],
            ranges=key_ranges.found(ranged, told),
        )


def _counts(ranged: Sequence[str]) -> Iterator[Column]:
    yield F.sum(of_keys.RECORDS).alias("records")
    yield F.count_if(names.DELETE).alias("deletions")
    yield from key_ranges.counts(ranged)


@contextmanager
def _in_time(changes: DataFrame, order: ChangeOrder, tombstones: Tombstones) -> Iterator[DataFrame]:
    """Without those whose key was deleted by a newer one."""
    late = tombstones.older(changes.where(f"NOT {names.DELETE}"), order)
    if late is None:
        yield changes
        return
    with computed(late) as (known, told):
        yield changes.join(F.broadcast(known), [*order.keys], "left_anti") if told["rows"] else changes


def _what(
    changes: DataFrame, order: ChangeOrder, found: _BatchChanges, truncated: change_order.Truncations | None
) -> Merge:
    way = {names.CHANGE, names.DELETE, names.ORDINAL, of_keys.RECORDS}
    way |= {names.SEQUENCE} if order.sequence != names.SEQUENCE else set()
    columns = [names.quoted(name) for name in changes.columns if name not in way]
    newer = order.newer("s", "t")
    return Merge(
        on=F.expr(order.same_key("s", "t")),
        ranges=found.ranges,
        delete=f"s.{names.DELETE} AND {newer}",
        update=f"NOT s.{names.DELETE} AND {newer}",
        insert=f"NOT s.{names.DELETE}",
        values={column: f"s.{column}" for column in columns},
        sweep=None if truncated is None else truncated.older("t") | F.expr(order.is_unplaced("t")),
    )


KIND = Upsert
