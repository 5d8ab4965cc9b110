"""A keyed table: killed at any step, and with records late and twice, it is what the topic comes to."""

from __future__ import annotations

import json
import random

import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from tests.crashes import oracle
from tests.crashes.deciding import hinted
from tests.crashes.keyed import assert_accounted

from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.events import BatchRetried, StepReached
from rivermouth.errors import LedgerVoid
from rivermouth.ports.internals import single_pass_merge

SCHEMA = "id bigint, v bigint, seq bigint, op string"
OPTIONS = {
    "format": {"type": "json", "schema": SCHEMA},
    "expectations": [{"name": "not_negative", "condition": "v >= 0", "action": "drop"}],
    "sink": {"type": "upsert", "keys": ["id"], "sequence_by": "seq", "apply_as_deletes": "op = 'D'"},
}
KEYS = 120
BROKEN = (b"{bad", b'{"id": null, "v": 1, "seq": 1}', b'{"id": 1, "v": 1}', b'{"id": "x", "v": 1, "seq": 1}')


def change(scene, count, *, seed, partitions=2):
    """Sends changes of few keys, late and early; each key keeps to one partition."""
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers})
    for _ in range(count):
        key = chance.randrange(KEYS)
        body = {"id": key, "v": chance.randint(-5, 99), "seq": chance.randint(0, 40), "op": chance.choice("UUVVD")}
        value = json.dumps(body).encode()
        value = chance.choices((value, None, chance.choice(BROKEN)), (90, 6, 4))[0]
        producer.produce(scene.topic, value=value, key=str(key).encode(), partition=key % partitions)
    assert producer.flush(30) == 0


def fits(body):
    """Whether the declared schema takes it, with a key and a sequence."""
    kinds = {"id": int, "v": int, "seq": int, "op": str}
    return (
        isinstance(body, dict)
        and all(body.get(name) is None or type(body[name]) is kind for name, kind in kinds.items())
        and body.get("id") is not None
        and body.get("seq") is not None
    )


def judged(record):
    """What a record is: (place, key, sequence or None, row or None)."""
    if record.value is None:
        return "table", int(record.key), None, None
    try:
        body = json.loads(record.value)
    except ValueError:
        body = None
    if not fits(body):
        return "dead_letter", None, None, None
    if body.get("op") == "D":
        return "table", body["id"], body["seq"], None
    if body.get("v") is None or body["v"] < 0:
        return "dropped", None, None, None
    return "table", body["id"], body["seq"], (body["v"], body["seq"], record.offset)


def fold(records):
    """The rows by key, and how many records went where."""
    seen, newest, places = {}, {}, {"table": 0, "dropped": 0, "dead_letter": 0}
    for _, record in sorted(records.items()):
        place, key, sequence, row = judged(record)
        places[place] += 1
        if place == "table":
            at = seen.get(key, -1) if sequence is None else sequence
            seen[key] = max(at, seen.get(key, -1))
            if key not in newest or at >= newest[key][0]:
                newest[key] = (at, row)
    return {key: row for key, (_, row) in newest.items() if row is not None}, places


def rows_of(scene):
    """The table's rows by key, with the offsets that they are of."""
    return {row["id"]: (row["v"], row["seq"], row["kafka_offset"]) for row in oracle.rows_of(scene.table)}


def assert_is_the_fold(scene, spark):
    rows, places = fold(scene.records())
    assert rows_of(scene) == rows
    assert len(oracle.rows_of(scene.table)) == len(rows)
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
@pytest.mark.parametrize(
    ("steps", "parts"), [(("written",), False), (STEPS, False), (("written",), True)], ids=["1", "9", "1, in parts"]
)
def test_ended_at_one_step_after_the_other(steps, parts, make_scene, end_at, spark):
    """Rows in parts are whole rows here: each record brings all columns."""
    sink = {**OPTIONS["sink"], "ignore_null_updates": parts}
    scene = make_scene(**{**OPTIONS, "sink": sink}, trigger={"every": "200 ms", "max_offsets": 300})
    for index, step in enumerate(steps):
        change(scene, 500, seed=index)
        end_at(
            scene, step, nth=2 if step in {"write_dead_letters", "dead_letters_written"} else 1, follow=index % 2 == 1
        )
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_is_the_fold(scene, spark)


