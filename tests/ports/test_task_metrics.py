"""What work in Spark needs: of the tasks of one thread's jobs, and of no others."""

import threading

import pytest
from pyspark.sql import functions as F

from rivermouth.ports.internals.persisted import computed, held_bytes
from rivermouth.ports.internals.task_metrics import spent


@pytest.fixture
def session(spark):
    return spark.newSession()


def spilling(session):
    session.conf.set("spark.sql.windowExec.buffer.in.memory.threshold", "100")
    session.conf.set("spark.sql.windowExec.buffer.spill.threshold", "100")
    numbered = session.range(20_000, numPartitions=1).selectExpr("id", "sum(id) OVER (PARTITION BY id % 2) AS n")
    return numbered.agg(F.max("n")).collect()[0][0]


def test_memory_and_what_was_spilled(session):
    with spent(session) as found:
        assert spilling(session) == 100_000_000
    assert found.task_peak_bytes > 1 << 20
    assert found.spilled_bytes > 100_000


@pytest.mark.long
def test_jobs_of_other_threads_and_times_are_not_counted(session):
    spilling(session)
    with spent(session) as found:
        other = threading.Thread(target=spilling, args=(session.newSession(),))
        other.start()
        other.join()
        assert len(session.range(10).collect()) == 10
    spilling(session)
    assert found.spilled_bytes == 0
    assert found.task_peak_bytes < 1 << 20


def test_what_fails_within_is_raised_and_leaves_no_tag(session):
    with pytest.raises(ZeroDivisionError), spent(session):
        raise ZeroDivisionError
    assert session.sparkContext.getJobTags().isEmpty()


def test_bytes_of_what_stands_ready(session):
    frame = session.range(1_000).selectExpr("id", "repeat('x', 1000) AS text")
    with computed(frame) as (ready, _):
        assert 1_000_000 < held_bytes(ready) < 3_000_000
    assert held_bytes(ready) is None
