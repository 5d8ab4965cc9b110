"""A family that is killed between the commits of two of its children, and run again: each record once, in its table."""

import json
import os
import subprocess
import sys
import uuid

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

from rivermouth import Project

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
spark: {{driver_memory: 1g}}
flows:
  shop:
    topic_pattern: '{prefix}[.].*'
    format: {{type: json, schema: "id bigint"}}
    table: bronze.{{topic}}
    trigger: {{max_offsets: 50}}
"""
KILLED = """
import os, signal, sys
from pyspark import SparkContext
from rivermouth import Project
from rivermouth.engine.events import StepReached

seen = []
def hear(event):
    if isinstance(event, StepReached) and event.step == sys.argv[1]:
        seen.append(event.flow)
        if len(seen) == int(sys.argv[2]):
            os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
            if sys.argv[3] == "both":
                os.kill(os.getpid(), signal.SIGKILL)
Project.load("rivermouth.yml").run(listener=hear)
"""
TOPICS, RECORDS = ("a", "b", "c"), 120


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "nth", "who"),
    [
        pytest.param("written", 4, "both", id="between two children's commits"),
        pytest.param("create", 2, "both", id="before a child has its table"),
        pytest.param("write_dead_letters", 2, "both", id="before a child's dead letters"),
        pytest.param("written", 4, "jvm", id="Spark's JVM alone, between two commits"),
    ],
)
def test_a_family_that_was_killed_goes_on(spark, broker, topic, tmp_path, monkeypatch, step, nth, who):
    prefix = f"k{uuid.uuid4().hex[:10]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for name in TOPICS:
        topic(name=f"{prefix}.{name}")
        for number in range(RECORDS):
            value = "broken" if number % 40 == 7 else json.dumps({"id": number})
            producer.produce(f"{prefix}.{name}", value=value)
    assert producer.flush(30) == 0
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, prefix=prefix))
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, step, str(nth), who],
        env=os.environ,
        capture_output=True,
        timeout=120,
        check=False,
    )
    # A run that lost its JVM makes another one, and goes on to its end.
    assert killed.returncode == (-9 if who == "both" else 0), killed.stderr.decode()[-2000:]

    outcomes = Project.load("rivermouth.yml").run()
    assert [outcome.error for outcome in outcomes] == [None] * len(TOPICS)
    statuses = Project.load("rivermouth.yml").status()
    assert [(each.message, each.totals.consumed, each.dead_letters) for each in statuses] == [
        ("up to date", RECORDS, 3)
    ] * len(TOPICS)
    for name in TOPICS:
        table = tmp_path / "lake" / "bronze" / f"{prefix}_{name}"
        assert sorted(row["kafka_offset"] for row in rows_of(str(table))) == [
            number for number in range(RECORDS) if number % 40 != 7
        ]
        letters = rows_of(f"{table}__dead_letters")
        assert sorted(row["kafka_offset"] for row in letters) == [7, 47, 87]
