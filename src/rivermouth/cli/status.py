"""``rivermouth status``: how flows and pipelines are doing, without starting Spark."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from rivermouth.cli.lag_text import lag_lines, partition_lines
from rivermouth.cli.options import WholeNumber, with_flows, with_project
from rivermouth.cli.output import Output, count, plain
from rivermouth.cli.pipeline_status import pipeline_text
from rivermouth.cli.pipelines import SettingsChoice, has_flows, meant, with_settings
from rivermouth.cli.undeclared import undeclared_text
from rivermouth.domain.delta.table_files import bytes_text
from rivermouth.domain.ledger import decisions
from rivermouth.domain.ledger.ledger import MANY_DEAD_LETTERS
from rivermouth.domain.ledger.lost_state import lost_text

if TYPE_CHECKING:
    from rivermouth.domain.delta.merge_report import MergeReport
    from rivermouth.domain.ledger.ledger import Decision
    from rivermouth.engine.report.flow_status import FlowStatus
    from rivermouth.project.commands.checks.health import BrokenRule


@click.command(short_help="Say how flows and pipelines are doing.")
@with_flows
@with_settings
@click.option("--check", is_flag=True, help="Also fail if a flow's last run failed, or a rule below is not kept.")
@click.option(
    "--max-lag", type=WholeNumber(min=0), metavar="N", help="Rule: a flow or table has at most N offsets to read."
)
@click.option(
    "--max-dead-letters", metavar="N|N%", help="Rule: at most N records or rows, or N% of all, are dead letters."
)
@click.option(
    "--max-age",
    metavar="DURATION",
    help="Rule: while records wait for a flow or table, its last batch is not older than this, for example 10m.",
)
@with_project
def status(
    output: Output,
    flows: tuple[str, ...],
    file: str,
    *,
    check: bool,
    max_lag: int | None,
    max_dead_letters: str | None,
    max_age: str | None,
    settings: SettingsChoice,
) -> int:
    """Say how the flows are doing: offsets, lag, rates, the last batch, dead letters, the last failure.

    Of a pipeline: for each table the last batch, rows, dead letters, expectations, the lag of what it reads from
    Kafka, and the last failure.

    Reads the tables' ledgers and asks the broker, for a second or two; a broker that does not answer is named, and
    the rest is printed.

    Exits 1 if something is wrong now: a broker, a topic or a table that is not as it must be. With --check, or one of
    the rules, also if the last run of a flow or a table failed, or a rule is not kept.
    """
    from rivermouth.pipelines import status as of_pipelines
    from rivermouth.project.api import Project
    from rivermouth.project.commands import status as overview
    from rivermouth.project.commands.checks.health import HealthRules, broken_rules

    rules = HealthRules.of(max_lag=max_lag, max_dead_letters=max_dead_letters, max_age=max_age)
    pipelines, others = meant(file, flows, settings)
    with_flows_too = others or not pipelines or (not flows and has_flows(file, pipelines))
    found = overview.status(Project.load(file), others) if with_flows_too else []
    of_tables = [of_pipelines.status(each) for each in pipelines]
    speaks = [Output().of("" if each.is_alone else each.name) for each in pipelines]
    texts = [status_text(each) for each in found]
    texts += [told.hinted(pipeline_text(each)) for told, each in zip(speaks, of_tables, strict=True)]
    body = {"flows": plain(found)}
    if pipelines:
        body["pipelines"] = [told.hinted_json(plain(each)) for told, each in zip(speaks, of_tables, strict=True)]
    wrong = any(each.code is not None for each in found) or any(each.is_wrong for each in of_tables)
    if check or rules != HealthRules():
        broken = [*broken_rules(found, rules), *of_pipelines.broken_rules(of_tables, rules)]
        body["check"] = {"passed": not broken, "broken": plain(broken)}
        texts.append(check_text(broken))
        wrong = bool(broken)
    output.result(output.hinted("\n\n".join(texts)), body)
    return int(wrong)


def _many_dead_letters(status: FlowStatus) -> list[str]:
    rows = status.totals.consumed + status.totals.exploded
    if status.dead_letters <= MANY_DEAD_LETTERS * rows:
        return []
    told = f"{status.dead_letters:,} of {count(rows, 'record')} are dead letters"
    return [f"  warning: {told}; to see them: rivermouth dead-letters show {status.flow}"]


def check_text(broken: Sequence[BrokenRule]) -> str:
    """Which rules are not kept, for a person."""
    if not broken:
        return "check: passed"
    return "\n".join(["check: failed", *(f"  {each.flow}: {each.rule}: {each.detail}" for each in broken)])


def status_text(status: FlowStatus) -> str:
    """How one flow is doing, for a person."""
    from rivermouth.engine.report.status import failed_then

    lines = [f"{status.flow}: {status.message}", f"  table: {status.table}"]
    if status.code is not None:
        lines[0] = f"{status.flow}: [{status.code}] {status.message}"
        lines += [f"  hint: {status.hint}"] if status.hint else []
    if status.failure is not None:
        lines += [f"  {failed_then(status.failure)}"] if status.code is not None else []
        lines += [f"  hint: {status.failure.hint}"] if status.code is None and status.failure.hint else []
    lines += [f"  warning: {warning}" for warning in status.warnings]
    if (lost := status.state_lost) is not None:
        at = lost.at.replace("T", " ").removesuffix("+00:00")
        lines.append(f"  lost with deleted state at {at} UTC, ledger entry {lost.entry}: {lost_text(lost.lost)}")
    if status.writer is not None:
        lines.append(f"  written by {status.writer}")
    if status.entry is not None:
        lines += _batches(status)
    lines += lag_lines(status.lag, status.furthest_behind)
    lines.append(f"  rates: {_rate(status.input_rate)} come in, {_rate(status.processing_rate)} in the last batch")
    lines += partition_lines(status.partitions)
    return "\n".join(lines)


def _batches(status: FlowStatus) -> list[str]:
    from rivermouth.cli.event_text import dropped_text

    totals = status.totals
    lines = []
    if status.batch_duration_s is not None and status.finished_at is not None:
        ended = dt.datetime.fromtimestamp(status.finished_at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append(
            f"  last batch: entry {status.entry}, took {status.batch_duration_s:g} s, done at {ended} "
            f"(trigger: every {status.trigger_s:g} s)"
        )
    if status.last_batch is not None:
        last = status.last_batch
        lines.append(
            f"    {last.consumed:,} consumed, {last.written + last.merged:,} written, {last.dropped:,} dropped, "
            f"{last.dead_lettered:,} dead-lettered"
        )
    elif status.pending:
        until = "the next start" if status.writer is None else "its writer has completed it"
        lines.append(f"    its counts are pending until {until}")
    if status.merge is not None:
        lines += [f"    merge: {merge_text(status.merge)}", f"    {merge_reason(status.merge)}"]
    lines.append(
        f"  so far: {totals.consumed:,} consumed, {totals.written + totals.merged:,} written, "
        f"{dropped_text(totals.dropped, status.dropped_by)}, {status.dead_letters:,} dead-lettered"
    )
    lines += _many_dead_letters(status)
    if text := undeclared_text(status.flow, totals, status.undeclared_names):
        lines.append(f"  {text}")
    if status.lookups:
        versions = (f"{table} at version {version}" for table, version in status.lookups.items())
        lines.append(f"  looked up in {', '.join(versions)}")
    if status.lost:
        lines.append(f"  lost: {count(status.lost, 'offset')}")
    if status.totals.erased:
        lines.append(f"  erased: {count(status.totals.erased, 'record')}")
    if status.decisions:
        lines.append(f"  {count(len(status.decisions), 'decision')} in the ledger:")
        lines += [f"    {decision_text(decision)}" for decision in status.decisions]
    return lines


def merge_text(merge: MergeReport) -> str:
    """What became of the table's rows and files, for a person."""
    rows = [(merge.inserted, "inserted"), (merge.updated, "updated"), (merge.deleted, "deleted")]
    rows += [(merge.copied, "copied as they were")] if merge.copied else []
    files = [f"{count(merge.files_added, 'file')} ({bytes_text(merge.bytes_added)}) written"]
    if merge.files_removed:
        files.append(f"{count(merge.files_removed, 'file')} ({bytes_text(merge.bytes_removed)}) removed")
    files += [f"rows marked as gone in {count(merge.vectors, 'file')}"] if merge.vectors else []
    return "; ".join((", ".join(f"{number:,} {what}" for number, what in rows), ", ".join(files)))


