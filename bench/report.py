"""What was measured, as tables: ratios first, each with its target."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench import pipelines_report, streams_report
from bench.groups import Series
from bench.results import Results, machine
from bench.targets import median_ms, targets

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def text(results: Results) -> str:
    """The whole report as Markdown."""
    parts = [_machine_text(), f"Command: `{results.command}`."]
    rows = [target.row() for target in targets(results)]
    if rows:
        parts += ["### Targets", _table(("figure", "found", "target", ""), rows)]
    for title, topics in (("Bronze", ("bronze",)), ("JSON", ("json", "json_bad"))):
        series = [each for each in results.backlogs if each.topic in topics]
        if series:
            parts += [f"### {title}", _backlog_table(series)]
    for title, found, told in (
        ("Formats", results.formats, _formats_text),
        ("Wide documents", results.wide, _wide_text),
        ("Inference", results.inference, _inference_text),
        ("One topic, many tables", results.routing, _routing_text),
        ("Little to do", results.small, _small_text),
        ("Upserts", results.upserts, _upserts_text),
        ("Pipelines", results.pipelines, _pipelines_text),
        ("Streams", results.streams, _streams_text),
        ("Memory", results.memory, _memory_text),
    ):
        if found:
            parts += [f"### {title}", told(found)]
    return "\n\n".join(parts) + "\n"


def write_docs(page: Path, results: Results) -> None:
    """Puts the report between the page's two marks; the rest of the page stays."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text(results)}\n{END}{after}")


_NAMES = {
    "limit": "the limit: one batch job to Parquet",
    "native_bronze": "plain native Delta sink",
    "rivermouth_bronze": "**rivermouth**",
    "usual": "the usual script",
    "usual_cached": "the usual script, batch cached",
    "native_json": "plain native Delta sink, checks nothing",
    "rivermouth_json": "**rivermouth**",
}


def _backlog_table(series: Sequence[Series]) -> str:
    ours = {each.topic: each.rate for each in series if each.contestant.startswith("rivermouth")}
    rows = []
    for each in sorted(series, key=lambda one: (one.topic, -one.rate)):
        slowest, fastest = each.spread
        rows.append(
            (
                _NAMES[each.contestant],
                f"{each.records:,}" + (" (1 % bad)" if each.topic == "json_bad" else ""),
                f"{each.rate:,.0f}",
                f"{slowest:,.0f} to {fastest:,.0f}",
                f"{ours[each.topic] / each.rate:.2f}" if each.topic in ours else "",
                f"{each.cpu_us:.1f}",
                f"{each.rss_gib:.1f}",
            )
        )
    heads = (
        "",
        "records",
        "rows/s, median",
        "slowest to fastest",
        "rivermouth is … times this",
        "CPU µs/row",
        "peak RSS, GiB",
    )
    return _table(heads, rows)


def _formats_text(series: Sequence[Series]) -> str:
    json_rate = next(each.rate for each in series if each.contestant == "rivermouth_json")
    rows = [
        (
            each.contestant.removeprefix("rivermouth_"),
            f"{each.records:,}",
            f"{each.rate:,.0f}",
            "{:,.0f} to {:,.0f}".format(*each.spread),
            f"{json_rate / each.rate:.2f}",
            f"{each.cpu_us:.1f}",
        )
        for each in series
    ]
    heads = ("", "records", "rows/s, median", "slowest to fastest", "seconds / those of JSON", "CPU µs/row")
    return _table(heads, rows)


def _wide_text(series: Sequence[Series]) -> str:
    names = {"rivermouth_wide_few": "10 of 500 fields declared", "rivermouth_wide_all": "all declared"}
    rows = [(names[each.contestant], f"{each.records:,}", f"{each.rate:,.0f}", f"{each.cpu_us:.1f}") for each in series]
    return _table(("", "documents", "rows/s, median", "CPU µs/row"), rows)


_INFERENCES = {
    "rivermouth_infer": "**rivermouth**, a sample",
    "rivermouth_infer_all": "**rivermouth**, `--all`",
    "usual_infer": "`spark.read.json` over an RDD of all values",
}


def _inference_text(series: Sequence[Series]) -> str:
    rows = [
        (
            _INFERENCES[each.contestant],
            f"{each.records:,}",
            f"{each.records / each.rate:.2f}",
            f"{each.cpu_us * each.records / 1e6:.2f}",
        )
        for each in series
    ]
    return _table(("", "records in the topic", "seconds, median", "CPU seconds"), rows)


_ROUTES = {
    "one_table": "into one table",
    "one_table_by_raw": "into a raw table, and from there into one",
    "many_tables": "into a raw table, and from there into 32",
}


def _routing_text(series: Sequence[Series]) -> str:
    one = {each.topic: each for each in series if each.contestant == "one_table"}
    rows = [
        (
            f"{_ROUTES[each.contestant]}{'' if each.topic == 'routing' else ', again'}",
            f"{each.records:,}",
            f"{each.records / each.rate:.1f}",
            "{1:.1f} to {0:.1f}".format(*(each.records / rate for rate in each.spread)),
            f"{one[each.topic].rate / each.rate:.2f}",
            f"{each.cpu_us:.1f}",
            f"{each.cpu_us / one[each.topic].cpu_us:.2f}",
        )
        for each in series
    ]
    heads = (
        "",
        "records",
        "seconds, median",
        "fastest to slowest",
        "times one table",
        "CPU µs/row",
        "times one table's CPU",
    )
    return _table(heads, rows)


