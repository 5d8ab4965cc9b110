"""A flow of a pipeline at work: its surroundings, its table, and where it is in its ledger."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts, QueryEntry
from rivermouth.engine.query import counted_view, decoded_stream
from rivermouth.engine.query.query_events import Note, QueryEvent, QueryListener, QueryWorks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from rivermouth.domain.delta.table_transaction import NewLayout
    from rivermouth.engine.query.counted_view import CountedView
    from rivermouth.engine.query.decoded_stream import DecodedStream
    from rivermouth.ports.delta.query_ledger import QueryLedger, QueryPosition
    from rivermouth.ports.internals.prepared_plan import Prepared
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.lake.query_checkpoint import FixedOffsets, QueryCheckpoint
    from rivermouth.rows.row_expectations import RowExpectation
    from rivermouth.side_tables.held_letters import HeldLetters
    from rivermouth.side_tables.row_dead_letters import RowDeadLetters
    from rivermouth.side_tables.source_files import SourceFiles


@dataclass(frozen=True, slots=True)
class QueryPlaces:
    """Where the things of one flow of a pipeline lie.

    Attributes:
        table: The folder of its table; of a flow into a sink a folder for what belongs to that.
        checkpoint: The folder of its query's checkpoint.
        side_file: The cache of its newest ledger entry.
        dead_letters: The folder of the table of dead letters.
    """

    table: str
    checkpoint: str
    side_file: str
    dead_letters: str


@dataclass(frozen=True, slots=True)
class QueryContext:
    """What stays the same while a flow is at work.

    Attributes:
        dataset: The name of its table, as users write it.
        flow: Its name.
        owner: The mark on its checkpoint: pipeline and flow.
        places: Where its things lie.
        files: The files of the lake.
        ledger: Its ledger in the table.
        checkpoint: Its checkpoint.
        dead_letters: Those of the table.
        held_letters: Dead letters of a batch, until they are in their table.
        source_files: The files that queries of the table have read.
        expectations: Conditions on its rows.
        listener: Gets the events.
        step: Called at each step of a batch with its name, for tests of crashes.
    """

    dataset: str
    flow: str
    owner: str
    places: QueryPlaces
    files: LakeFiles
    ledger: QueryLedger
    checkpoint: QueryCheckpoint | FixedOffsets
    dead_letters: RowDeadLetters
    held_letters: HeldLetters
    source_files: SourceFiles
    expectations: Sequence[RowExpectation] = ()
    listener: QueryListener = lambda _: None
    step: Callable[[str], None] = lambda _: None

    def emit(self, event: QueryEvent) -> None:
        """Sends an event to the listener."""
        self.listener(event)

    def works(self) -> None:
        """Tells the listener that the query works."""
        self.listener(QueryWorks(self.dataset, self.flow))

    def note(self, message: str) -> None:
        """Sends the listener a message."""
        self.listener(Note(self.dataset, self.flow, message))


@dataclass(slots=True)
class QueryRun:
    """A flow at work.

    Attributes:
        context: What stays the same.
        columns: Of the table.
        table_id: Delta's UUID of the table.
        position: Where the flow is in its ledger; replaced after each commit.
        fingerprint: Of its query.
        streams: What each of its query's streams is.
        stateful: Whether its query keeps state.
        replaces: Whether each batch is the whole result, which replaces the rows of the table: an aggregation without a
            watermark.
        layout: What the table of a view gets with its rows, which are computed in full; None where its own columns and
            layout stay.
        repeats: The batch that brings the rows of the newest entry again, for its dead letters; None where none does.
        views: Views with expectations that its query reads.
        decoded: Records that its query decodes.
        static_tables: Folders of the Delta tables that each batch of its query is joined with.
        prepared: What is made of the rows of each batch, by the name of the step.
        is_repeatable: Whether each look at a batch has found the same dead letters so far.
        query: What Spark has started; None before, and of a batch that is no stream's.
        counts: Of the batches of this run.
        late_rows: Gives how many rows a watermark has left out in the batch in hand, each time that it was read.
        late_before: How many of them were left out before the batch was read once more.
        failure: The first error of a batch.
        stopping: Set when it shall end after the batch in hand.
    """

    context: QueryContext
    columns: StructType
    table_id: str
    position: QueryPosition
    fingerprint: str = ""
    streams: tuple[str, ...] = ()
    stateful: bool = False
    replaces: bool = False
    layout: NewLayout | None = None
    repeats: int | None = None
    views: Sequence[CountedView] = ()
    decoded: Sequence[DecodedStream] = ()
    static_tables: Sequence[str] = ()
    prepared: dict[str, Prepared] = field(default_factory=dict)
    is_repeatable: bool = True
    query: StreamingQuery | None = None
    counts: QueryCounts = NO_COUNTS
    late_rows: Callable[[], int] = lambda: 0
    late_before: int = 0
    failure: BaseException | None = None
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def entry(self) -> QueryEntry:
        """The newest entry of the flow in its ledger."""
        return self.position.entry

    def begin_counts(self) -> None:
        """Begins to count a batch in the views and records that the query reads."""
        self.late_before = 0
        counted_view.reset(self.views)
        decoded_stream.reset(self.decoded)

    def whole_counts(self, counts: QueryCounts) -> QueryCounts:
        """The counts of a batch's rows, with those of views that it read, of refused records, and of late rows."""
        counts = decoded_stream.with_refused(counted_view.with_views(counts, self.views), self.decoded)
        return replace(counts, late=self.late_rows() - self.late_before)
