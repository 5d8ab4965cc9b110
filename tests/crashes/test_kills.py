"""Killed at every step, restarted at once: each visible record is in exactly one place."""

from __future__ import annotations

import itertools
import json
import signal

import pytest
from tests.crashes import oracle
from tests.crashes.child import gateway_of
from tests.crashes.conftest import Child
from tests.crashes.scene import Scene

STEPS = (
    "create",  # before the CREATE TABLE commit with entry 0
    "created",  # after it
    "ledger",
    "read",
    "decode",
    "conform",
    "check",
    "route",
    "write",  # before the table's commit
    "written",  # after it
    "dead_letters",
    "write_dead_letters",  # before the dead letters' commit
    "dead_letters_written",  # after it
    "complete",
    "BatchDone",  # the side file is written; Spark's own commit file is not
)
MODES = ("drain", "follow")
VICTIMS = ("python", "both", "jvm")


# What a killed step leaves to be recovered passes the steps of dead letters first: their own turn is the second then.
CHAINS = (
    STEPS[:5],
    STEPS[5:10],
    ("BatchDone", "dead_letters", "complete", "write_dead_letters", "dead_letters_written"),
)
# One of all steps between which nothing is written: the lake that a run leaves at the others is the same.
BETWEEN_COMMITS = (("create", "created", "write"), ("BatchDone", "written", "dead_letters_written"))
SECOND = ("write_dead_letters", "dead_letters_written")
ONE_BATCH = 700
AFTER_COMMITS = ("created", "written", "dead_letters_written", "BatchDone")


def died_as_told(child, who):
    expected = {"python": -signal.SIGKILL, "both": -signal.SIGKILL, "jvm": 1}[who]
    assert child.code == expected, child.said()


def assert_no_harm(scene: Scene):
    """Nothing is doubled, made up or garbled at this moment; what is not there yet is not lost yet."""
    found = scene.audit(with_counts=False)
    assert [*found.doubled, *found.phantom, *found.wrong] == []


def assert_whole(scene: Scene, spark, *, follow: bool):
    """After another run everything is where it belongs, and the ledger counted it."""
    outcome = scene.follow(spark) if follow else scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_a_run_that_ends_behind_a_commit_is_found_by_the_next_one(make_scene, spark):
    """The short form of the next one: the table is there without rows, then it has rows without their dead letters."""
    scene = make_scene()
    for seed, step in enumerate(("created", "written")):
        scene.produce(200, seed=seed)
        assert scene.end_at(spark, step).count(step) == 1
        assert_no_harm(scene)
    assert_whole(scene, spark, follow=False)


@pytest.mark.long
@pytest.mark.parametrize("steps", [*BETWEEN_COMMITS, *CHAINS], ids=" ".join)
def test_ended_at_one_step_after_the_other(steps, make_scene, end_at, spark):
    """Each run finds what the one before left, and ends as well."""
    scene = make_scene(partitions=3)
    for index, step in enumerate(steps):
        scene.produce(ONE_BATCH, partitions=3, seed=index)
        nth = 2 if step in SECOND else 1
        assert end_at(scene, step, nth=nth, follow=index % 2 == 1).count(step) == nth
        assert_no_harm(scene)
    assert_whole(scene, spark, follow=True)


def test_a_process_that_is_killed_behind_a_commit_is_found_by_the_next_one(make_scene, spark, tmp_path, request):
    """The short form of the next one: the process dies, and this one, whose JVM it used, goes on."""
    scene = make_scene()
    scene.produce(200)
    child = Child(tmp_path, json.dumps(gateway_of(spark)))
    request.addfinalizer(child.cleanup)
    child.code = child.run(scene, kill={"on": "written", "nth": 1, "who": "python"})
    died_as_told(child, "python")
    assert child.events.count("written") == 1
    assert_no_harm(scene)
    assert_whole(scene, spark, follow=False)


@pytest.mark.long
@pytest.mark.parametrize("steps", [("written",), AFTER_COMMITS], ids=len)
def test_killed_after_one_commit_after_the_other(steps, make_scene, children, spark):
    """Each process finds what the one before left, and dies as well."""
    scene = make_scene(partitions=3)
    for index, step in enumerate(steps):
        scene.produce(ONE_BATCH, partitions=3, seed=index)
        nth = 2 if step in SECOND else 1
        child = children.run(
            scene, own_jvm=False, follow=index % 2 == 1, kill={"on": step, "nth": nth, "who": "python"}
        )
        children.get_ready(own_jvm=False)
        died_as_told(child, "python")
        assert child.events.count(step) == nth
        assert_no_harm(scene)
    assert_whole(scene, spark, follow=True)


