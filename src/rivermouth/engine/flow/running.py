"""A flow at work: its frozen surroundings, and where it stands in its ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from rivermouth.domain.ledger.retries import Retries
from rivermouth.engine.events import Event, Listener, StepReached, Warned
from rivermouth.rows.keyed.column_starts import ColumnStarts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Ranges
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.shared_part import Part
    from rivermouth.engine.flow.table_shape import TableChanges
    from rivermouth.errors import LedgerVoid
    from rivermouth.ports.delta.table_ledger import Standing, TableLedger
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.lake.lease import Lease
    from rivermouth.ports.sources.protocols import Records, Topics
    from rivermouth.ports.spark.prepared_plan import Prepared
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.side_tables.deleted_keys import Tombstones
    from rivermouth.side_tables.erased_records import Erased
    from rivermouth.sinks.append import Append
    from rivermouth.sinks.upsert import Upsert
    from rivermouth.spec import Flow


class SharedBatches(Protocol):
    """The flows over one table that carry their batches together.

    Attributes:
        commits: Held by a flow that commits its part.
    """

    commits: threading.Semaphore

    def part(self, run: RunningFlow, ranges: Ranges) -> Part | None:
        """The flow's part of a batch of ``ranges`` that was carried with others; None where it carries it alone."""

    def leave(self, flow: str) -> None:
        """The others no longer wait for this flow."""


@dataclass(slots=True)
class RunningFlow:
    """Everything that a batch of one flow needs, and the one thing that changes: ``standing``.

    Attributes:
        flow: As the user wrote it.
        places: Where its table, checkpoint and state lie.
        spark: A session of its own.
        files: The lake's small files.
        kafka: What there is to read: the cluster's admin side, or the table that stands in for it.
        source: The same as Spark reads it.
        sink: Writes the table.
        ledger: The table's ledger.
        dead_letters: The table of dead letters.
        erased: The records that were erased.
        columns: Names of the table's columns, in order.
        table_id: Delta's UUID of the table.
        standing: The newest ledger entry; replaced after each commit.
        lock: Held while the table is written: batches, replays.
        stopping: Set when the flow shall end after the batch in hand.
        listener: Gets the events.
        topic_ids: Kafka's UUIDs of the topics as they were found.
        void: What others did to the table's data after the newest entry; then only a decision may follow.
        changes: What the declared schema asks of the table, as it was when the flow was looked at.
        lease: The table's, if the flow runs under one.
        tombstones: The deleted keys of a keyed table.
        due_at: When the flow's tables are looked after next, in seconds since the epoch.
        retries: When its dead letters are tried again by themselves.
        left: Columns that the table has and the flow does not write.
        starts: Since when the flow reads columns that it has not read all the time, where records bring parts of rows.
        prepared: Steps 2 to 5 as they stand ready, by the columns that stay beside.
        together: The flows with which it carries its batches.
        looked_at: Of what its schema did not grow any more; written as it is.
        state_lost: Whether the lake's state of the flow was deleted, and the newest entry is counted again for that.
    """

    flow: Flow
    places: FlowPlaces
    spark: SparkSession
    files: LakeFiles
    kafka: Topics
    source: Records
    sink: Append | Upsert
    ledger: TableLedger
    dead_letters: DeadLetterTable
    erased: Erased
    columns: list[str]
    table_id: str
    standing: Standing
    listener: Listener
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    void: LedgerVoid | None = None
    changes: TableChanges | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    stopping: threading.Event = field(default_factory=threading.Event)
    lease: Lease | None = None
    tombstones: Tombstones | None = None
    due_at: float = 0.0
    retries: Retries = field(default_factory=Retries)
    left: tuple[str, ...] = ()
    starts: ColumnStarts = field(default_factory=ColumnStarts)
    prepared: dict[tuple[str, ...], Prepared] = field(default_factory=dict)
    together: SharedBatches | None = None
    looked_at: Ranges | None = None
    state_lost: bool = False

    def watches(self, ranges: Ranges) -> bool:
        """Whether a batch of ``ranges`` ends where the policies for the flow's schema say more about a record."""
        policies = self.flow.policies
        return (policies.grows or policies.says("fail")) and ranges != self.looked_at

    def emit(self, event: Event) -> None:
        """Tells the listener."""
        self.listener(event)

    def warn(self, message: str) -> None:
        """Tells the listener something that stops nothing."""
        self.emit(Warned(self.flow.name, message))

    def reached(self, step: str) -> None:
        """Tells the listener which step of a batch comes next."""
        self.emit(StepReached(self.flow.name, self.standing.entry.number, step))
