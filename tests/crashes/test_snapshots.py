"""A table that is made of snapshots: stopped at any step, with late and broken ones, it is what the topic tells."""

from __future__ import annotations

import json
import random
import signal

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle
from tests.crashes.keyed import assert_accounted

SINK = {"from": "snapshot", "rows": "items", "keys": ["id"], "sequence_by": "at"}
OPTIONS = {
    "format": {"type": "json", "schema": "at bigint, items array<struct<id bigint, v bigint>>"},
    "expectations": [],
}
UPSERT, HISTORY = ({**OPTIONS, "sink": {"type": kind, **SINK}} for kind in ("upsert", "history"))
BROKEN = (
    b"{bad",
    b'{"at": 9, "items": [{"id": 1, "v": "x"}]}',
    b'{"at": 9, "items": [{"id": 1}, {"id": 1}]}',
    b'{"at": 9, "items": [{"v": 1}]}',
    b'{"at": 9}',
    b'{"items": []}',
)


def take_stock(scene, count, *, seed):
    """Sends snapshots, most of them newer than the one before, to one partition."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers})
    for number in range(count):
        ids = chance.sample(range(30), chance.choice((0, 10, 25)))
        body = {"at": 100 * seed + number - chance.choice((0, 0, 3)), "items": [{"id": i, "v": i % 2} for i in ids]}
        value = chance.choices((json.dumps(body).encode(), None, chance.choice(BROKEN)), (80, 5, 15))[0]
        producer.produce(scene.topic, value=value, partition=0)
    assert producer.flush(30) == 0


def judged(records):
    """The snapshots that count, (version, offset, rows) in their order, and how many records went where."""
    found, places = {}, {"table": 0, "dropped": 0, "dead_letter": 0}
    for _, record in sorted(records.items()):
        if record.value is None or record.value in BROKEN:
            places["dropped" if record.value is None else "dead_letter"] += 1
            continue
        places["table"] += 1
        body = json.loads(record.value)
        found[body["at"]] = (body["at"], record.offset, {row["id"]: row["v"] for row in body["items"]})
    return [found[at] for at in sorted(found)], places


def versions(snapshots):
    """The versions by key and start: end, value, offset of the record that the row shows."""
    found, open_ = {}, {}
    for at, offset, rows in snapshots:
        for key in open_.keys() - rows.keys():
            found[key, open_.pop(key)][0] = at
        for key, value in rows.items():
            # Here the value of a key never changes.
            found.setdefault((key, open_.setdefault(key, at)), [None, value, offset])[2] = offset
    return {place: tuple(row) for place, row in found.items()}


def assert_is_the_fold(scene, spark):
    snapshots, places = judged(scene.records())
    found = oracle.rows_of(scene.table)
    if scene.options["sink"]["type"] == "history":
        rows = {(r["id"], r["__START_AT"]): (r["__END_AT"], r["v"], r["kafka_offset"]) for r in found}
        assert rows == versions(snapshots)
    else:
        rows = {row["id"]: (row["v"], row["__sequence"], row["kafka_offset"]) for row in found}
        at, offset, last = snapshots[-1]
        assert rows == {key: (value, at, offset) for key, value in last.items()}
    assert len(found) == len(rows)
    assert_accounted(scene, spark, places)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "step"),
    [
        pytest.param(UPSERT, "written", id="upsert", marks=pytest.mark.long),
        pytest.param(HISTORY, "write_dead_letters", id="history"),
        pytest.param(HISTORY, "written", id="history, written", marks=pytest.mark.long),
        pytest.param(UPSERT, "write_dead_letters", id="upsert, write_dead_letters", marks=pytest.mark.long),
    ],
)
def test_stopped_after_its_commit_a_batch_is_counted_and_nothing_is_done_twice(options, step, make_scene, spark):
    scene = make_scene(**options)
    take_stock(scene, 20, seed=1)
    scene.end_at(spark, step)
    take_stock(scene, 10, seed=2)
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    assert_is_the_fold(scene, spark)


@pytest.mark.long
@pytest.mark.parametrize("options", [UPSERT, HISTORY], ids=["upsert", "history"])
def test_after_a_crash_a_looser_rule_makes_one_dead_letter_of_a_snapshot(options, make_scene, spark):
    rule = {"name": "v", "condition": "v >= 0", "action": "dead_letter"}
    scene = make_scene(**{**options, "expectations": [rule]}, partitions=1)
    taken = ([{"id": 1, "v": 1}], [{"id": 1, "v": -1}, {"id": 2, "v": 2}])
    scene.send(*(json.dumps({"at": at, "items": items}).encode() for at, items in enumerate(taken)))
    scene.end_at(spark, "write_dead_letters")
    scene.options["expectations"] = []
    assert scene.drain(spark).error is None
    assert [(row["id"], row["v"]) for row in oracle.rows_of(scene.table)] == [(1, 1)]
    letters = [(row["kafka_offset"], row["reason"]) for row in oracle.rows_of(scene.dead_letters)]
    assert letters == [(1, "RULES_CHANGED")]
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (2, 1, 1)


STEPS = (
    "created",
    "route",
    "write",
    "written",
    "dead_letters",
    "write_dead_letters",
    "dead_letters_written",
    "complete",
    "BatchDone",
)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("options", [UPSERT, HISTORY], ids=["upsert", "history"])
def test_killed_at_one_step_after_the_other(options, make_scene, children, spark):
    scene = make_scene(**options, trigger={"every": "200 ms", "max_offsets": 10})
    for index, step in enumerate(STEPS):
        take_stock(scene, 25, seed=index)
        child = children.run(scene, own_jvm=False, follow=index % 2 == 1, kill={"on": step, "nth": 1, "who": "python"})
        children.get_ready(own_jvm=False)
        assert child.code == -signal.SIGKILL, child.said()
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_is_the_fold(scene, spark)
