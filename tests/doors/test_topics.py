"""A topic looked into: the command line and Python, over a real broker, and without a table."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

import rivermouth
from rivermouth.cli.main import invoke
from rivermouth.errors import ArgumentInvalid, TopicMissing

SCHEMA = "id bigint, name string, at int"
RECORDS = [
    (b"a", b'{"id": 1, "name": "first", "at": 5}'),
    (b"b", b'{"id": 2, "name": "gone", "at": 1}'),
    (b"a", b'{"id": 1, "name": "second", "at": 3}'),
    (b"b", None),
    (b"c", b'{"id": "no number"}'),
    (None, b'{"id": 4, "name": "without a key", "at": 1}'),
    (b"d", b'{"id": 5, "name": "tab\\there", "at": null}'),
]


@pytest.fixture
def filled(broker, topic):
    name = topic(partitions=3)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in RECORDS:
        producer.produce(name, value, key=key)
    assert producer.flush(10) == 0
    return name


def names_of(frame):
    return sorted(row["name"] for row in frame.select("name").collect())


def test_each_record_is_a_row_and_with_the_latest_per_key_each_key(spark, broker, filled):
    def read(**asked):
        return rivermouth.read_topic(
            filled, bootstrap_servers=broker.bootstrap_servers, schema=SCHEMA, spark=spark, **asked
        )

    assert names_of(read()) == ["first", "gone", "second", "tab\there", "without a key"]
    assert names_of(read(latest_per_key=True)) == ["second", "tab\there"]
    # By a column of the value the record without a key has one, and what is newest is another.
    by_id = read(latest_per_key=True, keys="id", sequence_by="at")
    assert names_of(by_id) == ["first", "gone", "without a key"]
    latest = read(latest_per_key=True, columns=["kafka_key", "kafka_offset"])
    assert latest.columns == ["kafka_key", "kafka_offset"]
    raw = rivermouth.read_topic(filled, bootstrap_servers=broker.bootstrap_servers, latest_per_key=True, spark=spark)
    assert sorted(bytes(row["kafka_key"]) for row in raw.collect()) == [b"a", b"c", b"d"]


def test_the_command_prints_what_it_reads_and_writes_nothing(spark, broker, filled, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ("--bootstrap-servers", broker.bootstrap_servers, "--schema", SCHEMA, "--latest-per-key")
    assert invoke(("topics", "read", filled, *asked, "--columns", "id,name")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["id", "name"]
    assert sorted(lines[1:]) == ["1   second", "5   tab\\there"]
    assert invoke(("topics", "read", filled, *asked, "--columns", "id", "--output", "json")) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == ['{"id":1}', '{"id":5}']
    assert invoke(("topics", "read", filled, *asked, "--starting-offsets", "latest")) == 0
    assert capsys.readouterr().out == "no rows\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            {"keys": ["id"]},
            "[ARGUMENT_INVALID] keys: without latest_per_key each record is a row, whatever its key; nothing was run\n"
            "  hint: --latest-per-key",
            id="keys of single records",
        ),
        pytest.param(
            {"latest_per_key": True, "format": "maxwell"},
            "[ARGUMENT_INVALID] latest_per_key: what is newest of a key takes a table where the format is maxwell; "
            "nothing was run\n  hint: rivermouth ingest TOPIC ...",
            id="changes that are several",
        ),
        pytest.param(
            {"format": "canal"},
            "[ARGUMENT_INVALID] format: a record of the format canal may be several rows, and what they come to takes "
            "a table; nothing was run\n  hint: rivermouth ingest t --format canal ...",
            id="records that are several",
        ),
        pytest.param(
            {"columns": ["nmae"]},
            "[ARGUMENT_INVALID] --columns: t has no column 'nmae'; nothing was run\n  hint: did you mean 'name'?",
            id="a slip in a column",
        ),
    ],
)
def test_what_cannot_be_read_is_told_in_whole(spark, broker, topic, arguments, told):
    name = topic()
    with pytest.raises(ArgumentInvalid) as caught:
        rivermouth.read_topic(name, bootstrap_servers=broker.bootstrap_servers, schema=SCHEMA, spark=spark, **arguments)
    assert str(caught.value).replace(name, "t") == told


def test_a_topic_that_is_not_there_is_told(spark, broker):
    with pytest.raises(TopicMissing):
        rivermouth.read_topic("t-nothing-like-it", bootstrap_servers=broker.bootstrap_servers, spark=spark)
