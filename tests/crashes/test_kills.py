"""Killed at every step, restarted at once: each visible record is in exactly one place."""

from __future__ import annotations

import itertools
import os
import signal

import pytest

from tests.crashes.scene import Scene

EVERYTHING = bool(os.environ.get("RIVERMOUTH_ALL_CRASHES"))

STEPS = (
    "create",  # before the CREATE TABLE commit with entry 0
    "created",  # after it
    "judge",
    "read",
    "decode",
    "conform",
    "check",
    "route",
    "write",  # before the table's commit
    "written",  # after it
    "dead_letters",
    "bury",  # before the dead letters' commit
    "buried",  # after it
    "settle",
    "BatchDone",  # the side file is written; Spark's own commit file is not
)
MODES = ("drain", "follow")
VICTIMS = ("python", "both", "jvm")


CASES = (
    list(itertools.product(STEPS, MODES, VICTIMS))
    if EVERYTHING
    else [(step, MODES[index % 2], "python") for index, step in enumerate(STEPS)]
)


def died_as_told(child, who):
    expected = {"python": -signal.SIGKILL, "both": -signal.SIGKILL, "jvm": 1}[who]
    assert child.code == expected, child.said()


def assert_no_harm(scene: Scene):
    """Nothing is doubled, made up or garbled at this moment; what is not there yet is not lost yet."""
    found = scene.audit(with_counts=False)
    assert not (found.doubled or found.phantom or found.wrong), str(found)


def assert_whole(scene: Scene, spark, *, follow: bool):
    """After another run everything is where it belongs, and the ledger counted it."""
    outcome = scene.follow(spark) if follow else scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.parametrize(("step", "mode", "who"), CASES)
def test_killed_at(step, mode, who, make_scene, children, spark):
    partitions = 2 + len(step) % 2
    scene = make_scene(partitions=partitions)
    scene.produce(2400, partitions=partitions)
    nth = 1 if step in {"create", "created"} else 2
    own_jvm = who != "python"
    child = children.run(scene, own_jvm=own_jvm, follow=mode == "follow", kill={"on": step, "nth": nth, "who": who})
    children.get_ready(own_jvm=own_jvm)
    died_as_told(child, who)
    assert child.events.count(step) == nth
    assert_no_harm(scene)
    # The other way round than before: what one way of running leaves behind, the other must understand.
    assert_whole(scene, spark, follow=mode == "drain")