def _small_text(small: dict[str, Any]) -> str:
    rows = []
    for name, what in (
        ("look", "a look without new offsets"),
        ("hundred_clean", "a batch of 100 records"),
        ("hundred_dead_letters", "a batch of 100 records, 2 of them dead letters"),
    ):
        values = sorted(small[name]["ms"])
        rows.append((what, f"{median_ms(small[name]):.0f}", f"{_ninetieth(values):.0f}", str(len(values))))
    parts = [
        _table(("whole trigger, warm", "median ms", "p90 ms", "triggers"), rows),
        _latency_text(small["latency"]),
        "Where the time of a batch of 100 goes (medians, ms; rivermouth's steps are inside Spark's `addBatch`):",
        _table(
            ("", "Spark's trigger", "rivermouth's steps"),
            [
                (what, _medians(small[name]["triggers"]), _medians(small[name]["steps"]))
                for name, what in (("hundred_clean", "clean"), ("hundred_dead_letters", "with dead letters"))
            ],
        ),
    ]
    return "\n\n".join(parts)


def _latency_text(latency: dict[str, Any]) -> str:
    return (
        "From produce to readable for delta-rs, 1,000 records/s, trigger of one second: "
        f"p50 {latency['p50_s']:.2f} s, p99 {latency['p99_s']:.2f} s, slowest {latency['max_s']:.2f} s, "
        f"over {latency['records']:,} records."
    )


def _upserts_text(upserts: dict[str, Any]) -> str:
    changed = upserts["batch"] * upserts["change_bytes"]
    rows = []
    for name, series in upserts["series"].items():
        seconds = series["batches_s"]
        tenth = max(1, len(seconds) // 5)
        slope = statistics.median(seconds[-tenth:]) / statistics.median(seconds[:tenth])
        amplified = statistics.median(series["bytes"]) / changed
        row = (name, str(len(seconds)), f"{statistics.median(seconds):.2f}", f"{slope:.2f}", f"{amplified:.1f}")
        rows.append((*row, _needed(series), _maintained(series)))
    heads = (
        "",
        "batches",
        "seconds a batch, median",
        "last fifth / first fifth",
        "bytes written / bytes changed",
        "memory a task at most, spilled",
        "maintenance between them",
    )
    read, load, many = upserts["read"], upserts["load"], upserts["many"]
    what = (
        f"A table of {upserts['rows']:,} rows (the small one has {upserts['small_rows']:,}), batches of "
        f"{upserts['batch']:,} different keys, among the newest hundredth or among all. Loading the table, by upserts "
        f"too, took {load['seconds']:.0f} s in {len(load['batches_s'])} batches by a driver with a heap of 2 GB: "
        f"{_needed(load)}, peak RSS of Python and JVM together {load['peak_rss_bytes'] / 2**30:.2f} GiB."
    )
    reading = (
        f"A query over the whole table takes {_before_and_after(read)} `OPTIMIZE`; over a table of {many['batches']} "
        f"appended batches of {many['rows']:,} records ({many['files']} files) {_before_and_after(many)} it."
    )
    return "\n\n".join((what, _table(heads, rows), reading))


def _needed(series: dict[str, Any]) -> str:
    if "task_peak_bytes" not in series:
        return "-"
    return f"{series['task_peak_bytes'] / 2**20:.0f} MiB, {series['spilled_bytes'] / 2**20:.0f} MiB"


def _maintained(series: dict[str, Any]) -> str:
    seconds = series.get("maintained_s")
    return f"{len(seconds)} of them, {sum(seconds):.1f} s" if seconds else "-"


def _before_and_after(read: dict[str, Any]) -> str:
    before, after = (statistics.median(read[name]) for name in ("before_s", "after_s"))
    return f"{before:.2f} s before and {after:.2f} s after"


def _pipelines_text(found: dict[str, Any]) -> str:
    tables = (_table(heads, rows) for heads, rows in pipelines_report.text(found))
    return "\n\n".join((*tables, pipelines_report.loads(found)))


def _streams_text(found: dict[str, Any]) -> str:
    tables = (_table(heads, rows) for heads, rows in streams_report.text(found))
    return "\n\n".join((*tables, streams_report.windows(found["windows"]), pipelines_report.loads(found)))


def _memory_text(memory: dict[str, Any]) -> str:
    answer = memory["answer"]
    return (
        f"A backlog of {answer['consumed']:,} JSON records, 1 % bad, drained in {memory['seconds']:.0f} s by a driver "
        f"with a heap of 2 GB, in {len(answer['batches_s'])} batches: {answer['written']:,} rows and "
        f"{answer['dead_lettered']:,} dead letters. "
        f"Peak RSS of Python and JVM together: {memory['rss_bytes'] / 2**30:.2f} GiB."
    )


def _medians(samples: Iterable[dict[str, float]]) -> str:
    samples = list(samples)
    names = dict.fromkeys(name for sample in samples for name in sample)
    medians = {name: statistics.median(sample.get(name, 0.0) for sample in samples) for name in names}
    return ", ".join(f"{name} {value:.0f}" for name, value in medians.items() if value >= 1)


def _ninetieth(values: Sequence[float]) -> float:
    return values[min(len(values) - 1, int(0.9 * len(values)))]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def _machine_text() -> str:
    found = machine()
    return (
        f"Machine: {found['cores']} cores ({found['cpu']}), {found['memory']}, Linux {found['kernel']}; "
        f"{found['java']}; Python {found['python']}, pyspark {found['pyspark']}, delta-spark {found['delta-spark']}, "
        f"broker {found['broker']} on the same machine."
    )
