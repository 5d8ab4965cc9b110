"""The groups of the bench: which contestants run on which topics, in turns, and what their tables must hold."""

from __future__ import annotations

import json as json_text
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from bench import records
from bench.contestants import CONTESTANTS
from bench.parent import Measured, Worker, remove, rows_in

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured.

    Attributes:
        bronze: Records of the bronze topic.
        json: Records of each of the two JSON topics.
        inference: Records of the topic whose schema is inferred; some thousands, so that each rare field is there.
        warm_up: Records that each contestant writes before anything is timed.
        repetitions: Timed runs of each contestant.
        looks: Triggers without records.
        hundreds: Batches of 100 records.
        hundreds_warm_up: Batches of 100 before them.
        latency_s: Seconds of records at ``rate``.
        rate: Records a second.
        memory: Records of the memory test.
        upsert_rows: Rows of the table into which changes are merged.
        upsert_small_rows: Rows of the smaller of the two tables.
        upsert_batch: Changes a batch.
        upsert_batches: Batches with keys of the newest hundredth; of others a third.
        upsert_usual_batches: Batches of the usual script.
        pipeline_updates: Updates of a pipeline that find nothing new.
        streams: Records of the topic that is copied into others.
        lookups: Records for which a flow looks up columns.
        window_keys: Keys of windowed state; two records each.
        stream_latency_s: Seconds of records from topic to topic at ``stream_rate``.
        stream_rate: Records a second.
        read_batches: Small batches of the table that is read before and after maintenance.
        read_batch: Records of each.
        own_processes: Each contestant in a process of its own; else all share one a kind of session, which is
            quicker and measures nothing.
    """

    bronze: int
    json: int
    inference: int
    warm_up: int
    repetitions: int
    looks: int = 60
    hundreds: int = 40
    hundreds_warm_up: int = 150
    latency_s: float = 40.0
    rate: int = 1000
    memory: int = 10_000_000
    upsert_rows: int = 10_000_000
    upsert_small_rows: int = 1_000_000
    upsert_batch: int = 10_000
    upsert_batches: int = 50
    pipeline_updates: int = 10
    streams: int = 2_000_000
    lookups: int = 2_000_000
    window_keys: int = 1_000_000
    stream_latency_s: float = 30.0
    stream_rate: int = 500
    read_batches: int = 200
    read_batch: int = 1_000
    upsert_usual_batches: int = 3
    own_processes: bool = True


@dataclass(slots=True)
class Series:
    """The timed runs of one contestant on one topic."""

    contestant: str
    topic: str
    records: int
    runs: list[Measured] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Median rows a second."""
        return self.records / statistics.median(run.seconds for run in self.runs)

    @property
    def spread(self) -> tuple[float, float]:
        """Slowest and fastest run, in rows a second."""
        rates = [self.records / run.seconds for run in self.runs]
        return min(rates), max(rates)

    @property
    def cpu_us(self) -> float:
        """Median CPU microseconds a record."""
        return 1e6 * statistics.median(run.cpu_s for run in self.runs) / self.records

    @property
    def rss_gib(self) -> float:
        """Highest resident memory of all runs."""
        return max(run.rss_bytes for run in self.runs) / 2**30

    def to_json(self) -> dict[str, Any]:
        """Everything that was measured."""
        return asdict(self)


