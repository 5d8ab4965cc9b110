"""A pipeline ended at every step of its batches, one after the other, with its checkpoints in every state.

Each source feeds each kind of target. What a run leaves, the next one finds, with new rows, and ends at the next step.
Then everything is where it belongs, or a query that keeps state says that its state is lost.
"""

from __future__ import annotations

import pytest
from tests.crashes.feed import (
    HARMS,
    STEPS,
    Feed,
    assert_carried,
    assert_nothing_doubled,
    assert_one_batch_each,
    assert_whole,
    run_to_the_end_of_each,
)

LONG = (pytest.mark.long, pytest.mark.timeout(1800))

# The same in three runs: each flow ends at the first of them that it comes to.
SHORT = (("files", "write", "sink"), ("written", "sink_written"), ("cdc", "dead_letters", "BatchWritten"))


def test_a_run_that_ends_behind_its_commits_is_found_by_the_next_one(tmp_path, spark):
    """The short form of these tests: one run ends, each flow behind its own commit, and the next one ends none."""
    feed = Feed(tmp_path, spark, few=True)
    feed.more()
    outcomes, _ = feed.run(at=SHORT[1])
    assert {each.error.code for each in outcomes.values() if each.error is not None} == {"QUERY_FAILED"}
    feed.more()
    assert_carried(feed, set(), "kept")
    assert_one_batch_each(feed)


@pytest.mark.long
def test_ended_at_several_steps_at_once(tmp_path, spark):
    """The cheap one of the long ones: three runs end, each flow at another step, and one source feeds all targets."""
    feed = Feed(tmp_path, spark)
    run_to_the_end_of_each(feed, SHORT, "kept")


@pytest.mark.parametrize("how", [pytest.param(how, marks=LONG) for how in HARMS])
def test_ended_at_one_step_after_the_other(how, tmp_path, spark, topic, broker):
    """All flows end at the step; each run finds what the one before left."""
    feed = Feed(tmp_path, spark, broker.bootstrap_servers, topic(partitions=2))
    run_to_the_end_of_each(feed, [(step,) for step in STEPS], how)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_killed_at_one_step_after_the_other(tmp_path, spark, children):
    """One flow comes to the step, and the others die wherever they are; their JVM outlives them."""
    feed = Feed(tmp_path, spark)
    for step in STEPS:
        feed.more()
        feed.killed(children, step)
        assert_nothing_doubled(feed, step)
    assert_whole(feed, set(), "kept")
