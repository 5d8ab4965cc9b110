"""The groups of formats: the same orders in each encoding, wide documents, and a schema inferred from a topic."""

from __future__ import annotations

import time
from contextlib import ExitStack

from bench import encodings, records, wide_documents
from bench.groups import Bench, Series, WrongRows
from bench.parent import Worker, remove

_WIDE = ("rivermouth_wide_few", "rivermouth_wide_all")
_ORDERS_A_DOCUMENT = 16


def formats(bench: Bench) -> list[Series]:
    """Each format's own topic, drained in turns by one warm process each."""
    count, warm_up = bench.sizes.json, bench.sizes.warm_up // 2
    found = {form: Series(f"rivermouth_{form}", f"format_{form}", count) for form in encodings.FORMATS}
    with ExitStack() as stack:
        workers = {}
        for form, series in found.items():
            workers[form] = bench.worker(series.contestant, stack)
            if warm_up:
                _fill(bench, f"{series.topic}_warm_up", form, warm_up)
                _, folder = workers[form].run(series.contestant, f"{series.topic}_warm_up")
                remove(folder)
            _fill(bench, series.topic, form, count)
        for repetition in range(bench.sizes.repetitions):
            for form in encodings.FORMATS[:: -1 if repetition % 2 else 1]:
                bench.timed(workers[form], found[form], 0)
    return list(found.values())


def wide(bench: Bench) -> list[Series]:
    """A flow of few of their fields, and one of all, over the same topic: drained in turns by one warm process each."""
    count = max(bench.sizes.json // _ORDERS_A_DOCUMENT, 500)
    found = [Series(name, "wide", count) for name in _WIDE]
    with ExitStack() as stack:
        workers = {name: bench.worker(name, stack) for name in _WIDE}
        for topic, size in (("wide_warm_up", bench.sizes.warm_up // _ORDERS_A_DOCUMENT), ("wide", count)):
            if not size:
                continue
            records.send(bench.servers, topic, wide_documents.messages(size))
            bench.say(f"  {topic}: {size:,} documents of {wide_documents.FIELDS} fields")
            for name in _WIDE if topic == "wide_warm_up" else ():
                _, folder = workers[name].run(name, topic)
                remove(folder)
        for repetition in range(bench.sizes.repetitions):
            for series in found[:: -1 if repetition % 2 else 1]:
                bench.timed(workers[series.contestant], series, 0)
    return found


def inference(bench: Bench) -> list[Series]:
    """The schema of a topic: from a sample, from all of it, and the usual way."""
    topic, count = "inference", bench.sizes.inference
    started = time.monotonic()
    records.send_in_turns(bench.servers, topic, records.values_with_rare_fields(count))
    bench.say(f"  {topic}: {count:,} records in {time.monotonic() - started:.0f} s")
    found = []
    with ExitStack() as stack:
        for name in ("rivermouth_infer", "rivermouth_infer_all", "usual_infer"):
            series = Series(name, topic, count)
            worker = bench.worker(name, stack)
            if bench.sizes.warm_up:
                _infer(bench, worker, series, timed=False)
            for _ in range(bench.sizes.repetitions):
                _infer(bench, worker, series, timed=True)
            found.append(series)
    return found


def _infer(bench: Bench, worker: Worker, series: Series, *, timed: bool) -> None:
    measured, folder = worker.run(series.contestant, series.topic)
    remove(folder)
    columns, rare = set(measured.answer["columns"]), set(records.RARE)
    # How many of the rare ones a sample finds is measured.
    if columns - rare != set(records.COLUMNS) or (series.contestant != "rivermouth_infer" and not rare <= columns):
        message = f"{series.contestant}: found the columns {measured.answer['columns']}"
        raise WrongRows(message)
    if timed:
        series.runs.append(measured)
        bench.say(f"  {series.contestant}: {measured.seconds:.2f} s, {measured.cpu_s:.2f} CPU-s")


def _fill(bench: Bench, topic: str, form: str, count: int) -> None:
    started = time.monotonic()
    records.send_in_turns(bench.servers, topic, encodings.values(form, count))
    bench.say(f"  {topic}: {count:,} records in {time.monotonic() - started:.0f} s")
