"""Records whose Kafka timestamps Spark cannot read: dead letters or rows, and the flow goes on."""

from __future__ import annotations

import datetime as dt

import pytest
from tests.doors.one_topic import OneTopic

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MILLIS = int(NOW.timestamp() * 1000)
FLOWS = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  stored:
    topics: [{topic}]
    format: {{type: json, schema: "n bigint"}}
    table: silver.stored
  unstored:
    topics: [{topic}]
    format: {{type: json, schema: "n bigint"}}
    table: silver.unstored
    metadata_columns: [kafka_topic, kafka_partition, kafka_offset]
"""


@pytest.mark.long
def test_a_timestamp_in_nanoseconds_stops_no_flow(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    name = topic(**{"message.timestamp.after.max.ms": str(2**63 - 1)})
    project = OneTopic(tmp_path, capsys, broker.bootstrap_servers, name)
    project.save(FLOWS.format(servers=broker.bootstrap_servers, topic=name))
    project.send(b'{"n": 0}', timestamp=MILLIS)
    code, said = project.say("run")
    assert code == 0, said
    project.send(b'{"n": 1}', timestamp=MILLIS * 1_000_000)
    project.send(b'{"n": 2}', b"{", timestamp=MILLIS)
    code, said = project.say("run")
    assert code == 0, said
    assert [(row["n"], row["kafka_timestamp"]) for row in project.kept("stored")] == [(0, NOW), (2, NOW)]
    assert [row["n"] for row in project.kept("unstored")] == [0, 1, 2]
    letters = [
        [(row["kafka_offset"], row["reason"], row["kafka_timestamp"]) for row in project.kept(f"{flow}__dead_letters")]
        for flow in ("stored", "unstored")
    ]
    syntax = (3, "INVALID_JSON", NOW)
    assert letters == [[(1, "KAFKA_TIMESTAMP_RANGE", None), syntax], [syntax]]
    code, said = project.say("audit")
    assert code == 0, said
