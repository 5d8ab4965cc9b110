"""What was measured of pipelines, in words."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from bench.pipelines_group import batch_ms, commit_ms

Rows = list[tuple[str, ...]]


def text(found: dict[str, Any]) -> tuple[tuple[tuple[str, ...], Rows], ...]:
    """Heads and rows of the tables: commands and updates, a backlog, and commits."""
    updates = [
        (f"`{command}` of 30 datasets, cold", f"{median(runs, 'seconds'):.1f}", f"{median(runs, 'cpu_s'):.1f}", "-")
        for command, runs in found["cold"].items()
    ] + [
        (
            f"an update with nothing new, {kind} datasets, warm",
            f"{warm_s(each):.2f}",
            f"{each['cpu_s_each']:.2f}",
            str(max(each["jobs"])),
        )
        for kind, each in found["nothing_new"].items()
    ]
    names = {
        "two_flows": "two flows",
        "two_decoded": "a pipeline of two datasets, by `decode`",
        "two_datasets": "a pipeline of two datasets, by `from_json`",
        "two_streams": "two queries of plain PySpark",
    }
    backlog = [
        (names[each["contestant"]], f"{each['records']:,}", f"{rate(each):,.0f}", f"{cpu_us(each):.1f}")
        for each in found["backlog"]
    ]
    commits = [
        (name, f"{commit_ms(each):.0f}", f"{batch_ms(each):.0f}", f"{each['cpu_s_each']:.3f}")
        for name, each in found["commits"].items()
    ]
    return (
        (("", "seconds, median", "CPU seconds", "Spark jobs"), updates),
        (("a topic into a raw table and one of orders", "records", "rows/s, median", "CPU µs/row"), backlog),
        (("batches of 100 records", "commit, median ms", "batch, median ms", "CPU seconds a batch"), commits),
    )


def loads(found: dict[str, Any]) -> str:
    """How busy the machine was."""
    before, after = (", ".join(f"{load:.1f}" for load in found[name]) for name in ("load_before", "load_after"))
    return f"Load averages over 1, 5 and 15 minutes: {before} before this group, {after} after it."


def warm_s(each: dict[str, Any]) -> float:
    """Median seconds of updates with nothing new."""
    return statistics.median(each["seconds_each"])


def median(runs: Sequence[dict[str, float]], name: str) -> float:
    """Of a figure of several runs."""
    return statistics.median(run[name] for run in runs)


def rate(series: dict[str, Any]) -> float:
    """Median rows a second."""
    return float(series["records"] / median(series["runs"], "seconds"))


def cpu_us(series: dict[str, Any]) -> float:
    """Median CPU microseconds a record."""
    return float(1e6 * median(series["runs"], "cpu_s") / series["records"])
