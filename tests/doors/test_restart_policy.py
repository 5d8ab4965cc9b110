"""Whether a flow starts again after a failure, and after which pause."""

from __future__ import annotations

import pytest

from rivermouth.engine.run.restart_policy import DRAIN_RESTARTS, FIRST_DELAY_S, LONGEST_DELAY_S, RestartPolicy
from rivermouth.errors import (
    BrokerUnreachable,
    SinkFenced,
    SinkRecordInvalid,
    SinkUnreachable,
    TopicMissing,
    TopicPatternEmpty,
    TopicRecreated,
)

AWAY = BrokerUnreachable(bootstrap_servers="s", timeout_s=1, reason="r", fix="f")
SINK = {"flow": "f", "sink": "f", "detail": "d"}
MISSING = TopicMissing(flow="f", topic="t", fix="f")
EMPTY = TopicPatternEmpty(flow="f", pattern="p", fix="f")
RECREATED = TopicRecreated(flow="f", topic="t", found="b", expected="a", stands="{}", held=1, options="")
UNKNOWN = OSError("the network is down")


def policy(*, follows=True, records_loss=False, was_open=True, may_vanish=False):
    return RestartPolicy(follows=follows, records_loss=records_loss, was_open=was_open, may_vanish=may_vanish)


def pause_s(found, error, *, is_open=True, jvm_ended=False, progressed=False):
    return found.pause_s(error, is_open=is_open, jvm_ended=jvm_ended, progressed=progressed)


@pytest.mark.parametrize(
    ("settings", "error", "now", "pause"),
    [
        # What passes by itself is outlasted by a flow that follows, once it was open.
        ({}, AWAY, {}, FIRST_DELAY_S),
        ({"was_open": False}, AWAY, {"is_open": False}, None),
        ({"follows": False}, AWAY, {}, None),
        ({}, MISSING, {}, None),
        # The next opening delivers what the sink did not take. A row that it cannot take is not outlasted.
        ({}, SinkUnreachable(**SINK), {}, FIRST_DELAY_S),
        ({}, SinkFenced(**SINK), {}, FIRST_DELAY_S),
        ({"was_open": False}, SinkUnreachable(**SINK), {"is_open": False}, None),
        ({}, SinkRecordInvalid(**SINK), {}, None),
        # A topic may be created again, which the next opening records.
        ({"records_loss": True}, MISSING, {}, FIRST_DELAY_S),
        ({"records_loss": True}, EMPTY, {"is_open": False}, FIRST_DELAY_S),
        ({"records_loss": True, "follows": False}, MISSING, {}, None),
        ({"records_loss": True, "was_open": False}, MISSING, {"is_open": False}, None),
        ({"records_loss": True, "may_vanish": True}, MISSING, {}, None),
        # Data that is gone is recorded by the next opening, where the flow may.
        ({"records_loss": True}, RECREATED, {}, 0.0),
        ({"records_loss": True, "follows": False}, RECREATED, {}, 0.0),
        ({"records_loss": True}, RECREATED, {"is_open": False}, None),
        ({}, RECREATED, {}, None),
        # What nobody knows may pass too, but not without a JVM.
        ({}, UNKNOWN, {}, FIRST_DELAY_S),
        ({"was_open": False}, UNKNOWN, {"is_open": False}, FIRST_DELAY_S),
        ({}, UNKNOWN, {"jvm_ended": True}, None),
    ],
)
def test_a_first_failure(settings, error, now, pause):
    assert pause_s(policy(**settings), error, **now) == pause


def test_failures_in_a_row_make_the_pauses_longer_up_to_a_bound_and_progress_makes_them_short_again():
    found = policy()
    assert [pause_s(found, UNKNOWN) for _ in range(4)] == [1, 2, 4, 8]
    assert [pause_s(found, AWAY) for _ in range(4)] == [16, 32, LONGEST_DELAY_S, LONGEST_DELAY_S]
    assert [pause_s(found, UNKNOWN, progressed=True), pause_s(found, UNKNOWN)] == [1, 2]


def test_a_flow_that_drains_starts_again_a_few_times():
    found = policy(follows=False)
    assert [pause_s(found, UNKNOWN) is None for _ in range(DRAIN_RESTARTS + 1)] == [*[False] * DRAIN_RESTARTS, True]
