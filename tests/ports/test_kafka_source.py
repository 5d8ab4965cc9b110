"""Frames of explicit ranges, and what Spark keeps of them."""

from __future__ import annotations

import time
from operator import itemgetter

import pytest
from confluent_kafka import Producer

from rivermouth.errors import MskJarMissing
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.kafka.kafka_records import OVERFLOW_MS
from rivermouth.ports.kafka.kafka_source import KafkaSource


@pytest.fixture
def filled(broker, topic):
    """A topic with 40 records in two partitions."""
    name = topic(partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(40):
        producer.produce(name, value=b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    return name


def kept(spark, name):
    """A pool of Spark's Kafka source; no door of Spark's own tells what is in it."""
    return private(spark, "org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer$", name)


def private(spark, of_class, name, inside=None):
    field = spark._jvm.java.lang.Class.forName(of_class).getDeclaredField(name)
    field.setAccessible(True)
    return field.get(inside)


@pytest.fixture
def made(spark):
    """Counts the consumers that this JVM ever made."""
    pool = kept(spark, "consumerPool")
    return private(spark, "org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumerPool", "pool", pool)


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_each_frame_has_its_own_range_of_records(spark, broker, filled):
    source = KafkaSource(broker.bootstrap_servers)
    for start, end in ((0, 5), (5, 20), (3, 4)):
        frame = source.batch(spark, {filled: {0: (start, end), 1: (0, 2)}})
        found = sorted((row.partition, row.offset, bytes(row.value)) for row in frame.collect())
        first = [(0, offset, b"%d" % (2 * offset)) for offset in range(start, end)]
        assert found == [*first, (1, 0, b"1"), (1, 1, b"3")]


def test_all_frames_of_a_source_share_their_consumers(spark, broker, filled, made):
    source = KafkaSource(broker.bootstrap_servers)
    before = made.getCreatedCount()
    for end in (5, 10, 15, 20):
        assert source.batch(spark, {filled: {0: (0, end), 1: (end - 5, end)}}).count() == end + 5
    assert made.getCreatedCount() == before + 2  # one a partition


def test_after_a_failure_a_source_can_have_new_ones(spark, broker, filled, made):
    source = KafkaSource(broker.bootstrap_servers)
    before = made.getCreatedCount()
    for each in (source, source, source.with_new_consumers()):
        assert each.batch(spark, {filled: {0: (0, 20)}}).count() == 20
    assert made.getCreatedCount() == before + 2


def test_two_sources_share_none_for_their_options_may_differ(spark, broker, filled, made):
    before = made.getCreatedCount()
    for source in (KafkaSource(broker.bootstrap_servers), KafkaSource(broker.bootstrap_servers, {"client.rack": "a"})):
        assert source.batch(spark, {filled: {0: (0, 20)}}).count() == 20
    assert made.getCreatedCount() == before + 2


@pytest.mark.long
def test_records_that_were_polled_are_let_go(spark, broker, filled):
    polled = kept(spark, "fetchedDataPool")
    source = KafkaSource(broker.bootstrap_servers)
    created = polled.numCreated()
    for start in (0, 5, 7):
        assert source.batch(spark, {filled: {0: (start, start + 1)}}).count() == 1
    assert polled.numCreated() == created + 3
    wait_until(lambda: polled.numTotal() == 0)


def test_without_amazons_jar_nothing_is_read(spark):
    iam = {"sasl.mechanism": "AWS_MSK_IAM", "security.protocol": "SASL_SSL"}
    with pytest.raises(MskJarMissing) as error:
        KafkaSource("localhost:9098", iam).check_login(spark)
    assert str(error.value) == (
        "[MSK_JAR_MISSING] IAM needs the jar aws-msk-iam-auth, which this Spark session does not have; "
        "nothing was read\n  hint: spark: {conf: {spark.jars.packages: software.amazon.msk:aws-msk-iam-auth:2.3.9}}"
    )
    assert KafkaSource("localhost:9098").check_login(spark) is None


# The largest that fits into Spark's microseconds, and what it becomes of any other.
LARGEST_MS = (2**63 - 1) // 1000
LARGEST_US = 2**63 - 1
TIMES = [
    1,
    253402300800000,
    OVERFLOW_MS - 1,
    OVERFLOW_MS,
    LARGEST_MS,
    LARGEST_MS + 1,
    1767225600 * 10**9,
    LARGEST_US,
    2,
]


@pytest.fixture
def nanoseconds(broker, topic):
    """A topic with a partition in which some timestamps are nanoseconds, and one in which none is."""
    name = topic(partitions=2, **{"message.timestamp.after.max.ms": str(LARGEST_US)})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number, at in enumerate([*TIMES, *range(1, 500)]):
        headers = [("h", b"1"), ("h", None)] if number == 8 else None
        producer.produce(name, key=b"k", value=b"%d" % number, partition=0, timestamp=at, headers=headers)
    producer.produce(name, value=None, partition=1, timestamp=1)
    assert producer.flush(30) == 0
    return name


def test_records_with_timestamps_that_spark_cannot_read_are_read(spark, broker, nanoseconds, monkeypatch):
    plain = KafkaSource(broker.bootstrap_servers)
    ranges = {nanoseconds: {0: (1, 450), 1: (0, 1)}}
    with pytest.raises(Exception, match="overflows when converting"):
        plain.batch(spark, ranges).collect()
    with Kafka(broker.bootstrap_servers) as kafka:
        source = KafkaSource(broker.bootstrap_servers, first_at=kafka.first_at)
        frame = source.batch(spark, ranges)
        assert (source.has_overflows(ranges), source.has_overflows({nanoseconds: {0: (0, 3), 1: (0, 1)}})) == (
            True,
            False,
        )
        assert [(each.name, each.dataType) for each in frame.schema] == [
            (each.name, each.dataType) for each in plain.batch(spark, ranges).schema
        ]
        told = frame.selectExpr("* EXCEPT (timestamp)", "unix_micros(timestamp)").collect()
        found = sorted((tuple(row) for row in told), key=itemgetter(3, 4))
        mine = [row for row in found if row[3] == 0]
        assert [row[4] for row in mine] == list(range(1, 450))
        assert [bytes(row[1]) for row in mine] == [b"%d" % number for number in range(1, 450)]
        times = [*TIMES, *range(1, 500)]
        assert [row[-1] for row in mine] == [min(at * 1000, LARGEST_US) for at in times[1:450]]
        headers = {row[4]: row[6] for row in mine if row[6]}
        assert {at: [tuple(each) for each in some] for at, some in headers.items()} == {8: [("h", b"1"), ("h", None)]}
        assert {(bytes(row[0]), row[2], row[5]) for row in mine} == {(b"k", nanoseconds, 0)}
        assert [row[:6] for row in found if row[3] == 1] == [(None, None, nanoseconds, 1, 0, 0)]
        assert "headers" not in source.with_headers(headers=False).batch(spark, ranges).columns
        # What is known of a partition is not asked again, until something failed.
        asked = []
        counted = KafkaSource(broker.bootstrap_servers, first_at=lambda parts, _at: asked.append(parts) or {})
        for each in (counted, counted, counted.with_headers(headers=False), counted.with_new_consumers()):
            each.batch(spark, ranges)
        assert len(asked) == 2
