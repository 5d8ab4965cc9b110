"""What happens while flows run, as frozen data; text, JSON lines and metrics are made from it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rivermouth.domain.delta.maintenance import MaintenanceReport
from rivermouth.domain.delta.merge_report import MergeReport
from rivermouth.domain.ledger.ledger import Counts, Decision
from rivermouth.domain.ledger.offset_ranges import Ranges


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events.

    Attributes:
        flow: The flow that it happened to.
    """

    flow: str


@dataclass(frozen=True, slots=True)
class FlowOpened(Event):
    """A flow found or made its table and knows its offsets.

    Attributes:
        table: Location of the table.
        created: Whether the table was made just now.
        entry: Number of its newest ledger entry.
        start: Where it starts and why, in words.
    """

    table: str
    created: bool
    entry: int
    start: str


@dataclass(frozen=True, slots=True)
class StepReached(Event):
    """A batch, a recovery or a replay reached a step of its way.

    Attributes:
        entry: Number of the newest entry in the table's ledger.
        step: Name of the step that comes next: create (the table's first commit), created; ledger, read, decode,
            conform, check, route, write (the table's commit), written; deliver, sent, delivered (a transaction into the
            topic of a Kafka sink); dead_letters, write_dead_letters (their commit), dead_letters_written,
            complete; recover; replay_write and replay_mark; decide (the commit of a decision), decided;
            forget_remember, forget_write (the commit of an erasure), forgotten, forget_letters, forget_purge.
    """

    entry: int
    step: str


@dataclass(frozen=True, slots=True)
class BatchDone(Event):
    """A batch is in the table, its dead letters too.

    Attributes:
        entry: Number of its ledger entry.
        version: The table's version that it made.
        ranges: The offsets that it covers.
        counts: Where its records went.
        duration_s: From planning to the last commit.
        backlog: Offsets still to come when it was planned, without its own; None where unknown.
        merge: What its MERGE came to; None for a table without keys, and for a batch that a crash left incomplete.
        dropped_by: Why records were dropped, and how many for each reason; one may have several.
        undeclared_names: Names of fields that records have and no column has, and in how many records of a sample; at
            most 100 names, the most frequent ones.
    """

    entry: int
    version: int
    ranges: Ranges
    counts: Counts
    duration_s: float
    backlog: int | None = None
    merge: MergeReport | None = None
    dropped_by: Mapping[str, int] = field(default_factory=dict)
    undeclared_names: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows_per_s(self) -> float:
        """Records consumed a second."""
        return self.counts.consumed / self.duration_s if self.duration_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class BatchSkipped(Event):
    """A planned batch was in the table already."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class BatchRetried(Event):
    """A batch failed and is tried again.

    Attributes:
        ranges: Its offsets.
        attempt: Counted from 1.
        error: What failed, in one line.
        next_offsets: How many offsets the next try takes.
    """

    ranges: Ranges
    attempt: int
    error: str
    next_offsets: int


@dataclass(frozen=True, slots=True)
class CheckpointReplaced(Event):
    """The checkpoint was of no use; the ledger says where to start.

    Attributes:
        reason: What was wrong with it.
        moved_to: Where it lies now; None if it was only out of date and is gone.
    """

    reason: str
    moved_to: str | None


@dataclass(frozen=True, slots=True)
class DecisionRecorded(Event):
    """A decision about data that is gone is in the table's ledger.

    Attributes:
        entry: Number of the ledger entry that records it.
        decision: What was decided.
    """

    entry: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class TableEmptied(Event):
    """All rows of the flow's table were deleted; it is now rebuilt from its source.

    Attributes:
        entry: Number of the ledger entry that records it.
        rows: How many there were.
    """

    entry: int
    rows: int


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something that the user should know and that stops nothing."""

    message: str


@dataclass(frozen=True, slots=True)
class BrokerAway(Event):
    """The Kafka cluster does not answer; the flows that read it wait. Repeated while that lasts.

    Attributes:
        flow: Empty: it happens to the run.
        bootstrap_servers: Its addresses.
        since: When it was asked first in vain, as ISO 8601 in UTC.
        for_s: Seconds since then.
        reason: What is wrong, in words.
    """

    bootstrap_servers: str
    since: str
    for_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerBack(Event):
    """The Kafka cluster answers again.

    Attributes:
        flow: Empty: it happens to the run.
        bootstrap_servers: Its addresses.
        for_s: Seconds for which it did not answer.
    """

    bootstrap_servers: str
    for_s: float


@dataclass(frozen=True, slots=True)
class LetterReason:
    """Dead letters that have their reason in common.

    Attributes:
        reason: The reason's code.
        field: Dotted path of the field; None where the record as a whole is meant.
        failed_expectations: Names of the expectations that they failed.
        letters: How many there are.
    """

    reason: str
    field: str | None
    failed_expectations: tuple[str, ...]
    letters: int


