"""The deleted keys of a keyed table: remembered for a time, so that an older record does not bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.ports.delta import delta_ddl, delta_table
from rivermouth.ports.delta.delta_merge import delete_alone
from rivermouth.ports.internals import delta_snapshot, sessions
from rivermouth.rows.keyed.change_order import Truncations
from rivermouth.rows.keyed.history import ENTRY
from rivermouth.schemas.column_types import nullable_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.rows.keyed.change_order import ChangeOrder

_DELETED_AT: Final = "__deleted_at"
_FORGET_EVERY_S: Final = 3600.0
# In the table's folder: when what is too old was last deleted, in seconds. VACUUM leaves such names alone.
FORGOTTEN: Final = "_forgotten_at"
_STATISTICS: Final = "delta.dataSkippingStatsColumns"
_PROPERTIES: Final = {
    "delta.checkpointInterval": "100",
    # Keys and sequences may get wider types with the keyed table.
    "delta.enableTypeWidening": "true",
    # Least and greatest keys would stay in the log, long after a key was forgotten.
    _STATISTICS: _DELETED_AT,
}


class Tombstones:
    """A Delta table of the lake's state: keys, their place in the order, and when they were deleted.

    Its rows stay true whatever happens to the keyed table: a key was deleted at that place of the order. So a row is
    written before the commit that deletes, and twice if that commit is tried twice. A row without a key is a
    truncation and applies to all keys.

    Args:
        files: Where the table lies.
        location: The table's folder.
        remember_s: How long a key is remembered, in seconds.
        alone: Whether no other writer adds truncations while this one is at work.
    """

    def __init__(self, files: LakeFiles, location: str, remember_s: float, *, alone: bool = True) -> None:
        self._files = files
        self._remember_s = remember_s
        self._exists = False
        # Whether there may be truncations.
        self._truncated = True
        self._alone = alone
        self._forgotten_at: float | None = None
        # The newest entry from which on nothing was remembered that was not taken back.
        self._taken_back: int | None = None
        self.location = location

    def older(self, changes: DataFrame, order: ChangeOrder) -> DataFrame | None:
        """The keys of those changes that come too late: their key was deleted by a newer one; None if nothing was."""
        # A snapshot deletes no key by itself.
        if order.snapshots or not self.exists():
            return None
        wanted = dict.fromkeys([*order.keys, *order.columns, names.SEQUENCE])
        mine = changes.select(*map(names.quoted, wanted)).alias("s")
        late = self.frame(changes.sparkSession, order).where(f"NOT {names.TRUNCATE}").alias("r")
        found = late.join(mine, F.expr(f"{order.same_key('s', 'r')} AND NOT {order.newer('s', 'r', names.SEQUENCE)}"))
        return found.select(*(F.col(f"s.{names.quoted(name)}") for name in order.keys)).distinct()

    def truncations(self, spark: SparkSession, order: ChangeOrder, kind: str) -> Truncations | None:
        """The remembered truncations; None without any. A sequence is of the type ``kind``."""
        if not (order.truncates and self._truncated and self.exists()):
            return None
        found = truncations_of(self.frame(spark, order), order, kind)
        self._truncated = found is not None or not self._alone
        return found

    def deletions(self, spark: SparkSession, order: ChangeOrder) -> DataFrame | None:
        """What is remembered of deleted keys, with the entries for which it was; None where nothing is."""
        facts = self.frame(spark, order) if self.exists() else None
        # Where only truncations are remembered, no entry is; nor where no value was left out yet.
        found = facts is not None and (order.leaves or ENTRY in facts.columns)
        return facts.where(f"NOT {names.TRUNCATE}") if facts is not None and found else None

    def exists(self) -> bool:
        """Whether a key was deleted yet."""
        self._exists = self._exists or delta_table.exists(self._files, self.location)
        return self._exists

    def remember(
        self, deletions: DataFrame, order: ChangeOrder, beside: Sequence[str] = (), *, truncate: bool = False
    ) -> None:
        """Adds deletions, and once an hour removes the expired ones.

        Args:
            deletions: Changes with their columns and ``__truncate``.
            order: The table's.
            beside: Further columns of them that are kept.
            truncate: Whether there are truncations among them.

        Guarantees:
            Run twice: they are there twice, which says the same. Stopped half-way: all of them or none.
        """
        self._truncated = self._truncated or truncate
        columns = dict.fromkeys([*order.keys, *order.columns, names.SEQUENCE, names.TRUNCATE, *beside])
        rows = deletions.select(*map(names.quoted, columns), F.current_timestamp().alias(_DELETED_AT))
        if not self.exists():
            # Whole rows may have any names in them.
            mapping = {"delta.columnMapping.mode": "name"} if beside else {}
            layout = delta_table.TableLayout(nullable_columns(rows.schema), properties={**_PROPERTIES, **mapping})
            delta_table.create(rows.sparkSession, self.location, layout, metadata="{}")
            self._note_forgotten(rows.sparkSession)  # in a new table there is nothing to forget
        self._add(rows)
        self._forget(rows.sparkSession, order)

    def take_back(self, spark: SparkSession, entry: int) -> None:
        """Sees to it that nothing is remembered for that ledger entry, which comes next, or for a later one.

        Guarantees:
            Run twice: as once. Stopped half-way: all of it is there still, or nothing.
        """
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        before, self._taken_back = self._taken_back, entry
        # What this writer remembers for one entry is in the way only where that comes again.
        if (before is None or entry <= before) and self.exists():
            table = DeltaTable.forPath(spark, self.location)
            # Where only truncations are remembered, no entry is.
            if ENTRY in table.toDF().columns:
                table.delete(F.col(ENTRY) >= entry)

    def clear(self, spark: SparkSession) -> None:
        """Forgets all: the keyed table was emptied.

        Guarantees:
            Run twice: as once. Stopped half-way: all of it is there still, or nothing.
        """
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        if self.exists():
            DeltaTable.forPath(spark, self.location).delete()

    def forget_keys(self, keys: DataFrame, order: ChangeOrder) -> None:
        """Sees to it that nothing is remembered of these keys; a record of one that comes late brings it back.

        Guarantees:
            Run twice: the second time finds nothing. Stopped half-way: all of it is there still, or nothing.
        """
        self._without_statistics(keys.sparkSession)
        delete_alone(keys, self.location, F.expr(order.same_key("s", "t")))

    def forget_records(self, facts: DataFrame, order: ChangeOrder) -> None:
        """Sees to it that these rows, as ``frame`` returns them, are remembered no more.

        Guarantees:
            As ``forget_keys``.
        """
        same = [f"s.{names.quoted(key)} <=> t.{names.quoted(key)}" for key in order.keys]
        at = [f"s.{names.quoted(name)} = t.{names.quoted(name)}" for name in (*order.place, names.TRUNCATE)]
        # Before the first new epoch of a topic there was no column for it, and then there is none to compare.
        delete_alone(facts, self.location, F.expr(" AND ".join([*same, *at, *self._same_epoch(facts, order)])))

    def _same_epoch(self, facts: DataFrame, order: ChangeOrder) -> list[str]:
        there = facts.sparkSession.read.format("delta").load(self.location).columns
        if not order.epochs or order.epoch not in there:
            return []
        return [f"coalesce(s.{order.epoch}, 0) = coalesce(t.{order.epoch}, 0)"]

    def _without_statistics(self, spark: SparkSession) -> None:
        """Of keys, also where an older version made the table."""
        if _STATISTICS not in delta_snapshot.table_state(spark, self.location).properties:
            delta_ddl.set_property(spark, self.location, _STATISTICS, _DELETED_AT)

    def _add(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").option("mergeSchema", "true").save(self.location)

    def _forget(self, spark: SparkSession, order: ChangeOrder) -> None:
        if not self._is_due(spark):
            return
        from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

        # The limit is computed before the rows that must stay are written again.
        old = F.expr(f"{_DELETED_AT} < timestamp_micros({round((_now_s(spark) - self._remember_s) * 1_000_000)}L)")
        if order.snapshots:
            self._remember_newest_snapshot(spark, order)
        self._without_statistics(spark)
        table = DeltaTable.forPath(spark, self.location)
        table.delete(old)
        # Each batch with deletions leaves a file, and all are read by the next ones.
        table.optimize().executeCompaction()
        table.vacuum()
        self._note_forgotten(spark)

    def _is_due(self, spark: SparkSession) -> bool:
        """Whether nobody has looked for an hour: neither this writer nor the process of an earlier run."""
        if self._forgotten_at is None:
            self._forgotten_at = _seconds(self._files.read(f"{self.location}/{FORGOTTEN}"))
        return not 0 <= _now_s(spark) - self._forgotten_at < _FORGET_EVERY_S

    def _note_forgotten(self, spark: SparkSession) -> None:
        self._forgotten_at = _now_s(spark)
        self._files.write(f"{self.location}/{FORGOTTEN}", f"{self._forgotten_at:.0f}\n")

    def _remember_newest_snapshot(self, spark: SparkSession, order: ChangeOrder) -> None:
        """Remembers it as if it had come now: without it an older one would bring back what it deleted."""
        marks = self.frame(spark, order).where(names.TRUNCATE)
        newest = truncations_of(marks, order, marks.schema[names.SEQUENCE].dataType.simpleString())
        if newest is not None:
            kept = marks.alias("r").where(~newest.older("r", names.SEQUENCE))
            # By their places: a truncation has no row, and the column for one may be of a type that is not compared.
            rows = kept.dropDuplicates([*order.columns, names.SEQUENCE])
            self._add(rows.withColumn(_DELETED_AT, F.current_timestamp()))

    def frame(self, spark: SparkSession, order: ChangeOrder) -> DataFrame:
        """All that is remembered; there is something."""
        found = delta_snapshot.newest_rows(spark, self.location)
        # Before the first new epoch of a topic there was no column for it.
        missing = [name for name in order.columns if name not in found.columns]
        return found.withColumns({name: F.lit(None).cast("int") for name in missing}) if missing else found


def _now_s(spark: SparkSession) -> float:
    return sessions.now(spark).timestamp()


def _seconds(text: str | None) -> float:
    """What a note of seconds says; long ago without one, or where it is no number."""
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def truncations_of(rows: DataFrame, order: ChangeOrder, kind: str) -> Truncations | None:
    """The truncations among changes; None without any. A sequence is of the type ``kind``."""
    marks = rows.where(names.TRUNCATE)
    sequence = None
    if order.sequence is not None:
        sequence = _greatest(marks, kind)
        if sequence is None:
            return None
        if not order.snapshots:
            return Truncations(order, sequence)
        marks = marks.where(f"{names.SEQUENCE} = {sequence}")
    place = [names.quoted(name) for name in (order.topic, order.partition)]
    last, latest = F.max(F.expr(order.in_partition())), F.max(F.unix_micros(names.quoted(order.timestamp)))
    found = marks.groupBy(*place).agg(last, latest).collect()
    places = (
        (row[0], row[1], f"struct({row[2][0]}, {row[2][1]}L)" if order.epochs else f"{row[2]}L", row[3])
        for row in found
    )
    times = ((topic, number, at, f"timestamp_micros({micros}L)") for topic, number, at, micros in places)
    return Truncations(order, sequence, tuple(times)) if found else None


def _greatest(marks: DataFrame, kind: str) -> str | None:
    """SQL of the greatest sequence among changes, of the type ``kind``; None where there is none."""
    its = marks.schema[names.SEQUENCE].dataType
    parts = {f"{names.SEQUENCE}.{names.quoted(each.name)}": each.dataType for each in getattr(its, "fields", ())}
    greatest = marks.agg(F.max(names.SEQUENCE).alias(names.SEQUENCE))
    # As text: on its way through Python a time would become one of another zone.
    columns = (F.col(name).cast("string") for name in parts or (names.SEQUENCE,))
    texts = [text for text in greatest.select(*columns).collect()[0] if text is not None]
    if not parts or not texts:
        return f"CAST({names.literal(texts[0])} AS {kind})" if texts else None
    told = zip(texts, parts.values(), strict=True)
    literals = (f"CAST({names.literal(text)} AS {part.simpleString()})" for text, part in told)
    return f"CAST(struct({', '.join(literals)}) AS {kind})"
