"""A flow into a topic, ended at each of its steps: the topic has each row of the table once."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest
from tests.crashes import oracle
from tests.crashes.deciding import GOOD, NOBODY
from tests.crashes.delivering import STATES, end_at_each_step
from tests.crashes.scene import Scene, name_of
from tests.pipelines.conftest import records


@pytest.fixture
def scene(broker, tmp_path, topic):
    made = Scene.make(broker, tmp_path, partitions=2)
    out = topic(partitions=3)
    headers = {"from": "kafka_topic", "partition": "kafka_partition", "at": "kafka_offset"}
    sink = {"type": "kafka", "topic": out, "key": "name", "headers": headers}
    made.options |= {"sink": sink}
    return made


def out_of(scene, broker):
    return records(broker.bootstrap_servers, scene.options["sink"]["topic"], partitions=3)


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


@pytest.mark.long
def test_a_batch_whose_delivery_fails_is_delivered_by_the_same_run(scene, spark, broker):
    failed = []

    def fail_once(event):
        if name_of(event) == "sent" and not failed:
            failed.append(event)
            raise OSError

    scene.send(GOOD, NOBODY)
    assert scene.drain(spark, fail_once).error is None
    assert failed
    found = Counter(json.loads(value).get("id") for _, value, _ in out_of(scene, broker))
    assert found == Counter(row["id"] for row in oracle.rows_of(scene.table))


@pytest.mark.long
@STATES
def test_each_row_is_in_the_topic_once_wherever_a_run_ends(scene, spark, broker, state):
    def delivered():
        return [Counter(json.loads(value).get("id") for _, value, _ in out_of(scene, broker))]

    end_at_each_step(scene, spark, state, delivered)
    found = out_of(scene, broker)
    assert {headers["from"] for _, _, headers in found} == {scene.topic.encode()}
    assert all(key == json.loads(value).get("name") for key, value, _ in found)


@pytest.mark.long
@pytest.mark.parametrize("step", ["sent", "delivered"])
def test_each_row_is_in_the_topic_once_where_a_process_is_killed(step, scene, children, spark, broker):
    """The transaction of the dead process is open, or its entry is not known to the table's side file."""
    scene.produce(1500)
    child = children.run(scene, own_jvm=True, kill={"on": step, "nth": 2, "who": "both"})
    assert child.code == -signal.SIGKILL, child.said()
    assert child.events.count(step) == 2
    assert scene.drain(spark).error is None
    found = Counter(json.loads(value).get("id") for _, value, _ in out_of(scene, broker))
    assert found == Counter(row["id"] for row in oracle.rows_of(scene.table))
    assert scene.audit().is_clean