@dataclass(frozen=True, slots=True)
class DeadLettersMany(Event):
    """More than a tenth of the records of a run, or of one minute of a run that follows, are dead letters.

    Attributes:
        dead_lettered: How many of them.
        consumed: How many records there were; rows where the flow explodes its records.
        reasons: The most frequent reasons.
        table: Location of the table of dead letters.
        debug: Whether the run is a trial, whose dead letters ``rivermouth dead-letters`` does not read.
    """

    dead_lettered: int
    consumed: int
    reasons: tuple[LetterReason, ...]
    table: str
    debug: bool


@dataclass(frozen=True, slots=True)
class StateLost(Event):
    """The folder of rivermouth's own files holds nothing of the flow, though its table is there: it was deleted.

    Attributes:
        folder: The folder, ``_rivermouth`` in the lake.
        entry: Number of the newest entry in the table's ledger.
        rebuilt: What is rebuilt: ``ledger_copy``; ``counts``, those of the newest entry's batch, whose records are read
            again for that, are not written, and are in no ``batch_done`` and no sum of this run; ``schema``.
        lost: What cannot be rebuilt: ``deleted_keys``, ``erased_records``, ``schema``.
    """

    folder: str
    entry: int
    rebuilt: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemaKept(Event):
    """The flow's schema was inferred; nothing was made of it yet.

    Attributes:
        version: The kept version that counts from here on.
        is_new: Whether it was kept now; else nothing is different.
        columns: How many columns it has.
        changes: What is different from the version before.
        records: Records with a value that were looked at.
        corrupt: Those of them that are no documents.
        conflicts: Paths whose values are of kinds that only text holds.
        seconds: How long it took.
    """

    version: int
    is_new: bool
    columns: int
    changes: tuple[str, ...]
    records: int
    corrupt: int
    conflicts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class SchemaEvolved(Event):
    """The flow's schema grew in front of a batch, and its table has the new columns.

    Attributes:
        version: The kept version that counts from here on.
        changes: What is different from the version before.
        records: Records that were looked at.
        seconds: How long it took.
    """

    version: int
    changes: tuple[str, ...]
    records: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StillFailing:
    """Dead letters that were tried again and failed for one reason.

    Attributes:
        reason: The reason's code by the rules of now; ``DROPPED`` where these drop the record.
        field: Dotted path of the field; None where the reason is not about one.
        letters: How many there are.
    """

    reason: str
    field: str | None
    letters: int


@dataclass(frozen=True, slots=True)
class Replayed(Event):
    """Dead letters were tried again.

    Attributes:
        replay: Id of the replay.
        tried: How many were open and picked.
        replayed: How many are in the table now, or would be.
        remaining: How many still fail.
        dry_run: Whether nothing was moved.
        reasons: Why those fail that still do, the most frequent reason first; empty where this was not asked for.
    """

    replay: str
    tried: int
    replayed: int
    remaining: int
    dry_run: bool = False
    reasons: tuple[StillFailing, ...] = ()


@dataclass(frozen=True, slots=True)
class Forgotten(Event):
    """Rows and dead letters of the flow were erased.

    Attributes:
        entry: Number of the ledger entry.
        request: Mark of the request, by which its report is kept.
        rows: Rows that went from the table.
        dead_letters: Dead letters that went.
        records: Records that are known as erased.
    """

    entry: int
    request: str
    rows: int
    dead_letters: int
    records: int


@dataclass(frozen=True, slots=True)
class Maintained(Event):
    """A table of the flow was optimized or vacuumed, or that failed, which stops nothing.

    Attributes:
        report: What it came to.
    """

    report: MaintenanceReport


@dataclass(frozen=True, slots=True)
class FlowRestarted(Event):
    """A flow failed and starts again.

    Attributes:
        error: What failed, in one line.
        delay_s: Time until it does.
    """

    error: str
    delay_s: float


@dataclass(frozen=True, slots=True)
class FlowFailed(Event):
    """A flow failed and does not start again.

    Attributes:
        error: The whole text of the error.
    """

    error: str


@dataclass(frozen=True, slots=True)
class FlowFinished(Event):
    """A flow has drained its topics, or was asked to stop.

    Attributes:
        counts: Sum over the batches of this run.
        batches: How many there were.
        duration_s: From opening to here.
        stopped: Whether it was asked to stop before it had drained.
    """

    counts: Counts
    batches: int
    duration_s: float
    stopped: bool


Listener = Callable[[Event], None]
"""Gets every event, in the thread in which it happened."""
