"""Flows side by side in one Spark session: each in a thread of its own, each restarted on its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from rivermouth.engine import retry
from rivermouth.engine.carry import drain, max_offsets
from rivermouth.engine.events import Event, FlowFailed, FlowRestarted, Listener, Warned
from rivermouth.engine.failures import FailureNotes
from rivermouth.engine.families import PASSING
from rivermouth.engine.follow import follow, follow_table
from rivermouth.engine.infer import without_values
from rivermouth.engine.opening import open_flow
from rivermouth.engine.orders import FamilyOrder, FlowOrder, FlowOutcome, Order, again, in_order, without_error
from rivermouth.engine.requests import withdraw
from rivermouth.engine.sources import reading
from rivermouth.engine.together import Together
from rivermouth.engine.upkeep import after_run, between_batches
from rivermouth.engine.watch import LetterWatch, watching
from rivermouth.engine.workers import FamilyWorker, Worker
from rivermouth.errors import (
    EngineLost,
    FlowBroken,
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    SchemaEmpty,
    SchemaNotInferred,
    TopicRecreated,
    first_line,
)
from rivermouth.ports.fencing import check_fenced
from rivermouth.ports.lake_writer import LakeWriter
from rivermouth.ports.lease import Lease
from rivermouth.ports.session import abandon, has_ended
from rivermouth.ports.storage import files_for
from rivermouth.rows.ledger import Counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.engine.running import RunningFlow
    from rivermouth.ports.sources import Records, Topics
    from rivermouth.ports.storage import LakeFiles
    from rivermouth.rows.places import FlowPlaces

_FIRST_DELAY_S: Final = 1.0
_LONGEST_DELAY_S: Final = 60.0
_DRAIN_RESTARTS: Final = 3
# Between two looks at a topic that has no record of which a schema could be made.
_EMPTY_S: Final = 1.0
_ENGINE_LOSSES: Final = 8
_NOTE_S: Final = 5.0
# A flow that follows and has run for so long works again, even if nothing came.
_WELL_AFTER_S: Final = 10.0


BetweenBatches = Callable[["RunningFlow"], None]


class Supervisor:
    """Runs flows until they have drained, failed or been told to stop.

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
        self._spark = spark
        self._restart = restart
        self._listener = listener
        self._between_batches = between_batches
        self._lake = LakeWriter({}, timeout_s=_NOTE_S) if lake is None else lake
        self.failures = FailureNotes(self._files, lambda flow, words: self.tell(Warned(flow, words)))
        """Keeps in the lake why flows failed."""
        self._stop = threading.Event()
        self._telling = threading.Lock()
        self._running: dict[str, RunningFlow] = {}
        self._failed: set[str] = set()
        self._decided: set[str] = set()
        self.carried: set[str] = set()
        """Names of flows whose run has ended, for the families that would find them anew."""
        self.looking = threading.Lock()
        """Held by a family that looks for its topics: of two that find the same table one gets it."""
        self.claimed: dict[str, FlowPlaces] = {}
        """The places of the children that were found, by name."""
        self.smaller: dict[str, FlowOrder] = {}
        """By name what lost its JVM, with smaller batches."""

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
    def stopping(self) -> threading.Event:
        """Set when the flows shall end."""
        return self._stop

    @property
    def stopped(self) -> bool:
        """Whether the flows were told to stop."""
        return self._stop.is_set()

    def tell(self, event: Event) -> None:
        """Hands an event on; one at a time, whatever thread it comes from."""
        with self._telling:
            self._listener(event)

    def _files(self) -> LakeFiles:
        folder = self.failures.folder or ""
        return self._lake if has_ended(self._spark) else files_for(folder, self._spark)

    def tell_failed(self, flow: str, error: BaseException) -> None:
        """Tells that a flow failed for good, once; status shows it from then on."""
        if flow not in self._failed:
            self._failed.add(flow)
            # What breaks because somebody wanted the run to end is no failure of the flow.
            if not (self._stop.is_set() and isinstance(error, FlowBroken)):
                self.failures.failed(flow, error)
            self.tell(FlowFailed(flow, str(error)))

    def run(self, orders: Sequence[Order], *, keep_following: bool) -> list[FlowOutcome]:
        """Runs the flows side by side and waits for all of them.

        Returns:
            An outcome a flow, in the order given; a flow that failed did not stop the others. A family has one for each
            of its children, and one of its own where it failed or has none.
        """
        outcomes: dict[str, FlowOutcome] = {}
        self.failures.folder = next((order.places.failures for order in orders), None)
        pending, losses = list(orders), 0
        while pending:
            with watching(orders if keep_following else (), self.tell):
                done = self._side_by_side(pending, keep_following=keep_following)
            for order, outcome in done:
                outcomes[outcome.flow] = outcome + outcomes.get(outcome.flow)
                if isinstance(order, FlowOrder) and outcome.error is None:
                    self.carried.add(outcome.flow)
            failed = [order for order, outcome in done if outcome.error is not None]
            pending = again(pending, failed, keep_following=keep_following)
            if self._restart is None or self._stop.is_set() or not has_ended(self._spark):
                break
            losses = 1 if any(outcome.batches for _, outcome in done) else losses + 1
            if losses > _ENGINE_LOSSES:
                for order in failed or pending:
                    lost = EngineLost(flow=order.flow.name, times=losses, max_offsets=max_offsets(order.flow))
                    before = outcomes.get(order.flow.name) or FlowOutcome(order.flow.name, Counts(), 0, 0.0)
                    outcomes[order.flow.name] = replace(before, error=lost)
                break
            pending = self._smaller_ones(pending, failed)
            for order in (*failed, *pending):
                # It is carried again, or its topic was deleted meanwhile.
                outcomes |= without_error(outcomes, order.flow.name)
            abandon(self._spark)
            self._spark = self._restart()
        for outcome in outcomes.values():
            if outcome.error is not None:
                self.tell_failed(outcome.flow, outcome.error)
        return in_order(orders, outcomes)

    def _side_by_side(self, orders: Sequence[Order], *, keep_following: bool) -> list[tuple[Order, FlowOutcome]]:
        flows = [order for order in orders if isinstance(order, FlowOrder)]
        workers = [Worker(self, order, keep_following=keep_following) for order in flows]
        by_name = {order.flow.name: worker for order, worker in zip(flows, workers, strict=True)}
        for order, worker in zip(flows, workers, strict=True):
            worker.source = by_name.get(order.source.flow.name) if order.source is not None else None
        finders = [
            FamilyWorker(self, order, keep_following=keep_following)
            for order in orders
            if isinstance(order, FamilyOrder)
        ]
        for finder in finders:
            finder.source = by_name.get(finder.order.source.flow.name) if finder.order.source is not None else None
        for thread in (*workers, *finders):
            thread.start()
        for thread in (*workers, *finders):
            while thread.is_alive():
                thread.join(0.5)
        return [
            *((worker.order, worker.outcome) for worker in workers),
            *(each for finder in finders for each in finder.outcomes),
        ]

    def _smaller_ones(self, pending: Sequence[Order], failed: Sequence[Order]) -> list[Order]:
        """What goes on, with smaller batches; those of children are for the families that find them again."""
        self.smaller |= {each.flow.name: self._smaller(each) for each in failed if isinstance(each, FlowOrder)}
        return [self.smaller.get(order.flow.name, order) for order in pending]

    def _smaller(self, order: FlowOrder) -> FlowOrder:
        """The order with half as many offsets a batch, for a batch that did not fit into memory."""
        limit = max(1, max_offsets(order.flow) // 2)
        self.tell(
            FlowRestarted(order.flow.name, f"Spark's JVM ended; going on with at most {limit} offsets a batch", 0.0)
        )
        trigger = order.flow.trigger.model_copy(update={"max_offsets": limit, "min_offsets": None, "max_delay": None})
        return replace(order, flow=order.flow.model_copy(update={"trigger": trigger}))

    def carry(
        self, order: FlowOrder, listener: Listener, *, keep_following: bool, together: Together | None = None
    ) -> None:
        """One flow from its lease to its end, in the calling thread; restarts it where that may help.

        With ``together`` it carries its batches with those of others.
        """
        together = together or Together()
        delay_s, restarts = _FIRST_DELAY_S, 0
        files = files_for(order.places.lake, self._spark)
        check_fenced(self._spark, order.places)
        with (
            self._lease(files, order, listener) as lease,
            reading(self._spark, order, checked=together.checked) as (kafka, source),
        ):
            opened, together.checked = False, True
            while not self._stop.is_set():
                run, stood = None, None
                try:
                    run = self._open(order, kafka, source, lease, listener, waits=keep_following, together=together)
                    opened, stood = True, _entry(run)
                    self._follow_or_drain(order, run, keep_following=keep_following)
                except (OffsetsExpired, PartitionsFewer, TopicRecreated):
                    # Gone since the flow was opened. Where it may, the next opening records that and goes on.
                    if run is None or order.flow.on_data_loss != "record":
                        raise
                    continue
                except RivermouthError as error:
                    if not (keep_following and opened and isinstance(error, PASSING)):
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
                # What came further is well: only failures in a row make the pauses longer.
                together.leave(order.flow.name)
                delay_s = _FIRST_DELAY_S if _entry(run) != stood else delay_s
                self.failures.failed(order.flow.name, _as_ours(order, failure))
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
        self,
        order: FlowOrder,
        kafka: Topics,
        source: Records,
        lease: Lease,
        listener: Listener,
        *,
        waits: bool,
        together: Together,
    ) -> RunningFlow | None:
        """The flow, opened; None if it has no schema yet and nothing to store, or was told to stop while it waited.

        While it waits for records of which to infer its schema it outlasts what passes by itself, such as a broker
        that is away.
        """
        waiting, pause_s = False, _EMPTY_S
        while not self._stop.is_set():
            try:
                return self._opened(order, kafka, source.with_new_consumers(), lease, listener, together)
            except (SchemaEmpty, SchemaNotInferred, *PASSING) as error:
                is_early = isinstance(error, SchemaEmpty | SchemaNotInferred)
                if not waits and isinstance(error, SchemaEmpty) and (said := _nothing_to_store(order, error)):
                    listener(Warned(order.flow.name, said))
                    return None
                if not waits or not (waiting or is_early):
                    raise
                if not waiting:
                    listener(Warned(order.flow.name, f"{error.message.partition(';')[0]}; it waits for records"))
                # What is no document is read again each time.
                pause_s = _EMPTY_S if isinstance(error, SchemaEmpty) else min(2 * pause_s, _LONGEST_DELAY_S)
                waiting = True
                together.leave(order.flow.name)
                self._stop.wait(pause_s)
        return None

    def _opened(
        self,
        order: FlowOrder,
        kafka: Topics,
        source: Records,
        lease: Lease,
        listener: Listener,
        together: Together,
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
            together=together,
        )
        # Once a run: what it found decided already, it would decide anew of what was read meanwhile.
        self._decided.add(name)
        run.lease = lease
        together.expect([name])
        self._running[name] = run
        if self._stop.is_set():
            run.stopping.set()
        return run

    def _follow_or_drain(self, order: FlowOrder, run: RunningFlow | None, *, keep_following: bool) -> None:
        if run is None:
            return
        if not keep_following:
            withdraw(run)
            letters = LetterWatch(run)
            batches = drain(run)
            letters.look()
            if run.together is not None:
                run.together.leave(run.flow.name)
            retry.after_run(run)
            after_run(run, wrote=batches > 0)
            return

        began_at, letters = time.monotonic(), LetterWatch(run)

        def between() -> None:
            if time.monotonic() - began_at > _WELL_AFTER_S:
                self.failures.works(run.flow.name)
            self._between_batches(run)
            retry.between_batches(run)
            between_batches(run)
            letters.look_now_and_then()

        if order.flow.source is None:
            follow(run, between)
        else:
            follow_table(run, between)


def _as_ours(order: Order, error: Exception) -> RivermouthError:
    return error if isinstance(error, RivermouthError) else FlowBroken(flow=order.flow.name, detail=first_line(error))


def _nothing_to_store(order: FlowOrder, empty: SchemaEmpty) -> str | None:
    """What is said of a flow that has nothing to do yet; None where something is wanted of its table."""
    wanted = order.adoption or order.decision or order.rebuild
    return None if wanted else without_values(order.flow, empty)


def _entry(run: RunningFlow | None) -> int | None:
    """Number of the ledger entry at which the flow stands."""
    return None if run is None else run.standing.entry.number
