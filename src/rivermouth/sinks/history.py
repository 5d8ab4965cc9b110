"""The history sink: every version of a key, with the time during which it is valid."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.merge_report import way
from rivermouth.ports.internals.delta_snapshot import SMALL_BYTES, newest_rows
from rivermouth.ports.internals.persisted import computed, held_bytes
from rivermouth.ports.internals.task_metrics import spent
from rivermouth.rows.keyed import history, history_results, key_ranges
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.rows.split_changes import FIRST
from rivermouth.sinks._merging import Ready, merged, with_metrics
from rivermouth.spec import KeyedSink
from rivermouth.spec.keyed import Texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, Row

    from rivermouth.ports.delta import delta_table
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.rows.keyed.key_ranges import Ranges
    from rivermouth.side_tables.deleted_keys import Tombstones
    from rivermouth.sinks._target import SinkEntry, Target


class History(KeyedSink):
    """Every version of a key stays, from ``__START_AT`` to ``__END_AT``, which is null for the current one.

    Attributes:
        sequence_by: A column or an expression, or several, that say from when a record is valid; of two records of a
            key that say the same, the newer one by Kafka's order counts.
        apply_as_deletes: A condition over the record's columns: where it is TRUE the record ends the version of its key
            that is valid then.
        apply_as_truncates: A condition: where it is TRUE the record ends all versions that are valid then.
        tombstones: What a record without a value does: end the newest version of its key, or nothing.
        remember_deletes: How long everything is remembered that late records may depend on and that is in no row.
        track_history_columns: A new version begins where one of these changes; else the version changes in place.
            Without any each record makes a version, and of a snapshot each row that changed.
        track_history_except_columns: The same, for all columns but these.
    """

    type: Literal["history"] = "history"
    versions: ClassVar[bool] = True
    sequence_by: Texts
    track_history_columns: Texts = ()
    track_history_except_columns: Texts = ()

    @model_validator(mode="after")
    def _versions_are_told(self) -> Self:
        if not self.sequence_by:
            msg = "a history needs to know from when a record is valid: give sequence_by"
            raise ValueError(msg)
        if self.track_history_columns and self.track_history_except_columns:
            msg = (
                "versions begin where listed columns change, or all but some: "
                "keep one of track_history_columns and track_history_except_columns"
            )
            raise ValueError(msg)
        return self

    def tracked(self, payload: Sequence[str]) -> tuple[str, ...] | None:
        """Of these payload columns those whose change makes a version; None if every record makes one."""
        if self.track_history_columns:
            return self.track_history_columns
        if not self.track_history_except_columns and not self.snapshots:
            return None
        # The sequence changes with each record.
        untracked = {*self.track_history_except_columns}
        sequence = {_unquoted(part).casefold() for part in self.sequence_by}
        return tuple(name for name in payload if name not in untracked and name.casefold() not in sequence)

    def write(self, rows: DataFrame, target: Target, entry: SinkEntry) -> delta_table.Commit:
        """Merges what ``rows`` change of the history of their keys, and commits ``entry`` with it.

        Args:
            rows: In the shape of the table, with ``__delete``, ``__truncate`` and ``__sequence``; read once.
            target: The table.
            entry: The ledger entry that becomes true with these rows.

        Returns:
            The commit; ``rows_written`` is how many rows there were, whatever became of them.

        Raises:
            CommitLost: Another process committed an entry of this number first.

        Guarantees:
            Run twice with one entry: as once. Stopped half-way: neither rows nor entry, or both; what may be remembered
            already is told from the rest by its entry, and taken back when that is tried again.
        """
        order, memory = target.order, target.tombstones
        if order is None or memory is None:
            msg = "a keyed sink needs the order of its table"
            raise TypeError(msg)
        memory.take_back(rows.sparkSession, entry.number)
        ranged = key_ranges.ranged(rows, order.keys)
        record = F.expr(FIRST) if names.ORDINAL in rows.columns else F.lit(True)
        counts = (F.count_if(record).alias("records"), *_counts(ranged))
        with spent(rows.sparkSession) as needed, computed(rows, *counts) as (changes, told):
            # A truncation is about all keys.
            ranges = {} if told["truncations"] else key_ranges.found(ranged, told)
            known = _known(changes, target.ledger.location, ranges, order, memory, told)
            columns = history.columns_of(changes, order)
            with _judged(history.points(changes, known, order)) as (points, found):
                if found["facts"] or told["truncations"]:
                    _remember(changes, points, order, memory, entry, truncations=told["truncations"])
                written = history_results.written(points, columns, order)
                ready = Ready(written, found["updates"] or 0, held_bytes(points))
                commit = merged(ready, _what(columns, order, ranges), target, entry)
        return with_metrics(replace(commit, rows_written=told["records"]), needed)


def _unquoted(column: str) -> str:
    column = column.strip()
    quoted = len(column) > 1 and column[0] == column[-1] == "`"
    return column[1:-1].replace("``", "`") if quoted else column


def _counts(ranged: Sequence[str]) -> Iterator[Column]:
    yield F.count_if(names.TRUNCATE).alias("truncations")
    yield from key_ranges.counts(ranged)


def _known(
    changes: DataFrame, location: str, ranges: Ranges, order: ChangeOrder, memory: Tombstones, told: Row
) -> history.ExistingVersions:
    """What table and memory say of the keys of ``changes``, and of those that its truncations are about."""
    spark = changes.sparkSession
    table = newest_rows(spark, location, max_bytes=SMALL_BYTES).alias("t").where(key_ranges.within(ranges))
    keys = changes.where(f"NOT {names.TRUNCATE}").select(*map(names.quoted, order.keys))
    if told["truncations"]:
        keys = keys.unionAll(history.truncated(table, history.truncations(changes, None, order), order))
    keys = keys.distinct()
    # How many keys a truncation is about nobody knows yet.
    few = way(told["rows"], held_bytes(changes)).join == "broadcast" and not told["truncations"]
    wanted = (F.broadcast(keys) if few else keys).alias("w")
    versions = table.join(wanted, F.expr(order.same_key("w", "t")), "left_semi")
    if not memory.exists():
        marks = history.truncations(changes, None, order) if told["truncations"] else None
        return history.ExistingVersions(versions, None, marks)
    facts = memory.frame(spark, order)
    mine = facts.alias("r").join(wanted, F.expr(order.same_key("w", "r")), "left_semi")
    return history.ExistingVersions(versions, mine, history.truncations(changes, facts, order))


@contextmanager
def _judged(points: DataFrame) -> Iterator[tuple[DataFrame, Row]]:
    counts = (
        F.count_if(history.HAS_FACT).alias("facts"),
        F.count_if(F.expr(f"{history.HAS_UPDATE} OR {history.HAS_DELETE}")).alias("updates"),
    )
    with computed(points, *counts) as found:
        yield found


def _remember(
    changes: DataFrame, points: DataFrame, order: ChangeOrder, memory: Tombstones, entry: SinkEntry, *, truncations: int
) -> None:
    rows = history_results.to_remember(points, order)
    if truncations:
        marks = changes.where(names.TRUNCATE).withColumns(
            {name: F.lit(None) for name in order.keys if name not in order.columns}
        )
        known = [names.quoted(name) for name in rows.columns if name in marks.columns]
        rows = rows.unionByName(marks.select(*known), allowMissingColumns=True)
    beside = [history.KIND, history.ENTRY, *([history.ROW] if order.tracked is not None else [])]
    memory.remember(rows.withColumn(history.ENTRY, F.lit(entry.number).cast("bigint")), order, beside)


def _what(columns: Sequence[str], order: ChangeOrder, ranges: Ranges) -> Merge:
    start = F.expr(f"s.{names.START_AT} = t.{names.START_AT}")
    return Merge(
        on=F.expr(order.same_key("s", "t")) & start,
        ranges=ranges,
        delete=f"s.{names.DELETE}",
        update=f"NOT s.{names.DELETE}",
        insert=f"NOT s.{names.DELETE}",
        values={names.quoted(name): f"s.{names.quoted(name)}" for name in columns},
    )


KIND = History
