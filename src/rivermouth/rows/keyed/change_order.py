"""How the changes of a keyed table are ordered: which of two changes of a key is newer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.columns.table_columns import derived_columns, key_columns, sequence_column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from rivermouth.spec import Flow


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """By which columns a keyed table tells its rows apart, and which of two of a key is newer.

    With a sequence the greater one is newer. Without one, and among equals, Kafka's own order decides: within a
    partition a later epoch of the topic, then the greater offset; between partitions the later timestamp, then the
    greater topic and partition.

    Attributes:
        keys: Key columns.
        sequence: The column with the sequence; None without ``sequence_by``.
        topic: The column with the record's topic.
        partition: With its partition.
        offset: With its offset.
        timestamp: With its timestamp.
        epochs: Whether there is a column with its epoch.
        epoch: That column.
        tracked: The columns whose change makes a new version of a key; None if every record does, or none.
        truncates: Whether a change may delete all rows that are older than it.
        unplaced: Whether a change may delete its key without a sequence.
        unlike: Columns that a record may have otherwise when it is read again.
        partial: The columns that keep their value where a record does not bring one.
        listed: Whether a record lists the columns that it brings; else it brings those that are not null.
        kept: The columns that keep their value where a change leaves it out; all changes bring the others.
        unknown: For each of them, SQL of what it has while no change has brought its value.
        leaves: Whether a record lists the columns that it leaves out, and brings all others.
        snapshots: Whether a truncation is a snapshot, which brings rows of its own and has no equal: of two with one
            sequence the newer one by Kafka's order counts.
    """

    keys: tuple[str, ...]
    sequence: str | None
    topic: str
    partition: str
    offset: str
    timestamp: str
    epochs: bool = False
    tracked: tuple[str, ...] | None = None
    truncates: bool = False
    unplaced: bool = True
    unlike: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    listed: bool = False
    kept: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    leaves: bool = False
    snapshots: bool = False
    epoch: str = names.EPOCH_COLUMN

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it goes by, but for keys and sequence."""
        epoch = (self.epoch,) if self.epochs else ()
        return (*self.place, self.timestamp, *epoch)

    @property
    def place(self) -> tuple[str, str, str]:
        """The columns that say which record a row is, but for its epoch."""
        return self.topic, self.partition, self.offset

    @property
    def coordinates(self) -> list[Column]:
        """``__topic``, ``__partition`` and ``__offset`` of the table's columns."""
        called = zip(names.IN_TABLE, self.place, strict=True)
        return [F.col(names.quoted(column)).alias(name) for name, column in called]

    def in_partition(self, frame: str = "") -> str:
        """SQL: what orders the rows of one partition: epoch and offset."""
        before = f"{frame}." if frame else ""
        offset = f"{before}{names.quoted(self.offset)}"
        return f"struct(coalesce({before}{self.epoch}, 0), {offset})" if self.epochs else offset

    def as_record(self, frame: str = "") -> str:
        """SQL of a struct that says which record a row was made of."""
        before = f"{frame}." if frame else ""
        parts = (f"{before}{names.quoted(name)}" for name in (self.topic, self.partition))
        return f"struct({', '.join(parts)}, {self.in_partition(frame)})"

    def same_record(self, one: str, other: str) -> str:
        """SQL: whether two rows, by the names of their frames, were made of one record."""
        equal = (f"{one}.{names.quoted(name)} = {other}.{names.quoted(name)}" for name in (self.topic, self.partition))
        return " AND ".join([*equal, f"{self.in_partition(one)} = {self.in_partition(other)}"])

    def same_key(self, one: str, other: str) -> str:
        """SQL: whether two rows, by the names of their frames, have one key."""
        return " AND ".join(f"{one}.{names.quoted(name)} = {other}.{names.quoted(name)}" for name in self.keys)

    def is_there(self, frame: str) -> str:
        """SQL, never null: whether a left join by key found a row; one of another program has no coordinates."""
        return f"{frame}.{names.quoted(self.keys[0])} IS NOT NULL"

    def newer(self, one: str, other: str, sequence: str | None = None) -> str:
        """SQL, never null: whether ``one``, a change, is newer than ``other`` or the same record.

        A row whose origin is unknown is older than any change.

        Args:
            one: Name of the frame of changes: its sequence is ``__sequence``.
            other: Name of a frame of rows.
            sequence: Name of its sequence, if it is another than the table's.
        """
        by_kafka = self.by_kafka(one, other)
        if self.sequence is None:
            return by_kafka
        mine, its = f"{one}.{names.SEQUENCE}", f"{other}.{names.quoted(sequence or self.sequence)}"
        # Only a tombstone whose key nobody has seen has none.
        return f"CASE WHEN {mine} IS NULL OR {its} IS NULL OR {mine} = {its} THEN {by_kafka} ELSE {mine} > {its} END"

    def by_kafka(self, one: str, other: str) -> str:
        """SQL, never null: ``newer`` by Kafka's own order alone."""

        def of(frame: str, *columns: str) -> str:
            parts = [f"{frame}.{names.quoted(name)}" for name in columns]
            return parts[0] if len(parts) == 1 else f"struct({', '.join(parts)})"

        place, time = (self.topic, self.partition), (self.timestamp, self.topic, self.partition)
        within = f"{self.in_partition(one)} >= {self.in_partition(other)}"
        between = f"{of(one, *time)} >= {of(other, *time)}"
        cases = f"WHEN {self.is_unplaced(other)} THEN true WHEN {of(one, *place)} = {of(other, *place)} THEN {within}"
        return f"coalesce(CASE {cases} ELSE {between} END, true)"

    def is_unplaced(self, frame: str) -> str:
        """SQL, never null: whether nobody knows which record a row is of: another program wrote it."""
        return " OR ".join(f"{frame}.{names.quoted(name)} IS NULL" for name in self.place)


