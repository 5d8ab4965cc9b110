"""What the threads of one run share: the session, the events, and which flows it has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from rivermouth.engine.events import Event, FlowFailed, Listener, Warned
from rivermouth.engine.flow.failures import FailureNotes
from rivermouth.errors import FlowBroken
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.lake_writer import LakeWriter
from rivermouth.ports.spark.session import has_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.domain.kafka.latest_start import LatestStart
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.jobs import FlowJob
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.ports.lake.lake_files import LakeFiles

_NOTE_S: Final = 5.0

BetweenBatches = Callable[["FlowRun"], None]


class RunState:
    """What the threads of one run share. Any thread may read and change it.

    Attributes:
        spark: The session in use; another one than at first if its JVM was lost.
        between_batches: Work that the writer does for others, such as replays; called for a flow that follows.
        failures: Keeps in the lake why flows failed.
        stopping: Set when the flows shall end.
        running: The flows that are open now, by name.
        decided: Names of flows whose decisions were applied already.
        ended: Names of flows whose run has ended, for the families that would find them again.
        looking: Held by a family that looks for its topics: of two that find the same table one gets it.
        claimed: The places of the children that were found, by name.
        latest: By name where ``starting_offsets: latest`` lay when the run began, of flows that infer their schema.
        smaller: By name what lost its JVM, with smaller batches.

    Args:
        spark: The session that all flows share.
        listener: Gets every event of every flow.
        between_batches: As the attribute.
        lake: Writes the lake's small files once the JVM is gone.
    """

    def __init__(
        self, spark: SparkSession, listener: Listener, between_batches: BetweenBatches, lake: LakeFiles | None = None
    ) -> None:
        self.spark = spark
        self.between_batches = between_batches
        self.stopping = threading.Event()
        self.failures = FailureNotes(self._files, lambda flow, words: self.emit(Warned(flow, words)))
        self.running: dict[str, FlowRun] = {}
        self.decided: set[str] = set()
        self.ended: set[str] = set()
        self.looking = threading.Lock()
        self.claimed: dict[str, FlowPlaces] = {}
        self.latest: dict[str, LatestStart] = {}
        self.smaller: dict[str, FlowJob] = {}
        self._listener = listener
        self._telling = threading.Lock()
        self._failed: set[str] = set()
        self._lake = LakeWriter({}, timeout_s=_NOTE_S) if lake is None else lake

    def stop(self) -> None:
        """Asks all flows to end after the batch in hand. Returns at once."""
        self.stopping.set()
        for run in list(self.running.values()):
            run.stopping.set()

    @property
    def stopped(self) -> bool:
        """Whether the flows were asked to stop."""
        return self.stopping.is_set()

    def emit(self, event: Event) -> None:
        """Hands an event on; one at a time, whatever thread it comes from."""
        with self._telling:
            self._listener(event)

    def emit_failed(self, flow: str, error: BaseException) -> None:
        """Reports once that a flow failed for good; status shows it from then on."""
        if flow not in self._failed:
            self._failed.add(flow)
            # What breaks because somebody wanted the run to end is no failure of the flow.
            if not (self.stopped and isinstance(error, FlowBroken)):
                self.failures.failed(flow, error)
            self.emit(FlowFailed(flow, str(error)))

    def _files(self) -> LakeFiles:
        folder = self.failures.folder or ""
        return self._lake if has_ended(self.spark) else files_for(folder, self.spark)
