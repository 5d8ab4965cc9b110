"""What maintenance of tables came to, as people and programs read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivermouth.cli.output import count, plain
from rivermouth.cli.text_table import columns
from rivermouth.domain.delta.maintenance import percent
from rivermouth.domain.delta.table_files import bytes_text, spans_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rivermouth.domain.delta.maintenance import MaintenanceReport
    from rivermouth.domain.ledger.erasure import ForgetReport


def lost_text(report: MaintenanceReport) -> str:
    """Which versions VACUUM takes away."""
    if not report.unreadable:
        return f"{report.table}: every version that can be read stays so"
    return f"{report.table}: versions that become unreadable: {spans_text(report.unreadable)}"


def report_text(report: MaintenanceReport) -> str:
    """What a run of OPTIMIZE or VACUUM came to, in one line; more where nothing was done yet."""
    before, after = report.before, report.after
    if report.error is not None:
        return f"{report.table}: {report.operation} failed: {report.error}"
    stored = f"{bytes_text(before.stored_bytes)} on storage"
    if report.dry_run:
        freed = f"would free {bytes_text(report.saved_bytes)} of {stored}"
        return f"{lost_text(report)}\n{report.table}: {report.operation} {freed}"
    if report.operation == "vacuum":
        told = f"{stored} became {bytes_text(after.stored_bytes)}, {report.saved_percent:.1f} % saved"
    else:
        saved = percent(before.live_bytes - after.live_bytes, before.live_bytes)
        told = (
            f"{count(before.files, 'file')} of {bytes_text(before.average_file_bytes)} on average became "
            f"{after.files:,} of {bytes_text(after.average_file_bytes)}; {bytes_text(before.live_bytes)} became "
            f"{bytes_text(after.live_bytes)}, {saved:.1f} % saved"
        )
    return f"{report.table}: {report.operation}: {told}, in {report.duration_s:.1f} s"


def reports_text(reports: Sequence[MaintenanceReport]) -> str:
    """All runs in one table, with their sum, by bytes on storage."""
    if not reports:
        return "no tables"
    rows = [
        (each.table, each.before.stored_bytes, each.after.stored_bytes, each.saved_bytes, each.saved_percent)
        for each in reports
    ]
    return columns(("table", "bytes before", "bytes after", "saved", "%"), [*rows, ("sum", *_sum(reports))])


def reports_json(reports: Sequence[MaintenanceReport]) -> dict[str, Any]:
    """The same as an object of JSON."""
    names = ("stored_bytes_before", "stored_bytes_after", "saved_bytes", "saved_percent")
    return {
        "maintenance": [report_json(each) for each in reports],
        "sum": dict(zip(names, _sum(reports), strict=True)),
    }


def report_json(report: MaintenanceReport) -> dict[str, Any]:
    """One run as an object of JSON."""
    figures = {
        name: {**plain(each), "average_file_bytes": each.average_file_bytes}
        for name, each in (("before", report.before), ("after", report.after))
    }
    return {**plain(report), **figures, "saved_bytes": report.saved_bytes, "saved_percent": report.saved_percent}


def erasure_text(report: ForgetReport) -> str:
    """What an erasure came to, or would, with what is left to do."""
    went = f"{count(report.rows, 'row')} and {count(report.dead_letters, 'dead letter')}"
    if not report.found:
        lines = [f"{report.table}: nothing fits, so nothing was erased"]
    elif report.dry_run:
        lines = [f"{report.table}: {went} would be erased"]
        lines.append(f"  older versions, up to {report.last_version}, would hold them until VACUUM")
    else:
        lines = [f"{report.table}: {went} erased, ledger entry {report.entry}, request {report.mark}"]
        names = [report.table, *([f"{report.table}__dead_letters"] if report.dead_letters else [])]
        lines.append(f"  older versions, up to {report.last_version}, hold them until, from {report.vacuum_from} on:")
        lines.append(f"  rivermouth tables vacuum {' '.join(names)}")
    if report.in_part:
        others = f"{count(report.in_part, 'record')}, which {'has' if report.in_part == 1 else 'have'} others too"
        lines.append(f"  of {others}, only the changes of these rows are left out when read again")
    if report.shared:
        shared = f"{count(report.shared, 'Kafka key')} of theirs, which other rows have too"
        lines.append(f"  dead letters were not searched by {shared}; name them with --dead-letters")
    if report.unjudged:
        told = f"of {count(report.unjudged, 'dead letter')} that {'stays' if report.unjudged == 1 else 'stay'}"
        lines.append(f"  {told} no Kafka key says whose they are; choose with --dead-letters CONDITION, after:")
        lines.append(f"  rivermouth dead-letters show {report.flow}")
    return "\n".join(lines)


def _sum(reports: Sequence[MaintenanceReport]) -> tuple[int, int, int, float]:
    before = sum(each.before.stored_bytes for each in reports)
    after = sum(each.after.stored_bytes for each in reports)
    return before, after, before - after, percent(before - after, before)
