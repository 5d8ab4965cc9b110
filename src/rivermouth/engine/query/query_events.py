"""What happens while the datasets of a pipeline are refreshed, as frozen data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivermouth.domain.query.query_entry import QueryCounts

if TYPE_CHECKING:
    from rivermouth.domain.query.refresh_decision import RefreshKind
    from rivermouth.errors import RivermouthError


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """Something about one flow of a pipeline.

    Attributes:
        dataset: The name of its table or sink.
        flow: The flow's name.
    """

    dataset: str
    flow: str


@dataclass(frozen=True, slots=True)
class FlowStarted(QueryEvent):
    """A flow begins."""


@dataclass(frozen=True, slots=True)
class BatchWritten(QueryEvent):
    """A batch is in the table.

    Attributes:
        entry: Number of its ledger entry.
        counts: Where its rows went.
        seconds: How long it took.
    """

    entry: int
    counts: QueryCounts
    seconds: float


@dataclass(frozen=True, slots=True)
class SinkWritten(QueryEvent):
    """A query into a sink without a ledger has ended, also by a failure.

    Attributes:
        counts: Of the batches that Spark reported.
    """

    counts: QueryCounts


@dataclass(frozen=True, slots=True)
class BatchKnown(QueryEvent):
    """A batch came again that the table has already; nothing was written."""

    batch_id: int


@dataclass(frozen=True, slots=True)
class CheckpointMade(QueryEvent):
    """A checkpoint was made of the table's ledger.

    Attributes:
        reason: Why the one that was there could not be used.
        aside: Where that is now; None where nothing was kept.
    """

    reason: str
    aside: str | None


@dataclass(frozen=True, slots=True)
class QueryWorks(QueryEvent):
    """A streaming query has done its first trigger, also where there was nothing to read."""


@dataclass(frozen=True, slots=True)
class QueryChanged(QueryEvent):
    """The query is another one than that of the newest batch: only rows that come from now on see it."""


@dataclass(frozen=True, slots=True)
class ViewDecided(QueryEvent):
    """How a materialized view is refreshed.

    Attributes:
        refresh: ``nothing``, ``append``, ``groups`` or ``full``.
        reason: Why.
    """

    refresh: RefreshKind
    reason: str


@dataclass(frozen=True, slots=True)
class FlowCompleted(QueryEvent):
    """A flow has read what there was.

    Attributes:
        counts: Of all of its batches in this update.
        late_rows: Rows that the watermark of a stateful query left out.
        seconds: How long it took.
    """

    counts: QueryCounts
    late_rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FlowRetried(QueryEvent):
    """A flow that goes on failed and is started again.

    Attributes:
        error: The failure, as text.
        wait_s: How long it waits.
    """

    error: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class FlowFailed(QueryEvent):
    """A flow ended with an error; others went on.

    Attributes:
        error: Its whole text.
        code: The error's code.
        cause: The error.
    """

    error: str
    code: str
    cause: RivermouthError | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class FlowSkipped(QueryEvent):
    """A flow was not run.

    Attributes:
        reason: Why.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Note(QueryEvent):
    """Something that stops nothing.

    Attributes:
        message: A sentence.
    """

    message: str


QueryListener = Callable[[QueryEvent], None]