class WrongRows(Exception):
    """A contestant's tables do not hold what they must."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What all groups share."""

    servers: str
    folder: Path
    sizes: Sizes
    say: Say
    shared: ExitStack
    pool: dict[str, Worker] = field(default_factory=dict)

    def fill(self, topic: str, count: int, *, bad_every: int = 0) -> None:
        """Makes and fills a topic."""
        started = time.monotonic()
        records.fill(self.servers, topic, count, bad_every=bad_every)
        self.say(f"  {topic}: {count:,} records in {time.monotonic() - started:.0f} s")

    def worker(self, name: str, stack: ExitStack) -> Worker:
        """The process of a contestant; it ends with ``stack``."""
        session = CONTESTANTS[name][0]
        if self.sizes.own_processes:
            return stack.enter_context(Worker(name, session, self.folder, self.servers))
        if session not in self.pool:
            self.pool[session] = self.shared.enter_context(Worker(session, session, self.folder, self.servers))
        return self.pool[session]

    # --- backlogs ---

    def bronze(self) -> list[Series]:
        """Kafka into a bronze table."""
        if self.sizes.warm_up:
            self.fill("bronze_warm_up", self.sizes.warm_up)
        self.fill("bronze", self.sizes.bronze)
        return self._in_turns(("limit", "rivermouth_bronze", "native_bronze"), ["bronze_warm_up"], {"bronze": 0})

    def json(self) -> list[Series]:
        """JSON into a silver table, without bad records and with one in a hundred."""
        warm_ups = ["json_warm_up", "json_bad_warm_up"]
        for name, bad_every in zip(warm_ups, (0, 100), strict=True):
            if self.sizes.warm_up:
                self.fill(name, self.sizes.warm_up // 2, bad_every=bad_every)
        self.fill("json", self.sizes.json)
        self.fill("json_bad", self.sizes.json, bad_every=100)
        topics = {"json": 0, "json_bad": 100}
        return self._in_turns(("usual", "rivermouth_json", "native_json", "usual_cached"), warm_ups, topics)

    def _in_turns(self, names: Sequence[str], warm_ups: Sequence[str], topics: dict[str, int]) -> list[Series]:
        found: dict[tuple[str, str], Series] = {}
        with ExitStack() as stack:
            workers = []
            for name in names:
                worker = self.worker(name, stack)
                for topic in warm_ups if self.sizes.warm_up else ():
                    measured, folder = worker.run(name, topic)
                    self.say(f"  {name}: warmed up on {topic} in {measured.seconds:.1f} s")
                    remove(folder)
                workers.append((name, worker))
            for repetition in range(self.sizes.repetitions):
                # Every other turn goes the other way round: the first contestant finds a quieter disk.
                for name, worker in workers[:: -1 if repetition % 2 else 1]:
                    for topic, bad_every in topics.items():
                        if name == "native_json" and bad_every:
                            continue  # it checks nothing: bad records become rows of nulls
                        series = found.setdefault((name, topic), Series(name, topic, self._count(topic)))
                        self.timed(worker, series, bad_every)
        return list(found.values())

    def _count(self, topic: str) -> int:
        return self.sizes.bronze if topic == "bronze" else self.sizes.json

    def timed(self, worker: Worker, series: Series, bad_every: int) -> None:
        """One run more of a series; its tables are counted."""
        measured, folder = worker.run(series.contestant, series.topic)
        self._check(series.contestant, folder, series.records, records.bad(series.records, bad_every))
        remove(folder)
        series.runs.append(measured)
        self.say(
            f"  {series.contestant} on {series.topic}: {series.records / measured.seconds:,.0f} rows/s, "
            f"{1e6 * measured.cpu_s / series.records:.2f} CPU-µs a row"
        )

    def _check(self, name: str, folder: Path, count: int, bad: int) -> None:
        table, letters = folder / "table", folder / "bad"
        if name.startswith("rivermouth"):
            table, letters = folder / "main/orders", folder / "main/orders__dead_letters"
        found = (rows_in(table), rows_in(letters))
        if found != (count - bad, bad):
            message = f"{name}: {found} rows in its tables, {(count - bad, bad)} were expected"
            raise WrongRows(message)

    # --- little to do ---

    def small(self) -> dict[str, Any]:
        """Looks without records, batches of 100, one record's way; all in one warm process."""
        sizes = self.sizes
        result: dict[str, Any] = {}
        with ExitStack() as stack:
            worker = self.worker("rivermouth_json", stack)
            for name, bad_every in (("hundred_clean", 0), ("hundred_dead_letters", 50)):
                records.create(self.servers, name)
                options = {"batches": sizes.hundreds, "warm_up": sizes.hundreds_warm_up, "bad_every": bad_every}
                measured, folder = worker.run("hundreds", name, **options)
                count = measured.answer["consumed"]
                self._check("rivermouth_json", folder, count, records.bad(count, bad_every))
                result[name] = measured.answer
                self.say(f"  {name}: median {statistics.median(measured.answer['ms']):.0f} ms")
            measured, folder = worker.run("looks", "hundred_clean", count=sizes.looks)
            result["look"] = measured.answer
            self.say(f"  looks: median {statistics.median(measured.answer['ms']):.0f} ms")
            result["latency"] = self._latency(worker)
        return result

    def _latency(self, worker: Worker) -> dict[str, Any]:
        """Produces at a steady rate and reads with delta-rs; seconds from produce to readable."""
        records.create(self.servers, "latency")
        warm_up_s, after_s = 8.0, 4.0
        folder = worker.start("follow", "latency", seconds=warm_up_s + self.sizes.latency_s + after_s)
        sent: list[list[float]] = [[] for _ in range(records.PARTITIONS)]
        ending = threading.Event()
        seen: list[tuple[float, dict[int, int]]] = []
        reader = threading.Thread(target=_read, args=(folder / "main/orders", "latency", seen, ending))
        reader.start()
        started = time.monotonic()
        self._produce_steadily(sent, warm_up_s + self.sizes.latency_s - 1)
        answer = worker.finish()
        ending.set()
        reader.join()
        count = sum(len(times) for times in sent)
        self._check("rivermouth_json", folder, count, 0)
        latencies = sorted(_latencies(sent, seen, since=started + warm_up_s))
        return {
            "p50_s": quantile(latencies, 0.5),
            "p99_s": quantile(latencies, 0.99),
            "max_s": latencies[-1],
            "records": len(latencies),
            "batches": answer["batches"],
        }

    def _produce_steadily(self, sent: list[list[float]], seconds: float) -> None:
        client = records.producer(self.servers)
        each = 10
        started = time.monotonic()
        generated = records.values(int(seconds * self.sizes.rate) + each)
        number = 0
        while time.monotonic() - started < seconds:
            for _ in range(each):
                key, value = next(generated)
                sent[number % records.PARTITIONS].append(time.monotonic())
                client.produce("latency", value, key, partition=number % records.PARTITIONS)
                number += 1
            client.poll(0)
            time.sleep(max(0.0, started + number / self.sizes.rate - time.monotonic()))
        client.flush()

    # --- memory ---

    def memory(self) -> dict[str, Any]:
        """A long backlog with one bad record in a hundred, drained by a driver with two gigabytes."""
        self.fill("memory", self.sizes.memory, bad_every=100)
        with ExitStack() as stack:
            measured, folder = self.worker("rivermouth_json", stack).run("rivermouth_json", "memory")
            self._check("rivermouth_json", folder, self.sizes.memory, records.bad(self.sizes.memory, 100))
        remove(folder)
        return asdict(measured)


def _read(table: Path, topic: str, seen: list[tuple[float, dict[int, int]]], ending: threading.Event) -> None:
    """Each new version as soon as delta-rs has it, with the next offsets that its ledger entry names."""
    delta: DeltaTable | None = None
    version = -1
    while not ending.wait(0.02):
        if delta is None:
            if not (table / "_delta_log" / f"{0:020d}.json").exists():
                continue
            delta = DeltaTable(table)
        delta.update_incremental()
        if delta.version() == version:
            continue
        version, now = delta.version(), time.monotonic()
        entry = json_text.loads(delta.history(1)[0]["userMetadata"])
        seen.append((now, {int(p): offset for p, offset in entry["topics"][topic]["next"].items()}))


def _latencies(sent: list[list[float]], seen: list[tuple[float, dict[int, int]]], *, since: float) -> list[float]:
    """Seconds from produce to readable of each record sent after ``since``; an offset is its place in ``sent``."""
    found = []
    for partition, times in enumerate(sent):
        offset = 0
        for readable, next_offsets in seen:
            end = next_offsets.get(partition, 0)
            found += [readable - at for at in times[offset:end] if at >= since]
            offset = max(offset, end)
    return found


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which that share of the ordered ones is."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
