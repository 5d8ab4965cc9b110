"""A flow at work: its frozen context, and its position in its ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rivermouth.domain.ledger.retries import Retries
from rivermouth.engine.events import Event, Listener, StepReached, Warned
from rivermouth.engine.flow.lookup_tables import LookupTables
from rivermouth.ports.delta.table_ledger import LedgerPosition
from rivermouth.rows.keyed.column_starts import ColumnStarts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Counts, Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.delivery import Delivery
    from rivermouth.engine.flow.table_shape import TableChanges
    from rivermouth.errors import LedgerVoid
    from rivermouth.ports.delta.table_ledger import TableLedger
    from rivermouth.ports.internals.prepared_plan import Prepared
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.lake.lease import TableLease
    from rivermouth.ports.sources.protocols import OffsetSource, RecordSource
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.side_tables.deleted_keys import Tombstones
    from rivermouth.side_tables.erased_records import Erased
    from rivermouth.sinks.append import Append
    from rivermouth.sinks.files import FilesSink
    from rivermouth.sinks.kafka import KafkaSink
    from rivermouth.sinks.upsert import Upsert
    from rivermouth.spec import Flow


@dataclass(frozen=True, slots=True)
class FlowContext:
    """What stays the same while a flow is at work.

    Attributes:
        places: Where its table, checkpoint and state lie.
        spark: A session of its own.
        files: The lake's small files.
        kafka: Which topics and offsets there are: the cluster's admin side, or the table that the flow reads instead.
        sink: Writes the table.
        ledger: The table's ledger.
        dead_letters: The table of dead letters.
        erased: The records that were erased.
        tombstones: The deleted keys of a keyed table.
        table_id: Delta's UUID of the table.
        listener: Gets the events.
        lock: Held while the table is written: batches, replays.
        stopping: Set when the flow shall end after the batch in hand.
    """

    places: FlowPlaces
    spark: SparkSession
    files: LakeFiles
    kafka: OffsetSource
    sink: Append | FilesSink | KafkaSink | Upsert
    ledger: TableLedger
    dead_letters: DeadLetterTable
    erased: Erased
    tombstones: Tombstones | None
    table_id: str
    listener: Listener
    lock: threading.RLock = field(default_factory=threading.RLock)
    stopping: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class TableView:
    """What a flow writes into its table now. It is replaced as a whole, when the flow's schema grows.

    Attributes:
        flow: As the user wrote it, with the schema that it has now.
        columns: Names of the table's columns, in order.
        left: Columns that the table has and the flow does not write.
        starts: Since when the flow reads columns that it has not read all the time, where records bring parts of rows.
        changes: What the declared schema asks of the table, as it was when the flow was looked at.
    """

    flow: Flow
    columns: list[str]
    left: tuple[str, ...]
    starts: ColumnStarts
    changes: TableChanges | None


@dataclass(slots=True)
class FlowRun:
    """A flow at work.

    Attributes:
        context: What stays the same.
        view: What it writes into its table now; replaced as a whole.
        position: The newest entry of the table's ledger; replaced by ``advance``, ``count`` and ``reload`` alone.
        source: What it reads, as Spark reads it; another one after a failure.
        topic_ids: Kafka's UUIDs of the topics as they were found.
        void: What others did to the table's data after the newest entry; then only a decision may follow.
        lease: The table's, if the flow runs under one.
        due_at: When the flow's tables are looked after next, in seconds since the epoch.
        retries: When its dead letters are tried again by themselves.
        prepared: ``pipeline.transform`` as Spark has analysed it, by the columns that it keeps, and the
            actions of its expectations.
        looked_at: Of what its schema did not grow any more; written as it is.
        delivery: Into the topic or the archive of its sink, while it is at work; None of other flows.
        lookups: The tables in which it looks up columns.
        state_lost: Whether the lake's state of the flow was deleted, and the newest entry is counted again for that.
    """

    context: FlowContext
    view: TableView
    position: LedgerPosition
    source: RecordSource
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    void: LedgerVoid | None = None
    lease: TableLease | None = None
    due_at: float = 0.0
    retries: Retries = field(default_factory=Retries)
    prepared: dict[tuple[str, ...], Prepared] = field(default_factory=dict)
    looked_at: Ranges | None = None
    delivery: Delivery | None = None
    lookups: LookupTables = field(default_factory=LookupTables)
    state_lost: bool = False

    @property
    def places(self) -> FlowPlaces:
        """See ``FlowContext``."""
        return self.context.places

    @property
    def spark(self) -> SparkSession:
        """See ``FlowContext``."""
        return self.context.spark

    @property
    def files(self) -> LakeFiles:
        """See ``FlowContext``."""
        return self.context.files

    @property
    def kafka(self) -> OffsetSource:
        """See ``FlowContext``."""
        return self.context.kafka

    @property
    def sink(self) -> Append | FilesSink | KafkaSink | Upsert:
        """See ``FlowContext``."""
        return self.context.sink

    @property
    def ledger(self) -> TableLedger:
        """See ``FlowContext``."""
        return self.context.ledger

    @property
    def dead_letters(self) -> DeadLetterTable:
        """See ``FlowContext``."""
        return self.context.dead_letters

    @property
    def erased(self) -> Erased:
        """See ``FlowContext``."""
        return self.context.erased

    @property
    def tombstones(self) -> Tombstones | None:
        """See ``FlowContext``."""
        return self.context.tombstones

    @property
    def table_id(self) -> str:
        """See ``FlowContext``."""
        return self.context.table_id

    @property
    def listener(self) -> Listener:
        """See ``FlowContext``."""
        return self.context.listener

    @property
    def lock(self) -> threading.RLock:
        """See ``FlowContext``."""
        return self.context.lock

    @property
    def stopping(self) -> threading.Event:
        """See ``FlowContext``."""
        return self.context.stopping

    @property
    def flow(self) -> Flow:
        """See ``TableView``."""
        return self.view.flow

    @property
    def columns(self) -> list[str]:
        """See ``TableView``."""
        return self.view.columns

    @property
    def starts(self) -> ColumnStarts:
        """See ``TableView``."""
        return self.view.starts

    @property
    def changes(self) -> TableChanges | None:
        """See ``TableView``."""
        return self.view.changes

    @property
    def entry(self) -> Entry:
        """The newest entry of the table's ledger."""
        return self.position.entry

    def advance(
        self, entry: Entry, version: int, *, counts: Counts | None = None, report: Mapping[str, Any] | None = None
    ) -> None:
        """``entry`` is the newest of the table's ledger; ``version`` of the table has it. See ``LedgerPosition``."""
        self.position = LedgerPosition(entry, version, counts, report)

    def reload(self, position: LedgerPosition) -> None:
        """The ledger was read again: ``position`` is what it has, also where a flow of another name began it."""
        self.position = position.of_flow(self.flow.name)

    def count(self, counts: Counts | None) -> None:
        """The counts of the newest entry's own batch, as they are known now; None where they no longer are."""
        self.position = replace(self.position, counts=counts)

    def watches(self, ranges: Ranges) -> bool:
        """Whether a batch of ``ranges`` ends where the policies for the flow's schema say more about a record."""
        policies = self.flow.policies
        return (policies.grows or policies.says("fail")) and ranges != self.looked_at

    def emit(self, event: Event) -> None:
        """Sends an event to the listener."""
        self.listener(event)

    def warn(self, message: str) -> None:
        """Sends the listener a warning, which stops nothing."""
        self.emit(Warned(self.flow.name, message))

    def reached(self, step: str) -> None:
        """Sends the listener the step of a batch that comes next."""
        self.emit(StepReached(self.flow.name, self.position.entry.number, step))
