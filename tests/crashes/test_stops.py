"""Flows that stop for reasons of their own: what they say, and that the next run finds everything in its place."""

from __future__ import annotations

import threading
import time
import traceback
from dataclasses import replace
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from tests.crashes.deciding import GOOD, NOBODY

from rivermouth.domain.ledger.ledger import Counts
from rivermouth.engine.batch import microbatch
from rivermouth.engine.batch.pipeline import complete
from rivermouth.engine.events import FlowFailed, FlowRestarted
from rivermouth.engine.run import follow, restart_policy, run_flow
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import CountsDisagree, LakeNotReadable

AGAIN = "rivermouth run shop, which counts the batch again from the table; if it fails again, report a bug"


@pytest.fixture
def scene(make_scene):
    found = make_scene(partitions=1)
    found.send(*[GOOD] * 3, NOBODY)
    return found


def test_rows_that_were_not_counted_stop_the_flow_and_the_next_run_settles_them(scene, spark, monkeypatch):
    honest = microbatch.write_rows

    def one_more(*arguments):
        commit = honest(*arguments)
        return replace(commit, rows_written=commit.rows_written + 1)

    with monkeypatch.context() as lying:
        lying.setattr(microbatch, "write_rows", one_more)
        lying.setattr(restart_policy, "DRAIN_RESTARTS", 0)
        outcome = scene.drain(spark)
    assert str(outcome.error) == (
        "[COUNTS_DISAGREE] flow shop: ledger entry 1: 4 rows in the table, 3 were counted; is an expectation or "
        "expression not deterministic?; its rows are in the table, and its counts are not complete\n"
        f"  hint: {AGAIN}"
    )
    assert scene.drain(spark).error is None
    found = scene.audit()
    assert found.is_clean, str(found)


def test_counts_that_do_not_add_up_are_told_one_by_one():
    entry = SimpleNamespace(number=7)
    run = SimpleNamespace(flow=SimpleNamespace(name="shop"), entry=entry, position=SimpleNamespace(entry=entry))
    with pytest.raises(CountsDisagree) as caught:
        complete(run, {"t": {0: (0, 10)}}, Counts(consumed=10, written=4, merged=1, dropped=2, dead_lettered=1), 1.0)
    assert str(caught.value) == (
        "[COUNTS_DISAGREE] flow shop: ledger entry 7: of 10 records 4 were written, 1 merged, 2 dropped and 1 "
        "dead-lettered, which does not add up; its rows are in the table, and its counts are not complete\n"
        f"  hint: {AGAIN}"
    )


def test_what_nobody_has_a_word_for_is_told_as_it_came(scene, spark, monkeypatch):
    def away(*_arguments):
        raise OSError("the network is down\nsince noon")

    with monkeypatch.context() as broken:
        broken.setattr(run_flow, "drain", away)
        broken.setattr(restart_policy, "FIRST_DELAY_S", 0.01)
        outcome = scene.drain(spark)
    text = (
        "[FLOW_BROKEN] flow shop: the network is down; the current batch was not written, or will be found at the next "
        "start\n  hint: rivermouth run shop"
    )
    assert str(outcome.error) == text
    assert [event.error for event in scene.told(FlowFailed)] == [text]
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean


def test_what_spark_said_is_there_after_its_jvm(scene, spark, monkeypatch):
    def away(*_arguments):
        spark.read.format("delta").load("/no/table")

    with monkeypatch.context() as broken:
        broken.setattr(run_flow, "drain", away)
        broken.setattr(restart_policy, "DRAIN_RESTARTS", 0)
        outcome = scene.drain(spark)
    with monkeypatch.context() as ended:
        ended.setattr(SparkContext, "_jvm", None)
        ended.setattr(SparkContext, "_gateway", None)
        assert str(outcome.error).startswith(
            "[FLOW_BROKEN] flow shop: [PATH_NOT_FOUND] Path does not exist: /no/table."
        )
        cause = outcome.error.__cause__
        assert isinstance(cause, AnalysisException)
        assert "/no/table" in str(cause)
        assert "AnalysisException: [PATH_NOT_FOUND]" in "".join(traceback.format_exception(cause))
    assert scene.drain(spark).error is None


def test_a_batch_that_takes_long_is_not_given_up_where_the_work_between_batches_fails(scene, spark, monkeypatch):
    begun, failed, honest = threading.Event(), threading.Event(), microbatch.write_rows

    def slow(*arguments):
        begun.set()
        assert failed.wait(60)
        time.sleep(1)  # longer than a stop of the flow waits here
        return honest(*arguments)

    def away(run):
        if begun.is_set() and not failed.is_set():
            failed.set()
            raise LakeNotReadable(place=run.places.requests, detail="away")

    monkeypatch.setattr(microbatch, "write_rows", slow)
    monkeypatch.setattr(follow, "STOP_TIMEOUT_S", 0.1)
    outcome = scene.follow(spark, until=lambda event: isinstance(event, FlowRestarted), between_batches=away)
    assert (outcome.error, outcome.batches) == (None, 1)
    assert [event.error.partition("]")[0] for event in scene.told(FlowRestarted)] == ["[LAKE_NOT_READABLE"]
    found = scene.audit()
    assert found.is_clean, str(found)


def test_a_batch_that_does_not_end_when_it_is_told_to_is_abandoned_and_found_again(scene, spark, monkeypatch):
    begun, released, queries = threading.Event(), threading.Event(), []
    honest, start = microbatch.write_rows, follow._start

    def slow(*arguments):
        begun.set()
        assert released.wait(60)
        return honest(*arguments)

    monkeypatch.setattr(microbatch, "write_rows", slow)
    monkeypatch.setattr(follow, "_start", lambda *arguments: queries.append(start(*arguments)) or queries[-1])
    monkeypatch.setattr(follow, "STOP_TIMEOUT_S", 1.0)
    watched, outcomes = Supervisor(spark, scene.events.append, lambda _run: None), []
    thread = threading.Thread(target=lambda: outcomes.extend(watched.run([scene.order], keep_following=True)))
    thread.start()
    assert begun.wait(60)
    watched.stop()
    thread.join(60)
    released.set()
    queries[0].stop()
    [outcome] = outcomes
    assert str(outcome.error) == (
        "[STOP_TIMEOUT] flow shop: the current batch did not end within 1 s and was abandoned; it was not written, or "
        "will be found at the next start\n"
        "  hint: rivermouth run shop"
    )
    monkeypatch.undo()
    assert scene.drain(spark).error is None
    found = scene.audit()
    assert found.is_clean, str(found)
