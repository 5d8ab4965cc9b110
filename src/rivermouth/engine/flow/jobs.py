"""What shall run, with all that was resolved for it, and what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.ledger.undeclared_names import most_frequent
from rivermouth.domain.project import table_per_topic
from rivermouth.errors import RivermouthError

if TYPE_CHECKING:
    from rivermouth.domain.kafka.latest_start import LatestStart
    from rivermouth.domain.ledger.adoption import Adoption
    from rivermouth.domain.ledger.data_loss import LossDecision
    from rivermouth.domain.ledger.ledger_rebuild import Rebuild
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.domain.project.snapshot_location import SnapshotPlace
    from rivermouth.domain.project.source_table import SourceTable
    from rivermouth.errors.base import SettingPath
    from rivermouth.ports.sources.given_source import GivenSource
    from rivermouth.spec import Flow

_Error = TypeVar("_Error", bound=RivermouthError)


@dataclass(frozen=True, slots=True)
class StartActions:
    """What shall be done with a flow before its first batch.

    Attributes:
        decision: About data that is gone, to be recorded.
        adoption: Of a table that another program wrote.
        rebuild: The flow's table is emptied, and made again; a table that is created now needs no emptying.
        update_schema: Whether an inferred schema is inferred again.
        latest: Where a new table starts whose ``starting_offsets`` are ``latest``; None: at the ends of now.
    """

    decision: LossDecision | None = None
    adoption: Adoption | None = None
    rebuild: Rebuild | None = None
    update_schema: bool = False
    latest: LatestStart | None = None


@dataclass(frozen=True, slots=True)
class FlowJob:
    """One flow that shall run, with all that was resolved for it.

    Attributes:
        flow: Its references to the environment are resolved.
        places: Where its things lie.
        bootstrap_servers: The cluster.
        options: Client options, resolved.
        at: File and line of the flow.
        place: Gives file and line of a setting of the flow.
        source: The table that the flow reads instead of the cluster.
        snapshots: Where the snapshots lie that it reads instead.
        given: The records of a test that it reads instead.
        start: What is done before the first batch.
    """

    flow: Flow
    places: FlowPlaces
    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    at: str | None = None
    place: Callable[[SettingPath], str | None] | None = field(default=None, repr=False, compare=False)
    source: SourceTable | None = None
    snapshots: SnapshotPlace | None = None
    given: GivenSource | None = None
    start: StartActions = StartActions()

    def starting(self, **actions: Any) -> Self:
        """The same job with these of its ``StartActions``."""
        return replace(self, start=replace(self.start, **actions))


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """How a flow's run ended.

    Attributes:
        flow: Its name.
        counts: Sum over its batches.
        batches: How many there were.
        duration_s: From its start to its end.
        error: What ended it; None if it drained or was asked to stop.
        dropped_by: Why records were dropped, and how many for each reason.
        undeclared_names: Names of fields that no column has, and in how many records of a sample.
    """

    flow: str
    counts: Counts
    batches: int
    duration_s: float
    error: BaseException | None = None
    dropped_by: Mapping[str, int] = field(default_factory=dict)
    undeclared_names: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, earlier: FlowOutcome | None) -> FlowOutcome:
        if earlier is None:
            return self
        return replace(
            self,
            counts=earlier.counts + self.counts,
            batches=earlier.batches + self.batches,
            duration_s=earlier.duration_s + self.duration_s,
            dropped_by=dict(Counter(earlier.dropped_by) + Counter(self.dropped_by)),
            undeclared_names=most_frequent(earlier.undeclared_names, self.undeclared_names),
        )


@dataclass(frozen=True, slots=True)
class FamilyJob:
    """A family that shall run: a flow for each of its topics, those that appear later too.

    Attributes:
        flow: As it is written; its references to the environment are resolved.
        places: Of some child: where the lake and its state are.
        bootstrap_servers: The cluster.
        options: Client options, resolved.
        child: The order of one child.
        others: The places of the project's other flows.
        only: The topics that shall run; None for all.
        at: File and line of the flow.
        place: Gives file and line of a setting of the flow.
        source: The table that its children read instead of the cluster.
    """

    flow: Flow
    places: FlowPlaces
    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    child: Callable[[Flow], FlowJob] = field(repr=False)
    others: tuple[FlowPlaces, ...] = field(default=(), repr=False)
    only: frozenset[str] | None = None
    at: str | None = None
    place: Callable[[SettingPath], str | None] | None = field(default=None, repr=False, compare=False)
    source: SourceTable | None = None


Job = FlowJob | FamilyJob


def again(pending: Sequence[Job], failed: Sequence[Job], *, keep_following: bool) -> list[Job]:
    """What goes on once there is a JVM again; a family finds its children that failed itself."""
    names = {job.flow.name for job in failed}
    names |= {table_per_topic.parted(name)[0] for name in names}
    # A family that follows has topics to look for as long as it runs.
    return [job for job in pending if job.flow.name in names or (keep_following and isinstance(job, FamilyJob))]


def without_error(outcomes: dict[str, FlowOutcome], name: str) -> dict[str, FlowOutcome]:
    """The outcome of this name, if there is one, as if nothing had ended it."""
    return {name: replace(outcomes[name], error=None)} if name in outcomes else {}


def in_order(jobs: Sequence[Job], outcomes: dict[str, FlowOutcome]) -> list[FlowOutcome]:
    """The outcomes in the order of their orders; of a family those of its children, by name."""
    found = []
    for job in jobs:
        name = job.flow.name
        if isinstance(job, FamilyJob):
            found += [outcomes[each] for each in sorted(outcomes) if table_per_topic.is_child_of(each, name)]
            if name not in outcomes:
                continue
        found.append(outcomes[name])
    return found


def located(error: _Error, job: Job) -> _Error:
    """The error at the line of the setting that it is about, or of the order's flow; one that has a place as it is."""
    return error.located(job.place or job.at)
