"""The threads in which flows run: one for each flow, and one for each family, which finds its topics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.ledger.undeclared_names import most_frequent
from rivermouth.domain.project import table_per_topic
from rivermouth.engine.batch.shared_batch import SharedBatch
from rivermouth.engine.events import BatchDone, Event, FlowFinished, Warned
from rivermouth.engine.flow import task_failures
from rivermouth.engine.flow.jobs import FamilyJob, FlowJob, FlowOutcome, Job, located
from rivermouth.engine.flow.table_per_topic import PASSING, look
from rivermouth.engine.open.sources import finding
from rivermouth.engine.run.restart_policy import RestartPolicy
from rivermouth.engine.run.run_flow import run_flow
from rivermouth.errors import (
    FlowBroken,
    RivermouthError,
    SourceNotMade,
    TableBusy,
    TopicMissing,
    TopicPatternEmpty,
    first_line,
)
from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import PlacedFiles, files_for
from rivermouth.ports.spark.session import has_ended
from rivermouth.ports.spark.spark_errors import detach_from_jvm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rivermouth.engine.flow.table_per_topic import DiscoveredTables, Finder
    from rivermouth.engine.run.run_state import RunState
    from rivermouth.ports.lake.lake_files import LakeFiles

SIDE_BY_SIDE: Final = 8
"""Number of children of a family that are drained at the same time."""
LOOK_EVERY_S: Final = (1.0, 5.0)
"""A family that follows looks for new topics at its trigger, within these bounds."""


class Worker(threading.Thread):
    """The thread of one flow; its outcome is known when it has ended."""

    def __init__(
        self,
        state: RunState,
        job: FlowJob,
        *,
        keep_following: bool,
        may_vanish: bool = False,
        shared: SharedBatch | None = None,
    ) -> None:
        super().__init__(name=f"flow-{job.flow.name}", daemon=True)
        self._state = state
        self._job = job
        self._keep_following = keep_following
        self._may_vanish = may_vanish
        self._shared = shared
        self._counts = Counts()
        self._dropped_by: Counter[str] = Counter()
        self._undeclared_names: dict[str, int] = {}
        self._batches = 0
        self._began_at = time.monotonic()
        self._ended_at: float | None = None
        self._error: BaseException | None = None
        self.awaited: list[tuple[Worker, str]] = []
        """Those of the flows whose tables this one reads, if they run too, with the places of these tables."""
        self.ended = threading.Event()
        self.vanished = False
        """Whether it ended because its topic was deleted, and nobody named that."""

    @property
    def job(self) -> FlowJob:
        """The flow that it runs."""
        return self._job

    @property
    def outcome(self) -> FlowOutcome:
        """How it ended."""
        duration_s = (self._ended_at or time.monotonic()) - self._began_at
        told = {"dropped_by": dict(self._dropped_by), "undeclared_names": self._undeclared_names}
        return FlowOutcome(self._job.flow.name, self._counts, self._batches, duration_s, self._error, **told)

    def run(self) -> None:
        """Runs the flow to its end and reports its outcome."""
        try:
            self._work()
        finally:
            self.ended.set()
            if self._shared is not None:
                self._shared.leave(self._job.flow.name)

    def _work(self) -> None:
        name = self._job.flow.name
        try:
            _wait_for(self.awaited, self._state, keep_following=self._keep_following)
            self._began_at = time.monotonic()
            run_flow(self._state, self._job, self._hear, policy=self._policy(), shared=self._shared)
        except TopicMissing as error:
            if self._may_vanish:
                self.vanished = True
                self._state.emit(
                    Warned(name, f"{table_per_topic.deleted_topic(self._job.flow)}; its table stays as it is")
                )
            else:
                self._error = located(error, self._job)
        except RivermouthError as error:
            # If a stop was requested while it waited for its table, it has not failed.
            if not (isinstance(error, TableBusy) and self._state.stopped):
                self._error = located(error, self._job)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other flows go on
            detach_from_jvm(error)
            registry = task_failures.failure(str(error))
            self._error = registry or FlowBroken(flow=name, detail=first_line(error))
            self._error = located(self._error, self._job)
            self._error.__cause__ = error
        self._ended_at = time.monotonic()
        if self._error is not None:
            # The other flows may go on for days. Where the JVM is gone this one starts again with it.
            if not has_ended(self._state.spark):
                self._state.emit_failed(name, self._error)
            return
        outcome = self.outcome
        stopped = self._state.stopped and not self._keep_following
        if not self._state.stopped:
            self._state.failures.works(name)
        self._hear(FlowFinished(name, outcome.counts, outcome.batches, outcome.duration_s, stopped=stopped))

    def _policy(self) -> RestartPolicy:
        records_loss = self._job.flow.on_data_loss == "record"
        return RestartPolicy(self._keep_following, records_loss, may_vanish=self._may_vanish)

    def _hear(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._counts += event.counts
            self._dropped_by.update(event.dropped_by)
            self._undeclared_names = most_frequent(self._undeclared_names, event.undeclared_names)
            self._batches += 1
            self._state.failures.works(event.flow)
        self._state.emit(event)


def awaited_of(job: Job, workers: Mapping[str, Worker]) -> list[tuple[Worker, str]]:
    """The workers for which a flow waits: of those whose tables it reads or looks up columns in, with the places."""
    places = {} if job.source is None else {job.source.flow.name: job.source.places.table}
    places |= {each.owner: each.location for each in job.flow.lookup if each.owner is not None}
    return [(workers[name], place) for name, place in places.items() if name in workers]


def _wait_for(awaited: Sequence[tuple[Worker, str]], state: RunState, *, keep_following: bool) -> None:
    """Waits until the flows that write the tables which the flow reads have ended.

    A flow that follows waits only until the tables are there. If a writer fails, the flow reads what it finds.
    """
    for writer, table in awaited:
        while not writer.ended.is_set():
            made = keep_following and delta_table.exists(PlacedFiles(state.spark), table)
            if made or state.stopped:
                break
            writer.ended.wait(0.2)


class FamilyWorker(threading.Thread):
    """The thread of a family: finds its topics, runs a flow for each, and waits for all of them."""

    def __init__(self, state: RunState, job: FamilyJob, *, keep_following: bool) -> None:
        super().__init__(name=f"family-{job.flow.name}", daemon=True)
        self._state = state
        self._job = job
        self._keep_following = keep_following
        self._workers: dict[str, Worker] = {}
        self._refused: dict[str, FlowOutcome] = {}
        self._error: BaseException | None = None
        self._told: str | None = None
        # Children that read topics have no record in common.
        self._shared = SharedBatch(following=keep_following) if job.source is not None else None
        self.awaited: list[tuple[Worker, str]] = []
        """Those of the flows whose tables its children read, if they run too, with the places of these tables."""

    @property
    def outcomes(self) -> list[tuple[Job, FlowOutcome]]:
        """How its children ended, by name; and itself, where it failed or has none."""
        found: list[tuple[Job, FlowOutcome]] = [
            (worker.job, worker.outcome) for worker in self._workers.values() if not worker.vanished
        ]
        found += [(self._job, outcome) for outcome in self._refused.values()]
        found.sort(key=lambda each: each[1].flow)
        own = FlowOutcome(self._job.flow.name, Counts(), 0, 0.0, self._error)
        return [*found, (self._job, own)] if self._error is not None or not found else found

    def run(self) -> None:
        """Runs the family to its end and reports its outcome."""
        try:
            self._work()
        except RivermouthError as error:
            self._error = located(error, self._job)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other flows go on
            detach_from_jvm(error)
            self._error = located(FlowBroken(flow=self._job.flow.name, detail=first_line(error)), self._job)
            self._error.__cause__ = error
        if self._error is not None and not has_ended(self._state.spark):
            self._state.emit_failed(self._job.flow.name, self._error)
        for worker in self._workers.values():
            while worker.is_alive():
                worker.join(0.5)

    @property
    def job(self) -> FamilyJob:
        """What it finds the children of."""
        return self._job

    def _work(self) -> None:
        job, stopping = self._job, self._state.stopping
        _wait_for(self.awaited, self._state, keep_following=self._keep_following)
        least_s, most_s = LOOK_EVERY_S
        every_s = max(least_s, min(job.flow.trigger.every, most_s))
        files = files_for(job.places.lake, self._state.spark)
        begun = any(table_per_topic.is_child_of(name, job.flow.name) for name in self._state.smaller)
        with finding(self._state.spark, job) as place:
            while not stopping.is_set() and not has_ended(self._state.spark):
                try:
                    found = self._look(files, place)
                except (TopicPatternEmpty, SourceNotMade, *PASSING) as error:
                    begun = begun or isinstance(error, TopicPatternEmpty | SourceNotMade)
                    if not self._keep_following or not begun:
                        raise
                    self._say(f"{error.message.partition(';')[0]}; it looks again")
                else:
                    begun, self._told = True, None
                    self._start(found.orders)
                    for name, refusal in found.refused.items():
                        self._refuse(name, refusal)
                    if found.problem is not None and not self._keep_following:
                        raise found.problem
                    if found.problem is not None and job.flow.name not in self._refused:
                        self._refuse(job.flow.name, found.problem)
                if not self._keep_following:
                    return
                stopping.wait(every_s)

    def _look(self, files: LakeFiles, place: Finder) -> DiscoveredTables:
        """What is found now; a table that another family has found in this run is that one's."""
        with self._state.looking:
            claimed = self._state.claimed
            others = (
                places for name, places in claimed.items() if not table_per_topic.is_child_of(name, self._job.flow.name)
            )
            job = replace(self._job, others=(*self._job.others, *others))
            found = look(job, files, place, known=self._known(), waits=self._keep_following)
            claimed.update((each.flow.name, each.places) for each in found.orders)
        if found.problem is None:
            self._state.failures.works(self._job.flow.name)
        return found

    def _known(self) -> set[str]:
        """Topics that are being read, or were refused; of those that vanished another may come."""
        for name in [name for name, worker in self._workers.items() if worker.vanished and not worker.is_alive()]:
            del self._workers[name]
        names = {*self._workers, *self._refused, *self._state.ended}
        return {
            table_per_topic.parted(name)[1] for name in names if table_per_topic.parted(name)[0] == self._job.flow.name
        }

    def _start(self, jobs: list[FlowJob]) -> None:
        if self._shared is not None:
            self._shared.expect(found.flow.name for found in jobs)
        for found in jobs:
            job = self._state.smaller.get(found.flow.name, found)
            while not self._keep_following and self._at_work() >= SIDE_BY_SIDE:
                time.sleep(0.05)
            if self._state.stopping.is_set():
                return
            # Of a topic that somebody named, it is an error that it is not there.
            vanishes = self._job.flow.topic_pattern is not None and self._job.only is None
            worker = Worker(
                self._state,
                job,
                keep_following=self._keep_following,
                may_vanish=vanishes,
                shared=self._shared,
            )
            self._workers[job.flow.name] = worker
            worker.start()

    def _at_work(self) -> int:
        """How many children run now, without those that wait for others."""
        resting = 0 if self._shared is None else self._shared.resting
        return sum(each.is_alive() for each in self._workers.values()) - resting

    def _refuse(self, name: str, error: RivermouthError) -> None:
        error = located(error, self._job)
        self._refused[name] = FlowOutcome(name, Counts(), 0, 0.0, error)
        self._state.emit_failed(name, error)

    def _say(self, words: str) -> None:
        if words != self._told:
            self._told = words
            self._state.emit(Warned(self._job.flow.name, words))
