"""``rivermouth audit``: is every record in exactly one place?"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import click

from rivermouth.cli.attend import Interrupted, hooks, run_interruptible
from rivermouth.cli.options import with_flows, with_project
from rivermouth.cli.output import Output, count, plain
from rivermouth.cli.pipelines import SettingsChoice, has_flows, meant, with_settings
from rivermouth.errors import AuditFailed, PipelineAuditFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rivermouth.engine.audit.audit import FlowAudit
    from rivermouth.pipelines.audit import DatasetAudit


@click.command(short_help="Prove that each record is in exactly one place.")
@with_flows
@with_settings
@with_project
def audit(output: Output, flows: tuple[str, ...], file: str, settings: SettingsChoice) -> None:
    """Compare Kafka, the tables, their dead letters and their ledgers, record by record.

    Reads the topics once more, as a reader of committed records sees them, and looks for each record in the table and
    in the dead letters. Each must be in one of them, or erased, or among those that the ledger counted as dropped.
    Changes nothing, and may run while a flow follows. Exit code 1 if anything is lost, doubled or made up. Each flow
    is reported when it is done; after Ctrl-C the command says which flows were not audited.

    Of a pipeline: compares its tables, dead letters and archives of files with their ledgers, without Spark. A query
    may filter, join and aggregate, so its sources are not read again.
    """
    from rivermouth.pipelines.audit import audited as audited_tables
    from rivermouth.project.api import Project
    from rivermouth.project.commands.audit import audited

    pipelines, others = meant(file, flows, settings)
    reports = _Reports(output, [each.name for each in pipelines])
    try:
        if others or not pipelines or (not flows and has_flows(file, pipelines)):
            with hooks(output) as opened:
                run_interruptible(
                    lambda: audited(Project.load(file), others, opened, begin=reports.begin, done=reports.flow),
                    opened.stop,
                    output.note,
                )
        for each in pipelines:
            reports.pipeline(each.name, audited_tables(each))
    except BaseException as error:
        reports.cut_off(error)
        raise
    reports.end()


class _Reports:
    """What an audit says: as text each flow and pipeline when it is done, as JSON all in one document at the end.

    Args:
        output: How the command speaks.
        pipelines: Names of the pipelines, which come after the flows.
    """

    def __init__(self, output: Output, pipelines: Sequence[str]) -> None:
        self._output = output
        self._open = [*pipelines]
        self._flows: list[FlowAudit] = []
        self._pipelines: dict[str, Sequence[DatasetAudit]] = {}
        self._said = False
        # A flow may be done in one thread while another one hears Ctrl-C.
        self._lock = threading.Lock()
        self._is_cut_off = False

    def begin(self, flows: Sequence[str]) -> None:
        """Hears which flows will be audited."""
        self._open = [*flows, *self._open]

    def flow(self, found: FlowAudit) -> None:
        """Says what was found of a flow."""
        with self._lock:
            if not self._is_cut_off:
                self._flows.append(found)
                self._done(found.flow, audit_text(found))

    def pipeline(self, name: str, found: Sequence[DatasetAudit]) -> None:
        """Says what was found of the tables of a pipeline."""
        self._pipelines[name] = found
        self._done(name, pipeline_audit_text(name, found))

    def cut_off(self, error: BaseException) -> None:
        """Says what was not audited, where somebody ended the audit, or an error did and there was more to audit."""
        with self._lock:
            self._is_cut_off = True
        stopped = isinstance(error, KeyboardInterrupt | Interrupted)
        if stopped and self._output.json:
            self._output.result("", {**self._document(), "not_audited": self._open})
        if self._open and (stopped or len(self._open) > 1):
            self._output.note(f"not audited: {', '.join(self._open)}")

    def end(self) -> None:
        """Says the end.

        Raises:
            AuditFailed, PipelineAuditFailed: Something is not where it belongs.
        """
        if self._output.json:
            self._output.result("", self._document())
        if failed := [each.flow for each in self._flows if each.problems]:
            raise AuditFailed(flows=", ".join(failed), first=failed[0])
        if broken := [each.dataset for found in self._pipelines.values() for each in found if each.problems]:
            raise PipelineAuditFailed(datasets=", ".join(broken), first=broken[0])

    def _done(self, name: str, text: str) -> None:
        self._open.remove(name)
        if not self._output.json:
            self._output.result(f"\n{text}" if self._said else text, None)
        self._said = True

    def _document(self) -> dict[str, object]:
        tables = [{"pipeline": name, "datasets": plain(found)} for name, found in self._pipelines.items()]
        return {"flows": plain(self._flows)} | ({"pipelines": tables} if tables else {})


def pipeline_audit_text(pipeline: str, audits: Sequence[DatasetAudit]) -> str:
    """What was found of the tables of a pipeline, for a person."""
    wrong = sum(1 for each in audits if each.problems)
    audited = [each for each in audits if each.location]
    what = "tables and archives" if any(each.kind == "sink" for each in audited) else "tables"
    verdict = (
        f"{wrong} of {len(audited)} {what} do NOT have what their ledgers say" if wrong else _all_right(audits, what)
    )
    return "\n".join([f"pipeline {pipeline}: {verdict}", *(line for each in audits for line in _dataset(each))])


def _all_right(audits: Sequence[DatasetAudit], what: str) -> str:
    if not any(each.entries for each in audits):
        return "nothing to audit, no update has written a table yet"
    return f"its {what} have what their ledgers say"


def _dataset(audit: DatasetAudit) -> Iterator[str]:
    counts = audit.counts
    yield ""
    if not audit.location:
        yield f"{audit.dataset}: not audited, because {'; '.join(audit.not_compared)}"
        return
    verdict = "NOT what the ledger says" if audit.problems else "as the ledger says"
    if audit.kind == "sink" and audit.rows is None and not audit.problems:
        verdict = "the files of its manifests are there"
    yield f"{audit.dataset}: {verdict}"
    yield f"  {audit.kind.replace('_', ' ')}: {audit.location}"
    yield (
        f"  {count(audit.entries, 'ledger entry')}: {counts.read:,} read, {counts.written:,} written, "
        f"{counts.dropped:,} dropped, {counts.dead_lettered:,} dead-lettered"
    )
    letters = "" if audit.dead_letters is None else f", {count(audit.dead_letters, 'row')} in the dead letters"
    if audit.kind == "sink":
        yield (
            "  the archive's rows are not counted"
            if audit.rows is None
            else f"  the archive has {count(audit.rows, 'row')}"
        )
    else:
        rows = "rows are not counted" if audit.rows is None else count(audit.rows, "row")
        yield f"  the table has {rows}{letters}"
    yield from (f"  not compared: {each}" for each in audit.not_compared)
    yield from (f"  problem: {each}" for each in audit.problems)


def audit_text(audit: FlowAudit) -> str:
    """What was found, for a person."""
    from rivermouth.domain.ledger import (
        offset_ranges,
    )
    from rivermouth.domain.ledger.lost_state import lost_text

    if audit.entry is None:
        return f"{audit.flow}: nothing to audit, it has not run yet"
    if not audit.ranges:
        none = f"{audit.flow}: nothing to audit, {audit.place} and the ledger hold no whole batch in common"
        return "\n".join([none, *_sink(audit), *(f"  problem: {problem}" for problem in audit.problems)])
    found, counted = audit.found, audit.counted
    verdict = "every record is in exactly one place" if not audit.problems else "NOT every record is where it belongs"
    lines = [f"{audit.flow}: {verdict}", f"  table: {audit.table}"]
    lines.append(f"  audited: entries {audit.since + 1} to {audit.until}, {offset_ranges.text(audit.ranges)}")
    if audit.since:
        before = offset_ranges.text(audit.not_audited)
        told = f": {before}" if before else ""
        lines.append(f"  not audited, because Kafka no longer holds all of it: entries 0 to {audit.since}{told}")
    if audit.compacted:
        why = "compacted" if audit.place == "Kafka" else "erased from"
        lines.append(f"  {why}, so records may have gone from {audit.place} since: {', '.join(audit.compacted)}")
    erased = f"{found.erased:,} erased, " if found.erased else ""
    lines.append(
        f"  {count(found.visible, 'record')} in {audit.place}{_rows(audit)}: {found.in_table:,} in the table, "
        f"{found.in_dead_letters:,} in the dead letters, {erased}{found.in_neither:,} in neither "
        f"({counted.dropped:,} counted as dropped)"
    )
    lines.append(f"  {found.doubled:,} doubled, {found.not_in_kafka:,} in the tables that {audit.place} does not show")
    lines += _sink(audit)
    lines += [f"  problem: {problem}" for problem in audit.problems]
    if audit.state_lost is not None:
        entry, lost = audit.state_lost.entry, lost_text(audit.state_lost.lost)
        lines.append(f"  the flow's state was deleted, as found at ledger entry {entry}; not known any more: {lost}")
    if audit.examples:
        lines.append(f"  for example: {', '.join(audit.examples)}")
    return "\n".join(lines)


def _sink(audit: FlowAudit) -> Iterator[str]:
    """What was found of the topic or the archive of the flow's sink."""
    sink = audit.sink
    if sink is None:
        return
    if sink.type == "files":
        rows = "" if sink.rows is None else f", {count(sink.rows, 'row')} compared with the ledger"
        yield f"  archive {sink.place}: {count(sink.files, 'file')} in {count(sink.batches, 'manifest')}{rows}"
    elif sink.rows is not None:
        yield f"  topic {sink.place}: {count(sink.rows, 'record')} compared with the table"
    yield from (f"  not compared: {each}" for each in sink.not_compared)


def _rows(audit: FlowAudit) -> str:
    """How many rows that makes, where records are exploded."""
    found = audit.found
    rows = found.in_table + found.in_dead_letters + found.erased + found.in_neither
    return f", exploded into {count(rows, 'row')}" if audit.counted.exploded else ""
