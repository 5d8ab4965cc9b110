"""``make audit``: planted bugs that must be caught, then episodes of faults after which nothing may be amiss.

Episodes of pipelines come last: their runs end at random steps, and their checkpoints are lost or damaged.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

from tests.audit import keyed
from tests.audit.environment import Environment
from tests.audit.episode import Report, play
from tests.audit.faults import FAULTS, faults_of
from tests.audit.pipelines import PipelineReport, planted_pipeline_bug, play_pipeline
from tests.audit.plan import Plan, kind_of, plan_of
from tests.audit.planted import BUGS, planted
from tests.audit.tally import Tally
from tests.audit.workers import played

KINDS = ("lost", "doubled", "phantom", "wrong")
_EVERY_SO_MANIETH_ON_S3 = 4
# By seed: two of five episodes are of keyed tables.
_SINKS = ("append", "append", "upsert", "append", "history")
# What --cover wants: of each class of faults, and of each way to damage each file of the checkpoint.
_OF_EACH_KIND, _OF_EACH_FILE = 20, 10
VERDICTS = ("survived", "refused", "missed")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if nothing was amiss and every planted bug was caught."""
    options = _options(arguments)
    # A service manager's polite end: the environments are closed too, each with its broker and its JVMs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    missed = [] if options.only_episodes else _planted()
    reports = [] if options.only_planted or options.only_pipelines else _episodes(options)
    print(figures(reports), flush=True)
    of_pipelines = [] if options.only_planted or options.plan is not None else _pipelines(options)
    if missed:
        print(f"planted bugs that were not caught: {', '.join(missed)}")
    return 1 if missed or any(report.problem for report in (*reports, *of_pipelines)) else 0


def catch(environment: Environment, name: str, seeds: int = 3, *, rounds: int = 2, records: int = 600) -> Report | None:
    """The first episode in which the planted bug shows as what it is; None if it does in none of ``seeds``.

    Raises:
        AssertionError: The same episode is not clean without the bug, so that it would prove nothing.
    """
    bug = BUGS[name]
    for seed in range(1, seeds + 1):
        on_s3 = any(kind_of(fault) == "s3" for fault in bug.faults)
        size = {"rounds": rounds, "records": records}
        plan = replace(plan_of(seed, bug.faults, **size, on_s3=on_s3, sink=bug.sink), partitions=2)
        if plan not in environment.clean:
            control = play(plan, environment)
            assert not control.problem, f"without any bug: {control.problem}"
            environment.clean.add(plan)
        with planted(name), mock.patch.object(environment, "bound_s", 20.0):
            report = play(plan, environment)
        if getattr(report.found, bug.shows):
            return report
    return None


def _planted() -> list[str]:
    missed = []
    with Environment() as environment:
        for name, bug in BUGS.items():
            report = catch(environment, name)
            if report is None:
                missed.append(name)
                print(f"NOT caught: {bug.name}", flush=True)
            else:
                found = getattr(report.found, bug.shows)
                print(f"caught: {bug.name}: {len(found)} {bug.shows}, seed {report.plan.seed}", flush=True)
        if not catch_in_pipeline(environment):
            missed.append("dead letters of queries are not written")
            print(f"NOT caught: {missed[-1]}", flush=True)
    print(f"planted bugs caught: {len(BUGS) + 1 - len(missed)} of {len(BUGS) + 1}", flush=True)
    return missed


def catch_in_pipeline(environment: Environment, seed: int = 1) -> bool:
    """Whether an episode of a pipeline shows that dead letters are not written.

    Raises:
        AssertionError: The same episode is not clean without the bug, so that it would prove nothing.
    """
    control = play_pipeline(seed, environment, rounds=1, few=True)
    assert not control.problem, f"without any bug: {control.problem}"
    with planted_pipeline_bug():
        return bool(play_pipeline(seed, environment, rounds=1, few=True).problem)


def _pipelines(options: argparse.Namespace) -> list[PipelineReport]:
    found: list[PipelineReport] = []
    if options.pipelines:
        with contextlib.suppress(KeyboardInterrupt), Environment() as environment:
            for seed in range(options.seed, options.seed + options.pipelines):
                found.append(play_pipeline(seed, environment))
                print(found[-1], flush=True)
    return found


def _episodes(options: argparse.Namespace) -> list[Report]:
    tally = Tally(options.tally)
    with contextlib.suppress(KeyboardInterrupt):  # how a run that goes on until it is stopped ends
        for report, shorter in played(_plans(options, tally), options.jobs):
            tally.add(report)
            print(_line(report), flush=True)
            if shorter is not None:
                again = f"make audit AUDIT='--plan {shorter.to_json()}'"
                print(f"  again, in {len(shorter.rounds)} rounds: {again}", flush=True)
    return tally.reports


