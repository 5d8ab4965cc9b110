"""Flows side by side in one Spark session: each in a thread of its own, each restarted on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine.events import FlowRestarted, Listener
from rivermouth.engine.flow.jobs import FamilyJob, FlowJob, FlowOutcome, Job, again, in_order, without_error
from rivermouth.engine.run.drain import max_offsets
from rivermouth.engine.run.run_state import BetweenBatches, RunState
from rivermouth.engine.run.watch import watching
from rivermouth.engine.run.workers import FamilyWorker, Worker, awaited_of
from rivermouth.errors import (
    EngineLost,
)
from rivermouth.ports.spark.session import abandon, has_ended

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.ports.lake.lake_files import LakeFiles

_ENGINE_LOSSES: Final = 8


class Supervisor:
    """Runs flows until they have drained, failed or been asked to stop.

    Args:
        spark: The session that all flows share.
        listener: Gets every event of every flow.
        between_batches: Work that the writer does for others, such as replays; called for a flow that follows.
        restart: Makes a new session when the JVM of the old one is gone; None gives up then.
        lake: Writes the lake's small files once the JVM is gone.
    """

    def __init__(
        self,
        spark: SparkSession,
        listener: Listener,
        between_batches: BetweenBatches,
        restart: Callable[[], SparkSession] | None = None,
        *,
        lake: LakeFiles | None = None,
    ) -> None:
        self.state = RunState(spark, listener, between_batches, lake)
        self._restart = restart

    def stop(self) -> None:
        """Asks all flows to end after the batch in hand. Returns at once."""
        self.state.stop()

    def run(self, jobs: Sequence[Job], *, keep_following: bool) -> list[FlowOutcome]:
        """Runs the flows side by side and waits for all of them.

        Returns:
            An outcome a flow, in the order given; a flow that failed did not stop the others. A family has one for each
            of its children, and one of its own where it failed or has none.
        """
        outcomes: dict[str, FlowOutcome] = {}
        self.state.failures.folder = next((job.places.failures for job in jobs), None)
        pending, losses = list(jobs), 0
        while pending:
            with watching(jobs if keep_following else (), self.state.emit):
                done = self._side_by_side(pending, keep_following=keep_following)
            for job, outcome in done:
                outcomes[outcome.flow] = outcome + outcomes.get(outcome.flow)
                if isinstance(job, FlowJob) and outcome.error is None:
                    self.state.ended.add(outcome.flow)
            failed = [job for job, outcome in done if outcome.error is not None]
            pending = again(pending, failed, keep_following=keep_following)
            if self._restart is None or self.state.stopped or not has_ended(self.state.spark):
                break
            losses = 1 if any(outcome.batches for _, outcome in done) else losses + 1
            if losses > _ENGINE_LOSSES:
                for job in failed or pending:
                    lost = EngineLost(flow=job.flow.name, times=losses, max_offsets=max_offsets(job.flow))
                    before = outcomes.get(job.flow.name) or FlowOutcome(job.flow.name, Counts(), 0, 0.0)
                    outcomes[job.flow.name] = replace(before, error=lost)
                break
            pending = self._smaller_ones(pending, failed)
            for job in (*failed, *pending):
                # It is ended again, or its topic was deleted meanwhile.
                outcomes |= without_error(outcomes, job.flow.name)
            abandon(self.state.spark)
            self.state.spark = self._restart()
        for outcome in outcomes.values():
            if outcome.error is not None:
                self.state.emit_failed(outcome.flow, outcome.error)
        return in_order(jobs, outcomes)

    def _side_by_side(self, jobs: Sequence[Job], *, keep_following: bool) -> list[tuple[Job, FlowOutcome]]:
        flows = [job for job in jobs if isinstance(job, FlowJob)]
        workers = [Worker(self.state, job, keep_following=keep_following) for job in flows]
        by_name = {job.flow.name: worker for job, worker in zip(flows, workers, strict=True)}
        for worker in workers:
            worker.awaited = awaited_of(worker.job, by_name)
        finders = [
            FamilyWorker(self.state, job, keep_following=keep_following) for job in jobs if isinstance(job, FamilyJob)
        ]
        for finder in finders:
            finder.awaited = awaited_of(finder.job, by_name)
        for thread in (*workers, *finders):
            thread.start()
        for thread in (*workers, *finders):
            while thread.is_alive():
                thread.join(0.5)
        return [
            *((worker.job, worker.outcome) for worker in workers),
            *(each for finder in finders for each in finder.outcomes),
        ]

    def _smaller_ones(self, pending: Sequence[Job], failed: Sequence[Job]) -> list[Job]:
        """What goes on, with smaller batches; those of children are for the families that find them again."""
        self.state.smaller |= {each.flow.name: self._smaller(each) for each in failed if isinstance(each, FlowJob)}
        return [self.state.smaller.get(job.flow.name, job) for job in pending]

    def _smaller(self, job: FlowJob) -> FlowJob:
        """The order with half as many offsets a batch, for a batch that did not fit into memory."""
        limit = max(1, max_offsets(job.flow) // 2)
        self.state.emit(
            FlowRestarted(job.flow.name, f"Spark's JVM ended; going on with at most {limit} offsets a batch", 0.0)
        )
        trigger = job.flow.trigger.model_copy(update={"max_offsets": limit, "min_offsets": None, "max_delay": None})
        return replace(job, flow=job.flow.model_copy(update={"trigger": trigger}))