@pytest.mark.long
def test_a_merge_is_made_again_whatever_came_between(make_scene, spark, monkeypatch):
    """Once there is no answer, once another program commits; of each alone there is a long test.

    The table has partitions, and most keys move from one to another.
    """
    scene = make_scene(**{**OPTIONS, "table": {"name": "silver.orders", "partition_by": ["op"]}})
    honest = single_pass_merge._written

    def no_answer():
        raise OSError("no answer")

    def optimized():
        spark.newSession().sql(f"OPTIMIZE delta.`{scene.table}` ZORDER BY (id)").collect()

    for seed, disturb in enumerate((no_answer, optimized), 1):
        told = []

        def written(*arguments, told=told, disturb=disturb):
            told.append("called")
            if len(told) == 1:
                disturb()
            return honest(*arguments)

        monkeypatch.setattr(single_pass_merge, "_written", written)
        change(scene, 200, seed=seed)
        outcome = scene.drain(spark)
        assert outcome.error is None, str(outcome.error)
        assert len(scene.told(BatchRetried)) == seed
    assert_is_the_fold(scene, spark)


@pytest.mark.long
@pytest.mark.parametrize("statement", ["OPTIMIZE {table}", "INSERT INTO {table} SELECT * FROM {table} LIMIT 1"])
def test_another_program_commits_in_the_middle_of_a_merge(statement, make_scene, spark, monkeypatch):
    scene = make_scene(**OPTIONS)
    for seed in (1, 2):
        change(scene, 200, seed=seed)
        assert scene.drain(spark).error is None
    change(scene, 200, seed=3)
    honest, told = single_pass_merge._written, []

    def written(*arguments):
        if not told:
            told.append(spark.newSession().sql(statement.format(table=f"delta.`{scene.table}`")).collect())
        return honest(*arguments)

    monkeypatch.setattr(single_pass_merge, "_written", written)
    outcome = scene.drain(spark)
    if statement.startswith("OPTIMIZE"):
        assert outcome.error is None, str(outcome.error)
        assert scene.told(BatchRetried)
        assert_is_the_fold(scene, spark)
    else:
        assert str(outcome.error).startswith(
            f"[LEDGER_VOID] table {scene.table}: version 3 (WRITE) changed its data after ledger entry 2; "
            "nothing was written\n"
        )


@pytest.mark.long
@pytest.mark.parametrize("follow", [False, True], ids=["drain", "follow"])
def test_a_merge_that_fails_is_made_again(follow, make_scene, spark, monkeypatch):
    scene = make_scene(**OPTIONS, trigger={"every": "200 ms", "max_offsets": 300})
    change(scene, 900, seed=4)
    honest, told = single_pass_merge._written, []

    def written(*arguments):
        told.append("called")
        if len(told) == 2:
            raise OSError("no answer")
        return honest(*arguments)

    monkeypatch.setattr(single_pass_merge, "_written", written)
    outcome = scene.follow(spark) if follow else scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    # The other time the records are read by another session than that of the query that follows.
    assert [event.attempt for event in scene.told(BatchRetried)] == [1]
    assert_is_the_fold(scene, spark)


@pytest.mark.long
@pytest.mark.parametrize("columns", [{}, {"sequence_by": None}], ids=["by a column", "by Kafka's order"])
def test_a_restored_table_becomes_what_the_topic_comes_to(columns, make_scene, spark):
    sink = {name: value for name, value in {**OPTIONS["sink"], **columns}.items() if value}
    scene = make_scene(**{**OPTIONS, "sink": sink})
    for seed in (1, 2, 3):
        change(scene, 250, seed=seed)
        assert scene.drain(spark).error is None
    rows = rows_of(scene)
    DeltaTable.forPath(spark, str(scene.table)).restoreToVersion(1)
    assert rows_of(scene) != rows
    error = scene.drain(spark).error
    assert isinstance(error, LedgerVoid)
    scene.decision = {"why": "the restored rows are right", **hinted(error)}
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert rows_of(scene) == rows
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long  # test_a_merge_is_made_again_whatever_came_between has such keys
def test_a_key_may_move_to_another_partition_of_the_table(make_scene, spark):
    scene = make_scene(**{**OPTIONS, "table": {"name": "silver.orders", "partition_by": ["op"]}})
    for op, seq in (("U", 1), ("V", 3), ("W", 2)):
        scene.send(*(json.dumps({"id": key, "v": seq, "seq": seq, "op": op}).encode() for key in range(5)))
        assert scene.drain(spark).error is None
    assert sorted((row["id"], row["v"], row["op"]) for row in oracle.rows_of(scene.table)) == [
        (key, 3, "V") for key in range(5)
    ]
    assert_is_the_fold(scene, spark)


@pytest.mark.long
def test_batches_that_bring_no_row(make_scene, spark):
    scene = make_scene(**OPTIONS)
    for follow in (False, True):
        scene.send(b"{bad", b'{"id": 1, "v": -1, "seq": 1}')
        outcome = scene.follow(spark) if follow else scene.drain(spark)
        assert outcome.error is None, str(outcome.error)
        assert scene.told(BatchRetried) == []
    assert_is_the_fold(scene, spark)


