"""What every source of records promises: a Kafka cluster, and the records that a test gives in its place."""

from __future__ import annotations

import datetime as dt

import pytest
from confluent_kafka import Producer

from rivermouth.domain.ledger.sampling import Window
from rivermouth.domain.project.sample_records import Placed
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.sources.given_source import GivenSource
from rivermouth.spec import Flow

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
# Partition, key, value, headers; the n-th has the time BEGIN + n seconds.
RECORDS = [
    (0, b"a", b"one", (("h", b"1"), ("h", b"2"))),
    (1, None, b"two", ()),
    (0, b"b", None, ()),
    (0, b"", b"", (("", None),)),
    (1, b"a", b'{"n": 5}', (("__value_schema_id", b"\0\0\0\0\7"), ("h", b"1"))),
    (0, b"\xff\x00", b"six", ()),
]


class Sources:
    """One source: what there is to read, and the same for Spark."""

    def __init__(self, topic, offsets, records):
        self.topic, self.offsets, self.records = topic, offsets, records
        self.flow = Flow(name="f", topics=(topic,), table="bronze.t", format="raw")


@pytest.fixture(scope="module")
def filled(broker, topic):
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for place, (partition, key, value, headers) in enumerate(RECORDS):
        at_ms = int((BEGIN + dt.timedelta(seconds=place)).timestamp() * 1000)
        producer.produce(name, value, key, partition, timestamp=at_ms, headers=list(headers))
    assert producer.flush(30) == 0
    return name


@pytest.fixture(params=["kafka", "given"])
def source(request, broker, filled):
    if request.param == "kafka":
        with Kafka(broker.bootstrap_servers) as kafka:
            yield Sources(filled, kafka, KafkaSource(broker.bootstrap_servers))
        return
    given, ends = [], {0: 0, 1: 0}
    for place, (partition, key, value, headers) in enumerate(RECORDS):
        at = BEGIN + dt.timedelta(seconds=place)
        given.append(Placed(filled, partition, ends[partition], at, key, value, headers))
        ends[partition] += 1
    found = GivenSource(given, (filled,))
    yield Sources(filled, found, found)


def of_partition(number):
    return [(place, record) for place, record in enumerate(RECORDS) if record[0] == number]


def test_topics_are_found_by_name_and_by_pattern(source):
    for flow in (source.flow, source.flow.model_copy(update={"topics": (), "topic_pattern": source.topic})):
        ((name, found),) = source.offsets.topics(flow).items()
        assert (name, found.name, tuple(found.partitions)) == (source.topic, source.topic, (0, 1))
        assert found.id
    assert set(source.offsets.describe([source.topic, f"{source.topic}-not"])) == {source.topic}


def test_offsets_of_beginning_end_and_a_time(source):
    topics = source.offsets.topics(source.flow)
    assert source.offsets.beginning_offsets(topics) == {source.topic: {0: 0, 1: 0}}
    assert source.offsets.end_offsets(topics) == {source.topic: {0: 4, 1: 2}}
    assert source.offsets.resolve_starting(source.flow, topics) == {source.topic: {0: 0, 1: 0}}
    for seconds, offsets in ((0, {0: 0, 1: 0}), (2, {0: 1, 1: 1}), (4.5, {0: 3, 1: 2}), (60, {0: 4, 1: 2})):
        at_ms = int((BEGIN + dt.timedelta(seconds=seconds)).timestamp() * 1000)
        assert source.offsets.offsets_at(topics, at_ms) == {source.topic: offsets}, seconds


def test_records_of_windows_come_in_the_order_of_their_offsets(source):
    windows = [Window(source.topic, 0, 1, 4, 2), Window(source.topic, 1, 0, 2, 10)]
    found = [(each.partition, each.offset, each.key, each.value) for each in source.offsets.records(windows)]
    wanted = [(0, offset, *of_partition(0)[offset][1][1:3]) for offset in (1, 2)]
    wanted += [(1, offset, *of_partition(1)[offset][1][1:3]) for offset in (0, 1)]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert [each for each in found if each[0] == 0] == wanted[:2]
    for headers, ids in ((True, [(1, 1)]), (False, [])):
        records = source.offsets.records(windows, headers=headers)
        assert [(each.partition, each.offset) for each in records if each.id_in_header] == ids


def test_a_frame_of_ranges_has_their_records_whole(source, spark):
    ranges = {source.topic: {0: (1, 4), 1: (0, 1)}}
    frame = source.records.with_headers(headers=True).batch(spark, ranges)
    found = {}
    for row in frame.collect():
        headers = [(each.key, each.value and bytes(each.value)) for each in row.headers or ()]
        key, value = (each if each is None else bytes(each) for each in (row.key, row.value))
        at = row.timestamp.astimezone(dt.UTC)
        found[row.partition, row.offset] = (row.topic, key, value, headers, at)
    wanted = {}
    for number, offset in ((0, 1), (0, 2), (0, 3), (1, 0)):
        place, (_, key, value, headers) = of_partition(number)[offset]
        wanted[number, offset] = (source.topic, key, value, list(headers), BEGIN + dt.timedelta(seconds=place))
    assert found == wanted
    without = source.records.with_headers(headers=False).with_new_consumers().batch(spark, ranges)
    assert "headers" not in without.columns
    assert set(without.columns) == set(frame.columns) - {"headers"}


def test_a_record_is_weighed_by_its_key_and_value_or_not_at_all(source):
    weight = source.offsets.weight({source.topic: {0: (0, 4), 1: (0, 2)}})
    assert weight in (None, (6, sum(len(key or b"") + len(value or b"") for _, key, value, _ in RECORDS)))


def test_a_commit_says_whether_it_was_done(source):
    done = source.offsets.commit("f-group", {source.topic: {0: 4, 1: 2}})
    assert done.committed or done.detail
