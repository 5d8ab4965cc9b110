"""The group of routing: the same topic into one table and into 32, in turns, by one warm process."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench import records
from bench.groups import Bench, Series, WrongRows
from bench.parent import Worker, remove, rows_in

_NAMES = ("one_table", "one_table_by_raw", "many_tables")


def routing(bench: Bench) -> list[Series]:
    """Into one table, into a raw one and from there into one, and from there into 32."""
    count, warm_up = bench.sizes.json, bench.sizes.warm_up // 4
    found = [Series(name, "routing", count) for name in _NAMES]
    with ExitStack() as stack:
        worker = bench.worker("rivermouth_json", stack)
        if warm_up:
            _fill(bench, "routing_warm_up", warm_up)
            for name in _NAMES:
                _, folder = worker.run(name, "routing_warm_up")
                remove(folder)
        _fill(bench, "routing", count)
        for repetition in range(bench.sizes.repetitions):
            for series in found[:: -1 if repetition % 2 else 1]:
                _timed(bench, worker, series)
    return found


def _fill(bench: Bench, topic: str, count: int) -> None:
    started = time.monotonic()
    records.send_in_turns(bench.servers, topic, records.values_of_kinds(count))
    bench.say(f"  {topic}: {count:,} records of {len(records.KINDS)} kinds in {time.monotonic() - started:.0f} s")


def _timed(bench: Bench, worker: Worker, series: Series) -> None:
    measured, folder = worker.run(series.contestant, series.topic)
    _check(series, folder)
    remove(folder)
    series.runs.append(measured)
    bench.say(f"  {series.contestant}: {measured.seconds:.2f} s, {measured.cpu_s:.2f} CPU-s")


def _check(series: Series, folder: Path) -> None:
    """Nothing, if the tables hold each record once, each kind's table its own."""
    kinds = dict.fromkeys(records.KINDS, 0)
    for _key, value in records.values_of_kinds(series.records):
        kinds[value[9:16].decode()] += 1
    wanted = kinds if series.contestant == "many_tables" else {"orders": series.records}
    found = {name: rows_in(folder / "main" / name) for name in wanted}
    if found != wanted:
        message = f"{series.contestant}: {found} rows in its tables, {wanted} were expected"
        raise WrongRows(message)
