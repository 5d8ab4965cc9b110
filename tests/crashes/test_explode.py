"""Records of several rows, killed at every step: each element is in exactly one place, and counted."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle
from tests.crashes.scene import BROKEN, RULES, a_record
from tests.crashes.test_replay import with_flow
from tests.crashes.test_rules import end_at

from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.dead_letters.replay import replay
from rivermouth.engine.events import StepReached
from rivermouth.rows.dead_letter import DeadLetterFilter

# The lake is the same at the first two.
STEPS = ("written", "write_dead_letters", "complete")
# What a killed step leaves to be recovered passes this first: its own turn is the second then.
SECOND = ("write_dead_letters",)
# Their brackets and quotes are closed, and there is no comma between them: alone, or within an array.
ELEMENTS = [each for each in BROKEN if each not in (b"{bad", b"", b'{"id": 1}, ')]
MALFORMED = [b"[", b'[{"id": 1}', b'[{"id": 1},]', b'[{"id": 1}] x', b'[{"id": "]}']
NESTED = {
    "format": {"type": "json", "schema": "id bigint NOT NULL, items array<struct<n: int>>"},
    "explode": "items AS item",
    "select": ["CAST(id AS bigint) AS id", "item.n"],
    "expectations": [{"name": "few", "condition": "n < 3", "action": "dead_letter"}],
}


def produced(scene, count, made, seed):
    """Sends arrays, single documents, nulls and what is no array; ``made`` gets the elements of each value."""
    producer, source = Producer({"bootstrap.servers": scene.bootstrap_servers}), random.Random(seed)
    for index in range(count):
        key, value = a_record(source, seed * 100_000 + index)
        luck = source.random()
        if luck < 0.1:
            value = source.choice(MALFORMED)
            made[value] = None
        elif value is not None and luck < 0.8:
            bodies = (a_record(source, seed * 100_000 + index * 10 + n)[1] for n in range(source.randint(0, 5)))
            elements = [body if body and body not in BROKEN else source.choice(ELEMENTS) for body in bodies]
            value = b"[" + b" , ".join(elements) + b"]\n"
            made[value] = elements
        producer.produce(scene.topic, value=value, key=key, partition=index % 2)
        producer.poll(0)
    assert producer.flush(30) == 0


def wanted(scene, made):
    """Where each element must be, by topic, partition, offset and position; None for a record as a whole."""
    places = {}
    for at, record in scene.records().items():
        # A value that is no array is its own only element.
        elements = made.get(record.value, [] if record.value is None else [record.value])
        if record.value == b"[1, 2]":
            elements = [b"1", b"2"]
        for position, element in enumerate(elements or []):
            places[*at, position] = oracle.expected(dataclasses.replace(record, value=element), RULES)
        if not elements:
            whole = oracle.expected(dataclasses.replace(record, value=None if elements == [] else b"["), RULES)
            places[*at, None] = whole
    return places


def there(location):
    return Counter(
        (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"], row["kafka_position"])
        for row in oracle.rows_of(location)
    )


def in_one_place(scene, places, *, whole):
    rows, letters = there(scene.table), there(scene.dead_letters)
    for found, place in ((rows, "table"), (letters, "dead_letter")):
        mine = {at for at, each in places.items() if each.place == place}
        assert set(found.values()) <= {1}, "doubled"
        assert found.keys() <= mine
        assert not whole or found.keys() == mine
    for row in oracle.rows_of(scene.table):
        at = (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"], row["kafka_position"])
        assert all(row[name] == places[at].row[name] for name in RULES.columns)


@pytest.mark.long
@pytest.mark.parametrize("steps", [STEPS[::2], pytest.param(STEPS, marks=pytest.mark.long)], ids=len)
def test_ended_at_one_step_after_the_other(steps, make_scene, end_at, spark):
    scene, made = make_scene(explode="*"), {}
    for index, step in enumerate(steps):
        produced(scene, 400, made, index)
        nth = 2 if step in SECOND else 1
        assert end_at(scene, step, nth=nth, follow=index % 2 == 1).count(step) == nth
        in_one_place(scene, wanted(scene, made), whole=False)
    assert scene.follow(spark).error is None
    places = wanted(scene, made)
    in_one_place(scene, places, whole=True)
    counts = oracle.counted(scene.table, scene.side_file)
    where = Counter(each.place for each in places.values())
    records = scene.records()
    assert {name: counts[name] for name in ("consumed", "exploded", "written", "dropped", "dead_lettered")} == {
        "consumed": len(records),
        "exploded": len(places) - len(records),
        "written": where["table"],
        "dropped": where["dropped"],
        "dead_lettered": where["dead_letter"],
    }
    none = [at for at, each in places.items() if at[-1] is None and each.place == "dropped"]
    assert counts["null_values"] + counts["no_elements"] == len(none)
    assert counts["expectations"] == Counter(name for each in places.values() for name in each.failed)
    found = audit_flow(spark, scene.order)
    assert found.problems == ()
    assert found.found.visible == len(records)


def order(number, *items):
    return json.dumps({"id": number, "items": [{"n": n} for n in items]}).encode()


@pytest.mark.long
def test_what_was_exploded_before_a_crash_stays_so_whatever_the_rules_say_by_now(make_scene, spark):
    """What it had besides stays in a dead letter of the whole record, which a replay brings where it belongs."""
    scene = make_scene(partitions=1, **NESTED)
    big = 1 << 40
    scene.send(order(1, 1, 2), order(big, 1, 7, 2), order(2), order(3, 9))
    end_at(scene, spark, "written")
    rows = there(scene.table)
    assert {at[2:] for at in rows} == {(0, 0), (0, 1), (1, 0), (1, 2)}
    narrow = {**NESTED["format"], "schema": NESTED["format"]["schema"].replace("bigint", "int")}
    scene.options["format"] = narrow
    assert scene.drain(spark).error is None
    assert there(scene.table) == rows
    assert {at[2:] for at in there(scene.dead_letters)} == {(1, None), (3, 0)}
    counts = oracle.counted(scene.table, scene.side_file)
    assert (counts["consumed"], counts["written"], counts["dropped"], counts["dead_lettered"]) == (4, 4, 1, 2)
    assert counts["consumed"] + counts["exploded"] == 7
    assert audit_flow(spark, scene.order).problems == ()
    scene.send(order(big, 1, 2))
    end_at(scene, spark, "complete")
    scene.options["format"] = NESTED["format"]
    assert scene.drain(spark).error is None
    counts = oracle.counted(scene.table, scene.side_file)
    assert counts["consumed"] + counts["exploded"] == counts["written"] + counts["dropped"] + counts["dead_lettered"]
    assert there(scene.table) == rows
    assert {at[2:] for at in there(scene.dead_letters)} == {(1, None), (3, 0), (4, 0), (4, 1)}
    assert audit_flow(spark, scene.order).problems == ()
    scene.options["expectations"] = []
    done = with_flow(scene, spark, lambda run: replay(run, DeadLetterFilter(), dry_run=False))
    assert (done.tried, done.replayed) == (4, 4)
    assert {at[2:] for at in there(scene.table) - rows} == {(1, 1), (3, 0), (4, 0), (4, 1)}
    assert set(there(scene.table).values()) == {1}
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_a_replay_that_ends_between_rows_and_marks_is_finished_and_none_is_doubled(make_scene, spark):
    narrow = {**NESTED["format"], "schema": NESTED["format"]["schema"].replace("bigint", "int")}
    scene = make_scene(partitions=1, **{**NESTED, "format": narrow})
    big = 1 << 40
    scene.send(order(1, 1, 5, 6), order(big, 1, 2), order(big, 1, 6))
    assert scene.drain(spark).error is None
    assert {at[2:] for at in there(scene.dead_letters)} == {(0, 1), (0, 2), (1, None), (2, None)}
    scene.options |= {"format": NESTED["format"], "expectations": [{**NESTED["expectations"][0], "condition": "n < 6"}]}
    ended = []

    def fail(event):
        if isinstance(event, StepReached) and event.step == "replay_mark":
            ended.append(event)
            raise OSError("the machine is going down")
        return False

    def between(run):
        if not ended:
            with pytest.raises(OSError, match="the machine is going down"):
                replay(run, DeadLetterFilter(), dry_run=False)
        run.stopping.set()

    scene.follow(spark, until=fail, between_batches=between)
    assert ended
    assert {at[2:] for at in there(scene.table)} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert scene.drain(spark).error is None
    status = {(row["kafka_offset"], row["kafka_position"]): row["status"] for row in oracle.rows_of(scene.dead_letters)}
    assert status == {(0, 1): "replayed", (0, 2): "open", (1, None): "replayed", (2, None): "open"}
    assert set(there(scene.table).values()) == {1}
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
@pytest.mark.parametrize("harm", ["lost", "doubled"])
def test_an_audit_sees_one_element_that_is_lost_or_doubled(harm, make_scene, spark):
    """By an edit that leaves the ledger as it is: deltas of others would void it."""
    scene = make_scene(partitions=1, **NESTED)
    scene.send(order(1, 1, 2, 5), order(2, 1))
    assert scene.drain(spark).error is None
    letters = f"delta.`{scene.dead_letters}`"
    if harm == "lost":
        spark.sql(f"DELETE FROM {letters} WHERE kafka_position = 2")
    else:
        spark.sql(f"UPDATE {letters} SET kafka_position = 1")
    found = audit_flow(spark, scene.order)
    topic = scene.topic
    if harm == "lost":
        assert found.problems == ("in neither table: 1 record; the ledger counted 0 dropped",)
        assert found.examples == (f"{topic}-0:0:2",)
    else:
        assert found.problems == (
            "there more than once: 1 record",
            "in neither table: 1 record; the ledger counted 0 dropped",
        )
        assert found.examples == (f"{topic}-0:0:1", f"{topic}-0:0:2")
