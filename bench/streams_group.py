"""The group of streams: from topic to topic, a lookup, seconds until a record is visible, and windowed state."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from bench import records
from bench.copied import check_copy
from bench.groups import Bench, Series, WrongRows
from bench.parent import Worker, remove, rows_in
from bench.stream_latency import latency
from bench.stream_windows import windows

_COPIES = ("kafka_plain", "kafka_at_least_once", "kafka_exactly_once")
_LOOKUPS = ("without_lookup", "with_lookup")
_TIERS = ("gold", "silver", "bronze")


def streams(bench: Bench) -> dict[str, Any]:
    """Copies of a topic, a flow with a lookup, latencies, and windowed state; each part in warm processes."""
    found: dict[str, Any] = {"load_before": list(os.getloadavg())}
    with ExitStack() as stack:
        worker = bench.worker("rivermouth_json", stack)
        found["to_kafka"] = [each.to_json() for each in _to_kafka(bench, worker)]
        found["latency"] = latency(bench, worker)
    with ExitStack() as stack:
        found["lookup"] = [each.to_json() for each in _lookup(bench, bench.worker("rivermouth_json", stack))]
    with ExitStack() as stack:
        found["windows"] = windows(bench, bench.worker("rivermouth_json", stack))
    found["load_after"] = list(os.getloadavg())
    return found


def _to_kafka(bench: Bench, worker: Worker) -> list[Series]:
    """A topic copied into others, by Spark's own writer and by a pipeline's Kafka sink, in turns."""
    sizes = bench.sizes
    if sizes.warm_up:
        count = max(1, sizes.streams // 4)
        bench.fill("copied_warm_up", count)
        for name in _COPIES:
            _copied(bench, worker, Series(name, "copied_warm_up", count))
    bench.fill("copied", sizes.streams)
    found = [Series(name, "copied", sizes.streams) for name in _COPIES]
    for repetition in range(sizes.repetitions):
        for series in found[:: -1 if repetition % 2 else 1]:
            _copied(bench, worker, series)
    records.delete(bench.servers, "copied")
    return found


def _copied(bench: Bench, worker: Worker, series: Series) -> None:
    """One run more of a series; the topic that it wrote is read, and taken away."""
    out = f"{series.topic}-{series.contestant}-{len(series.runs)}"
    records.create(bench.servers, out)
    measured, folder = worker.run(series.contestant, series.topic, out=out)
    series.runs.append(measured)
    _say(bench, series)
    check_copy(bench.servers, out, series.records)
    records.delete(bench.servers, out)
    remove(folder)


def _lookup(bench: Bench, worker: Worker) -> list[Series]:
    """A topic into a table, with and without columns of a table of customers, in turns."""
    sizes, customers = bench.sizes, bench.folder / "customers"
    numbers = range(records.CUSTOMERS)
    columns = {
        "customer_id": [records.customer(number) for number in numbers],
        "name": [f"customer {records.customer(number)}" for number in numbers],
        "tier": [_TIERS[number % len(_TIERS)] for number in numbers],
    }
    write_deltalake(customers, pa.table(columns))
    if sizes.warm_up:
        count = max(1, sizes.lookups // 4)
        records.send_in_turns(bench.servers, "looked_up_warm_up", records.values_of_customers(count))
        for name in _LOOKUPS:
            _looked_up(bench, worker, Series(name, "looked_up_warm_up", count), customers)
    records.send_in_turns(bench.servers, "looked_up", records.values_of_customers(sizes.lookups))
    found = [Series(name, "looked_up", sizes.lookups) for name in _LOOKUPS]
    for repetition in range(sizes.repetitions):
        for series in found[:: -1 if repetition % 2 else 1]:
            _looked_up(bench, worker, series, customers)
    records.delete(bench.servers, "looked_up")
    remove(customers)
    return found


def _looked_up(bench: Bench, worker: Worker, series: Series, customers: Path) -> None:
    """One run more of a series; each row of its table has the name of its customer."""
    measured, folder = worker.run(series.contestant, series.topic, customers=str(customers))
    series.runs.append(measured)
    _say(bench, series)
    table = folder / "main/orders"
    found = rows_in(table)
    if series.contestant == "with_lookup" and found == series.records:
        rows = QueryBuilder().register("t", DeltaTable(table))
        named = "SELECT count(*) FROM t WHERE name = 'customer ' || customer_id AND tier IS NOT NULL"
        found = rows.execute(named).read_all().columns[0][0].as_py()
    if found != series.records:
        message = f"{series.contestant}: {found} right rows in its table, {series.records} were expected"
        raise WrongRows(message)
    remove(folder)


def _say(bench: Bench, series: Series) -> None:
    run = series.runs[-1]
    rate, cpu_us = series.records / run.seconds, 1e6 * run.cpu_s / series.records
    bench.say(f"  {series.contestant} on {series.topic}: {rate:,.0f} records/s, {cpu_us:.2f} CPU-µs a record")
