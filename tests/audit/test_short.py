"""The audit's short form: a few seeds, a few planted bugs; ``make audit`` does the rest."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.audit import disks
from tests.audit.__main__ import catch, catch_in_pipeline, figures, main, too_few
from tests.audit.environment import CalmEnvironment, Environment
from tests.audit.episode import Report, play
from tests.audit.faults import FAULTS, faults_of
from tests.audit.faults_of_disks import ON_DISKS_OF_THEIR_OWN
from tests.audit.plan import Plan, Round, kind_of, plan_of, shrunk
from tests.audit.planted import BUGS
from tests.audit.tally import Tally

ROOT = Path(__file__).parents[2]
# Seed, sink, rounds and about how many records a round has. Merges take their time.
EPISODES = [
    (1, "append", 2, 200),
    (8, "upsert", 1, 200),
    (1, "append", 2, 500),
    (2, "append", 2, 500),
    (3, "upsert", 1, 500),
]
# Quick ones: the others need processes that die.
FAULTS_HERE = ("answer_lost", "commit_refused", "network", "broker:stopped", "retention", "topic_anew", "checkpoint")


@pytest.fixture(scope="module")
def environment(spark):
    with Environment(spark) as environment:
        yield environment


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_planted_bug_shows_in_a_pipeline_that_is_clean_without_it(environment):
    assert catch_in_pipeline(environment)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "sink", "rounds", "records"), EPISODES)
def test_after_faults_nothing_is_amiss(seed, sink, rounds, records, environment):
    faults = [name for name in faults_of(list(FAULTS), on_s3=False) if name.startswith(FAULTS_HERE)]
    report = play(plan_of(seed, faults, rounds=rounds, records=records, sink=sink), environment)
    assert report.problem == "", report.plan.to_json()
    assert (report.rounds, sum(report.verdicts.values())) == (rounds, rounds)
    assert report.audited > records // 2


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sink", ["upsert", "history"])
def test_after_faults_a_keyed_table_is_the_fold_of_its_records(sink, environment):
    faults = ["answer_lost:table", "partition_added", "retention", "topic_anew:more"]
    report = play(plan_of(1, faults, rounds=2, records=400, sink=sink), environment)
    assert report.problem == "", report.plan.to_json()
    assert report.audited > 400


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("fault", [name for name in FAULTS if kind_of(name) == "s3"])
def test_after_a_fault_of_s3_nothing_is_amiss(fault, environment):
    report = play(plan_of(1, [fault], rounds=1, records=500, on_s3=True), environment)
    assert report.problem == "", report.plan.to_json()
    assert (report.rounds, report.verdicts[fault, "missed"]) == (1, 0)


def test_a_lake_on_s3_has_faults_of_its_own():
    on_s3, on_disk = (faults_of(list(FAULTS), on_s3=on_s3) for on_s3 in (True, False))
    missing = set() if disks.can_be_made() else ON_DISKS_OF_THEIR_OWN
    assert set(on_s3) | set(on_disk) == set(FAULTS) - missing
    assert {kind_of(name) for name in set(on_s3) - set(on_disk)} == {"s3"}
    assert {kind_of(name) for name in set(on_disk) - set(on_s3)} == {"checkpoint", "disk_full", "freeze", "worker"}


def test_a_short_audit_is_clean_and_catches_a_planted_bug(spark, broker):
    """The short form of these tests: one round of few records, without the bug and with it."""
    with CalmEnvironment(spark, broker) as environment:
        # The first records of its first episode are those of an aborted transaction.
        report = catch(environment, "read_uncommitted", 1, rounds=1, records=100)
        assert report is not None
        assert len(environment.clean) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "rounds", "records"),
    [
        # As above.
        ("read_uncommitted", 1, 300),
        ("offsets_only_in_the_checkpoint", 2, 600),
        ("late_records_win", 2, 600),
        ("deleted_keys_are_forgotten", 2, 600),
        ("no_fencing", 2, 600),
    ],
)
def test_a_planted_bug_is_caught(name, rounds, records, environment):
    report = catch(environment, name, rounds=rounds, records=records)
    assert report is not None


def test_a_seed_says_everything():
    faults = list(FAULTS)
    one, two = (plan_of(7, faults, rounds=50, records=1000) for _ in range(2))
    assert one == two == Plan.from_json(one.to_json())
    assert one != plan_of(8, faults, rounds=50, records=1000)
    assert all(each.fault in FAULTS and 500 <= each.records <= 1500 for each in one.rounds)


def test_a_failing_plan_shrinks_to_what_makes_it_fail():
    plan = plan_of(3, [*"abcdefgh"], rounds=12, records=100)
    rounds = (*plan.rounds[:4], Round("guilty", 50, 1), *plan.rounds[4:], Round("too", 50, 2))
    played = []

    def fails(plan):
        played.append(plan)
        return {"guilty", "too"} <= {each.fault for each in plan.rounds}

    shortest = shrunk(Plan(3, 1, 100, rounds), fails)
    assert [each.fault for each in shortest.rounds] == ["guilty", "too"]
    assert len(played) == len(rounds)


def test_every_planted_bug_names_faults_that_there_are():
    assert len(BUGS) >= 10
    assert {fault for bug in BUGS.values() for fault in bug.faults} <= FAULTS.keys()


@pytest.mark.parametrize("name", BUGS)
def test_what_a_bug_plants_can_be_called_as_what_it_replaces(name):
    """Where it cannot be called, the run fails: nothing is lost or doubled, and the bug is not caught."""
    for patch in BUGS[name].plant():
        planted = getattr(patch, "kwargs", {}).get("side_effect", getattr(patch, "new", None))
        if inspect.isfunction(planted):
            honest = inspect.signature(getattr(patch.getter(), patch.attribute)).parameters.values()
            by_place = [each for each in honest if each.kind is each.POSITIONAL_OR_KEYWORD]
            by_name = {each.name: each for each in honest if each.kind is each.KEYWORD_ONLY}
            inspect.signature(planted).bind(*by_place, **by_name)


def test_the_figures():
    plan = Plan(4, 1, 100, ())
    good = Report(plan, Counter({("kill:write", "survived"): 2, ("retention", "refused"): 1}), rounds=4)
    good.produced, good.audited, good.kills, good.excused = 5000, 4000, 2, 7
    good.verdicts["kill:create", "missed"] = 1
    bad = Report(Plan(5, 1, 100, ()), Counter({("kill:write_dead_letters", "refused"): 1}), problem="lost", rounds=1)
    bad.found.lost.append("one")
    bad.restarts = 1
    assert figures([good, bad]) == (
        "seeds 4 to 5, 5 rounds\n"
        "  faults             injected  survived  refused  missed\n"
        "  kill                      3         2        1       1\n"
        "  retention                 1         0        1       0\n"
        "kills 2, restarts of servers 1\n"
        "records: produced 5,000, visible and audited 4,000, of which compaction took away 7 before\n"
        "audited by sink: append 4,000, upsert 0, history 0\n"
        "lost 1, doubled 0, phantom 0, wrong 0\n"
        "episodes that were not clean: 1"
    )


def test_cover_asks_for_what_there_was_too_little_of():
    faults = ["kill:a", "kill:b", "retention", "checkpoint:a:empty", "checkpoint:b:empty"]
    assert Counter(too_few(faults, [])) == {each: 10 if kind_of(each) == "checkpoint" else 1 for each in faults}
    verdicts = Counter({("kill:a", "survived"): 19, ("kill:b", "missed"): 5, ("retention", "refused"): 20})
    verdicts |= {("checkpoint:a:empty", "survived"): 30, ("checkpoint:b:empty", "survived"): 9}
    assert too_few(faults, [Report(Plan(1, 1, 100, ()), verdicts)]) == ["kill:a", "kill:b", "checkpoint:b:empty"]


def test_faults_belong_to_classes():
    assert {kind_of(name) for name in FAULTS} >= {"kill", "freeze", "broker", "network", "checkpoint", "disk_full"}
    assert sum(1 for name in FAULTS if kind_of(name) == "checkpoint") >= 45


def test_an_option_that_is_none(capsys):
    with pytest.raises(SystemExit):
        main(["--nonsense"])
    assert "unrecognized arguments: --nonsense" in capsys.readouterr().err


def test_the_docs_say_what_the_long_audit_came_to():
    reports = Tally(ROOT / "tests/data/audit-tally.jsonl").reports
    text = (ROOT / "docs/explanation/exactly-once.md").read_text("utf-8")
    hits = Counter()
    for (fault, verdict), times in sum((report.verdicts for report in reports), Counter()).items():
        hits[kind_of(fault)] += times if verdict != "missed" else 0
    keyed = sum(report.audited for report in reports if report.plan.sink != "append")
    table = text[text.index("The long audit so far") : text.index("What it found before")]
    said = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d", table)]
    for total in (sum(each.audited for each in reports), keyed, sum(each.excused for each in reports), *hits.values()):
        assert total in said
    assert f"After {sum(hits.values())} injected faults" in (ROOT / "README.md").read_text("utf-8")
    assert too_few([*FAULTS], reports) == []
    assert not any(report.problem for report in reports)
