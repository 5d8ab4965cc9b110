"""Data that is gone is decided about: recorded once, whatever happens, and nothing else is lost or doubled."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.crashes import oracle
from tests.crashes.deciding import (
    GOOD,
    MENDED,
    NOBODY,
    at_of,
    counted,
    decided,
    decisions,
    hinted,
    holds_epoch,
    status_of,
)

from rivermouth.engine.events import BatchDone, DecisionRecorded, FlowRestarted, StepReached
from rivermouth.engine.report.plan import plan_flow
from rivermouth.engine.run.requests import Request, execute
from rivermouth.rows.dead_letter import DeadLetterFilter


@pytest.fixture
def gap(make_scene, spark):
    """A flow at offset 10 of a topic that begins at 25 and ends at 30."""
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    scene.send(*[GOOD] * 20)
    scene.drop_before(25)
    return scene


# --- a gap -------------------------------------------------------------------------------------------


def test_what_is_gone_is_recorded_by_the_command_in_the_hint_and_the_flow_goes_on(gap, spark):
    decision = hinted(gap.drain(spark).error)
    assert decision["accept_loss"] == [f"{gap.topic}-0:10-25"]
    outcome = decided(gap, spark, **decision)
    assert outcome.error is None, str(outcome.error)
    assert outcome.counts.written == 5
    (recorded,) = decisions(gap)
    assert (recorded["kind"], recorded["topic"], recorded["moves"]) == ("accept_loss", gap.topic, {"0": [10, 25]})
    assert (recorded["why"], "@" in recorded["who"]) == ("we know", True)
    assert [each.decision.kind for each in gap.told(DecisionRecorded)] == ["accept_loss"]
    # Typed once more it finds itself.
    assert decided(gap, spark, **decision).error is None
    assert len(decisions(gap)) == 1
    assert {name: counted(gap)[name] for name in ("consumed", "written", "lost")} == {
        "consumed": 15,
        "written": 15,
        "lost": 15,
    }
    status = status_of(gap)
    assert (status.message, status.lost, [each.kind for each in status.decisions]) == (
        "up to date",
        15,
        ["accept_loss"],
    )


def test_another_range_than_the_one_that_is_gone_is_refused_and_nothing_is_recorded(gap, spark):
    assert str(decided(gap, spark, accept_loss=[f"{gap.topic}-0:10-30"]).error) == (
        f"[DECISION_REFUSED] flow shop: --accept-loss {gap.topic}-0:10-30 is refused: what is gone is "
        f"{gap.topic}-0:10-25; nothing was recorded\n"
        f'  hint: rivermouth run shop --accept-loss {gap.topic}-0:10-25 --why "REASON"'
    )
    assert decisions(gap) == []


@pytest.mark.parametrize("step", ["decide", "decided"])
@pytest.mark.long
def test_killed_before_or_after_its_commit_a_decision_is_recorded_once(step, gap, children, spark):
    decision = {"accept_loss": [f"{gap.topic}-0:10-25"]}
    gap.decision = {"why": "we know", **decision}
    child = children.run(gap, own_jvm=False, kill={"on": step, "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    assert len(decisions(gap)) == (1 if step == "decided" else 0)
    outcome = decided(gap, spark, **decision)
    assert outcome.error is None, str(outcome.error)
    assert len(decisions(gap)) == 1
    assert (counted(gap)["lost"], counted(gap)["written"]) == (15, 15)
    assert len(oracle.rows_of(gap.table)) == 15


@pytest.mark.long
def test_dead_letters_that_kafka_dropped_before_they_settled_are_lost_and_counted(make_scene, children, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD, NOBODY, b"{bad", GOOD] * 5)
    child = children.run(scene, own_jvm=False, kill={"on": "dead_letters", "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    scene.drop_before(8)
    decision = hinted(scene.drain(spark).error)
    assert decision["accept_loss"] == [f"{scene.topic}-0:0-8"]
    outcome = decided(scene, spark, **decision)
    assert outcome.error is None, str(outcome.error)
    counts = counted(scene)
    # Of the first eight the table has four; the other four were dead letters.
    assert {name: counts[name] for name in ("consumed", "written", "dead_lettered", "lost")} == {
        "consumed": 16,
        "written": 10,
        "dead_lettered": 6,
        "lost": 4,
    }
    assert len(oracle.rows_of(scene.table)) == 10
    assert sorted(at_of(each)[2] for each in oracle.rows_of(scene.dead_letters)) == [9, 10, 13, 14, 17, 18]


# --- another topic -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["written", "dead_letters_written"])
@pytest.mark.long
def test_a_new_epoch_has_its_own_records_also_if_its_first_batch_is_cut_off(step, make_scene, children, spark):
    scene = make_scene(partitions=2)
    scene.produce(300)
    assert scene.drain(spark).error is None
    first = scene.records()
    scene.make_topic_anew(2)
    scene.produce(300, seed=2)
    decision = hinted(scene.drain(spark).error)
    assert decision["new_epoch"] == [scene.topic]
    scene.decision = {"why": "we know", **decision}
    child = children.run(scene, own_jvm=False, kill={"on": step, "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    outcome = decided(scene, spark, **decision)
    assert outcome.error is None, str(outcome.error)
    assert len(decisions(scene)) == 1
    assert holds_epoch(scene, 0, first)
    assert holds_epoch(scene, 1, scene.records())


@pytest.mark.long
def test_a_replay_tells_dead_letters_of_one_epoch_from_those_of_another(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(NOBODY, GOOD)
    assert scene.drain(spark).error is None
    scene.make_topic_anew(1)
    scene.send(NOBODY, NOBODY)
    assert decided(scene, spark, new_epoch=[scene.topic]).error is None
    scene.options["expectations"] = MENDED
    done = []

    def once(run):
        done.append(execute(run, Request("replay", DeadLetterFilter())))
        run.stopping.set()

    outcome = scene.follow(spark, until=lambda _event: bool(done), between_batches=once)
    assert outcome.error is None, str(outcome.error)
    assert (done[0]["tried"], done[0]["replayed"]) == (3, 3)
    rows = Counter((row["kafka_offset"], row["kafka_epoch"] or 0) for row in oracle.rows_of(scene.table))
    assert rows == {(0, 0): 1, (1, 0): 1, (0, 1): 1, (1, 1): 1}
    assert {each["status"] for each in oracle.rows_of(scene.dead_letters)} == {"replayed"}


def test_a_payload_with_the_column_of_the_epochs_cannot_begin_one(make_scene, spark):
    form = {"type": "json", "schema": "id bigint, Kafka_Epoch int"}
    scene = make_scene(partitions=1, format=form, expectations=[])
    scene.send(GOOD)
    assert scene.drain(spark).error is None
    scene.make_topic_anew(1)
    assert str(decided(scene, spark, new_epoch=[scene.topic]).error) == (
        "[EPOCH_COLUMN_TAKEN] flow shop: rows of a new epoch have its number in the column kafka_epoch, and the "
        "payload has one of that name; nothing was written\n"
        "  hint: write the topic as it is now into a new table, by another flow"
    )


@pytest.mark.long
def test_a_replay_that_was_cut_off_is_finished_before_anything_is_decided(make_scene, children, spark):
    scene = make_scene(partitions=1)
    scene.send(NOBODY, GOOD)
    assert scene.drain(spark).error is None
    scene.options["expectations"] = MENDED
    request = Path(scene.places.requests, "asked.json")
    request.parent.mkdir(parents=True)
    request.write_text(Request("replay", DeadLetterFilter()).to_json())
    kill = {"on": "replay_mark", "who": "python"}
    child = children.run(scene, own_jvm=False, follow=True, stay=True, kill=kill)
    assert child.code == -signal.SIGKILL, child.said()
    scene.make_topic_anew(1)
    scene.send(GOOD)
    outcome = decided(scene, spark, new_epoch=[scene.topic])
    assert outcome.error is None, str(outcome.error)
    assert [each["status"] for each in oracle.rows_of(scene.dead_letters)] == ["replayed"]
    assert (counted(scene)["replayed"], counted(scene)["written"]) == (1, 2)
    assert len(oracle.rows_of(scene.table)) == 3


# --- decided beforehand ------------------------------------------------------------------------------


def test_a_flow_that_records_losses_goes_on_behind_a_gap_and_a_plan_says_so(gap, spark):
    gap.options["on_data_loss"] = "record"
    plan = plan_flow(spark, gap.order)
    assert plan.problem is None
    assert plan.ranges == {gap.topic: {0: (25, 30)}}
    said = f"a run records first: offsets 10 to 25 (exclusive) of {gap.topic}-0 are lost"
    assert said in plan.warnings
    assert decisions(gap) == []
    outcome = gap.drain(spark)
    assert (outcome.error, outcome.counts.written) == (None, 5)
    (recorded,) = decisions(gap)
    assert (recorded["who"], recorded["moves"]) == ("on_data_loss", {"0": [10, 25]})
    assert counted(gap)["lost"] == 15


@pytest.mark.long
def test_a_flow_that_records_losses_goes_on_with_a_topic_that_is_recreated_between_two_batches(make_scene, spark):
    scene = make_scene(partitions=1, trigger={"max_offsets": 100}, on_data_loss="record")
    scene.send(*[GOOD] * 300)

    def recreate(event):
        if isinstance(event, StepReached) and event.step == "complete" and len(scene.told(BatchDone)) == 1:
            scene.make_topic_anew(1)
            scene.send(*[GOOD] * 150)

    outcome = scene.drain(spark, recreate)
    assert outcome.error is None, str(outcome.error)
    epochs = Counter(row["kafka_epoch"] or 0 for row in oracle.rows_of(scene.table))
    assert epochs == {0: 200, 1: 150}
    assert [each["kind"] for each in decisions(scene)] == ["new_epoch"]


@pytest.mark.long
def test_a_flow_that_records_losses_goes_on_with_a_topic_that_is_recreated_while_it_follows(make_scene, spark):
    scene = make_scene(partitions=1, on_data_loss="record")
    scene.send(*[GOOD] * 100)

    def recreate(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            scene.make_topic_anew(1)
            scene.send(*[GOOD] * 50)
        return sum(done.counts.written for done in scene.told(BatchDone)) >= 150

    outcome = scene.follow(spark, until=recreate)
    assert outcome.error is None, str(outcome.error)
    rows = Counter((row["kafka_epoch"] or 0, row["kafka_offset"]) for row in oracle.rows_of(scene.table))
    assert rows == {(0, offset): 1 for offset in range(100)} | {(1, offset): 1 for offset in range(50)}
    assert [each["kind"] for each in decisions(scene)] == ["new_epoch"]


@pytest.mark.long
def test_a_flow_that_records_losses_waits_while_its_topic_is_away(make_scene, spark):
    scene = make_scene(partitions=1, on_data_loss="record")
    scene.send(*[GOOD] * 10)
    away = []

    def recreate(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            scene.delete_topic()
        if isinstance(event, FlowRestarted) and event.error.startswith("[TOPIC_MISSING]"):
            away.append(event)
            if len(away) == 2:  # once while it followed, and once while it was opened
                scene.make_topic(scene.topic, 1)
                scene.send(*[GOOD] * 5)
        return sum(done.counts.written for done in scene.told(BatchDone)) >= 15

    outcome = scene.follow(spark, until=recreate)
    assert outcome.error is None, str(outcome.error)
    rows = Counter((row["kafka_epoch"] or 0, row["kafka_offset"]) for row in oracle.rows_of(scene.table))
    assert rows == {(0, offset): 1 for offset in range(10)} | {(1, offset): 1 for offset in range(5)}
    assert [each["kind"] for each in decisions(scene)] == ["new_epoch"]
