"""Flows side by side in one Spark session: each in a thread of its own, each restarted on its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rivermouth.engine.carry import drain, max_offsets
from rivermouth.engine.events import BatchDone, Event, FlowFailed, FlowFinished, FlowRestarted, Listener, Warned
from rivermouth.engine.follow import follow, follow_table
from rivermouth.engine.opening import open_flow
from rivermouth.engine.requests import withdraw
from rivermouth.engine.sources import reading
from rivermouth.engine.upkeep import after_run, between_batches
from rivermouth.errors import (
    BrokerUnreachable,
    EngineLost,
    ErasureUnfinished,
    FlowBroken,
    LakeNotReadable,
    LakeNotWritable,
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    SchemaEmpty,
    SchemaNotInferred,
    SourceBehind,
    TableBusy,
    TokenNotMade,
    TopicRecreated,
    first_line,
)
from rivermouth.ports import delta
from rivermouth.ports.fencing import check_fenced
from rivermouth.ports.lease import Lease
from rivermouth.ports.session import abandon, has_ended
from rivermouth.ports.storage import PlacedFiles, files_for
from rivermouth.rows import worker_failures
from rivermouth.rows.ledger import Counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.running import RunningFlow
    from rivermouth.ports.sources import Records, Topics
    from rivermouth.ports.storage import LakeFiles
    from rivermouth.rows.adoption import Adoption
    from rivermouth.rows.gone import LossDecision
    from rivermouth.rows.places import FlowPlaces
    from rivermouth.rows.rebuilding import Rebuild
    from rivermouth.rows.source_table import SourceTable
    from rivermouth.spec import Flow

# A service that runs on waits for these to be over.
_PASSING: Final = (BrokerUnreachable, ErasureUnfinished, LakeNotReadable, LakeNotWritable, SourceBehind, TokenNotMade)
_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 60.0
_DRAIN_RESTARTS: Final = 3
# Between two looks at a topic that has no record of which a schema could be made.
_EMPTY_S: Final = 1.0
_ENGINE_LOSSES: Final = 8


@dataclass(frozen=True, slots=True)
class FlowOrder:
    """One flow that shall run, with all that was resolved for it.

    Attributes:
        flow: Its references to the environment are resolved.
        places: Where its things lie.
        bootstrap_servers: The cluster.
        options: Client options, resolved.
        at: Where the flow stands in its file.
        decision: About data that is gone, to be recorded before the first batch.
        adoption: Of a table that another program wrote, to be done before the first batch.
        source: The table that the flow reads instead of the cluster.
        rebuild: The wish that the flow's table is made anew, to be done before the first batch.
        update_schema: Whether an inferred schema is inferred again before the first batch.
    """

    flow: Flow
    places: FlowPlaces
    bootstrap_servers: str
    options: Mapping[str, str] = field(repr=False)
    at: str | None = None
    decision: LossDecision | None = None
    adoption: Adoption | None = None
    source: SourceTable | None = None
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


BetweenBatches = Callable[["RunningFlow"], None]


class Supervisor:
    """Runs flows until they have drained, failed or been told to stop.

    Args:
        spark: The session that all flows share.
        listener: Gets every event of every flow.
        between_batches: Work that the writer does for others, such as replays; called for a flow that follows.
        restart: Makes a new session when the JVM of the old one is gone; None gives up then.
    """

    def __init__(
        self,
        spark: SparkSession,
        listener: Listener,
        between_batches: BetweenBatches,
        restart: Callable[[], SparkSession] | None = None,
    ) -> None:
        self._spark = spark
        self._restart = restart
        self._listener = listener
        self._between_batches = between_batches
        self._stop = threading.Event()
        self._telling = threading.Lock()
        self._running: dict[str, RunningFlow] = {}
        self._failed: set[str] = set()
        self._decided: set[str] = set()

    def stop(self) -> None:
        """Tells all flows to end after the batch in hand. Returns at once."""
        self._stop.set()
        for run in list(self._running.values()):
            run.stopping.set()

    @property
    def spark(self) -> SparkSession:
        """The session in use; another one than at first if its JVM was lost."""
        return self._spark

    @property
    def stopped(self) -> bool:
        """Whether the flows were told to stop."""
        return self._stop.is_set()

    def tell(self, event: Event) -> None:
        """Hands an event on; one at a time, whatever thread it comes from."""
        with self._telling:
            self._listener(event)

    def tell_failed(self, flow: str, error: BaseException | None) -> None:
        """Tells that a flow failed for good, once."""
        if flow not in self._failed:
            self._failed.add(flow)
            self.tell(FlowFailed(flow, str(error)))

    def run(self, orders: Sequence[FlowOrder], *, keep_following: bool) -> list[FlowOutcome]:
        """Runs the flows side by side and waits for all of them.

        Returns:
            An outcome a flow, in the order given; a flow that failed did not stop the others.
        """
        outcomes: dict[str, FlowOutcome] = {}
        pending, losses = list(orders), 0
        while pending:
            done = self._side_by_side(pending, keep_following=keep_following)
            for order, outcome in zip(pending, done, strict=True):
                outcomes[order.flow.name] = outcome + outcomes.get(order.flow.name)
            pending = [order for order, outcome in zip(pending, done, strict=True) if outcome.error is not None]
            if self._restart is None or self._stop.is_set() or not has_ended(self._spark):
                break
            losses = 1 if any(outcome.batches for outcome in done) else losses + 1
            if losses > _ENGINE_LOSSES:
                for order in pending:
                    lost = EngineLost(flow=order.flow.name, times=losses, max_offsets=max_offsets(order.flow))
                    outcomes[order.flow.name] = replace(outcomes[order.flow.name], error=lost)
                break
            pending = [self._smaller(order) for order in pending]
            abandon(self._spark)
            self._spark = self._restart()
        for order in pending:
            self.tell_failed(order.flow.name, outcomes[order.flow.name].error)
        return [outcomes[order.flow.name] for order in orders]

    def _side_by_side(self, orders: Sequence[FlowOrder], *, keep_following: bool) -> list[FlowOutcome]:
        workers = [_Worker(self, order, keep_following=keep_following) for order in orders]
        by_name = {order.flow.name: worker for order, worker in zip(orders, workers, strict=True)}
        for order, worker in zip(orders, workers, strict=True):
            worker.source = by_name.get(order.source.flow.name) if order.source is not None else None
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(0.5)
        return [worker.outcome for worker in workers]

    def _smaller(self, order: FlowOrder) -> FlowOrder:
        """The order with half as many offsets a batch, for a batch that did not fit into memory."""
        limit = max(1, max_offsets(order.flow) // 2)
        self.tell(
            FlowRestarted(order.flow.name, f"Spark's JVM ended; going on with at most {limit} offsets a batch", 0.0)
        )
        trigger = order.flow.trigger.model_copy(update={"max_offsets": limit, "min_offsets": None, "max_delay": None})
        return replace(order, flow=order.flow.model_copy(update={"trigger": trigger}))

    def carry(self, order: FlowOrder, listener: Listener, *, keep_following: bool) -> None:
        """One flow from its lease to its end, in the calling thread; restarts it where that may help."""
        delay_s, restarts = _FIRST_DELAY_S, 0
        files = files_for(order.places.lake, self._spark)
        check_fenced(self._spark, order.places)
        with (
            self._lease(files, order, listener) as lease,
            reading(self._spark, order) as (kafka, source),
        ):
            opened = False
            while not self._stop.is_set():
                carrying = False
                try:
                    run = self._open(order, kafka, source, lease, listener, waits=keep_following)
                    opened = carrying = True
                    batches = self._follow_or_drain(order, run, keep_following=keep_following)
                    delay_s = _FIRST_DELAY_S if batches else delay_s
                except (OffsetsExpired, PartitionsFewer, TopicRecreated):
                    # Gone since the flow was opened. Where it may, the next opening records that and goes on.
                    if not (carrying and order.flow.on_data_loss == "record"):
                        raise
                    continue
                except RivermouthError as error:
                    if not (keep_following and opened and isinstance(error, _PASSING)):
                        raise
                    failure: Exception = error
                except Exception as error:
                    restarts += 1
                    if self._stop.is_set():
                        return  # whoever stops a service ends its JVM too; the ledger knows what is done
                    if has_ended(self._spark) or (not keep_following and restarts > _DRAIN_RESTARTS):
                        raise
                    failure = error
                else:
                    return
                finally:
                    self._running.pop(order.flow.name, None)
                listener(FlowRestarted(order.flow.name, first_line(failure), delay_s))
                self._stop.wait(delay_s)
                delay_s = min(2 * delay_s, _LONGEST_DELAY_S)

    def _lease(self, files: LakeFiles, order: FlowOrder, listener: Listener) -> Lease:
        name, places = order.flow.name, order.places
        return Lease(
            files,
            places.lease_file,
            flow=name,
            table=places.table,
            pause=self._stop.wait,
            say=lambda words: listener(Warned(name, words)),
        )

    def _open(
        self, order: FlowOrder, kafka: Topics, source: Records, lease: Lease, listener: Listener, *, waits: bool
    ) -> RunningFlow | None:
        """The flow, opened; None if it was told to stop while it waited for records of which to infer its schema.

        While it waits it outlasts what passes by itself, such as a broker that is away.
        """
        waiting, pause_s = False, _EMPTY_S
        while not self._stop.is_set():
            try:
                return self._opened(order, kafka, source.with_new_consumers(), lease, listener)
            except (SchemaEmpty, SchemaNotInferred, *_PASSING) as error:
                is_early = isinstance(error, SchemaEmpty | SchemaNotInferred)
                if not waits or not (waiting or is_early):
                    raise
                if not waiting:
                    listener(Warned(order.flow.name, f"{error.message.partition(';')[0]}; it waits for records"))
                # What is no document is read again each time.
                pause_s = _EMPTY_S if isinstance(error, SchemaEmpty) else min(2 * pause_s, _LONGEST_DELAY_S)
                waiting = True
                self._stop.wait(pause_s)
        return None

    def _opened(
        self, order: FlowOrder, kafka: Topics, source: Records, lease: Lease, listener: Listener
    ) -> RunningFlow:
        name = order.flow.name
        first = name not in self._decided
        run = open_flow(
            self._spark,
            order.flow,
            order.places,
            kafka=kafka,
            source=source,
            listener=listener,
            decision=order.decision if first else None,
            adoption=order.adoption if first else None,
            rebuild=order.rebuild if first else None,
            update_schema=order.update_schema and first,
        )
        # Once a run: what it found decided already, it would decide anew of what was read meanwhile.
        self._decided.add(name)
        run.lease = lease
        self._running[name] = run
        if self._stop.is_set():
            run.stopping.set()
        return run

    def _follow_or_drain(self, order: FlowOrder, run: RunningFlow | None, *, keep_following: bool) -> int:
        if run is None:
            return 0
        if not keep_following:
            withdraw(run)
            batches = drain(run)
            after_run(run, wrote=batches > 0)
            return batches

        def between() -> None:
            self._between_batches(run)
            between_batches(run)

        return follow(run, between) if order.source is None else follow_table(run, between)


class _Worker(threading.Thread):
    """The thread of one flow; its outcome is known when it has ended."""

    def __init__(self, supervisor: Supervisor, order: FlowOrder, *, keep_following: bool) -> None:
        super().__init__(name=f"flow-{order.flow.name}", daemon=True)
        self._supervisor = supervisor
        self._order = order
        self._keep_following = keep_following
        self._counts = Counts()
        self._batches = 0
        self._began_at = time.monotonic()
        self._ended_at: float | None = None
        self._error: BaseException | None = None
        self.source: _Worker | None = None
        """Of the flow whose table this one reads, if that runs too."""
        self.ended = threading.Event()

    @property
    def outcome(self) -> FlowOutcome:
        """How it ended."""
        duration_s = (self._ended_at or time.monotonic()) - self._began_at
        return FlowOutcome(self._order.flow.name, self._counts, self._batches, duration_s, self._error)

    def run(self) -> None:
        """Carries the flow to its end and tells what became of it."""
        try:
            self._carry()
        finally:
            self.ended.set()

    def _carry(self) -> None:
        name = self._order.flow.name
        try:
            self._wait_for_source()
            self._began_at = time.monotonic()
            self._supervisor.carry(self._order, self._hear, keep_following=self._keep_following)
        except RivermouthError as error:
            # Told to stop while it waited for its table, it has not failed.
            if not (isinstance(error, TableBusy) and self._supervisor.stopped):
                self._error = error.located(self._order.at)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other flows go on
            registry = worker_failures.failure(str(error))
            self._error = registry or FlowBroken(flow=name, detail=first_line(error))
            self._error = self._error.located(self._order.at)
            self._error.__cause__ = error
        self._ended_at = time.monotonic()
        if self._error is not None:
            # The other flows may go on for days. Where the JVM is gone this one starts again with it.
            if not has_ended(self._supervisor.spark):
                self._supervisor.tell_failed(name, self._error)
            return
        outcome = self.outcome
        stopped = self._supervisor.stopped and not self._keep_following
        self._hear(FlowFinished(name, outcome.counts, outcome.batches, outcome.duration_s, stopped=stopped))

    def _wait_for_source(self) -> None:
        """Returns when what a drain should carry is in the table that the flow reads, or when it is there at all.

        A flow that follows waits for the table only; where its writer fails, it carries what it finds.
        """
        source = self._order.source
        while source is not None and self.source is not None and not self.source.ended.is_set():
            made = self._keep_following and delta.exists(PlacedFiles(self._supervisor.spark), source.places.table)
            if made or self._supervisor.stopped:
                return
            self.source.ended.wait(0.2)

    def _hear(self, event: Event) -> None:
        if isinstance(event, BatchDone):
            self._counts += event.counts
            self._batches += 1
        self._supervisor.tell(event)
