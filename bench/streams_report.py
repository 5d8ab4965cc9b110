"""What was measured of streams, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.pipelines_report import Rows, cpu_us, rate

_COPIES = {
    "kafka_plain": '`writeStream.format("kafka")`',
    "kafka_at_least_once": "a Kafka sink, `at_least_once`",
    "kafka_exactly_once": "a Kafka sink, `exactly_once`",
}
_LOOKUPS = {"without_lookup": "a flow", "with_lookup": "the same flow with `lookup`"}
_FOLLOWERS = {
    "plain": "`writeStream`, micro-batches of 200 ms",
    "at_least_once": "a Kafka sink, `at_least_once`, micro-batches of 200 ms",
    "exactly_once": "a Kafka sink, `exactly_once`, micro-batches of 200 ms",
    "plain_real_time": "`writeStream`, `realTime` trigger",
    "real_time": "a Kafka sink, `pipelines.trigger: RealTime`",
}


def text(found: dict[str, Any]) -> tuple[tuple[tuple[str, ...], Rows], ...]:
    """Heads and rows of the tables: topics into topics, a lookup, and latencies."""
    heads = ("records", "records/s, median", "times the first", "CPU µs/record", "times the first's CPU")
    latencies = [
        (
            _FOLLOWERS[name],
            f"{each['records']:,}",
            f"{each['p50_ms']:.0f}",
            f"{each['p99_ms']:.0f}",
            f"{each['max_ms']:.0f}",
            f"{each['cpu_s_a_second']:.2f}",
        )
        for name, each in found["latency"].items()
    ]
    return (
        (("a topic of JSON into another one", *heads), _beside_first(found["to_kafka"], _COPIES)),
        (("a topic of JSON into a table", *heads), _beside_first(found["lookup"], _LOOKUPS)),
        (
            (
                "produce to visible in another topic",
                "records",
                "p50 ms",
                "p99 ms",
                "slowest ms",
                "CPU seconds a second",
            ),
            latencies,
        ),
    )


def _beside_first(series: Sequence[dict[str, Any]], names: dict[str, str]) -> Rows:
    first = series[0]
    return [
        (
            names[each["contestant"]],
            f"{each['records']:,}",
            f"{rate(each):,.0f}",
            f"{rate(each) / rate(first):.2f}",
            f"{cpu_us(each):.1f}",
            f"{cpu_us(each) / cpu_us(first):.2f}",
        )
        for each in series
    ]


def windows(found: dict[str, Any]) -> str:
    """How long it took to fill and to close a window of many keys, and the memory that it needed."""
    filled, closed = found["filled"], found["closed"]
    peak = max(filled["rss_bytes"], closed["rss_bytes"]) / 2**30
    return (
        f"A window with {found['keys']:,} keys: {found['records']:,} records were counted in {filled['seconds']:.0f} s "
        f"({filled['cpu_s']:.0f} CPU seconds), and its rows were written in {closed['seconds']:.0f} s "
        f"({closed['cpu_s']:.0f} CPU seconds), by a driver with a heap of 2 GB. "
        f"Peak RSS of Python and JVM together: {peak:.2f} GiB."
    )
