"""The group of routing: the same topic into one table and into 32, in turns, by one warm process."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from bench import records
from bench.groups import Bench, Series, WrongRows
from bench.parent import Worker, remove, rows_in

NEW, AGAIN = "routing", "routing_again"
_NAMES = ("one_table", "one_table_by_raw", "many_tables")
_LEAST_ROUNDS = 2


def routing(bench: Bench) -> list[Series]:
    """Into one table, into a raw one and from there into one, and from there into 32; new ones, and then the same."""
    count, warm_up = bench.sizes.json, bench.sizes.warm_up // 4
    new, again = ([Series(name, kind, count) for name in _NAMES] for kind in (NEW, AGAIN))
    with ExitStack() as stack:
        worker = bench.worker("rivermouth_json", stack)
        if warm_up:
            _fill(bench, "routing_warm_up", warm_up)
            for name in _NAMES:
                _, folder = worker.run(name, "routing_warm_up")
                remove(folder)
        _fill(bench, NEW, count)
        kept: dict[str, Path] = {}
        for repetition in range(bench.sizes.repetitions):
            for series in new[:: -1 if repetition % 2 else 1]:
                if series.contestant in kept:
                    remove(kept[series.contestant])
                kept[series.contestant] = _timed(bench, worker, series)
        for repetition in range(max(_LEAST_ROUNDS, bench.sizes.repetitions) if bench.sizes.warm_up else 1):
            _fill(bench, NEW, count, more=True)
            for series in again[:: -1 if repetition % 2 else 1]:
                _timed(bench, worker, series, into=kept[series.contestant], rounds=repetition + 2)
        for folder in kept.values():
            remove(folder)
    return [*new, *again]


def _fill(bench: Bench, topic: str, count: int, *, more: bool = False) -> None:
    started = time.monotonic()
    records.send_in_turns(bench.servers, topic, records.values_of_kinds(count), more=more)
    bench.say(f"  {topic}: {count:,} records of {len(records.KINDS)} kinds in {time.monotonic() - started:.0f} s")


def _timed(bench: Bench, worker: Worker, series: Series, *, into: Path | None = None, rounds: int = 1) -> Path:
    """One run more of a series, into new tables or those of a lake; where they are."""
    options = {} if into is None else {"into": str(into)}
    measured, folder = worker.run(series.contestant, NEW, **options)
    _check(series, into or folder, rounds)
    series.runs.append(measured)
    bench.say(f"  {series.topic}, {series.contestant}: {measured.seconds:.2f} s, {measured.cpu_s:.2f} CPU-s")
    return into or folder


def _check(series: Series, folder: Path, rounds: int) -> None:
    """Checks that the tables hold each record once, and the table of a kind the records of this kind."""
    kinds = dict.fromkeys(records.KINDS, 0)
    for _key, value in records.values_of_kinds(series.records):
        kinds[value[9:16].decode()] += rounds
    wanted = kinds if series.contestant == "many_tables" else {"orders": rounds * series.records}
    found = {name: rows_in(folder / "main" / name) for name in wanted}
    if found != wanted:
        message = f"{series.contestant}: {found} rows in its tables, {wanted} were expected"
        raise WrongRows(message)