def _plans(options: argparse.Namespace, tally: Tally) -> Iterator[Plan]:
    if options.plan is not None:
        yield Plan.from_json(options.plan)
        return
    named = [name for name in FAULTS if name.startswith(tuple(options.faults))] if options.faults else list(FAULTS)
    endless = options.until_stopped or options.records or options.cover
    first = max(options.seed, tally.next_seed)
    seeds = itertools.count(first) if endless else range(first, first + options.episodes)
    for seed in seeds:
        reports = tally.reports
        wanted = too_few(named, reports) if options.cover else []
        enough = options.records <= _total(reports, "audited")
        if (options.cover and not wanted and enough) or (options.records and not options.cover and enough):
            break
        on_disk, on_s3 = (faults_of(wanted or named, on_s3=on_s3) for on_s3 in (False, True))
        if options.cover:
            # They take three times as long there: the others are covered on a disk.
            on_s3 = [name for name in on_s3 if name not in on_disk]
        there = on_s3 and (seed % _EVERY_SO_MANIETH_ON_S3 == 0 or not on_disk)
        size = {"rounds": options.rounds, "records": options.round_records}
        sink = options.sink or _SINKS[seed % len(_SINKS)]
        yield plan_of(seed, on_s3 if there else on_disk, **size, on_s3=bool(there), sink=sink)


def too_few(faults: Sequence[str], reports: Sequence[Report]) -> list[str]:
    """Those of ``faults`` that ``--cover`` still wants, each as often as it wants it."""
    hits: Counter[str] = Counter()
    for report in reports:
        for (fault, verdict), times in report.verdicts.items():
            hits[fault] += times if verdict != "missed" else 0
    of_kinds: Counter[str] = Counter()
    for fault, times in hits.items():
        of_kinds[kind_of(fault)] += times
    left = []
    for fault in faults:
        few = _OF_EACH_FILE - hits[fault] if kind_of(fault) == "checkpoint" else 0
        left += [fault] * max(few, int(of_kinds[kind_of(fault)] < _OF_EACH_KIND))
    return left


def _line(report: Report) -> str:
    verdict = "clean" if not report.problem else f"NOT clean: {report.problem}"
    played = f"{report.rounds} of {len(report.plan.rounds)} faults, {report.audited:,} records audited"
    return "\n".join(
        [
            *(f"  {line}" for line in report.told),
            f"seed {report.plan.seed}: {played}, {report.duration_s:.0f} s: {verdict}",
        ]
    )


def figures(reports: Sequence[Report]) -> str:
    """What it came to, as text."""
    if not reports:
        return ""
    verdicts: Counter[tuple[str, str]] = Counter()
    for (fault, verdict), times in sum((report.verdicts for report in reports), Counter()).items():
        verdicts[kind_of(fault), verdict] += times
    table = [("faults", "injected", *VERDICTS)]
    for kind in sorted({kind for kind, _verdict in verdicts}):
        counts = [verdicts[kind, verdict] for verdict in VERDICTS]
        table.append((kind, str(sum(counts[:2])), *map(str, counts)))
    seeds, totals = [each.plan.seed for each in reports], partial(_total, reports)
    wrong = {kind: sum(len(getattr(each.found, kind)) for each in reports) for kind in KINDS}
    by_sink = {
        sink: _total([each for each in reports if each.plan.sink == sink], "audited")
        for sink in ("append", *keyed.SINKS)
    }
    records = (
        f"records: produced {totals('produced'):,}, visible and audited {totals('audited'):,}, "
        f"of which compaction took away {totals('excused'):,} before"
    )
    return "\n".join(
        [
            f"seeds {min(seeds)} to {max(seeds)}, {totals('rounds'):,} rounds",
            *("  {:<18}{:>9}{:>10}{:>9}{:>8}".format(*line) for line in table),
            f"kills {totals('kills')}, restarts of servers {totals('restarts')}",
            records,
            "audited by sink: " + ", ".join(f"{sink} {number:,}" for sink, number in by_sink.items()),
            ", ".join(f"{kind} {number}" for kind, number in wrong.items()),
            f"episodes that were not clean: {sum(1 for each in reports if each.problem)}",
        ]
    )


def _total(reports: Sequence[Report], name: str) -> int:
    return sum(getattr(report, name) for report in reports)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make audit", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--episodes", type=int, default=5, help="how many, from that seed on")
    parser.add_argument("--records", type=int, default=0, help="go on until so many records have been audited")
    parser.add_argument("--until-stopped", action="store_true", help="go on until Ctrl-C")
    parser.add_argument("--cover", action="store_true", help="go on until there were enough faults of each kind")
    parser.add_argument("--jobs", type=int, default=2, help="episodes at a time; each takes some 3 GB of memory")
    parser.add_argument("--tally", type=Path, help="keep each episode in this file, and go on from what it has")
    parser.add_argument("--rounds", type=int, default=6, help="faults an episode")
    parser.add_argument("--round-records", type=int, default=3000, help="records a round, about")
    parser.add_argument("--faults", nargs="*", help="only faults whose names begin so")
    parser.add_argument("--sink", choices=("append", *keyed.SINKS), help="only episodes of such tables")
    parser.add_argument("--plan", help="play this plan instead, as a failure printed it")
    parser.add_argument("--pipelines", type=int, default=2, help="how many episodes of pipelines, from that seed on")
    parser.add_argument("--only-pipelines", action="store_true", help="only those, behind the planted bugs")
    parser.add_argument("--only-planted", action="store_true", help="only the planted bugs")
    parser.add_argument("--only-episodes", action="store_true", help="no planted bugs")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