@pytest.mark.long
@pytest.mark.parametrize("parts", [False, True], ids=["whole rows", "rows in parts"])
def test_after_a_crash_a_looser_rule_makes_no_deletion_vanish(parts, make_scene, spark):
    sink = {**OPTIONS["sink"], "apply_as_truncates": "op = 'T'", "ignore_null_updates": parts}
    scene = make_scene(**{**OPTIONS, "sink": sink, "expectations": []})
    scene.send(b'{"id": 1, "v": 1, "seq": 1}', b'{"id": 2, "v": 2, "seq": 1}', b'{"id": 3, "v": 3, "seq": 9}')
    # A deletion and a truncation that do not fit the schema, and one of each that do.
    scene.send(b'{"id": 1, "v": "one", "seq": 2, "op": "D"}', b'{"id": 2, "v": 0, "seq": 2, "op": "D"}')
    scene.send(b'{"id": 0, "v": 0, "seq": 0, "op": "T"}', b'{"id": 0, "v": "one", "seq": 5, "op": "T"}')
    # Deletions of keys without a row, and two rows of a deleted key: one is too late.
    scene.send(b'{"id": 4, "v": "one", "seq": 2, "op": "D"}', b'{"id": 5, "v": 0, "seq": 3, "op": "D"}')
    scene.send(b'{"id": 2, "v": "one", "seq": 1}', b'{"id": 2, "v": "one", "seq": 9}')

    def fail(event):
        if isinstance(event, StepReached) and event.step == "write_dead_letters":
            raise OSError("the machine is going down")

    assert scene.drain(spark, fail).error is not None
    scene.options["format"] = {"type": "json", "schema": "id bigint, seq bigint, op string"}
    assert scene.drain(spark).error is None
    assert sorted(row["id"] for row in oracle.rows_of(scene.table)) == [1, 3]
    letters = {row["kafka_offset"]: row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == dict.fromkeys((3, 6, 7, 10), "RULES_CHANGED")
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (11, 7, 4)


@pytest.mark.long
def test_after_a_crash_a_looser_rule_makes_no_record_vanish(make_scene, spark):
    scene = make_scene(**{**OPTIONS, "expectations": [{"name": "v", "condition": "v >= 0", "action": "dead_letter"}]})
    scene.send(b'{"id": 1, "v": 1, "seq": 1}', b'{"id": 2, "v": -2, "seq": 1}', b'{"id": 3, "v": 3, "seq": 1}')
    scene.send(b'{"id": 3, "v": 0, "seq": 2, "op": "D"}', b'{"id": 1, "v": -1, "seq": 2}', b"{bad")
    reached = []

    def fail(event):
        if isinstance(event, StepReached) and (event.step == "write_dead_letters" or reached):
            reached.append(event)
            raise OSError("the machine is going down")

    assert scene.drain(spark, fail).error is not None
    scene.options["expectations"] = []
    assert scene.drain(spark).error is None
    assert [(row["id"], row["v"]) for row in oracle.rows_of(scene.table)] == [(1, 1)]
    letters = {row["kafka_offset"]: row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == {1: "RULES_CHANGED", 4: "RULES_CHANGED", 5: "INVALID_JSON"}
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (6, 3, 3)


@pytest.mark.long
def test_after_a_crash_no_part_of_a_row_vanishes(make_scene, spark):
    sink = {**OPTIONS["sink"], "ignore_null_updates": True}
    old = [{"name": "v", "condition": "v >= 0 OR v IS NULL", "action": "dead_letter"}]
    scene = make_scene(**{**OPTIONS, "sink": sink, "expectations": old})
    # The second one is newer than the row's value, the third older than its row.
    scene.send(b'{"id": 1, "v": 1, "seq": 1}', b'{"id": 1, "v": -2, "seq": 2}', b'{"id": 1, "op": "U", "seq": 3}')

    def fail(event):
        if isinstance(event, StepReached) and event.step == "write_dead_letters":
            raise OSError("the machine is going down")

    assert scene.drain(spark, fail).error is not None
    # By now it is the other way round: what is in the table would be refused.
    scene.options["expectations"] = [{"name": "v", "condition": "v < 0 OR v IS NULL", "action": "dead_letter"}]
    assert scene.drain(spark).error is None
    assert [(row["v"], row["op"], row["seq"]) for row in oracle.rows_of(scene.table)] == [(1, "U", 3)]
    letters = {row["kafka_offset"]: row["reason"] for row in oracle.rows_of(scene.dead_letters)}
    assert letters == {1: "RULES_CHANGED"}
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["merged"], counts["dead_lettered"]) == (3, 2, 1)
