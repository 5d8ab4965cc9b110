"""A topic looked into: the command line and Python, over a real broker, and without a table."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

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


CANAL = {"isDdl": False, "pkNames": ["id"]}
MAXWELL = {"primary_key_columns": ["id"]}
OGG = {"primary_keys": ["id"]}
# Of each format records of one partition: key and value. What is left in the end is row 3 as it was named last, and 4.
ENVELOPES = {
    "debezium": [
        (1, {"op": "c", "after": {"id": 1, "name": "truncated"}}),
        (None, {"op": "t"}),
        (2, {"op": "c", "after": {"id": 2, "name": "deleted"}}),
        (3, {"op": "c", "after": {"id": 3, "name": "first"}}),
        (2, {"op": "d", "before": {"id": 2}}),
        (2, None),
        (3, {"op": "u", "after": {"id": 3, "name": "last"}}),
        (4, {"op": "r", "after": {"id": 4, "name": "other"}}),
        (None, {"ts_ms": 1}),
    ],
    "canal": [
        (None, {**CANAL, "type": "INSERT", "data": [{"id": "1", "name": "truncated"}]}),
        (None, {**CANAL, "type": "TRUNCATE", "data": None}),
        (None, {**CANAL, "type": "INSERT", "data": [{"id": n, "name": "first"} for n in "234"]}),
        (None, {**CANAL, "type": "UPDATE", "data": [{"id": "3", "name": "last"}], "old": [{"name": "first"}]}),
        (None, {**CANAL, "type": "UPDATE", "data": [{"id": "5", "name": "other"}], "old": [{"id": "4"}]}),
        (None, {**CANAL, "type": "UPDATE", "data": [{"id": "4", "name": "other"}], "old": [{"id": "5"}]}),
        (None, {**CANAL, "type": "DELETE", "data": [{"id": "2", "name": "first"}]}),
        (None, {**CANAL, "type": "ALTER", "isDdl": True}),
    ],
    "maxwell": [
        (None, {**MAXWELL, "type": "insert", "data": {"id": 2, "name": "deleted"}}),
        (None, {**MAXWELL, "type": "insert", "data": {"id": 3, "name": "first"}}),
        (None, {**MAXWELL, "type": "update", "data": {"id": 3, "name": "last"}, "old": {"name": "first"}}),
        (None, {**MAXWELL, "type": "insert", "data": {"id": 5, "name": "other"}}),
        (None, {**MAXWELL, "type": "update", "data": {"id": 4, "name": "other"}, "old": {"id": 5}}),
        (None, {**MAXWELL, "type": "delete", "data": {"id": 2, "name": "deleted"}}),
        (None, {"type": "table-alter"}),
    ],
    "ogg": [
        (None, {**OGG, "op_type": "I", "after": {"id": 1, "name": "truncated"}}),
        (None, {**OGG, "op_type": "T"}),
        (None, {**OGG, "op_type": "I", "after": {"id": 3, "name": "first"}}),
        (None, {**OGG, "op_type": "I", "after": {"id": 5, "name": "other"}}),
        (None, {**OGG, "op_type": "U", "before": {"id": 3, "name": "first"}, "after": {"id": 3, "name": "last"}}),
        (None, {**OGG, "op_type": "U", "before": {"id": 5}, "after": {"id": 4, "name": "other"}}),
        (None, {**OGG, "op_type": "I", "after": {"id": 2, "name": "deleted"}}),
        (None, {**OGG, "op_type": "D", "before": {"id": 2}}),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "debezium" else pytest.mark.long) for kind in ENVELOPES]
)
def test_of_change_envelopes_the_latest_row_of_each_key_is_read(kind, spark, broker, topic):
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, value in ENVELOPES[kind]:
        key = None if number is None else json.dumps({"id": number})
        producer.produce(name, None if value is None else json.dumps(value), key=key)
    assert producer.flush(10) == 0
    asked = {"bootstrap_servers": broker.bootstrap_servers, "schema": "id bigint, name string", "spark": spark}
    for keys in (None, ["id"])[: 2 if kind == "canal" else 1]:
        found = rivermouth.read_topic(name, latest_per_key=True, format=kind, keys=keys, **asked)
        rows = sorted((row["id"], row["name"]) for row in found.collect())
        assert rows == [(3, "last"), (4, "other")], (kind, keys)
        assert ("primary_key" in found.columns) == (keys is None)
    if kind == "maxwell":
        changes = rivermouth.read_topic(name, format=kind, columns=["operation"], **asked)
        assert sorted(row["operation"] for row in changes.collect()) == [
            *["delete", "insert", "insert", "insert"],
            *["update", "update"],
        ]


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
            {"format": "canal"},
            "[ARGUMENT_INVALID] format: a record of the format canal may be several rows, which only their keys tell "
            "apart; nothing was run\n  hint: --latest-per-key",
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


@pytest.fixture
def say(broker, tmp_path, monkeypatch, capsys):
    """Runs a command for a broker: exit code, what it prints, what it complains of."""
    monkeypatch.chdir(tmp_path)

    def say(*arguments):
        code = invoke([*arguments, "--bootstrap-servers", broker.bootstrap_servers])
        return (code, *capsys.readouterr())

    return say


def test_topics_are_created_and_those_that_exist_stay(say, broker, tmp_path):
    one, two = (f"t-{uuid.uuid4().hex[:12]}" for _ in range(2))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert say("topics", "create", one) == (0, f"{one}: created\n", "")
    options = ("--partitions", "3", "--config", "cleanup.policy=compact")
    code, out, _ = say("topics", "create", one, two, *options)
    assert (code, out) == (0, f"{one}: exists already, and stays as it is\n{two}: created\n")
    found = admin.list_topics(timeout=30).topics
    assert [len(found[name].partitions) for name in (one, two)] == [1, 3]
    (resource,) = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, two)]).values()
    assert resource.result(30)["cleanup.policy"].value == "compact"
    code, out, _ = say("topics", "create", two, "--output", "json")
    assert (code, json.loads(out)) == (0, {"created": {two: False}})

    spec = {"lake": str(tmp_path), "kafka": {"bootstrap_servers": broker.bootstrap_servers}}
    three = f"t-{uuid.uuid4().hex[:12]}"
    assert rivermouth.Project.from_spec(spec).create_topics(one, three, partitions=2) == {one: False, three: True}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("a/b",), "[TOPIC_NAME_INVALID] "),
        (("t", "--config", "compact"), "[ARGUMENT_INVALID] --config: a setting of a topic is written as NAME=VALUE;"),
        (("t", "--config", "cleanup=compact"), "[KAFKA_REFUSED] "),
        (("t", "--replication-factor", "9"), "[KAFKA_REFUSED] "),
    ],
)
def test_a_topic_that_cannot_be_created_is_told(say, arguments, told):
    name, *options = (f"t-{uuid.uuid4().hex[:12]}" if each == "t" else each for each in arguments)
    code, out, err = say("topics", "create", name, *options)
    assert (code, out) == (1, "")
    assert err.startswith(told)
    assert say("topics", "create", f"{name}-other".replace("/", "-"))[0] == 0


def test_tombstones_are_sent_behind_the_lines(say, broker, tmp_path):
    name = f"t-{uuid.uuid4().hex[:12]}"
    (tmp_path / "lines").write_text('{"id": "a"}\n{"id": "b"}\n')
    code, out, _ = say("dev", "produce", name, "lines", "--key", "id", "--tombstone", "a", "--tombstone", "ä")
    assert (code, out.splitlines()[1:]) == (0, [f"made topic {name} with 1 partition"])
    assert say("dev", "produce", name, "--tombstone", "b")[1].startswith(f"1 record sent to {name} in ")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(name, 0, 0)])
    found = [(each.key().decode(), each.value()) for each in consumer.consume(5, timeout=20)]
    consumer.close()
    assert found == [("a", b'{"id": "a"}'), ("b", b'{"id": "b"}'), ("a", None), ("ä", None), ("b", None)]
    assert say("dev", "produce", name) == (
        1,
        "",
        (
            "[ARGUMENT_INVALID] FILE: there is nothing to send: no file and no tombstone; nothing was run\n"
            f"  hint: rivermouth dev produce {name} FILE, or --tombstone KEY\n"
        ),
    )
