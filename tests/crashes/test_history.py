"""A table with the history of its keys: killed at any step, with records late and twice, it is what the topic tells."""

from __future__ import annotations

import json
import random
import signal

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle
from tests.crashes.keyed import assert_accounted

from rivermouth.engine.events import StepReached
from rivermouth.engine.run.requests import Request, execute
from rivermouth.rows.dead_letter import DeadLetterFilter

SCHEMA = "id bigint, c bigint, v bigint, seq bigint, op string"
OPTIONS = {
    "format": {"type": "json", "schema": SCHEMA},
    "expectations": [{"name": "not_negative", "condition": "v >= 0", "action": "drop"}],
    "sink": {
        "type": "history",
        "keys": ["id"],
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'D'",
        "track_history_columns": ["c"],
    },
}
KEYS = 120
BROKEN = (b"{bad", b'{"id": null, "v": 1, "seq": 1}', b'{"id": 1, "v": 1}', b'{"id": "x", "v": 1, "seq": 1}')


def change(scene, count, *, seed, partitions=2):
    """Sends changes of few keys, late and early; each key keeps to one partition."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers})
    for _ in range(count):
        key = chance.randrange(KEYS)
        body = {"id": key, "c": chance.randint(0, 1), "v": chance.randint(-5, 99), "seq": chance.randint(0, 40)}
        value = json.dumps({**body, "op": chance.choice("UUUUD")}).encode()
        value = chance.choices((value, None, chance.choice(BROKEN)), (90, 6, 4))[0]
        producer.produce(scene.topic, value=value, key=str(key).encode(), partition=key % partitions)
    assert producer.flush(30) == 0


def judged(record):
    """What a record is: (place, key, sequence or None, row or None)."""
    if record.value is None:
        return "table", int(record.key), None, None
    if record.value in BROKEN:
        return "dead_letter", None, None, None
    body = json.loads(record.value)
    if body["op"] == "D":
        return "table", body["id"], body["seq"], None
    if body["v"] < 0:
        return "dropped", None, None, None
    return "table", body["id"], body["seq"], (body["c"], body["v"], record.offset)


def fold(records):
    """The versions (key, start, end, c, v, offset), and how many records went where."""
    seen, there, ended, places = {}, {}, {}, {"table": 0, "dropped": 0, "dead_letter": 0}
    for _, record in sorted(records.items()):
        place, key, at, row = judged(record)
        places[place] += 1
        if place != "table":
            continue
        if at is None:
            ended[key, seen.get(key)] = True
        else:
            seen[key] = max(at, seen.get(key, at))
            there.setdefault(key, {})[at] = row
            ended[key, at] = False
    found = []
    for key, rows in there.items():
        starts, last, versions = sorted(rows), None, []
        for at, end in zip(starts, [*starts[1:], None], strict=True):
            row, gone = rows[at], ended[key, at]
            if row is not None and last is not None and last[0] == row[0]:
                versions[-1] = (key, versions[-1][1], at if gone else end, *row)
            elif row is not None:
                versions.append((key, at, at if gone else end, *row))
            last = None if gone else row
        found += versions
    return sorted(found, key=str), places


def assert_is_the_fold(scene, spark):
    expected, places = fold(scene.records())
    names = ("id", "__START_AT", "__END_AT", "c", "v", "kafka_offset")
    assert sorted((tuple(row[name] for name in names) for row in oracle.rows_of(scene.table)), key=str) == expected
    assert_accounted(scene, spark, places)


@pytest.mark.long
@pytest.mark.parametrize("follow", [False, True], ids=["drain", "follow"])
def test_the_table_is_what_the_topic_comes_to(follow, make_scene, spark):
    scene = make_scene(**OPTIONS, trigger={"every": "200 ms", "max_offsets": 500})
    change(scene, 900, seed=7)
    outcome = scene.follow(spark) if follow else scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    change(scene, 300, seed=8)
    outcome = scene.drain(spark) if follow else scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_is_the_fold(scene, spark)


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
@pytest.mark.parametrize("steps", [("written",), STEPS], ids=len)
def test_killed_at_one_step_after_the_other(steps, make_scene, children, spark):
    scene = make_scene(**OPTIONS, trigger={"every": "200 ms", "max_offsets": 300})
    for index, step in enumerate(steps):
        change(scene, 500, seed=index)
        nth = 2 if step in {"write_dead_letters", "dead_letters_written"} else 1
        child = children.run(
            scene, own_jvm=False, follow=index % 2 == 1, kill={"on": step, "nth": nth, "who": "python"}
        )
        children.get_ready(own_jvm=False)
        assert child.code == -signal.SIGKILL, child.said()
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_is_the_fold(scene, spark)


@pytest.mark.long
def test_after_a_crash_other_rules_make_no_record_vanish(make_scene, spark):
    scene = make_scene(**{**OPTIONS, "expectations": [{"name": "v", "condition": "v >= 0", "action": "dead_letter"}]})
    # The second is refused; no row shows the first and the fourth.
    scene.send(b'{"id": 1, "c": 1, "v": 1, "seq": 1}', b'{"id": 1, "c": 1, "v": -2, "seq": 2}')
    scene.send(b'{"id": 1, "c": 1, "v": 3, "seq": 3}', b'{"id": 2, "c": 1, "v": 1, "seq": 1}')
    scene.send(b'{"id": 2, "c": 1, "v": 2, "seq": 4}', b'{"id": 2, "v": 0, "seq": 5, "op": "D"}', b"{bad")
    reached = []

    def fail(event):
        if isinstance(event, StepReached) and (event.step == "write_dead_letters" or reached):
            reached.append(event)
            raise OSError("the machine is going down")

    assert scene.drain(spark, fail).error is not None
    # Looser for the second; stricter for the hidden ones and the current one, which were merged all the same.
    scene.options["expectations"] = [
        {"name": "v", "condition": "v <> 1", "action": "dead_letter"},
        {"name": "w", "condition": "v <> 3", "action": "fail"},
    ]
    assert scene.drain(spark).error is None
    found = [(row["id"], row["__START_AT"], row["__END_AT"], row["v"]) for row in oracle.rows_of(scene.table)]
    assert sorted(found) == [(1, 1, None, 3), (2, 1, 5, 2)]
    letters = {row["kafka_offset"]: row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == {1: "RULES_CHANGED", 6: "INVALID_JSON"}
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (7, 5, 2)
    # No row shows the one that passes now: that it was replayed is told by what is remembered.
    cut_off(scene, spark, "replay_mark")
    letters = {row["kafka_offset"]: row["status"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == {1: "replayed", 6: "open"}
    assert oracle.counted(scene.table, scene.side_file)["replayed"] == 1


@pytest.mark.long
def test_after_a_crash_a_looser_rule_makes_no_deletion_vanish(make_scene, spark):
    sink = {**OPTIONS["sink"], "apply_as_truncates": "op = 'T'"}
    scene = make_scene(**{**OPTIONS, "sink": sink, "expectations": []}, partitions=1)
    scene.send(b'{"id": 1, "c": 1, "seq": 1}', b'{"id": 2, "c": 1, "seq": 1}', b'{"id": 3, "c": 1, "seq": 9}')
    # Deletions and truncations that do not fit the schema, and some that do.
    scene.send(b'{"id": 1, "v": "one", "seq": 2, "op": "D"}', b'{"id": 2, "v": 0, "seq": 2, "op": "D"}')
    scene.send(b'{"id": 0, "v": 0, "seq": 0, "op": "T"}', b'{"id": 0, "v": "one", "seq": 5, "op": "T"}')
    # One at a place where a newer record is by now, and tombstones of which one counts.
    scene.send(b'{"id": 4, "c": 1, "v": "one", "seq": 3, "op": "D"}', b'{"id": 4, "c": 1, "seq": 3}')
    scene.send(b'{"id": 5, "c": 1, "seq": 4}')
    scene.send(None, None, key=b"5")
    scene.end_at(spark, "write_dead_letters")
    scene.options["format"] = {"type": "json", "schema": SCHEMA.replace("v bigint, ", "")}
    assert scene.drain(spark).error is None
    found = [(row["id"], row["__START_AT"], row["__END_AT"]) for row in oracle.rows_of(scene.table)]
    assert sorted(found) == [(1, 1, None), (2, 1, 2), (3, 9, None), (4, 3, None), (5, 4, 4)]
    letters = {row["kafka_offset"]: row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == {3: "RULES_CHANGED", 6: "RULES_CHANGED"}
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (12, 10, 2)


def cut_off(scene, spark, step):
    """Begins a replay that does not come further than that step; the flow is opened once more then."""
    failures = []

    def until(event):
        if isinstance(event, StepReached) and event.step == step and not failures:
            failures.append(event)
            raise OSError("the disk was full for a moment")
        return False

    def between(run):
        if failures:
            run.stopping.set()
        else:
            execute(run, Request("replay", DeadLetterFilter()))

    assert scene.follow(spark, until=until, between_batches=between).error is None
    assert failures
