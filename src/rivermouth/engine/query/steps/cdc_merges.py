"""The two merges of a batch of AUTO CDC: into the table behind the target, and from there into the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.domain.delta.merge_report import BROADCAST_CHANGES
from rivermouth.domain.query.query_entry import ONE_BATCH, QueryCounts
from rivermouth.engine.query import query_batch
from rivermouth.names import quoted
from rivermouth.ports.internals.delta_snapshot import newest_rows
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows.keyed.compared_rows import differences
from rivermouth.rows.keyed.merge_plan import Merge
from rivermouth.sinks._target import Target
from rivermouth.sinks.history import History
from rivermouth.sinks.upsert import Upsert

if TYPE_CHECKING:
    import threading

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.engine.query.cdc_settings import CdcSettings
    from rivermouth.engine.query.query_run import QueryRun
    from rivermouth.ports.delta.query_ledger import QueryLedger, QueryPosition
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.side_tables.deleted_keys import Tombstones

KEYS_MARK: Final = "keys_mark"
"""Name of the sum of the marks of the keys and truncations, among what is counted of changes."""


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
    columns: StructType
    tombstones: Tombstones
    merging: threading.Lock
    computed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TwoMerges:
    """The changes of a batch on their way into a target.

    Attributes:
        rows: The changes, computed.
        target: The target.
        run: The flow.
        position: Where the flow is in the ledger behind the target.
        keys_mark: The sum of the marks of their keys and truncations.
        truncated: Whether keys that the target has may be gone.
    """

    rows: DataFrame
    target: CdcTarget
    run: QueryRun
    position: QueryPosition
    keys_mark: int
    truncated: bool

    def begun(self, entry: QueryEntry) -> QueryEntry | None:
        """What a try of the batch left behind the target that ended between the two merges; None without one.

        Also None of a try by an earlier version, whose entry does not have its counts.
        """
        found = self.position.entry
        return found if found.keys_mark is not None and self._is_begun(entry, found) else None

    def merge(self, entry: QueryEntry) -> bool:
        """Merges into the table behind the target, unless it has that batch already.

        Returns:
            Whether a try of the batch that ended before its commit in the target had other changes: a snapshot, what a
            query gave that runs once, or those of another definition. The table behind the target may have keys of it
            that the target does not know.
        """
        target, position = self.target, self.position
        if self._is_begun(entry, position.entry):
            return position.entry.keys_mark not in (None, self.keys_mark)
        self.run.context.step("cdc")
        number = target.backing.newest_number(self.rows.sparkSession) + 1
        mine = replace(entry, number=number, onto=entry.number, totals=QueryCounts(), keys_mark=self.keys_mark)
        is_history = target.cdc.scd_type != 1
        sink = History(type="history", sequence_by=(names.SEQUENCE,)) if is_history else Upsert(type="upsert")
        where = Target(target.backing, target.backing_id, position.version, target.order, target.tombstones)
        sink.write(self.rows, where, mine)
        return position.entry.kind == "batch" and position.entry.onto == entry.number

    def _is_begun(self, entry: QueryEntry, behind: QueryEntry) -> bool:
        """Whether the newest entry behind the target is of a try of the same batch: up to the same offsets.

        The version of a snapshot may be given again. A flow that runs once reads other rows each time.
        """
        if not behind.holds(entry.query_id, entry.batch_id) or behind.offsets != entry.offsets:
            return False
        return entry.query_id != ONE_BATCH or (self.target.order.snapshots and behind.onto == entry.number)

    def copy(self, entry: QueryEntry, *, everything: bool) -> None:
        """Makes the rows of the changed keys in the target what they are behind it, in one commit with ``entry``.

        Args:
            entry: The ledger entry of the changes.
            everything: Whether keys may have changed that are not among the changes.
        """
        run, target, order = self.run, self.target, self.target.order
        spark, is_history = self.rows.sparkSession, target.cdc.scd_type != 1
        behind, there = (newest_rows(spark, at) for at in (target.backing.location, run.context.places.table))
        keys = [quoted(name) for name in order.keys]
        wanted = self.rows.where(f"NOT {names.TRUNCATE}").select(*keys).distinct()
        if not (self.truncated or everything) and entry.counts.written <= BROADCAST_CHANGES:
            wanted = F.broadcast(wanted)
        if self.truncated or everything:
            wanted = wanted.unionByName(there.select(*keys)).distinct()
        if everything:
            wanted = wanted.unionByName(behind.select(*keys)).distinct()
        columns = [each.name for each in run.columns]
        different = differences(behind, there, wanted, columns, order, versions=is_history)
        with computed(different) as (ready, told):
            on = F.expr(order.same_key("s", "t"))
            if is_history:
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
