"""A flow into a topic, ended at each of its steps: the topic has each row of the table once."""

from __future__ import annotations

import json
import shutil
from collections import Counter

import pytest
from tests.crashes import oracle
from tests.crashes.scene import Scene
from tests.pipelines.conftest import records

STEPS = ("write", "written", "deliver", "sent", "delivered", "bury", "settle")


@pytest.fixture
def scene(broker, tmp_path, topic):
    made = Scene.make(broker, tmp_path, partitions=2)
    out = topic(partitions=3)
    sink = {"type": "kafka", "topic": out, "key": "name", "headers": {"from": "kafka_topic"}}
    made.options |= {"sink": sink}
    return made


def out_of(scene, broker):
    return records(broker.bootstrap_servers, scene.options["sink"]["topic"], partitions=3)


def rows_and_records(scene, broker):
    """How often each row is in the table, and each value in the topic."""
    there = Counter(row["id"] for row in oracle.rows_of(scene.table))
    return there, Counter(json.loads(value).get("id") for _, value, _ in out_of(scene, broker))


def test_bytes_reach_the_topic_as_they_are(broker, tmp_path, topic, spark):
    scene, out = Scene.make(broker, tmp_path, partitions=1), topic()
    sink = {"type": "kafka", "topic": out, "key": "kafka_key", "value": "value"}
    scene.options |= {"format": "raw", "key_format": "raw", "expectations": (), "null_values": "keep", "sink": sink}
    scene.send(b"one", b"{}", b"three", key=b"k1")
    assert scene.drain(spark).error is None
    assert [each[:2] for each in records(broker.bootstrap_servers, out)] == [
        ("k1", "one"),
        ("k1", "{}"),
        ("k1", "three"),
    ]


@pytest.mark.parametrize("state", [pytest.param("kept", marks=pytest.mark.long), "deleted"])
def test_each_row_is_in_the_topic_once_wherever_a_run_ends(scene, spark, broker, state):
    assert scene.drain(spark).error is None
    for seed, step in enumerate(STEPS):
        scene.produce(60, seed=seed)
        scene.end_at(spark, step)
        if state == "deleted":
            shutil.rmtree(scene.folder / "lake/_rivermouth", ignore_errors=True)
        if seed % 2:
            assert scene.drain(spark).error is None, step
            rows, sent = rows_and_records(scene, broker)
            assert sum(rows.values()) > 0
            assert sent == rows, step
    assert scene.drain(spark).error is None
    rows, sent = rows_and_records(scene, broker)
    assert sent == rows
    assert scene.audit().is_clean
    found = out_of(scene, broker)
    assert {headers["from"] for _, _, headers in found} == {scene.topic.encode()}
    assert all(key == json.loads(value).get("name") for key, value, _ in found)