@pytest.mark.long
@pytest.mark.parametrize(("step", "mode", "who"), [*itertools.product(STEPS, MODES, VICTIMS)])
def test_killed_at(step, mode, who, make_scene, children, spark):
    partitions = 2 + len(step) % 2
    scene = make_scene(partitions=partitions)
    # Two batches, or three: after the last of these steps nothing else would need the JVM that was killed.
    scene.produce(2600 if step in {"complete", "BatchDone"} else 1500, partitions=partitions)
    nth = 1 if step in {"create", "created"} else 2
    own_jvm = who != "python"
    child = children.run(scene, own_jvm=own_jvm, follow=mode == "follow", kill={"on": step, "nth": nth, "who": who})
    children.get_ready(own_jvm=own_jvm)
    died_as_told(child, who)
    assert child.events.count(step) == nth
    assert_no_harm(scene)
    # The other way round than before: what one way of running leaves behind, the other must understand.
    assert_whole(scene, spark, follow=mode == "drain")


@pytest.mark.long
def test_killed_while_it_recovers_from_having_been_killed(make_scene, children, spark):
    scene = make_scene()
    scene.produce(1500)
    first = children.run(scene, own_jvm=False, kill={"on": "write_dead_letters", "nth": 2, "who": "python"})
    children.get_ready(own_jvm=False)
    died_as_told(first, "python")
    second = children.run(scene, own_jvm=False, follow=True, kill={"on": "recover", "nth": 1, "who": "python"})
    children.get_ready(own_jvm=False)
    died_as_told(second, "python")
    assert_no_harm(scene)
    # And once more: between the dead letters that the recovery wrote and the note that they are complete.
    third = children.run(scene, own_jvm=False, kill={"on": "dead_letters_written", "nth": 1, "who": "python"})
    died_as_told(third, "python")
    assert_no_harm(scene)
    assert_whole(scene, spark, follow=False)


@pytest.mark.long
def test_killed_between_the_return_of_the_callback_and_sparks_own_commit_file(make_scene, children, spark):
    scene = make_scene()
    scene.produce(1500)
    kill = {"on": "BatchDone", "nth": 2, "who": "both", "after_return": True}
    child = children.run(scene, own_jvm=True, follow=True, kill=kill)
    children.get_ready(own_jvm=True)
    died_as_told(child, "both")
    assert sorted(path.name for path in scene.checkpoint.glob("offsets/[0-9]*")) == ["0", "1"]
    assert sorted(path.name for path in scene.checkpoint.glob("commits/[0-9]*")) == ["0"]
    assert_no_harm(scene)
    assert_whole(scene, spark, follow=True)


IN_THE_AIR = [*itertools.product(("create", "write", "write_dead_letters"), (0.01, 0.05, 0.1, 0.2, 0.4, 0.8))]


@pytest.mark.parametrize(("step", "delay_s"), IN_THE_AIR)
@pytest.mark.long
def test_the_jvm_outlives_python_with_a_commit_in_the_air(step, delay_s, make_scene, children, spark):
    scene = make_scene()
    # Enough batches that it is not done when it is killed.
    scene.produce(4000)
    kill = {"on": step, "nth": 1 if step == "create" else 2, "who": "python", "delay_s": delay_s}
    child = children.run(scene, own_jvm=False, kill=kill)
    died_as_told(child, "python")
    # At once: the orphan may commit before, while or after the new process does.
    assert_whole(scene, spark, follow=False)


@pytest.mark.long
@pytest.mark.parametrize("step", ["write", pytest.param("write_dead_letters", marks=pytest.mark.long)])
def test_the_late_commit_of_a_frozen_jvm_loses(step, make_scene, children, spark):
    scene = make_scene()
    scene.produce(1500)
    location = scene.table if step == "write" else scene.dead_letters
    kill = {"on": step, "nth": 2, "who": "python", "freeze_jvm": True, "keep_jvm": True}
    child = children.run(scene, own_jvm=True, kill={**kill, "once_writing": str(location)})
    children.get_ready(own_jvm=True)
    died_as_told(child, "python")
    assert_whole(scene, spark, follow=False)
    commits = sorted(location.glob("_delta_log/*.json"))
    child.resume_jvm()
    child.wait_until_its_jvm_rests()
    # It did the work of its commit, down to the files, and none of it became a version.
    assert set(location.glob("*.parquet")) > {location / name for name in oracle.files_of(location)}
    assert sorted(location.glob("_delta_log/*.json")) == commits
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.long
def test_a_process_that_lost_its_jvm_starts_another_and_goes_on(follow, make_scene, children):
    """Nobody restarts anything by hand: the supervisor makes a new session and halves its batches."""
    scene = make_scene()
    scene.produce(1500)
    kill = {"on": "written", "nth": 2, "who": "jvm"}
    child = children.run(scene, own_jvm=True, follow=follow, restart=True, kill=kill)
    assert child.code == 0, child.said()
    assert child.error is None
    assert "recover" in child.events
    found = scene.audit()
    assert found.is_clean, str(found)
