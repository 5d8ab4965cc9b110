"""The reference pages of errors and events, of their classes."""

# ruff: noqa: SLF001 - it describes what it looks into

from __future__ import annotations

from string import Formatter

from rivermouth import errors
from rivermouth.cli import event_text, progress
from rivermouth.domain.delta import maintenance, merge_report
from rivermouth.domain.ledger import ledger
from rivermouth.engine import events
from tools.reference_markdown import FIELDS_HEAD, PROSE, fields_table, summary_of, table_row


def error_page() -> str:
    """The page of the errors."""
    parts = [
        "# Errors",
        PROSE["error_1"],
        PROSE["error_2"],
    ]
    for room in (
        errors.configuration,
        errors.lake,
        errors.ledger,
        errors.kafka,
        errors.running,
        errors.tables,
        errors.lookups,
        errors.pipelines,
        errors.pipeline_settings,
        errors.pipeline_sql,
        errors.pipeline_targets,
        errors.pipeline_sources,
        errors.testing,
        errors.environment,
    ):
        parts.append(f"## {(room.__doc__ or '').partition(':')[0]}")
        parts += [_error(value) for value in vars(room).values() if getattr(value, "__module__", "") == room.__name__]
    return "\n\n".join(parts)


def _error(cls: type[errors.RivermouthError]) -> str:
    lines = [f"[{cls.code}] {_template(cls.what)}"]
    if cls.hint:
        lines.append(f"  hint: {_template(cls.hint)}")
    return f"### {cls.code}: {cls.__name__}\n\n{summary_of(cls)}\n\n```text\n" + "\n".join(lines) + "\n```"


def _template(text: str) -> str:
    return "".join(
        literal + (f"<{field}>" if field is not None else "") for literal, field, _, _ in Formatter().parse(text)
    )


def event_page() -> str:
    """The page of the events."""
    parts = [
        "# Events",
        PROSE["event_1"],
        PROSE["event_2"],
    ]
    for cls, kind in event_text._KINDS.items():
        more = [table_row("`rows_per_s`", "number", "Records consumed a second.")] if cls is events.BatchDone else []
        parts.append(f"## `{kind}`\n\n{summary_of(cls)}\n\n" + "\n".join([fields_table(cls), *more]))
    finished = progress.summary_json([], stopped=False)["event"]
    rows = [
        table_row("`stopped`", "true or false", "Whether somebody ended the run before it was done."),
        table_row("`flows`", "list", "A flow each: `flow`, `counts`, `batches`, `duration_s`, `rows_per_s`, `error`."),
    ]
    parts.append("\n".join([f"## `{finished}`\n\nThe run has ended.\n", *FIELDS_HEAD, *rows]))
    parts.append(f"## Counts\n\n{summary_of(ledger.Counts)}\n\n{fields_table(ledger.Counts)}")
    parts.append(f"## Merge\n\n{summary_of(merge_report.MergeReport)}\n\n{fields_table(merge_report.MergeReport)}")
    more = [
        table_row("`saved_bytes`", "number", "How many bytes fewer are on storage; below 0 where there are more."),
        table_row("`saved_percent`", "number", "The same in per cent of what was on storage before."),
    ]
    report = "\n".join([fields_table(maintenance.MaintenanceReport), *more])
    parts.append(f"## Reports\n\n{summary_of(maintenance.MaintenanceReport)}\n\n{report}")
    more = [table_row("`average_file_bytes`", "number", "Of a data file.")]
    parts.append(
        f"## Figures\n\n{summary_of(maintenance.Figures)}\n\n" + "\n".join([fields_table(maintenance.Figures), *more])
    )
    parts.append(f"## Reasons\n\n{summary_of(events.StillFailing)}\n\n{fields_table(events.StillFailing)}")
    return "\n\n".join(parts)
