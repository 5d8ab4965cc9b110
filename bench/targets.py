"""What was measured, held against the bounds that it should keep."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench import records
from bench.pipelines_group import commit_ms
from bench.pipelines_report import cpu_us, median, rate, warm_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.groups import Series
    from bench.results import Results

MANY: Final = 10_000_000
"""Number of records of the topic for which the time of a sample has a bound."""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and the bound that it should keep."""

    what: str
    found: float
    bound: float
    unit: str
    at_least: bool

    @property
    def met(self) -> bool:
        """Whether it does."""
        return self.found >= self.bound if self.at_least else self.found <= self.bound

    def row(self) -> tuple[str, ...]:
        """For a table."""
        sign = "≥" if self.at_least else "≤"
        digits = {"ms": 0, "s": 2, "%": 1}.get(self.unit, 3)
        return (
            self.what,
            f"{self.found:.{digits}f} {self.unit}",
            f"{sign} {self.bound:g} {self.unit}",
            "met" if self.met else "**not met**",
        )


def targets(results: Results) -> list[Target]:
    """The targets of all that was measured."""
    rates = {(series.contestant, series.topic): series.rate for series in results.backlogs}
    ratios = [
        ("bronze: rivermouth / the limit", ("rivermouth_bronze", "bronze"), ("limit", "bronze"), 0.85),
        ("json: rivermouth / the usual script", ("rivermouth_json", "json"), ("usual", "json"), 3.0),
        ("json, 1 % bad: rivermouth / the usual script", ("rivermouth_json", "json_bad"), ("usual", "json_bad"), 2.5),
        ("json: rivermouth / plain native sink", ("rivermouth_json", "json"), ("native_json", "json"), 1.3),
    ]
    found = [
        Target(what, rates[ours] / rates[theirs], bound, "times", at_least=True)
        for what, ours, theirs, bound in ratios
        if ours in rates and theirs in rates
    ]
    found += [*_format_targets(results), *_inference_targets(results.inference), *_routing_targets(results.routing)]
    small = results.small
    if small:
        found += [
            Target("a look without new offsets, median", median_ms(small["look"]), 60, "ms", at_least=False),
            Target("a batch of 100, median", median_ms(small["hundred_clean"]), 250, "ms", at_least=False),
            Target(
                "a batch of 100 with dead letters, median",
                median_ms(small["hundred_dead_letters"]),
                450,
                "ms",
                at_least=False,
            ),
            Target("produce to readable, p99", small["latency"]["p99_s"], 2, "s", at_least=False),
        ]
    return [
        *found,
        *_upsert_targets(results.upserts),
        *_pipeline_targets(results.pipelines),
        *_stream_targets(results.streams),
    ]


def _format_targets(results: Results) -> list[Target]:
    formats = {series.contestant.removeprefix("rivermouth_"): series for series in results.formats}
    found = [
        Target(
            f"{form}: seconds / those of JSON",
            formats["json"].rate / formats[form].rate,
            bound,
            "times",
            at_least=False,
        )
        for form, bound in (("avro", 1.5), ("protobuf", 3.0))
        if formats
    ]
    if results.wide:
        few, all_ = results.wide
        found.append(Target("10 of 500 fields / all of them", few.rate / all_.rate, 3.0, "times", at_least=True))
    return found


def _inference_targets(inference: Sequence[Series]) -> list[Target]:
    inferred = {series.contestant: series for series in inference}
    if not inferred:
        return []
    sample = inferred["rivermouth_infer"]
    rare = min(len(set(records.RARE) & set(run.answer["columns"])) for run in sample.runs)
    found = [
        Target(
            "inference: rivermouth / the usual way",
            sample.rate / inferred["usual_infer"].rate,
            10.0,
            "times",
            at_least=True,
        ),
        Target(
            "fields of 0.1 % of the records that a sample finds",
            100 * rare / len(records.RARE),
            99.0,
            "%",
            at_least=True,
        ),
    ]
    if sample.records >= MANY:
        what = f"a sample of {sample.records:,} records"
        found.append(Target(what, sample.records / sample.rate, 20.0, "s", at_least=False))
    return found


