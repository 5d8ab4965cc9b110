"""What the counts, the letters and the audit of a keyed table must say, whatever is in its rows."""

from __future__ import annotations

from tests.crashes import oracle

from rivermouth.engine.audit.audit import audit_flow


def assert_accounted(scene, spark, places):
    """Each record is where ``places`` says: how many are in the ``table``, ``dropped``, and a ``dead_letter``."""
    counts = oracle.counted(scene.table, scene.side_file)
    told = {name: counts[name] for name in ("consumed", "written", "merged", "dropped", "dead_lettered")}
    assert told == {
        "consumed": sum(places.values()),
        "written": 0,
        "merged": places["table"],
        "dropped": places["dropped"],
        "dead_lettered": places["dead_letter"],
    }
    letters = [(each["kafka_partition"], each["kafka_offset"]) for each in oracle.rows_of(scene.dead_letters)]
    assert len(set(letters)) == len(letters) == places["dead_letter"]
    assert audit_flow(spark, scene.order).problems == ()
