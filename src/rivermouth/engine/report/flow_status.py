"""What status says of a flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rivermouth.domain.delta.merge_report import MergeReport
from rivermouth.domain.ledger.failures import Failure
from rivermouth.domain.ledger.ledger import Counts, Decision
from rivermouth.domain.ledger.lost_state import LostState


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """A flow's position in one partition.

    Attributes:
        topic: The topic.
        partition: The partition.
        next_offset: The first offset that the table does not have; for a flow that never ran, where it would
            start. None where that is not known.
        end_offset: The offset after the last readable record; None if Kafka did not answer.
        lag: Offsets from the first to the second; an upper bound of the records. None if one is not known.
    """

    topic: str
    partition: int
    next_offset: int | None
    end_offset: int | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """How one flow is doing. Rates are records a second, times are seconds.

    Attributes:
        flow: Its name.
        table: Location of its table.
        message: The most important thing about it, in one sentence: what is wrong now, else why its last run failed,
            else how far it is.
        code: Stable code of what is wrong now; None if nothing is.
        hint: What to do about that error; empty if there is none.
        entry: Number of the newest ledger entry; None for a flow that never ran.
        writer: The process that holds the table's lease and lives; None if nobody does.
        partitions: Its position, by topic and partition.
        lag: Sum over the partitions; None if one is not known.
        furthest_behind: The partition with the greatest lag; None if nothing lags or lags are not known.
        input_rate: Offsets that came within the last ``RATE_WINDOW_S`` seconds of Kafka's timestamps, a second.
        processing_rate: Records a second of the last batch.
        batch_duration_s: Of the last batch.
        trigger_s: Time from batch to batch that the flow asks for.
        finished_at: When the last batch was done, in seconds since the epoch.
        last_batch: Where its records went; None if there was none.
        merge: What the last batch's MERGE came to; None if it was none, or that is not known.
        pending: Whether the counts of the newest entry are not known yet: its writer is completing it, or the next
            start does.
        totals: Counts of all batches whose counts are known.
        dead_letters: Records that ever went to the dead letters; how many are open only their table knows.
        lost: Offsets that decisions called lost, ever: an upper bound of the records.
        decisions: What was decided about data that is gone, oldest first.
        warnings: What will be in trouble if nothing happens, and what the next run records as lost.
        dropped_by: Why records were dropped so far, and how many for each reason, by the flow's rules of now.
        undeclared_names: Names of fields that records had so far and no column has, and in how many records of a
            sample; at most 100 names.
        lookups: The versions of the tables in which the last batch looked up columns, by their names.
        failure: Why the flow's last run failed; None if it did not, or if the flow has worked since.
        state_lost: What is lost since the state of the flow in the lake was deleted; None if nothing is.
    """

    flow: str
    table: str
    message: str = ""
    code: str | None = None
    hint: str = ""
    entry: int | None = None
    writer: str | None = None
    partitions: tuple[PartitionStatus, ...] = ()
    lag: int | None = None
    furthest_behind: PartitionStatus | None = None
    input_rate: float | None = None
    processing_rate: float | None = None
    batch_duration_s: float | None = None
    trigger_s: float = 0.0
    finished_at: float | None = None
    last_batch: Counts | None = None
    merge: MergeReport | None = None
    pending: bool = False
    totals: Counts = field(default_factory=Counts)
    dead_letters: int = 0
    lost: int = 0
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None
    dropped_by: Mapping[str, int] = field(default_factory=dict)
    state_lost: LostState | None = None
    undeclared_names: Mapping[str, int] = field(default_factory=dict)
    lookups: Mapping[str, int] = field(default_factory=dict)
