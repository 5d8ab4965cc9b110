"""Changes that bring parts of their rows, merged into a keyed table: of each column the newest value stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.merge_report import way
from rivermouth.ports.internals.delta_snapshot import SMALL_BYTES, newest_rows
from rivermouth.ports.internals.persisted import computed, held_bytes
from rivermouth.rows.keyed import key_ranges, partial_updates
from rivermouth.rows.keyed.changes import RECORDS
from rivermouth.rows.keyed.history import ENTRY
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.sinks import _merging
from rivermouth.sinks._merging import Ready

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.ports.delta import delta_table
    from rivermouth.rows.keyed.change_order import ChangeOrder, Truncations
    from rivermouth.rows.keyed.key_ranges import Ranges
    from rivermouth.side_tables.deleted_keys import Tombstones
    from rivermouth.sinks._target import SinkEntry, Target


def merge_parts(
    changes: DataFrame,
    truncated: Truncations | None,
    order: ChangeOrder,
    tombstones: Tombstones,
    target: Target,
    entry: SinkEntry,
) -> delta_table.Commit:
    """Merges changes and commits ``entry`` with them; ``rows_written`` is how many there were.

    Args:
        changes: In the shape of the table, with ``__delete`` and ``__sequence``; read once.
        truncated: The truncations, if some are new.
        order: The table's.
        tombstones: The deleted keys.
        target: The table.
        entry: The ledger entry that becomes true with them.

    Guarantees:
        Run twice with one entry: as once. Stopped half-way: neither rows nor entry, or both; deleted keys may be
        remembered already, which is taken back when that is tried again.
    """
    tombstones.take_back(changes.sparkSession, entry.number)
    columns, ranged = partial_updates.whole_columns(changes, order), key_ranges.ranged(changes, order.keys)
    unplaced = F.expr(f"{names.DELETE} AND {names.SEQUENCE} IS NULL") if order.sequence else F.lit(False)
    with computed(changes, F.count_if(unplaced).alias("unplaced"), *key_ranges.counts(ranged)) as (ready, told):
        few = way(told["rows"], held_bytes(ready)).join == "broadcast"
        keys = ready.select(*map(names.quoted, order.keys)).distinct()
        wanted = (F.broadcast(keys) if few else keys).alias("w")
        # A truncation is about all keys.
        ranges = {} if truncated else key_ranges.found(ranged, told)
        known = _known(ready, target, ranges, columns, order, None if truncated else wanted)
        placed = partial_updates.placed(ready, known, order) if told["unplaced"] else ready
        found = _with_remembered(partial_updates.candidates(placed, order), wanted, order, tombstones)
        merged = partial_updates.merged(
            partial_updates.newest(found, order),
            known,
            columns,
            order,
            [truncated] if truncated else [],
            how="full" if truncated else "left",
        )
        mine = merged.where(f"{partial_updates.WRITES} OR {RECORDS} IS NOT NULL")
        mine = mine.withColumn(names.CHANGE, F.monotonically_increasing_id())
        with computed(mine, *_counts()) as (rows, seen):
            if seen["deletions"]:
                tombstones.remember(partial_updates.deletions(rows, entry.number, order), order, [ENTRY])
            written = rows.where(partial_updates.WRITES)
            changed = Ready(written, seen["writes"] or 0, held_bytes(rows))
            what = _what([*columns, *order.partial, names.PLACES], order, ranges)
            commit = _merging.merged(changed, what, target, entry)
        return replace(commit, rows_written=int(told["rows"]))


def _counts() -> Sequence[Column]:
    return F.count_if(partial_updates.WRITES).alias("writes"), F.count_if(names.DELETE).alias("deletions")


def _known(
    changes: DataFrame,
    target: Target,
    ranges: Ranges,
    columns: Sequence[str],
    order: ChangeOrder,
    wanted: DataFrame | None,
) -> DataFrame:
    """The table's rows of the keys of ``changes``; all rows without ``wanted``."""
    table = newest_rows(changes.sparkSession, target.ledger.location, max_bytes=SMALL_BYTES)
    table = table.alias("t").where(key_ranges.within(ranges))
    if wanted is not None:
        table = table.join(wanted, F.expr(order.same_key("w", "t")), "left_semi")
    return partial_updates.current_rows(table, columns, order)


def _with_remembered(found: DataFrame, wanted: DataFrame, order: ChangeOrder, tombstones: Tombstones) -> DataFrame:
    """``found``, and what is remembered of the deletions of its keys."""
    facts = tombstones.deletions(found.sparkSession, order)
    if facts is None:
        return found
    mine = facts.alias("r").join(wanted, F.expr(order.same_key("w", "r")), "left_semi")
    return found.unionByName(partial_updates.remembered(mine, found, order))


def _what(columns: Sequence[str], order: ChangeOrder, ranges: Ranges) -> Merge:
    return Merge(
        on=F.expr(order.same_key("s", "t")),
        ranges=ranges,
        delete=f"s.{partial_updates.GONE}",
        update=f"NOT s.{partial_updates.GONE}",
        insert=f"NOT s.{partial_updates.GONE}",
        values={names.quoted(name): f"s.{names.quoted(name)}" for name in columns},
    )
