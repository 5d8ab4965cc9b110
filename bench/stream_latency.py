"""Seconds from produce to visible in another topic: of micro-batches of 200 ms, and of real-time mode."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from confluent_kafka import KafkaError, Producer

from bench import records
from bench.copied import number_of, reader
from bench.groups import Bench, WrongRows, quantile
from bench.parent import Worker, remove

_INTERVAL = "200 milliseconds"
# Real-time mode wants a core for each partition that is read.
_PARTITIONS = 1
_FIRST_S, _LAST_S, _WARM_UP_S = 120.0, 30.0, 8.0
_MICRO_BATCHES = {"pipelines.trigger.interval": _INTERVAL}
_FOLLOWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("follow_plain", {"trigger": {"processingTime": _INTERVAL}}),
    "at_least_once": ("follow_sink", {"guarantee": "at_least_once", "configuration": _MICRO_BATCHES}),
    "exactly_once": ("follow_sink", {"guarantee": "exactly_once", "configuration": _MICRO_BATCHES}),
    "plain_real_time": ("follow_plain", {"trigger": {"realTime": "5 seconds"}}),
    "real_time": ("follow_sink", {"guarantee": "at_least_once", "configuration": {"pipelines.trigger": "RealTime"}}),
}


def latency(bench: Bench, worker: Worker) -> dict[str, dict[str, Any]]:
    """Milliseconds of each way from topic to topic, and CPU seconds a second."""
    return {name: _followed(bench, worker, name) for name in _FOLLOWERS}


def _followed(bench: Bench, worker: Worker, name: str) -> dict[str, Any]:
    contestant, asked = _FOLLOWERS[name]
    topic, out = f"latency_{name}", f"latency_{name}-copy"
    for each in (topic, out):
        records.create(bench.servers, each, _PARTITIONS)
    until = bench.folder / f"{topic}.end"
    with _Visible(bench.servers, out) as visible:
        folder = worker.start(contestant, topic, out=out, until=str(until), **asked)
        sent = _Sent(bench, topic)
        sent.go_on(lambda: visible.any.is_set() or worker.answered(), _FIRST_S)
        if worker.answered():
            worker.finish()
        sent.go_on(None, _WARM_UP_S if bench.sizes.own_processes else 0.0)
        first, began, cpu_s = len(sent.at), time.monotonic(), worker.cpu_s()
        sent.go_on(None, bench.sizes.stream_latency_s)
        last, took_s = len(sent.at), time.monotonic() - began
        cpu_s = worker.cpu_s() - cpu_s
        sent.flush()
        visible.wait(len(sent.at), _LAST_S)
        until.touch()
        worker.finish()
        # What comes again comes now.
        time.sleep(1.0)
    if visible.times.keys() != set(range(len(sent.at))) or visible.again:
        message = f"{name}: {len(visible.times)} records, {visible.again} of them again; {len(sent.at)} were sent"
        raise WrongRows(message)
    remove(folder)
    ordered = sorted(1000 * (visible.times[number] - sent.at[number]) for number in range(first, last))
    found = {
        "p50_ms": quantile(ordered, 0.5),
        "p99_ms": quantile(ordered, 0.99),
        "max_ms": ordered[-1],
        "records": len(ordered),
        "cpu_s_a_second": cpu_s / took_s,
    }
    bench.say(f"  {name}: p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms, over {len(ordered)} records")
    return found


class _Sent:
    """Records at a steady rate, and when each was sent."""

    def __init__(self, bench: Bench, topic: str) -> None:
        self._topic, self._rate = topic, bench.sizes.stream_rate
        self._client = Producer({"bootstrap.servers": bench.servers, "log_level": 3, "linger.ms": 0})
        most_s = _FIRST_S + _WARM_UP_S + bench.sizes.stream_latency_s
        self._values = records.values(int((most_s + 1) * self._rate))
        self.at: list[float] = []

    def go_on(self, until: Callable[[], bool] | None, seconds: float) -> None:
        """Sends until that is so, or, without it, so long.

        Raises:
            WrongRows: It was not so in time.
        """
        started, count = time.monotonic(), 0
        while until is None or not until():
            if time.monotonic() - started >= seconds:
                if until is None:
                    return
                message = f"{self._topic}: no record was visible after {seconds:.0f} s"
                raise WrongRows(message)
            key, value = next(self._values)
            self.at.append(time.monotonic())
            self._client.produce(self._topic, value, key, partition=count % _PARTITIONS)
            self._client.poll(0)
            count += 1
            time.sleep(max(0.0, started + count / self._rate - time.monotonic()))

    def flush(self) -> None:
        """All of them are in the topic."""
        self._client.flush(30)


class _Visible:
    """Reads a topic in a thread while the block runs: when each record was first visible, and how many came again."""

    def __init__(self, servers: str, topic: str) -> None:
        self.any = threading.Event()
        self.times: dict[int, float] = {}
        self.again = 0
        self._consumer = reader(servers, topic, _PARTITIONS)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._consumer.close()

    def wait(self, count: int, seconds: float) -> None:
        """Waits until ``count`` records are visible, or until ``seconds`` have passed."""
        deadline = time.monotonic() + seconds
        while len(self.times) < count and time.monotonic() < deadline:
            time.sleep(0.05)

    def _read(self) -> None:
        while not self._ending.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    return
                continue
            now, number = time.monotonic(), number_of(message)
            self.again += number in self.times
            self.times.setdefault(number, now)
            self.any.set()
