"""What shall run, with all that was resolved for it, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from rivermouth.errors import RivermouthError
from rivermouth.rows.ledger import Counts

if TYPE_CHECKING:
    from rivermouth.errors.base import SettingPath
    from rivermouth.rows.adoption import Adoption
    from rivermouth.rows.gone import LossDecision
    from rivermouth.rows.places import FlowPlaces
    from rivermouth.rows.rebuilding import Rebuild
    from rivermouth.rows.snapshot_place import SnapshotPlace
    from rivermouth.rows.source_table import SourceTable
    from rivermouth.spec import Flow

_Error = TypeVar("_Error", bound=RivermouthError)


@dataclass(frozen=True, slots=True)
class FlowOrder:
    """One flow that shall run, with all that was resolved for it.

    Attributes:
        flow: Its references to the environment are resolved.
        places: Where its things lie.
        bootstrap_servers: The cluster.
        options: Client options, resolved.
        at: Where the flow stands in its file.
        place: Where a setting of the flow stands there.
        decision: About data that is gone, to be recorded before the first batch.
        adoption: Of a table that another program wrote, to be done before the first batch.
        source: The table that the flow reads instead of the cluster.
        snapshots: Where the snapshots lie that it reads instead.
        rebuild: The wish that the flow's table is made anew, to be done before the first batch.
        update_schema: Whether an inferred schema is inferred again before the first batch.
    """

    flow: Flow
    places: FlowPlaces
    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    at: str | None = None
    place: Callable[[SettingPath], str | None] | None = field(default=None, repr=False, compare=False)
    decision: LossDecision | None = None
    adoption: Adoption | None = None
    source: SourceTable | None = None
    snapshots: SnapshotPlace | None = None
    rebuild: Rebuild | None = None
    update_schema: bool = False


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """How a flow's run ended.

    Attributes:
        flow: Its name.
        counts: Sum over its batches.
        batches: How many there were.
        duration_s: From its start to its end.
        error: What ended it; None if it drained or was told to stop.
    """

    flow: str
    counts: Counts
    batches: int
    duration_s: float
    error: BaseException | None = None

    def __add__(self, earlier: FlowOutcome | None) -> FlowOutcome:
        if earlier is None:
            return self
        return replace(
            self,
            counts=earlier.counts + self.counts,
            batches=earlier.batches + self.batches,
            duration_s=earlier.duration_s + self.duration_s,
        )


@dataclass(frozen=True, slots=True)
class FamilyOrder:
    """A family that shall run: a flow for each of its topics, those that appear later too.

    Attributes:
        flow: As it is written; its references to the environment are resolved.
        places: Of some child: where the lake and its state are.
        bootstrap_servers: The cluster.
        options: Client options, resolved.
        child: The order of one child.
        others: The places of the project's other flows.
        only: The topics that shall run; None for all.
        at: Where the flow stands in its file.
        place: Where a setting of the flow stands there.
        source: The table that its children read instead of the cluster.
    """

    flow: Flow
    places: FlowPlaces
    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    child: Callable[[Flow], FlowOrder] = field(repr=False)
    others: tuple[FlowPlaces, ...] = field(default=(), repr=False)
    only: frozenset[str] | None = None
    at: str | None = None
    place: Callable[[SettingPath], str | None] | None = field(default=None, repr=False, compare=False)
    source: SourceTable | None = None


Order = FlowOrder | FamilyOrder


def located(error: _Error, order: Order) -> _Error:
    """The error at the line of the setting that it is about, or of the order's flow; one that has a place as it is."""
    return error.located(order.place or order.at)
