"""Flows whose sink gets the rows of each commit, ended at each of their steps."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from tests.crashes import oracle

from rivermouth.engine.audit.audit import audit_flow

STEPS = ("write", "written", "deliver", "sent", "delivered", "write_dead_letters", "complete")
STATES = pytest.mark.parametrize("state", [pytest.param("kept", marks=pytest.mark.long), "deleted"])


def end_at_each_step(scene, spark, state, delivered):
    """Each row is in the sink as often as in the table, wherever a run ends.

    Args:
        scene: The flow.
        spark: A session.
        state: What becomes of the lake's state after each end: ``kept`` or ``deleted``.
        delivered: Says how often each id is in the sink, in each way to read it.
    """

    def compare(step):
        rows = Counter(row["id"] for row in oracle.rows_of(scene.table))
        assert sum(rows.values()) > 0
        for found in delivered():
            assert found == rows, step

    assert scene.drain(spark).error is None
    for seed, step in enumerate(STEPS):
        scene.produce(60, seed=seed)
        scene.end_at(spark, step)
        if state == "deleted":
            shutil.rmtree(scene.folder / "lake/_rivermouth", ignore_errors=True)
        if seed % 2:
            assert scene.drain(spark).error is None, step
            compare(step)
    assert scene.drain(spark).error is None
    compare("the last")
    assert scene.audit().is_clean
    # What users run looks into the sink too.
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.sink.not_compared) == ((), ())
    assert found.sink.rows == len(oracle.rows_of(scene.table))
