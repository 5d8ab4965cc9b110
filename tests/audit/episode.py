"""One plan played: rounds of records, a fault, another run, and a look at everything."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.audit import invariants
from tests.audit.environment import Environment
from tests.audit.faults import FAULTS
from tests.audit.plan import Plan, Round, kind_of
from tests.audit.scenario import EnvironmentBroken, Scenario
from tests.crashes import oracle
from tests.crashes.deciding import hinted
from tests.crashes.oracle import Audit

from rivermouth.engine.audit.audit import audit_flow
from rivermouth.errors import RivermouthError

_DECISIONS = 4
# Of what a flow may say, and stop, by fault.
_STOPS: dict[str, tuple[str, ...]] = {
    "retention": ("OFFSETS_EXPIRED",),
    "topic_anew": ("TOPIC_RECREATED", "PARTITIONS_FEWER"),
    "others:restore": ("LEDGER_VOID", "DECISION_REFUSED"),
    "second_instance": ("TABLE_BUSY",),
    "broker": ("BROKER_UNREACHABLE",),
    "network": ("BROKER_UNREACHABLE",),
    "disk_full": ("LAKE_NOT_WRITABLE", "BATCH_FAILED"),
    "s3": ("LAKE_NOT_WRITABLE", "LAKE_NOT_READABLE", "BATCH_FAILED"),
}


class Caught(AssertionError):
    """Something was not as it must be."""


@dataclass
class Report:
    """What an episode came to.

    Attributes:
        plan: What was played.
        verdicts: How often a fault was survived, refused rightly, or missed what it was for, by (fault, verdict).
        found: What is wrong, added up over all looks.
        problem: In words; empty if all is well.
        rounds: How many were played whole.
        told: A line about each of them.
        produced: Records that were sent.
        audited: Records that were visible and found where they belong; none where something was amiss.
        excused: Those of them that compaction took away before anybody had read them.
        kills: Processes that were killed.
        restarts: How often a server was killed and started again.
    """

    plan: Plan
    verdicts: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: Audit = field(default_factory=Audit)
    problem: str = ""
    rounds: int = 0
    told: list[str] = field(default_factory=list)
    produced: int = 0
    audited: int = 0
    excused: int = 0
    kills: int = 0
    restarts: int = 0
    duration_s: float = 0.0


def play(plan: Plan, environment: Environment) -> Report:
    """Plays ``plan`` to its end, or to the first thing that is not as it must be."""
    report, started, restarts = Report(plan), time.monotonic(), environment.restarts
    folder = Path(tempfile.mkdtemp(prefix="episode-", dir=environment.folder))
    scenario: Scenario | None = None
    try:
        scenario = Scenario(environment, plan, folder)
        for each in plan.rounds:
            _round(scenario, each, report)
            report.rounds += 1
        _end(scenario, report)
    except Caught as caught:
        report.problem = str(caught)
    except EnvironmentBroken:
        raise
    except Exception as error:  # noqa: BLE001 - an episode that breaks has failed, the others go on
        where = traceback.extract_tb(error.__traceback__)[-1]
        report.problem = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
    if scenario is not None:
        report.produced, report.kills, report.excused = scenario.produced, scenario.kills, scenario.excused
        report.audited = len(scenario.truth.records) if not report.problem else 0
        try:
            if report.problem:
                report.told += _log_of(scenario)
        except Exception as error:  # noqa: BLE001 - what is wrong is known, and more than the log would tell
            report.told.append(f"the table's log cannot be read: {error}")
        try:
            scenario.close()
        except Exception as error:  # noqa: BLE001 - as above
            report.problem = report.problem or f"after the episode: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    report.duration_s = time.monotonic() - started
    report.restarts = environment.restarts - restarts
    return report


def _round(scenario: Scenario, each: Round, report: Report) -> None:
    chance, started = random.Random(each.seed), time.monotonic()
    scenario.produce(each.records, chance)
    scenario.outcomes.clear()
    scenario.hit = scenario.drained = False
    after = FAULTS[each.fault](scenario, chance)
    told = [outcome.error for outcome in scenario.outcomes if outcome.error is not None]
    for error in told:
        _must_belong(error, each.fault)
    # A run that says that it has carried everything is taken at its word at once.
    look = partial(invariants.whole, drained=True) if scenario.drained and not told else invariants.harmless
    _must_be_clean(look(scenario), report, f"after {each.fault}")
    # Only who follows looks at a checkpoint.
    follow = chance.random() < 0.5 or kind_of(each.fault) == "checkpoint"
    decided, recovered_s = _recovered(scenario, each, follow=follow)
    _must_be_clean(invariants.whole(scenario, drained=not follow), report, f"after {each.fault} and another run")
    if recovered_s > scenario.environment.bound_s:
        raise Caught(f"after {each.fault} it took more than {scenario.environment.bound_s:g} s to recover")
    if after is not None:
        after()
        _must_be_clean(invariants.whole(scenario, drained=not follow), report, f"after {each.fault} had its way")
    verdict = "missed" if not scenario.hit else "refused" if decided or told else "survived"
    report.verdicts[each.fault, verdict] += 1
    report.told.append(f"{each.fault}: {verdict}, {time.monotonic() - started:.1f} s")


def _recovered(scenario: Scenario, each: Round, *, follow: bool) -> tuple[int, float]:
    """Another run, with the decisions that its errors ask for; how many these were, and the seconds of it all."""
    started = time.monotonic()
    error: BaseException | None = None
    for decided in range(_DECISIONS):
        error = scenario.recover(follow=follow).error
        scenario.scene.decision = {}
        if error is None:
            return decided, time.monotonic() - started
        _must_belong(error, each.fault)
        scenario.scene.decision = {"why": "the audit says so", **hinted(error)}
    raise Caught(f"after {each.fault} no decision helps: {error}")


def _must_belong(error: BaseException, fault: str) -> None:
    """A flow may stop, but only for what was done to it, and with the command that goes on."""
    allowed = _STOPS.get(fault, _STOPS.get(kind_of(fault), ()))
    if not isinstance(error, RivermouthError) or error.code not in allowed or not error.next_step:
        raise Caught(f"after {fault} it stops: {error}")


def _end(scenario: Scenario, report: Report) -> None:
    """All transactions ended, everything carried: then also the audit that users run must agree."""
    scenario.finish_transactions()
    scenario.truth.catch_up()
    _recovered(scenario, Round("the last record", 0, 0), follow=False)
    _must_be_clean(invariants.whole(scenario, drained=True), report, "at the end")
    told = audit_flow(scenario.environment.spark, scenario.scene.order)
    if told.problems or (told.entry and not told.ranges and not told.not_audited):
        raise Caught(f"rivermouth audit finds: {'; '.join(told.problems)}")


def _log_of(scenario: Scenario) -> list[str]:
    """A line for each commit of the table, to find out what went wrong."""
    told = []
    for version, commit in oracle.commits_of(scenario.look().table):
        entry = json.loads(commit.get("userMetadata") or "{}")
        named = " ".join(f"{name} {entry.get(name)}" for name in ("entry", "kind", "attempt"))
        told.append(f"version {version}: {commit['operation']}, on {commit.get('readVersion')}, {named}")
    return told


def _must_be_clean(found: Audit, report: Report, when: str) -> None:
    for name in ("lost", "doubled", "phantom", "wrong"):
        getattr(report.found, name).extend(getattr(found, name))
    if not found.is_clean:
        raise Caught(f"{when}: {found}")
