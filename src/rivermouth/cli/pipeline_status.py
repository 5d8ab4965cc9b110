"""How pipelines are doing, for a person."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from rivermouth.cli.lag_text import lag_lines, partition_lines
from rivermouth.cli.text_table import columns

if TYPE_CHECKING:
    from rivermouth.domain.query.query_entry import QueryCounts
    from rivermouth.pipelines.status import DatasetStatus, ExpectationStatus, PipelineStatus

_SHOWN: Final = 4
"""Batches of an expectation in a line; JSON has more."""


def pipeline_text(status: PipelineStatus) -> str:
    """How a pipeline and its datasets are doing."""
    code = f"[{status.code}] " if status.code is not None else ""
    lines = [f"pipeline {status.pipeline}: {code}{status.message}"]
    hint = status.hint or ("" if status.failure is None else status.failure.hint)
    lines += [f"  hint: {hint}"] if hint else []
    lines += [f"  updated by {status.writer}"] if status.writer is not None else []
    for each in status.datasets:
        lines += ["", *_dataset(each)]
    return "\n".join(lines)


def _dataset(status: DatasetStatus) -> list[str]:
    from rivermouth.engine.report.status import failed_then

    code = f"[{status.code}] " if status.code is not None else ""
    lines = [f"{status.dataset}: {code}{status.message}"]
    hint = status.hint or next((each.hint for each in status.failures), "")
    lines += [f"  hint: {hint}"] if hint else []
    lines += [f"  {failed_then(each)}" for each in status.failures if status.code is not None]
    kind = status.kind.replace("_", " ")
    lines.append(f"  {kind}: {status.location}" if status.location else f"  {kind}")
    if status.finished_at is not None:
        ended = dt.datetime.fromtimestamp(status.finished_at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        lines.append(f"  last batch: done at {ended}")
    if status.last_batch is not None:
        lines += [f"    {_counts(status.last_batch)}", f"  so far: {_counts(status.totals)}"]
    lines += [*lag_lines(status.lag, status.furthest_behind), *partition_lines(status.partitions)]
    if status.expectations:
        head = ("expectation", "action", "failed in the last batches", "failed so far")
        rows = [
            (
                f"{each.view}: {each.name}" if each.view else each.name,
                each.action,
                _last_batches(each),
                f"{each.failed:,} of {each.read:,}",
            )
            for each in status.expectations
        ]
        lines.append(columns(head, rows, indent="    "))
    return lines


def _last_batches(expectation: ExpectationStatus) -> str:
    """The newest first."""
    pairs = [(each.failed, each.read) for each in expectation.batches[:_SHOWN]]
    return ", ".join(f"{failed:,} of {read:,}" for failed, read in pairs) or "-"


def _counts(counts: QueryCounts) -> str:
    late = f", {counts.late:,} dropped as late" if counts.late else ""
    return (
        f"{counts.read:,} read, {counts.written:,} written, {counts.dropped:,} dropped, "
        f"{counts.dead_lettered:,} dead-lettered{late}"
    )
