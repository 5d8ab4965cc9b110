"""The group of pipelines: the time of ``plan`` and of an update with nothing new, and pipelines compared with flows."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import records
from bench.groups import Bench, Series, WrongRows
from bench.parent import Worker, remove, rows_in
from bench.pipeline_files import write

_FEW = 500
_WARM = ("two", "thirty")
_CONTESTANTS = ("two_flows", "two_decoded", "two_datasets", "two_streams")
_PIPELINES = ("two_decoded", "two_datasets")
_TURNS = 2


def pipelines(bench: Bench) -> dict[str, Any]:
    """Cold commands, warm updates with nothing new, two datasets and two flows, commits of a pipeline and of a flow."""
    found: dict[str, Any] = {"load_before": list(os.getloadavg()), "cold": {}, "nothing_new": {}}
    with ExitStack() as stack:
        worker = bench.worker("rivermouth_json", stack)
        records.fill(bench.servers, "pipeline_few", _FEW)
        folders = {kind: bench.folder / f"pipeline-{kind}" for kind in _WARM}
        for kind, folder in folders.items():
            write(folder, kind, bench.servers, "pipeline_few")
        found["cold"]["plan"] = _cold(bench, "plan", folders["thirty"])
        for kind, folder in folders.items():
            found["nothing_new"][kind] = _nothing_new(bench, worker, kind, folder)
        found["cold"]["run"] = _cold(bench, "run", folders["thirty"])
        found["backlog"] = [each.to_json() for each in _backlog(bench, worker)]
        found["commits"] = _commits(bench, worker)
        for folder in folders.values():
            remove(folder)
    found["load_after"] = list(os.getloadavg())
    return found


def _cold(bench: Bench, command: str, folder: Path) -> list[dict[str, float]]:
    """Seconds and CPU seconds of a command of the shell in a process of its own."""
    runs = []
    for _ in range(bench.sizes.repetitions):
        started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "rivermouth", command], cwd=folder, capture_output=True, text=True, check=False
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            message = f"rivermouth {command}: {done.stderr}"
            raise RuntimeError(message)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        runs.append({"seconds": time.monotonic() - started, "cpu_s": cpu_s})
        bench.say(f"  {command} of 30 datasets, cold: {runs[-1]['seconds']:.1f} s, {cpu_s:.1f} CPU-s")
    return runs


def _nothing_new(bench: Bench, worker: Worker, kind: str, folder: Path) -> dict[str, Any]:
    """Updates that find nothing, after one that writes what there is."""
    worker.run("update", str(folder))
    times = bench.sizes.pipeline_updates
    worker.run("update", str(folder), times=max(1, times // 2))
    measured, _ = worker.run("update", str(folder), times=times)
    if measured.answer["written"]:
        message = f"{kind}: {measured.answer['written']} rows were written where nothing was new"
        raise WrongRows(message)
    median_s = statistics.median(measured.answer["seconds_each"])
    bench.say(f"  nothing new, {kind} datasets: {median_s:.2f} s, {measured.cpu_s / times:.2f} CPU-s")
    return measured.answer | {"cpu_s_each": measured.cpu_s / times}


def _backlog(bench: Bench, worker: Worker) -> list[Series]:
    """A topic through a raw table into one of orders, as flows and as a pipeline, in turns."""
    sizes, found = bench.sizes, [Series(name, "pipeline_backlog", bench.sizes.json) for name in _CONTESTANTS]
    if sizes.warm_up:
        bench.fill("pipeline_warm_up", sizes.warm_up // 4)
        for name in _CONTESTANTS:
            _, folder = worker.run(name, "pipeline_warm_up")
            remove(folder)
    bench.fill("pipeline_backlog", sizes.json)
    for repetition in range(sizes.repetitions):
        for series in found[:: -1 if repetition % 2 else 1]:
            measured, folder = worker.run(series.contestant, series.topic)
            series.runs.append(measured)
            lake = folder / "lake/main" if series.contestant in _PIPELINES else folder / "main"
            rows = rows_in(lake / "raw"), rows_in(lake / "orders")
            if rows != (series.records, series.records):
                message = f"{series.contestant}: {rows} rows in its tables, {series.records} were expected"
                raise WrongRows(message)
            remove(folder)
            rate = series.records / measured.seconds
            bench.say(f"  {series.contestant}: {rate:,.0f} rows/s, {1e6 * measured.cpu_s / series.records:.2f} CPU-µs")
    return found


def _commits(bench: Bench, worker: Worker) -> dict[str, Any]:
    """Batches of 100 records of a flow and of a pipeline's query, in turns: their steps, and CPU a batch."""
    sizes, found = bench.sizes, {}
    for turn in range(_TURNS if sizes.own_processes else 1):
        for name in ("flow", "query"):
            topic = f"pipeline_hundreds_{name}_{turn}"
            records.create(bench.servers, topic)
            asked = {"batches": sizes.hundreds, "warm_up": sizes.hundreds_warm_up if turn == 0 else 5}
            if name == "flow":
                measured, folder = worker.run("hundreds", topic, bad_every=0, **asked)
                batches = measured.answer["consumed"] // 100
            else:
                folder = bench.folder / topic
                write(folder, "one", bench.servers, topic)
                measured, _ = worker.run("query_hundreds", topic, pipeline=str(folder), **asked)
                batches = measured.answer["read"] // 100
            remove(folder)
            found[name] = {"steps": measured.answer["steps"], "cpu_s_each": measured.cpu_s / batches}
            bench.say(
                f"  batches of 100, {name}: commit {commit_ms(found[name]):.0f} ms of {batch_ms(found[name]):.0f} ms, "
                f"{found[name]['cpu_s_each']:.3f} CPU-s"
            )
    return found


def commit_ms(series: dict[str, Any]) -> float:
    """Median milliseconds from the step before a table's commit to the one after it."""
    return statistics.median(each["write"] for each in series["steps"])


def batch_ms(series: dict[str, Any]) -> float:
    """Median milliseconds of all steps of a batch together."""
    return statistics.median(sum(each.values()) for each in series["steps"])
