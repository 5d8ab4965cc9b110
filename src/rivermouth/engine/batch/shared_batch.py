"""Flows over one table that are at the same offsets share their batches: one Spark job, a commit each.

What is shared is the way from the source to files: read, decode, conform, check, route, write. The commit, with the
entry of its ledger, the counts, dead letters and all that is repaired later are each flow's own, and so a file that was
written for a flow which did not come to commit it is one that no version names.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch import microbatch
from rivermouth.engine.batch.pipeline import has_current_date, table_rows, transformed
from rivermouth.engine.events import BatchSkipped
from rivermouth.engine.table.flow_table import table_shape
from rivermouth.errors import CommitLost
from rivermouth.ports.internals.multi_table_write import PartedFiles, takes
from rivermouth.ports.internals.observed import ObservedEach
from rivermouth.ports.sources.table_source import TableSource
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns import number_keys
from rivermouth.sinks._target import Target
from rivermouth.sinks.append import Append

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.events import BatchDone
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.engine.flow.table_shape import TableShape
    from rivermouth.ports.delta.delta_table import Commit
    from rivermouth.spec import Flow

# So long a flow waits after the last one has come for those that have not.
_GATHER_S: Final = 10.0
_GATHER_FOLLOWING_S: Final = 1.0
# Number of flows that commit at the same time.
_COMMITS: Final = 8
# Number of files that a task has open at a time: with fewer, Spark sorts all rows by their table first.
_OPEN_FILES: Final = 64


@dataclass(frozen=True, slots=True)
class SharedBatchPart:
    """A flow's part of a shared batch.

    Attributes:
        files: Of all parts.
        number: Which of the parts is the flow's.
        seen: What was counted of the flow's records, as ``routing.counting`` names it.
    """

    files: PartedFiles
    number: int
    seen: Mapping[str, Any]


@dataclass(slots=True)
class _BatchRequest:
    """A batch of one flow, which waits for those of the others."""

    run: FlowRun
    ranges: Ranges
    kind: Flow
    part: SharedBatchPart | None = None
    taken: bool = False
    done: bool = False


@dataclass(slots=True)
class SharedBatch:
    """The flows of one family in one run. Any thread.

    Attributes:
        following: Whether they go on at their triggers, and so are at the same offsets by their clocks alone.
        resting: How many wait for the others.
        checked: Whether the condition on the rows of their source is known to be one.
    """

    following: bool = False
    resting: int = 0
    checked: bool = False
    _commits: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_COMMITS))
    _change: threading.Condition = field(default_factory=threading.Condition)
    _expected: set[str] = field(default_factory=set)
    _alone: set[str] = field(default_factory=set)
    _requests: dict[str, _BatchRequest] = field(default_factory=dict)
    _came_at: float = 0.0
    _shapes: list[tuple[Flow, TableShape]] = field(default_factory=list)

    def expect(self, flows: Iterable[str]) -> None:
        """These flows will bring their batches, or ``leave``; also those that wrote alone before."""
        coming = set(flows)
        with self._change:
            self._expected |= coming
            self._alone -= coming

    def leave(self, flow: str) -> None:
        """A flow that is waited for no more."""
        with self._change:
            self._expected.discard(flow)
            self._change.notify_all()

    def process(self, planned: Ranges, run: FlowRun) -> BatchDone | BatchSkipped:
        """Writes a batch of the flow, where that is possible with those of the others; see ``microbatch.process``.

        Guarantees:
            Those of ``microbatch.process``. Stopped half-way, there may be files that no version names.
        """
        part = self._part(run, planned)
        if part is None:
            return process_alone(planned, run)
        return _process_part(part, planned, run, self._commits)

    def _part(self, run: FlowRun, ranges: Ranges) -> SharedBatchPart | None:
        """The flow's part of the batch of all that write ``ranges`` now; None where it has to write them alone.

        Waits for the others. Whatever goes wrong with them together, each alone finds out what it was.
        """
        name = run.flow.name
        if name in self._alone or not _fits(run, ranges):
            self.leave(name)
            return None
        request = _BatchRequest(run, ranges, kind_of(run.flow))
        with self._change:
            self._requests[name] = request
            self._came_at = time.monotonic()
            self._change.notify_all()
            self.resting += 1
            try:
                mine = self._gathered(request)
            finally:
                self.resting -= 1
        if mine:
            self._write(mine)
        return request.part

    def _gathered(self, request: _BatchRequest) -> list[_BatchRequest]:
        """All requests, for the first flow that sees that no other is to come; for the others none, once it is done."""
        while not request.done:
            left_s = self._came_at + (_GATHER_FOLLOWING_S if self.following else _GATHER_S) - time.monotonic()
            all_here = self._expected <= self._requests.keys() or request.run.stopping.is_set()
            if not request.taken and (all_here or left_s <= 0):
                found = list(self._requests.values())
                self._requests.clear()
                for each in found:
                    each.taken = True
                return found
            self._change.wait(0.2 if not request.taken else None)
        return []

    def _write(self, requests: list[_BatchRequest]) -> None:
        try:
            for group in _groups(requests):
                if len(group) > 1 and not group[0].run.stopping.is_set():
                    _write_parts(group)
                    self._dismiss([each for each in group if each.part is None])
        finally:
            with self._change:
                for each in requests:
                    each.done = True
                self._change.notify_all()

    def _dismiss(self, requests: list[_BatchRequest]) -> None:
        """Lets flows that got no part write alone until they are opened again."""
        for each in requests:
            self._alone.add(each.run.flow.name)
            self.leave(each.run.flow.name)

    # --- what is the same for all of them is found once ---

    def shape(self, spark: SparkSession, flow: Flow) -> TableShape:
        """The columns of the flow's table, as ``table_shape`` gives or gave them for one of the same kind."""
        kind = kind_of(flow)
        for known, shape in list(self._shapes):
            if known == kind:
                return shape
        shape = table_shape(spark, flow)
        self._shapes.append((kind, shape))
        return shape


