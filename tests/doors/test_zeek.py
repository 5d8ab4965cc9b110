"""A real topic of 32 types of events, with a table for each: not one record is unaccounted for."""

import json
import lzma
import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder

from rivermouth import Project
from rivermouth.domain.ledger.sampling import SAMPLE_RECORDS

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

EVENTS = Path(__file__).parents[1] / "data/zeek-wrccdc-2018/events.jsonl.xz"
PARTITIONS = 4
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  zeek_raw:
    topics: [{topic}]
    format: raw
    table:
      name: bronze.zeek
      partition_by: [{{event: "get_json_object(CAST(value AS STRING), '$._path')"}}]
  zeek:
    source: {{table: bronze.zeek}}
    format: {{type: json, schema: infer}}
    table: zeek.{{event}}
"""


@pytest.fixture(scope="module")
def events():
    """The documents in the order in which they are sent: the types mixed, the same way each time."""
    lines = lzma.decompress(EVENTS.read_bytes()).splitlines()
    random.Random(2018).shuffle(lines)
    return [(line, json.loads(line)) for line in lines]


@pytest.fixture
def project(tmp_path, monkeypatch, broker, topic, spark, events):
    """A project over a topic with all of them: event N is in partition N % 4, and its offset is N // 4."""
    monkeypatch.chdir(tmp_path)
    name = topic(partitions=PARTITIONS)
    # Retries do not change the order of such a producer's records.
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number, (line, _event) in enumerate(events):
        while True:
            try:
                producer.produce(name, value=line, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0
    (tmp_path / "rivermouth.yml").write_text(PROJECT.format(servers=broker.bootstrap_servers, topic=name))
    return Project.load("rivermouth.yml")


def read(place, sql):
    """Rows as tuples; none where there is no table, or none with a row."""
    if not any(place.glob("_delta_log/*.json")):
        return []
    found = QueryBuilder().register("t", DeltaTable(str(place))).execute(sql).read_all()
    return list(zip(*(found.column(index).to_pylist() for index in range(len(found.schema.names))), strict=True))


def test_every_event_is_in_the_table_of_its_type(project, events, tmp_path):
    sent = Counter(event["_path"] for _line, event in events)
    assert (len(events), len(sent)) == (158_439, 32)
    counts = {each.flow: each.counts for each in project.run()}
    assert counts.pop("zeek_raw").written == len(events)

    assert {name: each.consumed for name, each in counts.items()} == {f"zeek.{kind}": sent[kind] for kind in sent}
    assert sum(each.consumed for each in counts.values()) == len(events)
    for kind in sent:
        kept = json.loads((tmp_path / f"lake/_rivermouth/schemas/zeek.{kind}/00001.json").read_text())
        few = sent[kind] <= SAMPLE_RECORDS
        assert (kept["corrupt"], kept["whole"], few and kept["records"] < sent[kind]) == (0, few, False)
        # What is inferred of all records takes all of them.
        assert not (few and counts[f"zeek.{kind}"].dead_lettered)
    for each in counts.values():
        assert each.written + each.dead_lettered + each.dropped == each.consumed
    audits = {each.flow: each for each in project.audit()}
    assert {name: each.problems for name, each in audits.items()} == dict.fromkeys(["zeek_raw", *counts], ())
    assert {name: audits[name].counted.consumed for name in counts} == {f"zeek.{kind}": sent[kind] for kind in sent}

    # As readers without Spark see it: each coordinate once, in the table of what was sent there.
    tables = tmp_path / "lake/zeek"
    places = Counter()
    for kind in sent:
        counted = counts[f"zeek.{kind}"]
        for table, rows in ((kind, counted.written), (f"{kind}__dead_letters", counted.dead_lettered)):
            found = read(tables / table, "SELECT kafka_partition, kafka_offset FROM t")
            assert len(found) == rows
            places.update((kind, *each) for each in found)
    wanted = {(event["_path"], n % PARTITIONS, n // PARTITIONS) for n, (_line, event) in enumerate(events)}
    assert (set(places), max(places.values())) == (wanted, 1)
