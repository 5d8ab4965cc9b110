"""A history of a table's versions: killed at any step, it is what the versions tell."""

from __future__ import annotations

import random
import signal

import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.crashes.oracle import rows_of

STEPS = ("create", "created", "write", "written", "complete", "BatchDone")


def changed(spark, place, chance):
    """One more version of the table: rows come, go and change."""
    for statement in (
        f"INSERT INTO t VALUES ({chance.randrange(1000, 2000)}, {chance.randrange(9)})",
        f"DELETE FROM t WHERE id % 7 = {chance.randrange(7)}",
        f"UPDATE t SET v = v + 1 WHERE id % 5 = {chance.randrange(5)}",
    ):
        spark.sql(statement.replace(" t ", f" delta.`{place}` "))
    spark.sql(f"OPTIMIZE delta.`{place}`").collect()


def told(place):
    """The versions by key and start, read version by version by another reader: end and value."""
    found, open_ = {}, {}
    for version in range(DeltaTable(place).version() + 1):
        table = DeltaTable(place, version=version)
        read = QueryBuilder().register("t", table).execute("SELECT id, v FROM t").read_all()
        rows = dict(zip(*(column.to_pylist() for column in read.columns), strict=True))
        for key in [*open_]:
            if key not in rows or rows[key] != found[key, open_[key]][1]:
                found[key, open_.pop(key)][0] = version
        for key, value in rows.items():
            if key not in open_:
                open_[key] = version
                found[key, version] = [None, value]
    return {place: tuple(ends) for place, ends in found.items()}


@pytest.mark.long
def test_killed_at_one_step_after_the_other(make_scene, children, spark, tmp_path):
    place, chance = str(tmp_path / "erp"), random.Random(7)
    spark.sql(f"CREATE TABLE delta.`{place}` (id BIGINT, v BIGINT) USING delta")
    spark.sql(f"INSERT INTO delta.`{place}` SELECT id, id % 3 FROM range(40)")
    scene = make_scene(
        source={"versions_of": place},
        format={"type": "json", "schema": "id bigint, v bigint"},
        expectations=[],
        sink={"type": "history", "from": "snapshot", "keys": ["id"], "sequence_by": "kafka_offset"},
    )
    for index, step in enumerate(STEPS):
        changed(spark, place, chance)
        child = children.run(scene, own_jvm=False, follow=False, kill={"on": step, "who": "python"})
        if index + 1 < len(STEPS):
            children.get_ready(own_jvm=False)
        assert child.code == -signal.SIGKILL, child.said()
    changed(spark, place, chance)
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    rows = {(row["id"], row["__START_AT"]): (row["__END_AT"], row["v"]) for row in rows_of(scene.table)}
    assert rows == told(place)
    assert len(rows) > 60
