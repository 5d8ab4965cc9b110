"""Records that are sent arrive as they were, and failures are told."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import sys
import threading
import uuid
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, TopicPartition

from rivermouth.errors import BrokerUnreachable, ProduceFailed
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_produce import ProduceSettings, produce, read_lines


@pytest.fixture
def name():
    return f"p{uuid.uuid4().hex[:12]}"


def arrived(broker, topic, count, partitions=1):
    """(key, value, headers) of the first ``count`` records, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    messages = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=20)
    consumer.close()
    messages.sort(key=lambda message: (message.partition(), message.offset()))
    return [(message.key(), message.value(), message.headers()) for message in messages]


def test_lines_arrive_as_they_are_in_order(broker, name):
    lines = [b'{"a": 1}', b"{broken", b"\xff\xfe", '{"\u00e4": 2}'.encode(), b"[]", b"null", b'{"a": 1} trailing']
    told = produce(broker.bootstrap_servers, {}, name, lines)
    assert (told.topic, told.created, told.delivered, told.without_key) == (name, True, 7, 0)
    assert told.rows_per_s == 7 / told.seconds
    assert arrived(broker, name, 7) == [(None, line, None) for line in lines]


def test_a_field_becomes_the_key_and_is_null_where_there_is_none(broker, name):
    keyed = [
        (b'{"id": "a"}', b"a"),
        (b'{"id": 7}', b"7"),
        (b'{"id": 1.50}', b"1.5"),
        (b'{"id": true}', b"true"),
        (b'{"id": {"b": [1, 2]}}', b'{"b":[1,2]}'),
        ('{"id": "\u00e4"}'.encode(), "\u00e4".encode()),
        (b'{"id": ""}', b""),
        (b'{"id": null}', None),
        (b'{"other": 1}', None),
        (b'["id"]', None),
        (b"{broken", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
    ]
    told = produce(broker.bootstrap_servers, {}, name, [line for line, _ in keyed], "id")
    assert (told.delivered, told.without_key) == (13, 6)
    assert [(value, key) for key, value, _ in arrived(broker, name, 13)] == keyed


def test_whole_records_are_sent_untouched(broker, name):
    records = [
        (b"k", b"v", [("h", b"1"), ("h", None)]),
        (b"k", None, []),
        (None, b"", [("", b"")]),
    ]
    told = produce(broker.bootstrap_servers, {}, name, records, "id")
    assert (told.delivered, told.without_key) == (3, 1)
    assert arrived(broker, name, 3) == [
        (b"k", b"v", [("h", b"1"), ("h", None)]),
        (b"k", None, None),
        (None, b"", [("", b"")]),
    ]


def test_a_topic_is_made_once_and_records_are_added(broker, name):
    first = produce(broker.bootstrap_servers, {}, name, [b"1"], how=ProduceSettings(partitions=3))
    second = produce(broker.bootstrap_servers, {}, name, [b"2"], how=ProduceSettings(partitions=5))
    with Kafka(broker.bootstrap_servers) as kafka:
        topics = kafka.describe([name])
        ends = kafka.end_offsets(topics)[name]
    assert (first.created, second.created) == (True, False)
    assert topics[name].partitions == (0, 1, 2)
    assert sum(ends.values()) == 2


def test_nothing_to_send_still_makes_the_topic(broker, name):
    told = produce(broker.bootstrap_servers, {}, name, [])
    assert (told.created, told.delivered) == (True, 0)


def test_many_records_are_all_there_and_progress_is_told(broker, name):
    seen = []
    told = produce(
        broker.bootstrap_servers,
        {},
        name,
        (b'{"id": %d}' % number for number in range(25_000)),
        "id",
        ProduceSettings(partitions=4, on_progress=seen.append),
    )
    values = {json.loads(value)["id"] for _, value, _ in arrived(broker, name, 25_000, partitions=4)}
    assert told.delivered == 25_000
    assert seen == [10_000, 20_000]
    assert values == set(range(25_000))


def test_a_record_that_is_too_large_is_told(broker, name):
    with pytest.raises(ProduceFailed) as error:
        produce(broker.bootstrap_servers, {}, name, [b"x", b"y" * 2_000_000, b"z"])
    assert str(error.value) == (
        f"[PRODUCE_FAILED] topic {name}: 1 of 3 records were not delivered: Broker: Message size too large; "
        "the others were\n"
        f"  hint: rivermouth dev produce {name} FILE"
    )
    assert [value for _, value, _ in arrived(broker, name, 2)] == [b"x", b"z"]


def test_a_slow_broker_gets_the_others_all_the_same(broker, name):
    resumes = threading.Timer(3, os.kill, (broker.pid, signal.SIGCONT))

    def lines():
        yield b"x"
        os.kill(broker.pid, signal.SIGSTOP)
        resumes.start()
        yield b"y" * 2_000_000
        yield b"z"

    with pytest.raises(ProduceFailed) as error:
        produce(broker.bootstrap_servers, {}, name, lines())
    resumes.join()
    assert (error.value.failed, error.value.sent) == (1, 3)
    assert [value for _, value, _ in arrived(broker, name, 2)] == [b"x", b"z"]


def test_a_record_that_the_broker_refuses_is_told(broker, topic):
    small = topic(**{"max.message.bytes": "1000"})
    with pytest.raises(ProduceFailed) as error:
        produce(broker.bootstrap_servers, {}, small, [b"y" * 5000])
    assert str(error.value) == (
        f"[PRODUCE_FAILED] topic {small}: 1 of 1 records were not delivered: Broker: Message size too large; "
        "the others were\n"
        f"  hint: rivermouth dev produce {small} FILE"
    )


def test_without_a_broker_nothing_is_sent():
    with pytest.raises(BrokerUnreachable) as error:
        produce("127.0.0.1:1", {}, "orders", [b"1"], how=ProduceSettings(timeout_s=0.5))
    assert str(error.value) == (
        "[BROKER_UNREACHABLE] no Kafka broker answered at 127.0.0.1:1 within 0.5 s: nothing listens there; "
        "nothing was read\n"
        "  hint: rivermouth dev kafka --port 1"
    )


TEXT = b'{"a": 1}\n\n  \r\n{"b": "\xe2\x80\xa8"}\r\n {"c": 3} \nlast'
LINES = [b'{"a": 1}', b'{"b": "\xe2\x80\xa8"}', b' {"c": 3} ', b"last"]


def test_lines_of_a_file_without_blank_ones(tmp_path):
    plain, packed = tmp_path / "lines.json", tmp_path / "lines.json.gz"
    plain.write_bytes(TEXT)
    packed.write_bytes(gzip.compress(TEXT))
    assert list(read_lines(str(plain))) == LINES
    assert list(read_lines(str(packed))) == LINES


def test_lines_of_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(TEXT)))
    assert list(read_lines("-")) == LINES


def test_a_file_that_is_not_there():
    with pytest.raises(FileNotFoundError):
        next(read_lines("no-such-file.json"))
