"""Spark's code for one batch serves the next: to compile it again costs more than a small batch itself."""

from __future__ import annotations

import pytest
from tests.conftest import PLANS_OF_SPARK, SEVERAL_TASKS
from tests.crashes.scene import Scene

from rivermouth.ports.internals.sessions import settings

GOOD = b'{"id": 1, "amount": 2.5, "name": "ann", "at": "2026-01-01T00:00:00Z"}'
BAD = b'{"id": "seven"}'


@pytest.fixture(autouse=True)
def plans(spark):
    """As Spark carries them out by itself: what it compiles is counted here."""
    with settings(spark, PLANS_OF_SPARK | SEVERAL_TASKS):
        yield


@pytest.mark.long
def test_a_batch_like_the_one_before_compiles_nothing(broker, tmp_path, spark):
    scene = Scene.make(broker, tmp_path, partitions=1)
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    before = []
    for _ in range(4):
        scene.send(GOOD, GOOD, BAD)
        before.append(compiled.getCount())
        outcome = scene.drain(spark)
        assert outcome.error is None, str(outcome.error)
        assert (outcome.counts.written, outcome.counts.dead_lettered) == (2, 1)
    assert before[1] > before[0]
    # The first makes the tables, the second is the first that finds them.
    assert compiled.getCount() == before[2]
