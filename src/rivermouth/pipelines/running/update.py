"""An update of a pipeline: its datasets refreshed in the order in which they read each other, side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.query.query_entry import NO_COUNTS, QueryCounts
from rivermouth.engine.flow.failures import FailureNotes
from rivermouth.engine.query.query_events import (
    BatchWritten,
    FlowCompleted,
    FlowFailed,
    FlowRetried,
    FlowSkipped,
    FlowStarted,
    Note,
    QueryEvent,
    QueryWorks,
    SinkWritten,
    ViewDecided,
)
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.running.flow_retries import LONGEST_WAIT_S, interval, may_pass, retries, typed, wait_s
from rivermouth.pipelines.running.flows.refresh_node import Done, FlowHooks, refresh_node
from rivermouth.pipelines.running.flows.registered import register_dataset
from rivermouth.pipelines.running.known import UNSTARTED
from rivermouth.pipelines.running.pipeline import file_name
from rivermouth.ports.spark.session import has_ended

if TYPE_CHECKING:
    from rivermouth.engine.query.query_events import QueryListener
    from rivermouth.pipelines.graph import FlowNode, Node
    from rivermouth.pipelines.names import TableName
    from rivermouth.pipelines.running.load import Loaded

Result = Literal["completed", "failed", "skipped"]
_SIDE_BY_SIDE: Final = 4
_STOPPED: Final = "the update was stopped"


@dataclass(frozen=True, slots=True)
class DatasetOutcome:
    """What an update came to for one dataset or sink.

    Attributes:
        dataset: Its name.
        result: ``completed``, ``failed`` or ``skipped``.
        counts: Of all batches of all of its flows, also of those before a failure.
        seconds: How long it took.
        error: Why it failed.
        reason: Why it was skipped, or refreshed as it was.
        refresh: How a view was refreshed: ``nothing``, ``append``, ``groups`` or ``full``; empty of other datasets.
    """

    dataset: str
    result: Result
    counts: QueryCounts = NO_COUNTS
    seconds: float = 0.0
    error: RivermouthError | None = None
    reason: str = ""
    refresh: str = ""


class NewDecisions:
    """Hands the events of a flow that goes on to a listener, each decision to leave its view as it is once.

    Such a decision comes at each look at the tables of the view. It is told again when another one was between.

    Args:
        tell: The listener.
    """

    def __init__(self, tell: QueryListener) -> None:
        self._tell = tell
        self._last: ViewDecided | None = None

    def __call__(self, event: QueryEvent) -> None:
        """Hears an event."""
        if isinstance(event, ViewDecided):
            last, self._last = self._last, event
            if event.refresh == "nothing" and event == last:
                return
        self._tell(event)


class _Try:
    """One try of a flow: hands its events on, and knows which batches were written when it fails.

    Args:
        update: The update that the flow belongs to.
        tell: Gets the events.
    """

    def __init__(self, update: Update, tell: QueryListener) -> None:
        self._tell = tell
        self._began = time.monotonic()
        self.counts = NO_COUNTS
        self.has_written = False
        self.hooks = FlowHooks(self._hear, update.stopping, update.step)

    def is_well(self) -> bool:
        """Whether the flow worked before it failed: a batch was written, or nothing failed for a long time."""
        return self.has_written or time.monotonic() - self._began > LONGEST_WAIT_S

    def _hear(self, event: QueryEvent) -> None:
        if isinstance(event, BatchWritten | SinkWritten):
            self.counts += event.counts
            self.has_written = self.has_written or isinstance(event, BatchWritten) or event.counts.read > 0
        self._tell(event)


@dataclass
class Update:
    """One update at work.

    Attributes:
        loaded: The pipeline.
        listener: Gets the events, one at a time.
        stopping: Set when it shall end after the batches in hand.
        step: Called at each step of a batch, for tests of crashes.
    """

    loaded: Loaded
    listener: QueryListener
    stopping: threading.Event = field(default_factory=threading.Event)
    step: Callable[[str], None] = lambda _: None

    def __post_init__(self) -> None:
        self._told = threading.RLock()
        files = self.loaded.workspace.files_of_lake
        self._failures = FailureNotes(lambda: files, lambda flow, text: self.emit(Note("", flow, text)))
        self._failures.folder = self.loaded.pipeline.failures
        self._failures.works(UNSTARTED)

    def emit(self, event: QueryEvent) -> None:
        """Hands an event on."""
        with self._told:
            self.listener(event)
        if isinstance(event, BatchWritten | FlowCompleted | QueryWorks):
            self._failures.works(file_name(event.flow))

    def _failed(self, shown: str, flow: FlowNode, error: RivermouthError) -> None:
        self._failures.failed(file_name(flow.name), error)
        self.emit(FlowFailed(shown, flow.name, str(error), error.code, error))

    def run(self, chosen: Collection[TableName] | None = None) -> list[DatasetOutcome]:
        """Refreshes the datasets of these names, or all; each behind those that it reads.

        Returns:
            An outcome for each table and sink, in the order of the graph. One that failed did not stop others, but for
            those that read it.

        Raises:
            DefinitionInvalid: A value of a flow's settings does not fit. Nothing was refreshed.
        """
        nodes = [node for node in self.loaded.graph.nodes if node.kind != "view"]
        nodes = [node for node in nodes if chosen is None or node.name in chosen]
        self._check_settings(nodes)
        outcomes: dict[TableName, DatasetOutcome] = {}
        waiting, running = list(nodes), dict[Future[DatasetOutcome], "Node"]()
        names = {node.name for node in nodes}
        with ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="rivermouth-dataset") as pool:
            while waiting or running:
                for node in list(waiting):
                    before = self.loaded.graph.upstream(node) & names
                    if not before <= set(outcomes):
                        continue
                    waiting.remove(node)
                    if reason := self._keeps_from(before, outcomes):
                        outcomes[node.name] = self._skipped(node, reason)
                    else:
                        running[pool.submit(self._refresh, node)] = node
                if running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        outcomes[running.pop(future).name] = future.result()
        return [outcomes[node.name] for node in nodes]

    def follow(self, chosen: Collection[TableName] | None = None) -> list[DatasetOutcome]:
        """Goes on until it is stopped: each flow looks for rows at its interval, a view is computed when it can be new.

        Returns:
            An outcome for each table and sink, in the order of the graph.

        Raises:
            DefinitionInvalid: A value of a flow's settings does not fit. Nothing was refreshed.
        """
        nodes = [node for node in self.loaded.graph.nodes if node.kind != "view"]
        nodes = [node for node in nodes if chosen is None or node.name in chosen]
        flows = [(node, flow) for node in nodes for flow in node.flows]
        self._check_settings(nodes)
        self.loaded.resolver.forget_tables()  # what a query reads is written side by side with it
        outcomes: dict[TableName, DatasetOutcome] = {
            node.name: DatasetOutcome(self.loaded.graph.shown(node), "completed") for node in nodes
        }
        with ThreadPoolExecutor(max(1, len(flows)), thread_name_prefix="rivermouth-flow") as pool:
            done = {pool.submit(self._follow, node, flow): node for node, flow in flows}
            if any(each.exception() for each in as_completed(done)):
                self.stopping.set()
            for future, node in done.items():
                before, found = outcomes[node.name], future.result()
                counts = before.counts + found.counts
                outcomes[node.name] = replace(before if before.error is not None else found, counts=counts)
        return [outcomes[node.name] for node in nodes]

    def _check_settings(self, nodes: Iterable[Node]) -> None:
        for flow in (flow for node in nodes for flow in node.flows):
            retries(self.loaded, flow)
            interval(self.loaded, flow)

    def _follow(self, node: Node, flow: FlowNode) -> DatasetOutcome:
        started, shown, counts, failures = time.monotonic(), self.loaded.graph.shown(node), QueryCounts(), 0
        interval_s, error = interval(self.loaded, flow), None
        once = flow.once or flow.kind in ("refresh", "auto_cdc_from_snapshot")
        self.emit(FlowStarted(shown, flow.name))
        is_registered, tell = False, NewDecisions(self.emit)
        while not self.stopping.is_set():
            error, tried = None, _Try(self, tell)
            try:
                if not is_registered:
                    register_dataset(self.loaded, node)
                    is_registered = True
                done = refresh_node(self.loaded, node, flow, tried.hooks, interval_s=None if once else interval_s)
                counts, failures = counts + done.counts, 0
                self._failures.works(file_name(flow.name))
            except Exception as found:  # noqa: BLE001 - the other flows go on
                error, counts = typed(found, flow), counts + tried.counts
                if self._is_ended():
                    return self._skipped(node, _STOPPED, counts)
                failures = 1 if tried.is_well() else failures + 1
                if not self._may_pass(error):
                    self._failed(shown, flow, error)
                    break
                self._pause(shown, flow, error, failures)
            if flow.once and error is None:
                break
            if once and error is None:
                self.stopping.wait(interval_s)
        seconds = time.monotonic() - started
        if error is not None:
            return DatasetOutcome(shown, "failed", counts, seconds, error)
        self.emit(FlowCompleted(shown, flow.name, counts, 0, seconds))
        return DatasetOutcome(shown, "completed", counts, seconds)

    def _keeps_from(self, before: set[TableName], outcomes: dict[TableName, DatasetOutcome]) -> str:
        if self.stopping.is_set():
            return _STOPPED
        failed = [outcomes[name].dataset for name in before if outcomes[name].result != "completed"]
        return f"{failed[0]}, which it reads, was not refreshed" if failed else ""

    def _skipped(self, node: Node, reason: str, counts: QueryCounts = NO_COUNTS) -> DatasetOutcome:
        shown = self.loaded.graph.shown(node)
        self.emit(FlowSkipped(shown, node.flows[0].name if node.flows else shown, reason))
        return DatasetOutcome(shown, "skipped", counts, reason=reason)

    def _refresh(self, node: Node) -> DatasetOutcome:
        started, shown, counts, reason = time.monotonic(), self.loaded.graph.shown(node), QueryCounts(), ""
        kind, failure = "", None
        for flow in node.flows:
            begun = time.monotonic()
            self.emit(FlowStarted(shown, flow.name))
            done, error = self._tries(node, flow)
            counts += done.counts
            if done.counts.read or done.refresh not in ("", "nothing"):
                self._changed(node)
            if error is not None:
                self._failed(shown, flow, error)
                failure = failure or error
                continue
            if done.reason == _STOPPED:
                if failure is None:
                    return self._skipped(node, _STOPPED, counts)
                break
            reason, kind = done.reason, done.refresh
            self.emit(FlowCompleted(shown, flow.name, done.counts, done.late_rows, time.monotonic() - begun))
        seconds = time.monotonic() - started
        if failure is not None:
            return DatasetOutcome(shown, "failed", counts, seconds, failure)
        return DatasetOutcome(shown, "completed", counts, seconds, reason=reason, refresh=kind)

    def _tries(self, node: Node, flow: FlowNode) -> tuple[Done, RivermouthError | None]:
        """Runs a flow, and again as often as its settings say where the failure may pass.

        Returns:
            What all tries have done, and why the last one failed.
        """
        before, failures, most = NO_COUNTS, 0, retries(self.loaded, flow)
        while True:
            tried = _Try(self, self.emit)
            try:
                register_dataset(self.loaded, node)
                done = refresh_node(self.loaded, node, flow, tried.hooks)
                return replace(done, counts=before + done.counts), None
            except Exception as error:  # noqa: BLE001 - the other datasets are refreshed
                found, failures, before = typed(error, flow), failures + 1, before + tried.counts
                if self._is_ended():
                    return Done(before, reason=_STOPPED), None
                if failures > most or self.stopping.is_set() or not self._may_pass(found):
                    return Done(before), found
                self._pause(self.loaded.graph.shown(node), flow, found, failures)
                if self.stopping.is_set():
                    return Done(before), found

    def _is_ended(self) -> bool:
        """Whether a stop has ended Spark too: an error that this caused is no failure."""
        return self.stopping.is_set() and has_ended(self.loaded.workspace.session)

    def _may_pass(self, error: RivermouthError) -> bool:
        """Whether the flow is tried again. Without a JVM no flow is, so that the process ends and can be restarted."""
        return may_pass(error) and not has_ended(self.loaded.workspace.session)

    def _pause(self, shown: str, flow: FlowNode, error: RivermouthError, failures: int) -> None:
        """Waits before a flow is tried again, longer after each failure."""
        pause_s = wait_s(failures)
        self._failures.failed(file_name(flow.name), error)
        self.emit(FlowRetried(shown, flow.name, str(error), pause_s))
        self.stopping.wait(pause_s)

    def _changed(self, node: Node) -> None:
        """Queries that read a table are evaluated again once it has new rows, and so perhaps new columns."""
        graph = self.loaded.graph
        self.loaded.resolver.forget({each.name for each in graph.nodes if node.name in graph.upstream(each)})


def failed(outcomes: Sequence[DatasetOutcome]) -> list[DatasetOutcome]:
    """Those that failed."""
    return [each for each in outcomes if each.result == "failed"]