def kind_of(flow: Flow) -> Flow:
    """The flow without the settings in which the flows of a family differ."""
    table = flow.table.model_copy(update={"name": ""})
    bare = {"name": "", "source": None, "table": table, "previously": None, "starting_offsets": None}
    return flow.model_copy(update=bare)


def process_alone(planned: Ranges, run: FlowRun) -> BatchDone | BatchSkipped:
    """Writes a batch of one flow, read from its source; see ``microbatch.process``."""
    return microbatch.process(run.source.batch(run.spark, planned), planned, run)


def _process_part(
    part: SharedBatchPart, planned: Ranges, run: FlowRun, commits: threading.Semaphore
) -> BatchDone | BatchSkipped:
    """As ``microbatch.process``, whose steps read, transform and count were done for all parts, which are in files.

    Guarantees:
        Those of ``microbatch.process``, which writes the batch where the flow's table has other rows meanwhile.
    """
    started = time.monotonic()
    ranges, entry = microbatch.begin(planned, run)
    if entry is None:
        return BatchSkipped(run.flow.name, planned)
    commit = _added(part, run, entry, commits) if ranges == planned else None
    if commit is None:
        return process_alone(ranges, run)
    return microbatch.finish(ranges, entry, commit, part.seen, run, started)


def _added(part: SharedBatchPart, run: FlowRun, entry: Entry, commits: threading.Semaphore) -> Commit | None:
    """The commit that brought the flow's part and ``entry`` into its table; None, and nothing done, if it has moved.

    Raises:
        CommitLost: Another process committed an entry of this number first.

    Guarantees:
        Those of the flow's sink.
    """
    for step in ("read", "decode", "conform", "check", "route", "write"):
        run.reached(step)
    target = Target(run.ledger, run.table_id, run.position.version)
    with commits:
        if not (isinstance(run.sink, Append) and run.sink.add(part.files, part.number, run.spark, target, entry)):
            return None
    commit = run.ledger.commit_of(entry, target.version)
    if commit is None:
        raise CommitLost(flow=entry.flow, entry=entry.number, table=run.ledger.location)
    return commit


def _fits(run: FlowRun, ranges: Ranges) -> bool:
    """Whether a batch of the flow is read, transformed and written as those of others are."""
    entry = run.entry
    return (
        isinstance(run.source, TableSource)
        and isinstance(run.sink, Append)
        and run.flow.keyed is None
        and not run.flow.lookup
        and not (entry.epochs or run.watches(ranges) or has_current_date(run.flow))
        and run.erased.within(run.spark, entry, ranges) is None
    )


def _groups(requests: Sequence[_BatchRequest]) -> list[list[_BatchRequest]]:
    """Those that are alike in all but whose rows they are."""
    groups: list[list[_BatchRequest]] = []
    for request in requests:
        for group in groups:
            first = group[0]
            if (
                first.ranges == request.ranges
                and first.kind == request.kind
                and first.run.columns == request.run.columns
            ):
                group.append(request)
                break
        else:
            groups.append([request])
    return groups


def _write_parts(group: Sequence[_BatchRequest]) -> None:
    """Gives each of the group its part; none to any if that fails, and none to one whose table wants more."""
    run, ranges = group[0].run, group[0].ranges
    try:
        rows = TableSource.parted([each.run.source for each in group], run.spark, ranges, names.NUMBER)  # type: ignore[misc]
        rows = envelope.read(rows, beside=(names.NUMBER,))
        # Each task writes a file for each table.
        rows = rows.coalesce(run.spark.sparkContext.defaultParallelism)
        routed = transformed(rows, run, beside=(names.NUMBER,))
        aggregates = routing.counting(run.flow, routing.block_size(offset_ranges.size(ranges)))
        if any(each.run.entry.number == 0 for each in group):
            aggregates |= number_keys.counting(run.flow)
        observed = ObservedEach(routed, names.NUMBER, len(group), aggregates)
        passed = observed.rows.where(f"{names.ROUTE} = '{routing.TABLE}'")
        table = table_rows(passed, run, beside=(names.NUMBER,))
        shape = table.drop(names.NUMBER)
        fitting = [each for each in group if takes(shape, each.run.places.table, each.run.position.version)]
        if len(fitting) < len(group):
            if len(fitting) > 1:
                _write_parts(fitting)
            return
        run.spark.conf.set("spark.sql.maxConcurrentOutputFileWriters", str(_OPEN_FILES))
        files = PartedFiles(table, names.NUMBER, [each.run.places.table for each in group])
        found = [SharedBatchPart(files, number, observed.get(number)) for number in range(len(group))]
    except Exception as error:  # noqa: BLE001 - each of them meets it again, alone, and ends with it
        run.warn(f"the {len(group)} flows at the same offsets write apart: {type(error).__name__}")
        return
    for each, part in zip(group, found, strict=True):
        each.part = part
