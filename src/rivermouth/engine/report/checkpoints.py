"""What lies at a flow's checkpoint and in its ledger, and what a start would make of it; found without Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.ledger.ledger import EARLIEST, beginnings
from rivermouth.errors import CheckpointForeign, RivermouthError
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.lake.checkpoint import Checkpoint, Checkpoints
from rivermouth.ports.lake.lake_reader import LakeReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow

ENTRIES: Final = 5


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One ledger entry in short.

    Attributes:
        entry: Its number.
        version: The table's version whose commit holds it.
        kind: What the commit was.
        ranges: The offsets that it moved over, as far as the entry before it is in the log.
    """

    entry: int
    version: int
    kind: str
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """A flow's checkpoint, compared with its ledger.

    Attributes:
        flow: The flow.
        place: Where the checkpoint lies.
        state: none, usable, damaged or foreign.
        detail: What is damaged, or whose it is.
        query_id: Spark's id of the query; None where there is none.
        committed: End offsets of the last batch that Spark calls done.
        planned: End offsets of the batch after it, if one was planned.
        ranges: What that batch would read.
        next_offsets: The next offsets of the ledger; None where it cannot be read.
        ledger: The ledger's newest entries, the newest first.
        restart: What the next start would do, in one sentence.
        problem: Why it would not start; None if it would, as far as that is known without Kafka.
    """

    flow: str
    place: str
    state: Literal["none", "usable", "damaged", "foreign"] = "none"
    detail: str = ""
    query_id: str | None = None
    committed: Offsets | None = None
    planned: Offsets | None = None
    ranges: Ranges = field(default_factory=dict)
    next_offsets: Offsets | None = None
    ledger: tuple[LedgerLine, ...] = ()
    restart: str = ""
    problem: RivermouthError | None = None


def checkpoint_report(
    flow: Flow, places: FlowPlaces, *, spark_conf: Mapping[str, str] | None = None, timeout_s: float = 1.0
) -> CheckpointReport:
    """What lies at the flow's checkpoint, and what a start would make of it; changes nothing.

    Args:
        flow: The flow.
        places: Where its things lie.
        spark_conf: The project's Spark options, resolved; for the credentials of a lake in an object store.
        timeout_s: Bound on each answer of the lake.

    Raises:
        LakeNotReadable: The lake does not answer.
    """
    files = LakeReader(spark_conf or {}, timeout_s=timeout_s)
    report, found = _with_checkpoint(CheckpointReport(flow.name, places.checkpoint), flow, places, files)
    report, entry = _with_ledger(report, flow, places, files)
    difference = None
    if found is not None and entry is not None:
        difference = found.difference(entry, _wanted(flow, entry.next_offsets))
    if flow.source is not None and report.problem is None:
        return replace(report, restart="a flow over a table makes no query: the ledger says where to go on")
    return replace(report, restart=_restart(report, difference))


def _wanted(flow: Flow, known: Offsets) -> Offsets:
    """What a start would read and from where, as far as the ledger and the flow say it: Kafka is not asked."""
    if flow.topic_pattern:
        whole = re.compile(flow.topic_pattern)
        return {topic: parts for topic, parts in known.items() if whole.fullmatch(topic)}
    # Of a topic that the ledger does not know it is not known either which partitions it has.
    named = {topic: known.get(topic, {0: EARLIEST}) for topic in flow.topics}
    return beginnings(known, flow.assign or named)


def _with_checkpoint(
    report: CheckpointReport, flow: Flow, places: FlowPlaces, files: LakeFiles
) -> tuple[CheckpointReport, Checkpoint | None]:
    checkpoints = Checkpoints(files, places.checkpoint)
    try:
        found = checkpoints.inspect(flow.name, delta_table.table_id(files, places.table), previously=flow.previously)
    except CheckpointForeign as error:
        return replace(report, state="foreign", detail=error.message, problem=error), None
    report = replace(
        report,
        state=found.state,
        detail=found.detail,
        query_id=checkpoints.query_id(),
        committed=found.committed,
        planned=found.planned,
        ranges=_between(found.committed, found.planned),
    )
    return report, found


def _with_ledger(
    report: CheckpointReport, flow: Flow, places: FlowPlaces, files: LakeFiles
) -> tuple[CheckpointReport, Entry | None]:
    if not delta_table.exists(files, places.table):
        return report, None
    entry = None
    ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    try:
        entry = ledger.position().entry
        report = replace(report, next_offsets=entry.next_offsets)
    except RivermouthError as error:
        report = replace(report, problem=report.problem or error)
    found = ledger.newest(ENTRIES + 1)
    before = [position.entry.next_offsets for position in found[1:]]
    lines = [
        LedgerLine(
            each.entry.number,
            each.version,
            each.entry.kind,
            _between(before[index] if index < len(before) else None, each.entry.next_offsets),
        )
        for index, each in enumerate(found[:ENTRIES])
    ]
    return replace(report, ledger=tuple(lines)), entry


def _between(start: Offsets | None, end: Offsets | None) -> Ranges:
    """The ranges that lie between two vectors, backwards ones too."""
    moved: Ranges = {}
    for topic, parts in (end or {}).items():
        for partition, last in parts.items():
            first = (start or {}).get(topic, {}).get(partition)
            if first is not None and first != last:
                moved.setdefault(topic, {})[partition] = (first, last)
    return moved


def _restart(report: CheckpointReport, difference: str | None) -> str:
    if report.problem is not None:
        return f"nothing would start: {report.problem.message}"
    if report.next_offsets is None:
        return "the table is made and read from starting_offsets"
    if report.state == "usable" and difference is None:
        return "run --follow goes on with this query; run reads from the ledger's offsets"
    if report.state == "none":
        return "run --follow begins a query at the ledger's offsets, where run reads from too"
    why = report.detail if report.state == "damaged" else difference
    fate = "is moved aside" if report.state == "damaged" else "is replaced"
    return f"with run --follow the checkpoint {fate} ({why}); the ledger says where to go on"
