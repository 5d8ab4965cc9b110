"""Replay moves exactly the dead letters that now pass, once, whatever happens in the middle."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
from pathlib import Path

import pytest
from pyspark.sql import functions
from tests.crashes import oracle
from tests.crashes.deciding import GOOD, NOBODY
from tests.crashes.scene import EXPECTATIONS, RULES, Scene

from rivermouth.domain.delta import merge_report
from rivermouth.engine.events import BatchDone, Replayed, StepReached
from rivermouth.engine.run.requests import Request, execute, handle_pending, submit
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.rows.dead_letter import DeadLetterFilter

# The rule that sent records to the dead letters was mended: the others still hold.
MENDED = tuple(each for each in EXPECTATIONS if each["name"] != "known_name")
MENDED_RULES = dataclasses.replace(RULES, expectations=RULES.expectations[:2])
ALL = DeadLetterFilter()


@pytest.fixture(scope="module")
def drained(broker, spark, tmp_path_factory):
    scene = Scene.make(broker, tmp_path_factory.mktemp("replay"), partitions=2)
    scene.produce(900)
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean
    return scene


@pytest.fixture
def scene(drained, tmp_path):
    return drained.copy(tmp_path, expectations=MENDED)


def with_flow(scene, spark, act):
    """Opens the flow without letting it carry anything, and does something with it."""
    results = []

    def once(run):
        results.append(act(run))
        run.stopping.set()

    outcome = scene.follow(spark, until=lambda _event: bool(results), between_batches=once)
    assert outcome.error is None, str(outcome.error)
    return results[0]


def replayed(scene, spark, *, wanted=ALL, dry_run=False):
    return with_flow(scene, spark, lambda run: execute(run, Request("replay", wanted, dry_run)))


def movable(scene):
    """Coordinates of the dead letters that pass under the mended rules, by the oracle."""
    places = {
        at: (oracle.expected(r, RULES), oracle.moved(r, RULES, MENDED_RULES)) for at, r in scene.records().items()
    }
    return {at for at, (first, second) in places.items() if first.place != second.place}


def letters(scene, status):
    return [letter for letter in oracle.rows_of(scene.dead_letters) if letter["status"] == status]


def at_of(row):
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


@pytest.mark.long
def test_of_two_letters_the_one_that_now_passes_is_moved_and_by_no_dry_run(make_scene, spark):
    """One run is asked twice."""
    scene = make_scene(partitions=1)
    scene.send(GOOD, NOBODY, b"{bad")
    assert scene.drain(spark).error is None
    scene.options["expectations"] = MENDED
    [wanted] = movable(scene)
    told, commits = [], [sorted(scene.folder.rglob("_delta_log/*.json"))]

    def ask(run):
        for dry_run in (True, False):
            told.append(execute(run, Request("replay", ALL, dry_run)))
            commits.append(sorted(scene.folder.rglob("_delta_log/*.json")))

    with_flow(scene, spark, ask)
    assert [(each["tried"], each["replayed"], each["remaining"]) for each in told] == [(2, 1, 1)] * 2
    assert commits[0] == commits[1] != commits[2]
    assert {at_of(letter) for letter in letters(scene, "replayed")} == {wanted}
    assert sorted(row["id"] for row in oracle.rows_of(scene.table)) == [1, 2]
    found = scene.audit(replayed_under=MENDED_RULES)
    assert found.is_clean, str(found)


@pytest.mark.long
def test_it_moves_exactly_the_rows_that_now_pass_and_a_second_one_moves_none(scene, spark):
    wanted, tried = movable(scene), len(letters(scene, "open"))
    assert 0 < len(wanted) < tried
    first = replayed(scene, spark)
    assert (first["tried"], first["replayed"], first["remaining"]) == (tried, len(wanted), tried - len(wanted))
    assert {at_of(letter) for letter in letters(scene, "replayed")} == wanted
    assert {letter["attempt"] for letter in letters(scene, "open")} == {2}
    found = scene.audit(replayed_under=MENDED_RULES)
    assert found.is_clean, str(found)
    rows = oracle.rows_of(scene.table)
    second = replayed(scene, spark)
    assert (second["tried"], second["replayed"]) == (tried - len(wanted), 0)
    assert len(oracle.rows_of(scene.table)) == len(rows)
    assert scene.audit(replayed_under=MENDED_RULES).is_clean


@pytest.mark.long
def test_with_a_rule_that_says_something_else_at_each_look_what_is_moved_is_marked(scene, spark):
    scene.options["expectations"] = (*MENDED, {"name": "coin", "condition": "rand() < 0.5", "action": "dead_letter"})
    before = {at_of(row) for row in oracle.rows_of(scene.table)}
    done = replayed(scene, spark)
    moved = {at_of(row) for row in oracle.rows_of(scene.table)} - before
    assert {at_of(letter) for letter in letters(scene, "replayed")} == moved < movable(scene)
    assert done["replayed"] == len(moved) > 0


@pytest.mark.long
def test_what_does_not_fit_into_the_driver_is_not_sent_to_each_task(scene, spark, monkeypatch):
    """Neither by a replay nor by what finishes it after it was ended."""
    wanted = movable(scene)
    monkeypatch.setattr(merge_report, "BROADCAST_CHANGES", -1)
    monkeypatch.setattr(functions, "broadcast", lambda _frame: pytest.fail("all rows are sent to each task"))
    again = Request("replay", ALL)
    scene.end_at(spark, "replay_mark", follow=True, between_batches=lambda run: execute(run, again))
    assert scene.drain(spark).error is None
    assert {at_of(letter) for letter in letters(scene, "replayed")} == wanted
    assert replayed(scene, spark)["replayed"] == 0
    found = scene.audit(replayed_under=MENDED_RULES)
    assert found.is_clean, str(found)


@pytest.mark.long
def test_a_dry_run_says_the_same_and_moves_none(scene, spark):
    wanted, before = movable(scene), sorted(scene.folder.rglob("_delta_log/*.json"))
    told = replayed(scene, spark, dry_run=True)
    assert (told["replayed"], told["dry_run"]) == (len(wanted), True)
    assert sorted(scene.folder.rglob("_delta_log/*.json")) == before
    assert scene.audit().is_clean


@pytest.mark.long
def test_only_those_that_are_wanted_are_tried(scene, spark):
    wanted = {at for at in movable(scene) if at[1] == 1}
    told = replayed(scene, spark, wanted=DeadLetterFilter(partition=1, stage="expectation"))
    assert told["replayed"] == len(wanted) > 0
    assert {at_of(letter) for letter in letters(scene, "replayed")} == wanted
    assert {letter["attempt"] for letter in letters(scene, "open") if letter["stage"] == "decode"} == {1}


@pytest.mark.long
def test_discarded_letters_stay_and_are_never_tried_again(scene, spark):
    some = DeadLetterFilter(partition=0)
    count = sum(1 for letter in letters(scene, "open") if letter["kafka_partition"] == 0)
    for expected, dry_run in ((count, True), (count, False), (0, False)):
        told = with_flow(scene, spark, lambda run, dry=dry_run: execute(run, Request("discard", some, dry)))
        assert told == {"discarded": expected, "dry_run": dry_run}
    assert len(letters(scene, "discarded")) == count
    wanted = {at for at in movable(scene) if at[1] == 1}
    assert replayed(scene, spark)["replayed"] == len(wanted)


@pytest.mark.long
def test_while_the_flow_runs_it_is_asked_and_answers(make_scene, spark):
    scene = make_scene(trigger={"every": "100 ms", "max_offsets": 500})
    scene.produce(900)
    assert scene.drain(spark).error is None
    scene.options["expectations"] = MENDED
    wanted = movable(scene)
    scene.produce(600, seed=2)
    answers = []

    def ask_for_it():
        answers.append(submit(LocalFiles(), scene.places, Request("replay", ALL), is_running=lambda: True))

    asker = threading.Thread(target=ask_for_it, daemon=True)

    def until(event):
        if isinstance(event, BatchDone) and not asker.ident:
            asker.start()
        return isinstance(event, Replayed)

    outcome = scene.follow(spark, until=until, between_batches=handle_pending)
    assert outcome.error is None, str(outcome.error)
    asker.join(30)
    assert answers[0]["replayed"] >= len(wanted)
    assert list(Path(scene.places.requests).iterdir()) == []
    assert scene.drain(spark).error is None
    assert {at_of(letter) for letter in letters(scene, "replayed")} >= wanted
    twice = [at_of(row) for row in oracle.rows_of(scene.table)]
    assert len(twice) == len(set(twice))


@pytest.fixture(params=["ended", pytest.param("killed", marks=pytest.mark.long)])
def end_replay_at(request, spark):
    """Ends a run at a step of the replay that it was asked for; see ``end_at``."""
    if request.param == "ended":
        again = Request("replay", ALL)
        return lambda scene, on: scene.end_at(spark, on, follow=True, between_batches=lambda run: execute(run, again))
    children = request.getfixturevalue("children")

    def kill(scene, on):
        child = children.run(scene, own_jvm=False, follow=True, stay=True, kill={"on": on, "nth": 1, "who": "python"})
        assert child.code == -signal.SIGKILL, child.said()

    return kill


@pytest.mark.long
@pytest.mark.parametrize("step", [pytest.param("replay_write", marks=pytest.mark.long), "replay_mark"])
def test_ended_in_the_middle(step, scene, end_replay_at, spark):
    wanted = movable(scene)
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    request.write_text(Request("replay", ALL).to_json())
    end_replay_at(scene, step)
    # Nobody asks again: opening the flow ends what was begun, and leaves alone what was not.
    assert scene.drain(spark).error is None
    found = scene.audit(replayed_under=MENDED_RULES if step == "replay_mark" else None)
    assert found.is_clean, str(found)
    # The request is still there, and the next run that follows answers it.
    with_flow(scene, spark, handle_pending)
    answer = json.loads(Path(scene.places.requests, "asked.answer.json").read_text())
    assert answer["replayed"] == (0 if step == "replay_mark" else len(wanted))
    assert not request.exists()
    found = scene.audit(replayed_under=MENDED_RULES)
    assert found.is_clean, str(found)


@pytest.mark.parametrize("step", [pytest.param("replay_write", marks=pytest.mark.long), "replay_mark"])
@pytest.mark.long
def test_a_replay_that_fails_is_told_to_who_asked_and_the_flow_goes_on(step, scene, spark):
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    request.write_text(Request("replay", ALL).to_json())
    failures = []

    def until(event):
        if isinstance(event, StepReached) and event.step == step and not failures:
            failures.append(event)
            raise OSError("the disk was full for a moment")
        return False

    def between(run):
        handle_pending(run)
        if failures:
            run.stopping.set()

    outcome = scene.follow(spark, until=until, between_batches=between)
    assert outcome.error is None, str(outcome.error)
    answer = json.loads(Path(scene.places.requests, "asked.answer.json").read_text())
    assert answer == {"kind": "replay", "error": "the disk was full for a moment"}
    assert scene.drain(spark).error is None
    found = scene.audit(replayed_under=MENDED_RULES if step == "replay_mark" else None)
    assert found.is_clean, str(found)
