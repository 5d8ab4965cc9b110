"""The group of upserts: recent and random keys into a large table, its growth, and what it is to read afterwards."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from bench import records
from bench.groups import Bench, WrongRows
from bench.parent import Measured, Worker, remove

# Batches before those that count, and among the usual script's, which take long.
_WARM_UP, _USUAL_WARM_UP = 3, 1
# Often enough for several among the batches of one series.
_OPTIMIZE_EVERY = "15 seconds"


def upserts(bench: Bench) -> dict[str, Any]:
    """Seconds and bytes of each batch, by contestant, size of the table and kind of keys."""
    sizes = bench.sizes
    result: dict[str, Any] = {
        "rows": sizes.upsert_rows,
        "small_rows": sizes.upsert_small_rows,
        "batch": sizes.upsert_batch,
        "series": {},
    }
    result["change_bytes"] = records.CHANGE_BYTES
    with ExitStack() as stack:
        ours = bench.worker("rivermouth_json", stack)
        small = _Table(bench, "small", sizes.upsert_small_rows)
        result["series"]["rivermouth, small table, recent"] = small.ours(ours, "recent", sizes.upsert_batches // 3)
        remove(small.folder)
        large = _Table(bench, "large", sizes.upsert_rows)
        result["series"]["rivermouth, recent"] = large.ours(ours, "recent", sizes.upsert_batches)
        maintained = large.ours(ours, "maintained", sizes.upsert_batches, optimize_every=_OPTIMIZE_EVERY)
        result["series"][f"rivermouth, recent, optimize: {_OPTIMIZE_EVERY}"] = maintained
        result["series"]["rivermouth, random"] = large.ours(ours, "random", sizes.upsert_batches // 3)
        result["load"] = large.load
        measured, _ = ours.run("read_table", "-", table=str(large.table), times=5)
        result["read"] = measured.answer
        large.check(large.table)
        remove(large.folder)
        result["many"] = _many_batches(bench, ours)
    with ExitStack() as stack:
        usual = bench.worker("usual", stack)
        _, folder = usual.run("usual_upsert_load", large.topics[0])
        for kind in ("recent", "random"):
            topic = large.produce(f"usual_{kind}", kind, sizes.upsert_usual_batches + _USUAL_WARM_UP)
            measured, _ = usual.run("usual_upsert", topic, batch=sizes.upsert_batch, table=str(folder))
            result["series"][f"usual, {kind}"] = _timed(measured.answer, _USUAL_WARM_UP)
            bench.say(f"  usual, {kind}: {_median_s(result['series'][f'usual, {kind}']):.2f} s a batch")
        large.check(folder / "table")
        remove(folder)
    return result


def _many_batches(bench: Bench, worker: Worker) -> dict[str, Any]:
    """Seconds of a query over a table that many small batches were appended to, before and after maintenance."""
    batches, rows = bench.sizes.read_batches, bench.sizes.read_batch
    records.fill_changes(bench.servers, "many", ((number, number) for number in range(batches * rows)))
    measured, folder = worker.run("many_batches", "many", batch=rows)
    table = folder / "main/orders"
    count = len(DeltaTable(table).file_uris())
    read, _ = worker.run("read_table", "-", table=str(table), times=5)
    bench.say(f"  {count} files of small batches: {_medians(read.answer)}")
    remove(folder)
    return read.answer | {"batches": len(measured.answer["batches_s"]), "rows": rows, "files": count}


def _medians(read: dict[str, Any]) -> str:
    return " s before, ".join(f"{statistics.median(read[name]):.2f}" for name in ("before_s", "after_s")) + " s after"


class _Table:
    """A table of rivermouth's, and the topics that it comes from."""

    def __init__(self, bench: Bench, name: str, rows: int) -> None:
        self._bench, self._name, self.rows = bench, name, rows
        self.folder = Path(bench.folder) / f"upserts-{name}"
        self.table = self.folder / "main/orders"
        self.load: dict[str, Any] = {}
        self.topics = [f"{name}_base"]
        self._number = rows
        self._last: dict[int, int] = {}
        records.fill_changes(bench.servers, self.topics[0], ((number, number) for number in range(rows)))

    def produce(self, called: str, kind: str, batches: int) -> str:
        """A topic with that many batches of changes; the keys of a batch are different ones."""
        topic = f"{self._name}_{called}"
        among = "random" if kind == "random" else "recent"
        found = records.changed_keys(self.rows, among, self._bench.sizes.upsert_batch, batches)
        records.fill_changes(self._bench.servers, topic, ((key, self._next()) for key in found))
        return topic

    def ours(self, worker: Worker, kind: str, batches: int, optimize_every: str | None = None) -> dict[str, Any]:
        """The batches of one kind, after a few that are not counted."""
        if not self.table.exists():
            measured, _ = self._drain(worker, 2_000_000)
            self.load = measured.answer | {"seconds": measured.seconds, "peak_rss_bytes": measured.rss_bytes}
            self._bench.say(f"  {self._name}: {self.rows:,} rows loaded in {measured.seconds:.0f} s")
        self.topics.append(self.produce(kind, kind, batches + _WARM_UP))
        measured, _ = self._drain(worker, self._bench.sizes.upsert_batch, optimize_every)
        series = _timed(measured.answer, _WARM_UP)
        self._bench.say(f"  rivermouth, {self._name}, {kind}: {_median_s(series):.2f} s a batch")
        return series | {"peak_rss_bytes": measured.rss_bytes}

    def _drain(self, worker: Worker, batch: int, optimize_every: str | None = None) -> tuple[Measured, Path]:
        asked = {"batch": batch, "table": str(self.folder), "topics": self.topics}
        return worker.run("rivermouth_upsert", "-", **asked, optimize_every=optimize_every)

    def check(self, table: Path) -> None:
        """As many rows as keys, and the newest change among them."""
        rows = QueryBuilder().register("t", DeltaTable(table))
        found = rows.execute("SELECT count(*), count(DISTINCT id), max(version) FROM t").read_all()
        counts = tuple(column[0].as_py() for column in found.columns)
        if counts != (self.rows, self.rows, self._number - 1):
            message = f"{table}: {counts} rows, keys, newest; {self.rows} and {self._number - 1} were expected"
            raise WrongRows(message)

    def _next(self) -> int:
        self._number += 1
        return self._number - 1


def _timed(answer: dict[str, Any], warm_up: int) -> dict[str, Any]:
    return answer | {"batches_s": answer["batches_s"][warm_up:], "bytes": answer["bytes"][warm_up:]}


def _median_s(series: dict[str, Any]) -> float:
    return statistics.median(series["batches_s"])
