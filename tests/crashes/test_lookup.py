"""A flow that looks up columns, ended in the middle of a batch; the table has a new version when it starts again."""

from __future__ import annotations

import pytest
from tests.crashes import oracle
from tests.crashes.test_replay import replayed
from tests.crashes.test_rules import at_of, end_at, places_of

from rivermouth.spec import Lookup

FIRST = [("eve", 1), ("ann", 1)]
SECOND = [("eve", 2), ("ann", 2), ("bob", 2)]


@pytest.mark.long
@pytest.mark.parametrize("step", ["write", "written"])
def test_each_record_is_in_one_place_and_a_batch_that_is_committed_keeps_its_version(step, make_scene, spark, tmp_path):
    def write(rows):
        spark.createDataFrame(rows, "name string, team int").write.format("delta").mode("overwrite").save(teams)

    teams = str(tmp_path / "teams")
    write(FIRST)
    lookup = {"table": teams, "on": "name", "columns": ["team"], "missing": "dead_letter"}
    scene = make_scene(lookup=Lookup.model_validate(lookup).at(teams), expectations=[])
    scene.produce(300)
    end_at(scene, spark, step)
    write(SECOND)
    assert scene.drain(spark).error is None
    version = 1 if step == "write" else 0
    known = {name for name, _ in (SECOND if version else FIRST)}
    rows, letters = places_of(scene)
    table = oracle.rows_of(scene.table)
    assert {row["team"] for row in table} == {version + 1}
    assert {row["name"] for row in table} == known
    counts = oracle.counted(scene.table, scene.side_file)
    assert counts["consumed"] == len(scene.records()) == len(rows) + len(letters) + counts["dropped"]
    reasons = {row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert "LOOKUP_MISSING" in reasons
    changed = {at_of(row) for row in oracle.rows_of(scene.dead_letters) if row["reason"] == "RULES_CHANGED"}
    assert bool(changed) == (step == "written")
    if changed:
        assert replayed(scene, spark)["replayed"] == len(changed)
        assert {row["team"] for row in oracle.rows_of(scene.table) if at_of(row) in changed} == {2}
