"""One flow in its thread, from its lease to its end; restarted where that may help."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from rivermouth.domain.kafka.latest_start import LatestStart
from rivermouth.engine.batch.deliver import close_delivery
from rivermouth.engine.batch.shared_batch import SharedBatch
from rivermouth.engine.dead_letters import retry
from rivermouth.engine.events import FlowRestarted, Listener, Warned
from rivermouth.engine.flow.flow_inputs import OpenSource
from rivermouth.engine.flow.jobs import FlowJob, Job, StartActions
from rivermouth.engine.flow.table_per_topic import PASSING
from rivermouth.engine.maintenance.schedule import after_run, between_batches
from rivermouth.engine.open.open_flow import open_flow
from rivermouth.engine.open.sources import reading
from rivermouth.engine.run.drain import drain
from rivermouth.engine.run.follow import follow, follow_table
from rivermouth.engine.run.requests import clear_pending
from rivermouth.engine.run.restart_policy import LONGEST_DELAY_S, RestartPolicy
from rivermouth.engine.run.watch import LetterWatch
from rivermouth.engine.schema.infer import without_values
from rivermouth.errors import (
    FlowBroken,
    RivermouthError,
    SchemaEmpty,
    SchemaNotInferred,
    first_line,
)
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.ports.lake.lease import TableLease
from rivermouth.ports.lake.storage_checks import check_fenced
from rivermouth.ports.spark.session import has_ended

if TYPE_CHECKING:
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.engine.run.run_state import RunState
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.ports.sources.protocols import OffsetSource
    from rivermouth.spec import Flow

# Between two looks at a topic that has no record from which a schema can be inferred.
_EMPTY_S: Final = 1.0
# A flow that follows and has run for so long works again, even if nothing came.
_WELL_AFTER_S: Final = 10.0


def run_flow(
    state: RunState, job: FlowJob, listener: Listener, *, policy: RestartPolicy, shared: SharedBatch | None = None
) -> None:
    """One flow from its lease to its end, in the calling thread; restarts it where that may help, as ``policy`` says.

    With ``shared`` it shares its batches with other flows.
    """
    shared = shared or SharedBatch()
    files = files_for(job.places.lake, state.spark)
    check_fenced(state.spark, job.places)
    with (
        _lease(state, files, job, listener) as lease,
        reading(state.spark, job, checked=shared.checked) as (kafka, source),
    ):
        shared.checked = True
        opening = _Opening(state, job, OpenSource(kafka, source), lease, listener, shared)
        while not state.stopping.is_set():
            run, began_at = None, None
            try:
                run = opening.open(waits=policy.follows)
                policy.was_open, began_at = True, _entry(run)
                _follow_or_drain(state, job, run, shared, keep_following=policy.follows)
            except Exception as error:
                if state.stopping.is_set() and not isinstance(error, RivermouthError):
                    return  # a service that is stopped loses its JVM too; the ledger has what is done
                ended, progressed = has_ended(state.spark), _entry(run) != began_at
                pause_s = policy.pause_s(error, is_open=run is not None, jvm_ended=ended, progressed=progressed)
                if pause_s is None:
                    raise
                if pause_s:
                    shared.leave(job.flow.name)
                    state.failures.failed(job.flow.name, _as_ours(job, error))
                    listener(FlowRestarted(job.flow.name, first_line(error), pause_s))
                    state.stopping.wait(pause_s)
            else:
                return
            finally:
                close_delivery(run)
                state.running.pop(job.flow.name, None)
                if job.flow.lookup and run is not None and not has_ended(state.spark):
                    run.lookups.close()


def _lease(state: RunState, files: LakeFiles, job: FlowJob, listener: Listener) -> TableLease:
    name, places = job.flow.name, job.places
    return TableLease(
        files,
        places.lease_file,
        flow=name,
        table=places.table,
        pause=state.stopping.wait,
        say=lambda words: listener(Warned(name, words)),
    )


@dataclass(frozen=True, slots=True)
class _Opening:
    """How a flow is opened, once or again after it failed.

    Attributes:
        state: Of the run.
        job: The flow.
        source: What it reads.
        lease: The table's, held.
        listener: Gets the events.
        shared: The flows with which it shares its batches.
    """

    state: RunState
    job: FlowJob
    source: OpenSource
    lease: TableLease
    listener: Listener
    shared: SharedBatch

    def open(self, *, waits: bool) -> FlowRun | None:
        """The flow, opened; None if it has no schema yet and nothing to store, or if it was stopped while it waited.

        While it waits for records to infer its schema from, temporary errors do not end it, such as a broker that is
        away.
        """
        waiting, pause_s, name = False, _EMPTY_S, self.job.flow.name
        while not self.state.stopping.is_set():
            try:
                return self._opened()
            except (SchemaEmpty, SchemaNotInferred, *PASSING) as error:
                is_early = isinstance(error, SchemaEmpty | SchemaNotInferred)
                if not waits and isinstance(error, SchemaEmpty) and (said := _nothing_to_store(self.job, error)):
                    self.listener(Warned(name, said))
                    return None
                if not waits or not (waiting or is_early):
                    raise
                if not waiting:
                    self.listener(Warned(name, f"{error.message.partition(';')[0]}; it waits for records"))
                    self.state.failures.works(name)
                # What is no document is read again each time.
                pause_s = _EMPTY_S if isinstance(error, SchemaEmpty) else min(2 * pause_s, LONGEST_DELAY_S)
                waiting = True
                self.shared.leave(name)
                self.state.stopping.wait(pause_s)
        return None

    def _opened(self) -> FlowRun:
        state, name = self.state, self.job.flow.name
        start = self.job.start if name not in state.decided else StartActions()
        start = replace(start, latest=_latest(state, self.job.flow, self.source.kafka))
        source = self.source._replace(records=self.source.records.with_new_consumers())
        run = open_flow(state.spark, self.job, source, self.listener, start=start, shared=self.shared)
        # Once a run: after a restart it would apply the same decision again, to what was read meanwhile.
        state.decided.add(name)
        run.lease = self.lease
        self.shared.expect([name])
        state.running[name] = run
        if state.stopping.is_set():
            run.stopping.set()
        return run


def _latest(state: RunState, flow: Flow, kafka: OffsetSource) -> LatestStart | None:
    """Where ``latest`` lay when the run began, before a schema is inferred; None where none is, or it starts elsewhere.

    The schema may be inferred from the first records after that.
    """
    if flow.starting_offsets.kind != "latest" or not flow.infers:
        return None
    if flow.name not in state.latest:
        topics = kafka.topics(flow)
        state.latest[flow.name] = LatestStart(topics, kafka.resolve_starting(flow, topics))
    return state.latest[flow.name]


def _follow_or_drain(
    state: RunState, job: FlowJob, run: FlowRun | None, shared: SharedBatch, *, keep_following: bool
) -> None:
    if run is None:
        return
    if not keep_following:
        clear_pending(run.context)
        letters = LetterWatch(run)
        batches = drain(run, shared.process)
        letters.look()
        shared.leave(run.flow.name)
        retry.after_run(run)
        after_run(run, wrote=batches > 0)
        return

    began_at, letters = time.monotonic(), LetterWatch(run)

    def between() -> None:
        if time.monotonic() - began_at > _WELL_AFTER_S:
            state.failures.works(run.flow.name)
        state.between_batches(run)
        retry.between_batches(run)
        between_batches(run)
        letters.look_now_and_then()

    if job.flow.source is None:
        follow(run, between)
    else:
        follow_table(run, shared.process, between)


def _as_ours(job: Job, error: Exception) -> RivermouthError:
    return error if isinstance(error, RivermouthError) else FlowBroken(flow=job.flow.name, detail=first_line(error))


def _nothing_to_store(job: FlowJob, empty: SchemaEmpty) -> str | None:
    """The warning for a flow that has nothing to do yet; None where something is wanted of its table."""
    wanted = job.start.adoption or job.start.decision or job.start.rebuild
    return None if wanted else without_values(job.flow, empty)


def _entry(run: FlowRun | None) -> int | None:
    """Number of the flow's newest ledger entry."""
    return None if run is None else run.entry.number
