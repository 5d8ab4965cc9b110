"""``rivermouth checkpoint``: the checkpoint compared with the ledger, without starting Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rivermouth.cli.options import with_project
from rivermouth.cli.output import Output, plain
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.report.checkpoints import CheckpointReport


@click.group()
def checkpoint() -> None:
    """Checkpoints: caches of what the tables' ledgers say."""


@checkpoint.command(short_help="Print a flow's checkpoint and its newest ledger entries.")
@click.argument("flow")
@with_project
def show(output: Output, flow: str, file: str) -> None:
    """Print a flow's checkpoint, the newest entries of its ledger, and what a restart would do.

    Changes nothing, and asks neither Spark nor Kafka: rivermouth status says what Kafka holds.
    """
    from rivermouth.project.api import Project
    from rivermouth.project.commands import status

    found = status.checkpoints(Project.load(file), flow)
    body = plain(found[0]) if [each.flow for each in found] == [flow] else {"checkpoints": plain(found)}
    output.result("\n\n".join(report_text(each) for each in found) or "no topic has a table yet", body)


def report_text(report: CheckpointReport) -> str:
    """The report, for a person."""
    detail = f": {report.detail}" if report.detail else ""
    lines = [f"{report.flow}: checkpoint {report.place}", f"  state: {report.state}{detail}"]
    if report.query_id is not None:
        lines.append(f"  query: {report.query_id}")
    known = report.next_offsets or {}
    places = sorted(
        {
            (t, p)
            for each in (known, report.committed, report.planned)
            for t, parts in (each or {}).items()
            for p in parts
        }
    )
    if places:
        rows = [
            (
                topic,
                str(partition),
                *(_at(each, topic, partition) for each in (report.committed, report.planned, known)),
            )
            for topic, partition in places
        ]
        head = ("topic", "partition", "committed", "planned", "ledger")
        lines.append(columns(head, rows, indent="    "))
    if report.ledger:
        lines.append("  newest ledger entries:")
        entries = [(str(each.entry), str(each.version), each.kind, _moved(each.ranges)) for each in report.ledger]
        lines.append(columns(("entry", "version", "kind", "offsets"), entries, indent="    "))
    if report.problem is not None:
        lines.append(f"  problem: [{report.problem.code}] {report.problem.message}")
        lines += [f"  hint: {report.problem.next_step}"] if report.problem.next_step else []
    else:
        lines.append(f"  a restart: {report.restart}")
    return "\n".join(lines)


def _at(offsets: dict[str, dict[int, int]] | None, topic: str, partition: int) -> int | None:
    return (offsets or {}).get(topic, {}).get(partition)


def _moved(ranges: Ranges) -> str:
    from rivermouth.domain.ledger.offset_ranges import text

    return text(ranges) or "none"
