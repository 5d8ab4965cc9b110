"""Partitions by text: each value comes back as it was sent, or its record is a dead letter that the audit finds."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

from rivermouth.cli.main import invoke

REPORTS = Path(__file__).parents[1] / "data/reports"
# What the message of the dead letters says to write.
SAFE = "[{country_part: \"coalesce(nullif(country, ''), '(empty)')\"}]"
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  append:
    topics: [{c01a}]
    format: {{type: json, schema: "id bigint, country string"}}
    table: {{name: silver.append, partition_by: [country]}}
  derived:
    topics: [{c01a}]
    format: {{type: json, schema: "id bigint, country string"}}
    table: {{name: silver.derived, partition_by: [{{part: "lower(country)"}}]}}
  safe:
    topics: [{c01a}]
    format: {{type: json, schema: "id bigint, country string"}}
    table: {{name: silver.safe, partition_by: {safe}}}
  keyed:
    topics: [{c01k}]
    format: {{type: json, schema: "country string, id bigint, v int"}}
    table: {{name: silver.keyed, partition_by: [country]}}
    sink: {{type: upsert, keys: [country, id]}}
  safe_keyed:
    topics: [{c01k}]
    format: {{type: json, schema: "country string, id bigint, v int"}}
    table: {{name: silver.safe_keyed, partition_by: {safe}}}
    sink: {{type: upsert, keys: [country, id]}}
  versions:
    topics: [{c01k}]
    format: {{type: json, schema: "country string, id bigint, v int"}}
    table: {{name: silver.versions, partition_by: [country]}}
    sink: {{type: history, keys: [country, id], sequence_by: kafka_offset}}
  odd:
    topics: [{c02}]
    format: {{type: json, schema: "id bigint, p string"}}
    table: {{name: silver.odd, partition_by: [p]}}
  long:
    topics: [{c02long}]
    format: {{type: json, schema: "id bigint, p string"}}
    table: {{name: silver.long, partition_by: [p]}}
  raw:
    topics: [{c01a}]
    format: raw
    table: {{name: bronze.raw, partition_by: [{{country: "get_json_object(CAST(value AS STRING), '$.country')"}}]}}
  empty:
    source: {{table: bronze.raw, where: "country = ''"}}
    format: {{type: json, schema: "id bigint"}}
    table: silver.empty
"""


class Reports:
    """A project in the working folder, over the topics of the reports under names of their own."""

    def __init__(self, folder, servers, topic, capsys):
        self.lake, self._capsys = folder / "lake", capsys
        self._producer = Producer({"bootstrap.servers": servers})
        self._topics = defaultdict(topic)
        named = {name: self._topics[name] for name in ("c01a", "c01k", "c02", "c02long")}
        (folder / "rivermouth.yml").write_text(PROJECT.format(servers=servers, safe=SAFE, **named))

    def send(self, file):
        for line in (REPORTS / file).read_text(encoding="utf-8").splitlines():
            sent = json.loads(line)
            key, value = (
                None if sent[part] is None else json.dumps(sent[part]["json"]).encode() for part in ("key", "value")
            )
            self._producer.produce(self._topics[sent["topic"]], value=value, key=key)
        assert self._producer.flush(30) == 0

    def say(self, *arguments):
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        assert code == 0, out + err
        return out

    def rows(self, table, *columns):
        return sorted((tuple(row[name] for name in columns) for row in rows_of(self.lake / table)), key=str)


@pytest.fixture
def reports(tmp_path, monkeypatch, broker, topic, capsys, spark):
    monkeypatch.chdir(tmp_path)
    return Reports(tmp_path, broker.bootstrap_servers, topic, capsys)


@pytest.mark.long
def test_a_value_comes_back_as_it_was_sent_or_is_a_dead_letter(reports, spark):
    reports.send("01/messages.1.jsonl")
    reports.send("02/messages.1.jsonl")
    reports.say("run")
    sent = [(1, "de"), (2, ""), (3, None)]
    assert reports.rows("silver/safe", "id", "country") == sent
    assert reports.rows("silver/append", "id", "country") == [sent[0], sent[2]]
    assert reports.rows("silver/derived", "id", "country", "part") == [(1, "de", "de"), (3, None, None)]
    assert reports.rows("silver/safe_keyed", "country", "id", "v") == [("", 2, 1), ("de", 1, 1)]
    assert reports.rows("silver/keyed", "country", "id", "v") == [("de", 1, 1)]
    assert reports.rows("silver/versions", "country", "id", "v") == [("de", 1, 1)]
    assert reports.rows("bronze/raw", "kafka_offset", "country") == [(0, "de"), (2, None)]
    assert reports.rows("silver/long", "id", "p") == [(1, "short"), (3, "short")]
    odd = json.loads((REPORTS / "02/expected.json").read_text(encoding="utf-8"))["c02_odd"]
    kept = sorted((tuple(each) for each in odd if each[1] != "__HIVE_DEFAULT_PARTITION__"), key=str)
    assert reports.rows("silver/odd", "id", "p") == kept
    by_spark = spark.read.format("delta").load(str(reports.lake / "silver/odd")).select("id", "p").collect()
    assert sorted(map(tuple, by_spark), key=str) == kept
    letters = reports.rows("silver/append__dead_letters", "kafka_offset", "stage", "reason", "field", "message")
    what = "the value of the partition column country is an empty text, which Delta keeps as null"
    fix = "write into a new table with partition_by: " + SAFE.replace("country_part", '"country_part"')
    assert letters == [(1, "conform", "PARTITION_VALUE_INVALID", "country", f"{what}: {fix}")]

    for file in ("01/messages.2.jsonl", "01/messages.3.jsonl"):
        reports.send(file)
        reports.say("run", "keyed", "safe_keyed", "versions")
        if file.endswith("2.jsonl"):
            assert reports.rows("silver/safe_keyed", "country", "id", "v") == [("", 2, 2), ("de", 1, 1)]
    for table in ("keyed", "safe_keyed", "versions"):
        assert reports.rows(f"silver/{table}", "country", "id", "v") == [("de", 1, 1)]
    audit = reports.say("audit")
    assert "append: every record is in exactly one place" in audit
    assert "3 records in Kafka: 2 in the table, 1 in the dead letters, 0 in neither" in audit
    assert "30 records in Kafka: 29 in the table, 1 in the dead letters, 0 in neither" in audit
    assert "4 records in Kafka: 2 in the table, 2 in the dead letters, 0 in neither" in audit
