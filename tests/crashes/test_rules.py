"""Rules that change between a crash and the restart, or from one look to the next: still one place a record."""

from __future__ import annotations

import pytest
from tests.crashes import oracle
from tests.crashes.scene import EXPECTATIONS, RULES

from rivermouth.engine.events import StepReached

LOOSER = tuple(each for each in EXPECTATIONS if each["name"] != "known_name")


def at_of(row):
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def end_at(scene, spark, step):
    """A run that ends, as if killed, at a step of its first batch: nothing it does later succeeds."""

    def fail(event):
        if isinstance(event, StepReached) and (event.step == step or reached):
            reached.append(event)
            raise OSError("the machine is going down")

    reached = []
    assert scene.drain(spark, fail).error is not None
    scene.events.clear()


def places_of(scene):
    rows = [at_of(row) for row in oracle.rows_of(scene.table)]
    letters = [at_of(row) for row in oracle.rows_of(scene.dead_letters)]
    assert len({*rows, *letters}) == len(rows) + len(letters), "a record is in two places"
    return set(rows), set(letters)


@pytest.mark.long
def test_a_rule_that_is_loosened_after_a_crash_loses_no_record(make_scene, spark):
    scene = make_scene()
    scene.produce(400)
    end_at(scene, spark, "write_dead_letters")
    before = {at_of(row) for row in oracle.rows_of(scene.table)}
    scene.options["expectations"] = LOOSER
    assert scene.drain(spark).error is None
    rows, letters = places_of(scene)
    assert rows == before
    wanted = {at for at, r in scene.records().items() if oracle.expected(r, RULES).place == "dead_letter"}
    # What failed the old rule and would be dropped under the others, is dropped now.
    assert letters <= wanted
    changed = [row for row in oracle.rows_of(scene.dead_letters) if row["reason"] == "RULES_CHANGED"]
    assert changed
    assert all(row["failed_expectations"] in ([], ["odd_name"]) for row in changed)
    counts = oracle.counted(scene.table, scene.side_file)
    assert counts["written"] == len(rows)
    assert counts["dead_lettered"] == len(letters)
    assert counts["consumed"] == len(scene.records()) == len(rows) + len(letters) + counts["dropped"]


@pytest.mark.parametrize("action", ["dead_letter", pytest.param("fail", marks=pytest.mark.long)])
def test_a_rule_that_is_tightened_after_a_crash_doubles_no_record(action, make_scene, spark):
    scene = make_scene(expectations=LOOSER)
    scene.produce(400)
    end_at(scene, spark, "written")
    before = {at_of(row) for row in oracle.rows_of(scene.table)}
    # What is written stops no flow.
    scene.options["expectations"] = (*EXPECTATIONS[:2], {**EXPECTATIONS[2], "action": action})
    assert scene.drain(spark).error is None
    rows, letters = places_of(scene)
    assert rows == before
    assert any(row["name"] == "nobody" for row in oracle.rows_of(scene.table))
    counts = oracle.counted(scene.table, scene.side_file)
    assert counts["consumed"] == len(scene.records()) == len(rows) + len(letters) + counts["dropped"]


@pytest.mark.parametrize("action", ["dead_letter", "drop"])
@pytest.mark.long
def test_a_rule_that_says_something_else_at_each_look(action, make_scene, spark):
    """As one does that compares with the time of day; here each look decides again for every record."""
    rules = ({"name": "coin", "condition": "rand() < 0.5", "action": action}, EXPECTATIONS[2])
    scene = make_scene(expectations=rules)
    scene.produce(400)
    assert scene.drain(spark).error is None
    rows, letters = places_of(scene)
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["written"], counts["dead_lettered"]) == (len(rows), len(letters))
    assert counts["consumed"] == len(scene.records()) == len(rows) + len(letters) + counts["dropped"]


@pytest.mark.long
def test_a_rule_that_would_stop_the_flow_at_the_second_look_alone_stops_nothing(make_scene, spark):
    """The batch is in the table by then. In the second look the dead letter is the first row."""
    condition = "monotonically_increasing_id() > 0 OR id = 0"
    scene = make_scene(
        partitions=1, expectations=({"name": "n", "condition": condition, "action": "fail"}, EXPECTATIONS[2])
    )
    scene.send(b'{"id": 0, "amount": 1, "name": "x"}', b'{"id": 1, "amount": 1, "name": "nobody"}')
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    rows, letters = places_of(scene)
    assert ([at[2] for at in rows], [at[2] for at in letters]) == ([0], [1])