def merge_reason(merge: MergeReport) -> str:
    """How it was done and why, and what it took, for a person."""
    parts = [f"{merge.join}, for {merge.reason}"]
    if merge.files_read is not None:
        size = f" ({bytes_text(merge.bytes_read or 0)})" if merge.files_read else ""
        parts.append(f"{merge.files_read:,} of {count(merge.all_files or 0, 'file')}{size} read, once")
    by = ", ".join(merge.skipped_by)
    each = "each value of " if merge.skipped_by_each else ""
    parts.append(f"files skipped by {each}{by}" if by else "no files skipped")
    if merge.task_peak_bytes is not None and merge.spilled_bytes is not None:
        spilled = f"{bytes_text(merge.spilled_bytes)} spilled to disk" if merge.spilled_bytes else "nothing spilled"
        parts.append(f"at most {bytes_text(merge.task_peak_bytes)} of memory a task, {spilled}")
    return "; ".join(parts)


def decision_text(decision: Decision) -> str:
    """One decision, for a person."""
    return f"entry {decision.entry}, {decision.at}, {decision.who}: {decisions.text(decision)} ({decision.why})"


def _rate(rows_per_s: float | None) -> str:
    return "unknown" if rows_per_s is None else f"{rows_per_s:,.1f} rows/s"
