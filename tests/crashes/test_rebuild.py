"""A rebuild of a table that is killed on the way: whichever command comes next, it ends with every record once."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.crashes import oracle
from tests.crashes.deciding import at_of
from tests.crashes.scene import RULES

from rivermouth.engine.run.supervisor import Supervisor

UPSERT = {"type": "upsert", "keys": ["id"]}
ENDS = [
    pytest.param("decided", 1, True, id="emptied"),
    pytest.param("written", 2, False, id="half-filled"),
    pytest.param("decide", 1, False, id="not-emptied"),
    pytest.param("dead_letters", 1, True, id="rows-without-letters"),
]


def holds_each_once(scene) -> bool:
    """Whether table and open dead letters have exactly the topic's records, each once."""
    places = {at: oracle.expected(record, RULES).place for at, record in scene.records().items()}
    rows = Counter(map(at_of, oracle.rows_of(scene.table)))
    letters = Counter(at_of(row) for row in oracle.rows_of(scene.dead_letters) if row["status"] == "open")
    assert rows == Counter(at for at, place in places.items() if place == "table")
    assert letters == Counter(at for at, place in places.items() if place == "dead_letter")
    return True


@pytest.mark.long
@pytest.mark.parametrize(("step", "nth", "again"), ENDS)
def test_ended_in_a_rebuild(make_scene, spark, end_at, step, nth, again):
    scene = make_scene(source={"table": "bronze.orders"}, trigger={"max_offsets": 150 if nth > 1 else 1000})
    scene.produce(400)
    filled = Supervisor(spark, lambda _event: None, lambda _run: None).run([scene.bronze], keep_following=False)
    assert filled[0].error is None
    assert scene.drain(spark).error is None
    assert holds_each_once(scene)
    scene.decision = {"rebuild": True}
    end_at(scene, step, nth=nth)
    scene.decision = {"rebuild": again} if again else {}
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    assert holds_each_once(scene)


@pytest.mark.long
def test_killed_in_a_rebuild_of_a_keyed_table(make_scene, spark, children):
    scene = make_scene(source={"table": "bronze.orders"}, trigger={"max_offsets": 150}, sink=UPSERT)
    scene.produce(400)
    filled = Supervisor(spark, lambda _event: None, lambda _run: None).run([scene.bronze], keep_following=False)
    assert filled[0].error is None
    assert scene.drain(spark).error is None
    before = sorted((row["id"], at_of(row)) for row in oracle.rows_of(scene.table))
    scene.decision = {"rebuild": True}
    child = children.run(scene, own_jvm=False, kill={"who": "python", "on": "decided"})
    assert child.code == -9, child.said()
    assert oracle.rows_of(scene.table) == []
    scene.decision = {}
    assert scene.drain(spark).error is None
    assert sorted((row["id"], at_of(row)) for row in oracle.rows_of(scene.table)) == before