@dataclass(frozen=True, slots=True)
class Truncations:
    """Which rows were deleted together with all others: those that are older than one of a few places of the order.

    Attributes:
        order: The table's.
        sequence: SQL of the greatest sequence, in a table with ``sequence_by``.
        places: Without one, and of the snapshots with the greatest one, of each partition of a topic: topic,
            partition, SQL of the last epoch and offset and of the latest timestamp, as ``ChangeOrder`` compares them.
    """

    order: ChangeOrder
    sequence: str | None = None
    places: tuple[tuple[str, int, str, str], ...] = ()

    def older(self, frame: str, sequence: str | None = None) -> Column:
        """Whether a row of ``frame`` was deleted with all others; never null.

        A tombstone, which has no sequence, was not: what it deletes may be newer.

        Args:
            frame: Name of a frame of rows or changes.
            sequence: Name of its sequence, if it is another than the table's.
        """
        order = self.order
        by_kafka = self._older_by_kafka(frame)
        # A row whose time is unknown is older than any snapshot.
        unknown = "true" if order.snapshots else "false"
        if order.sequence is None:
            return F.expr(f"coalesce({by_kafka}, {unknown})")
        mine = f"{frame}.{names.quoted(sequence or order.sequence)}"
        among_equals = f"{mine} = {self.sequence} AND coalesce({by_kafka}, {unknown})" if self.places else "false"
        return F.expr(f"coalesce({mine} < {self.sequence}, {unknown}) OR coalesce({among_equals}, false)")

    def _older_by_kafka(self, frame: str) -> str:
        order = self.order
        topic, partition, time = (
            f"{frame}.{names.quoted(name)}" for name in (order.topic, order.partition, order.timestamp)
        )
        tests = []
        for its_topic, its_partition, last, latest in self.places:
            where = f"{names.literal(its_topic)}, {its_partition}"
            within = f"{order.in_partition(frame)} < {last}"
            between = f"struct({time}, {topic}, {partition}) < struct({latest}, {where})"
            tests.append(f"CASE WHEN struct({topic}, {partition}) = struct({where}) THEN {within} ELSE {between} END")
        return " OR ".join(tests) or "false"


def order_of(
    flow: Flow, columns: Sequence[str], *, epochs: bool = False, left: Sequence[str] = ()
) -> ChangeOrder | None:
    """The order of the flow's table; None for a table without keys.

    Args:
        flow: The flow.
        columns: The columns that it writes.
        epochs: Whether the table has the column of epochs.
        left: Columns that the table has besides: no record brings them any more.
    """
    if flow.keyed is None:
        return None
    called = flow.metadata_columns
    beside = {*called.values(), *derived_columns(flow), names.START_AT, names.END_AT, names.SEQUENCE}
    # They say which record a row is of.
    whole = {names.PLACES, *key_columns(flow), *flow.keyed.sequence_by, flow.keyed.listed_by}
    payload = [name for name in columns if name not in beside]
    envelope = flow.change_envelope
    left_out = envelope.omitted_values() if envelope and payload and flow.whole_columns is not None else {}
    kept = [name for name in payload if name in left_out and name.lower() not in (flow.whole_columns or ())]
    may_truncate = envelope is not None and envelope.truncates
    mine = [*payload, *(name for name in left if name not in {*beside, *names.METADATA_COLUMNS, names.EPOCH_COLUMN})]
    return ChangeOrder(
        keys=tuple(key_columns(flow)),
        sequence=sequence_column(flow, columns),
        topic=called["kafka_topic"],
        partition=called["kafka_partition"],
        offset=called["kafka_offset"],
        timestamp=called["kafka_timestamp"],
        epochs=epochs,
        tracked=flow.keyed.tracked(payload),
        truncates=flow.keyed.apply_as_truncates is not None or may_truncate or flow.keyed.snapshots,
        unplaced=flow.keyed.tombstones_delete or envelope is not None,
        # What derived ones are made of may be the time of day.
        unlike=(*derived_columns(flow), *(called[name] for name in ("ingested_at",) if name in called)),
        partial=flow.keyed.partial([name for name in mine if name not in whole]),
        listed=flow.keyed.listed_by is not None,
        kept=tuple(kept),
        unknown=tuple(left_out[name] for name in kept),
        snapshots=flow.keyed.snapshots,
    )