def _routing_targets(routing: Sequence[Series]) -> list[Target]:
    rates = {(series.topic, series.contestant): series.rate for series in routing}
    return [
        Target(
            f"{what}: seconds for 32 / for one",
            rates[topic, "one_table"] / rates[topic, "many_tables"],
            2.0,
            "times",
            at_least=False,
        )
        for topic, what in (("routing", "new tables"), ("routing_again", "tables that are there"))
        if (topic, "one_table") in rates
    ]


def _upsert_targets(upserts: dict[str, Any]) -> list[Target]:
    if not upserts:
        return []
    median_s = {name: statistics.median(series["batches_s"]) for name, series in upserts["series"].items()}
    grown = median_s["rivermouth, recent"] / median_s["rivermouth, small table, recent"]
    read = upserts["read"]
    reading, many = (
        statistics.median(each["before_s"]) / statistics.median(each["after_s"]) for each in (read, upserts["many"])
    )
    return [
        Target(
            f"upserts, {kind} keys: rivermouth / the usual script",
            median_s[f"usual, {kind}"] / median_s[f"rivermouth, {kind}"],
            bound,
            "times",
            at_least=True,
        )
        for kind, bound in (("recent", 10.0), ("random", 6.0))
    ] + [
        Target("upserts, recent keys: a table ten times as large", grown, 1.5, "times", at_least=False),
        Target("reading after upserts / after OPTIMIZE", reading, 1.3, "times", at_least=False),
        Target("reading after many batches / after OPTIMIZE", many, 1.25, "times", at_least=True),
    ]


def _pipeline_targets(found: dict[str, Any]) -> list[Target]:
    if not found:
        return []
    warm = {kind: warm_s(each) for kind, each in found["nothing_new"].items()}
    tables = found["nothing_new"]["thirty"]["tables"] - found["nothing_new"]["two"]["tables"]
    backlog = {each["contestant"]: each for each in found["backlog"]}
    flows = backlog["two_flows"]
    flow, query = (found["commits"][name] for name in ("flow", "query"))
    at_most = [
        ("plan of 30 datasets, cold", median(found["cold"]["plan"], "seconds"), 15.0),
        ("an update with nothing new, 30 datasets, cold", median(found["cold"]["run"], "seconds"), 12.0),
        ("an update with nothing new, two datasets, warm", warm["two"], 1.0),
        ("of an update with nothing new: each dataset more", (warm["thirty"] - warm["two"]) / tables, 0.5),
    ]
    ways = {"decode": backlog["two_decoded"], "from_json": backlog["two_datasets"]}
    times = [
        *(
            (f"a backlog: two datasets by {way} / two flows", rate(each) / rate(flows), 0.9, True)
            for way, each in ways.items()
        ),
        *(
            (f"a backlog, by CPU: two datasets by {way} / two flows", cpu_us(flows) / cpu_us(each), 0.9, True)
            for way, each in ways.items()
        ),
        ("commit of a query / of a flow", commit_ms(query) / commit_ms(flow), 1.0, False),
    ]
    return [Target(what, value, bound, "s", at_least=False) for what, value, bound in at_most] + [
        Target(what, value, bound, "times", at_least=least) for what, value, bound, least in times
    ]


def _stream_targets(found: dict[str, Any]) -> list[Target]:
    if not found:
        return []
    plain, often, once = found["to_kafka"]
    without, with_lookup = found["lookup"]
    return [
        Target(what, value, bound, "times", at_least=least)
        for what, value, bound, least in (
            ("Kafka to Kafka: at least once / plain writeStream", rate(often) / rate(plain), 0.9, True),
            ("Kafka to Kafka: exactly once / plain writeStream", rate(once) / rate(plain), 0.7, True),
            ("a flow with a lookup: seconds / without it", rate(without) / rate(with_lookup), 1.2, False),
        )
    ]


def median_ms(answer: dict[str, Any]) -> float:
    """Of an answer with ``ms``."""
    return statistics.median(answer["ms"])
