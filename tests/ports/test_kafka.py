"""What the Kafka port says, held against a real broker."""

from __future__ import annotations

import concurrent.futures
import datetime as dt
import re
import time
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition, Uuid
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.kafka.kafka_offsets import completed, flat_offsets
from rivermouth.errors import (
    BrokerUnreachable,
    GroupWithoutOffsets,
    KafkaOptionRefused,
    OffsetsOutOfRange,
    PartitionMissing,
    SourceNotRead,
    TopicMissing,
    TopicPatternEmpty,
    TopicPatternInvalid,
)
from rivermouth.ports.dev.local_ports import free_port
from rivermouth.ports.kafka.kafka_cluster import Kafka, _notation, spark_pattern
from rivermouth.spec import Flow


@pytest.fixture(scope="module")
def admin(broker):
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def kafka(broker):
    with Kafka(broker.bootstrap_servers) as port:
        yield port


@pytest.fixture
def make(admin):
    """Makes topics with random names, sees that the broker knows them, and deletes them afterwards."""
    names = []

    def make_topic(partitions=1, name=None):
        name = name or f"t{uuid.uuid4().hex[:12]}"
        create(admin, name, partitions)
        names.append(name)
        return name

    yield make_topic
    for future in admin.delete_topics(names).values() if names else ():
        future.exception()


def create(admin, name, partitions):
    admin.create_topics([NewTopic(name, partitions)])[name].result()
    while not admin.list_topics(name, timeout=10).topics[name].partitions:
        time.sleep(0.01)


def a_flow(**source: object):
    return Flow.model_validate({"name": "f", "format": "raw", "table": "bronze.t", **source})


def send(broker, topic, count, partition=0, *, timestamps=None):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for index in range(count):
        timestamp = timestamps[index] if timestamps else 0
        producer.produce(topic, value=b"v", partition=partition, timestamp=timestamp)
    assert producer.flush(10) == 0


def soon(look, expected):
    """Whether ``look()`` becomes ``expected``: a broker ends a transaction after it has said so."""
    deadline = time.monotonic() + 10
    while look() != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return look() == expected


def drop_before(admin, topic, offset, partition=0):
    """Takes the records before ``offset`` away, as retention would."""
    place = TopicPartition(topic, partition, offset)
    admin.delete_records([place])[place].result()


# --- topics --------------------------------------------------------------------------------------


def test_named_topics_come_with_their_ids_and_partitions(kafka, make):
    one, two = make(1), make(3)
    found = kafka.topics(a_flow(topics=[two, one]))
    assert list(found) == sorted([one, two])
    assert found[one].partitions == (0,)
    assert found[two].partitions == (0, 1, 2)
    assert len(found[one].id) == 22
    assert found[one].id != found[two].id


def test_a_recreated_topic_has_another_id(kafka, admin, make):
    name = make()
    before = kafka.topics(a_flow(topics=[name]))[name]
    admin.delete_topics([name])[name].result()
    while kafka.describe([name]):
        time.sleep(0.01)
    create(admin, name, 1)
    after = kafka.topics(a_flow(topics=[name]))[name]
    assert (before.name, before.partitions) == (after.name, after.partitions)
    assert before.id != after.id


def test_ids_are_written_as_kafka_writes_them_and_absent_where_there_is_none():
    assert _notation(Uuid(-1, -1)) == "_" * 21 + "w"
    assert _notation(Uuid(0, 0)) is None


def test_a_missing_topic_is_named_with_the_nearest_one(kafka, make):
    name = make()
    with pytest.raises(TopicMissing) as error:
        kafka.topics(a_flow(topics=[f"{name}s"]))
    assert str(error.value) == (
        f"[TOPIC_MISSING] flow f: topic '{name}s' does not exist on the broker; nothing was read\n"
        f"  hint: did you mean '{name}'?"
    )


def test_a_topic_of_a_name_that_kafka_does_not_allow_is_missing(kafka):
    with pytest.raises(TopicMissing, match=r"^\[TOPIC_MISSING\] flow f: topic 'a b' does not exist"):
        kafka.topics(a_flow(topics=["a b"]))


def test_assign_takes_only_the_named_partitions(kafka, make):
    name = make(3)
    assert kafka.topics(a_flow(assign={name: [2, 0]}))[name].partitions == (0, 2)


def test_assign_of_a_missing_partition_is_refused(kafka, make):
    name = make(3)
    with pytest.raises(PartitionMissing) as error:
        kafka.topics(a_flow(assign={name: [0, 3]}))
    assert str(error.value) == (
        f"[PARTITION_MISSING] flow f: topic '{name}' has no partition 3 (it has 3); nothing was read\n"
        "  hint: correct the partition in assign, starting_offsets or ending_offsets"
    )


def test_a_pattern_takes_the_topics_whose_whole_name_matches(kafka, make):
    stem = f"p{uuid.uuid4().hex[:8]}"
    names = [make(name=f"{stem}-{index:02}") for index in range(30)]
    make(name=f"old-{stem}-00")
    make(name=f"{stem}-00-old")
    assert list(kafka.topics(a_flow(topic_pattern=rf"{stem}-\d+"))) == names


def test_a_pattern_takes_no_topic_that_is_internal_to_kafka(kafka, make):
    make()
    kafka.commit("g-internal", {make(): {0: 0}})
    assert "__consumer_offsets" in kafka._client.all_names()
    assert "__consumer_offsets" not in kafka.topics(a_flow(topic_pattern=".*"))


@pytest.mark.long
def test_spark_takes_the_same_topics_as_we_do(spark, broker, kafka, make):
    stem = f"p{uuid.uuid4().hex[:8]}"
    pattern = f"{stem}-a|{stem}-b"
    for name in (f"{stem}-a", f"{stem}-b", f"{stem}-c", f"old-{stem}-a", f"{stem}-b-old"):
        send(broker, make(name=name), 1)
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribePattern", spark_pattern(pattern))
        .load()
    )
    read = {row.topic for row in frame.select("topic").collect()}
    assert read == set(kafka.topics(a_flow(topic_pattern=pattern))) == {f"{stem}-a", f"{stem}-b"}


def test_a_pattern_without_any_topic_is_refused(kafka):
    with pytest.raises(TopicPatternEmpty) as error:
        kafka.topics(a_flow(topic_pattern="nothing-.*"))
    assert re.fullmatch(
        r"\[TOPIC_PATTERN_EMPTY\] flow f: no topic matches 'nothing-\.\*'; nothing was read\n"
        r"  hint: (write one that matches a topic of the broker: \S.*|rivermouth dev produce TOPIC FILE)",
        str(error.value),
    )


def test_a_pattern_that_is_no_expression_is_refused(kafka):
    with pytest.raises(TopicPatternInvalid) as error:
        kafka.topics(a_flow(topic_pattern="orders-("))
    assert str(error.value) == (
        "[TOPIC_PATTERN_INVALID] flow f: topic_pattern 'orders-(' is no regular expression: "
        "missing ), unterminated subpattern at position 7; nothing was read\n"
        "  hint: topic_pattern: orders-.*"
    )


# --- where partitions begin and end --------------------------------------------------------------


def test_beginning_and_end_of_each_partition(kafka, admin, broker, make):
    name = make(3)
    send(broker, name, 5, partition=0)
    send(broker, name, 2, partition=2)
    drop_before(admin, name, 3)
    topics = kafka.topics(a_flow(topics=[name]))
    assert kafka.beginning_offsets(topics) == {name: {0: 3, 1: 0, 2: 0}}
    assert kafka.end_offsets(topics) == {name: {0: 5, 1: 0, 2: 2}}


def test_the_end_is_before_the_first_open_transaction(kafka, broker, make):
    name = make()
    topics = kafka.topics(a_flow(topics=[name]))
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(20)

    def write(count):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(name, b"v")
        producer.flush(10)

    write(3)
    producer.commit_transaction(10)
    assert soon(lambda: kafka.end_offsets(topics)[name][0], 4)
    write(2)
    producer.abort_transaction(10)
    assert soon(lambda: kafka.end_offsets(topics)[name][0], 7)
    write(2)
    assert kafka.end_offsets(topics) == {name: {0: 7}}
    assert kafka.end_offsets(topics, "read_uncommitted") == {name: {0: 9}}
    with Kafka(broker.bootstrap_servers, {"isolation.level": "read_uncommitted"}) as hasty:
        assert hasty.end_offsets(topics) == {name: {0: 9}}
    assert starting(kafka, name, "latest") == {name: {0: 7}}
    future_ms = int(time.time() * 1000) + 3_600_000
    assert kafka.offsets_at(topics, future_ms) == {name: {0: 7}}
    producer.abort_transaction(10)


def test_offsets_at_a_time(kafka, broker, make):
    name = make(2)
    first_ms = int(time.time() * 1000) - 3_600_000
    send(broker, name, 3, timestamps=[first_ms, first_ms + 1000, first_ms + 2000])
    topics = kafka.topics(a_flow(topics=[name]))
    found = [
        kafka.offsets_at(topics, first_ms + later)[name] for later in (-1, 0, 1, 1000, 1001, 2000, 2001, 9_000_000)
    ]
    assert found == [{0: offset, 1: 0} for offset in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert kafka.offsets_at(topics, -5) == {name: {0: 0, 1: 0}}


@pytest.mark.parametrize("request_", ["first_at", "end_offsets"])
def test_a_record_that_arrives_between_two_requests_is_behind_the_start(request_, broker, make, monkeypatch):
    name = make()
    asked = getattr(Kafka, request_)

    def ask_and_send(self, topics, *rest):
        found = asked(self, topics, *rest)
        send(broker, name, 1)
        return found

    monkeypatch.setattr(Kafka, request_, ask_and_send)
    with Kafka(broker.bootstrap_servers) as kafka:
        assert starting(kafka, name, "2001-01-01T00:00:00Z") == {name: {0: 0}}


def test_a_topic_made_just_now_is_waited_for(kafka, admin, make):
    found = []
    for _ in range(5):
        name = f"t{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, 4)])[name].result()
        while not (topics := kafka.describe([name])):
            time.sleep(0.001)
        found.append(kafka.end_offsets(topics)[name])
        admin.delete_topics([name])[name].result()
    assert found == [dict.fromkeys(range(4), 0)] * 5


def test_several_threads_may_share_it(kafka, broker, make):
    name = make(2)
    send(broker, name, 4)
    flow = a_flow(topics=[name])
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: kafka.end_offsets(kafka.topics(flow)), range(64)))
    assert found == [{name: {0: 4, 1: 0}}] * 64


# --- consumer groups -----------------------------------------------------------------------------


def test_progress_is_committed_and_read_back(kafka, admin, broker, make):
    name = make(3)
    send(broker, name, 9, partition=2)
    drop_before(admin, name, 4, partition=2)
    topics = kafka.topics(a_flow(topics=[name]))
    told = kafka.commit("g1", {name: {0: 0, 1: 0}})
    assert (told.group, told.committed, told.detail) == ("g1", True, "")
    assert kafka.commit("g1", {name: {0: 0, 1: 0}}).committed
    assert kafka.committed("g1", topics, flow="f") == {name: {0: 0, 1: 0, 2: 4}}


def test_a_group_without_offsets_is_refused(kafka, make):
    name = make()
    with pytest.raises(GroupWithoutOffsets) as error:
        kafka.committed("nobody", kafka.topics(a_flow(topics=[name])), flow="f")
    assert str(error.value) == (
        f"[GROUP_WITHOUT_OFFSETS] flow f: consumer group 'nobody' has no committed offsets for '{name}'; "
        "nothing was read\n"
        "  hint: starting_offsets: earliest"
    )


def test_a_group_with_members_at_work_keeps_its_offsets(kafka, broker, make):
    name, group = make(), f"g{uuid.uuid4().hex[:8]}"
    send(broker, name, 5)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([name])
    message = consumer.poll(20)
    consumer.commit(message, asynchronous=False)
    told = kafka.commit(group, {name: {0: 5}})
    assert not told.committed
    assert told.detail == f"consumer group '{group}' has members at work; its offsets are theirs"
    assert kafka.committed(group, kafka.topics(a_flow(topics=[name])), flow="f") == {name: {0: 1}}
    assert consumer.assignment() == [TopicPartition(name, 0)]
    consumer.close()


def test_a_commit_that_finds_no_broker_is_told_and_not_raised():
    with Kafka(f"127.0.0.1:{free_port()}", timeout_s=0.3) as kafka:
        told = kafka.commit("g", {"t": {0: 1}})
    assert not told.committed
    assert told.detail.startswith("no Kafka broker answered at 127.0.0.1:")


# --- from the words of the flow to offsets -------------------------------------------------------


@pytest.fixture
def seven(kafka, admin, broker, make):
    """A topic with offsets 2 to 6 (7 is next) in partition 0, and none in partition 1."""
    name = make(2)
    send(broker, name, 7)
    drop_before(admin, name, 2)
    return name


def starting(kafka, name, offsets, **source: object):
    flow = a_flow(**(source or {"topics": [name]}), starting_offsets=offsets)
    return kafka.resolve_starting(flow, kafka.topics(flow))


def ending(kafka, name, offsets):
    flow = a_flow(topics=[name], ending_offsets=offsets)
    return kafka.resolve_ending(flow, kafka.topics(flow))


def test_every_word_for_a_start(kafka, seven):
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    kafka.commit("taken-over", {seven: {0: 5}})
    assert starting(kafka, seven, "earliest") == {seven: {0: 2, 1: 0}}
    assert starting(kafka, seven, "latest") == {seven: {0: 7, 1: 0}}
    assert starting(kafka, seven, "2020-01-01T00:00:00Z") == {seven: {0: 2, 1: 0}}
    assert starting(kafka, seven, tomorrow) == {seven: {0: 7, 1: 0}}
    assert starting(kafka, seven, {"group": "taken-over"}) == {seven: {0: 5, 1: 0}}


def test_offsets_by_partition_and_the_earliest_where_one_is_left_out(kafka, seven):
    for given_offset, resolved in ((-2, 2), (-1, 7), (2, 2), (4, 4), (7, 7)):
        assert starting(kafka, seven, {seven: {0: given_offset}}) == {seven: {0: resolved, 1: 0}}
    assert starting(kafka, seven, {seven: {1: -1}}) == {seven: {0: 2, 1: 0}}


def test_every_word_for_an_end(kafka, seven):
    flow = a_flow(topics=[seven])
    assert kafka.resolve_ending(flow, kafka.topics(flow)) == {seven: {0: 7, 1: 0}}
    assert ending(kafka, seven, "latest") == {seven: {0: 7, 1: 0}}
    assert ending(kafka, seven, "2020-01-01T00:00:00Z") == {seven: {0: 2, 1: 0}}
    assert ending(kafka, seven, {seven: {0: 5}}) == {seven: {0: 5, 1: 0}}
    assert ending(kafka, seven, {seven: {0: -1, 1: -1}}) == {seven: {0: 7, 1: 0}}


def test_a_timestamp_finer_than_a_millisecond_leaves_out_the_millisecond_before(kafka, broker, make):
    name = make()
    first = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(hours=1)
    first_ms = int(first.timestamp() * 1000)
    send(broker, name, 2, timestamps=[first_ms, first_ms + 1])
    assert starting(kafka, name, first) == {name: {0: 0}}
    assert starting(kafka, name, first + dt.timedelta(microseconds=1)) == {name: {0: 1}}


@pytest.mark.parametrize(("offset", "setting"), [(1, "starting"), (8, "starting"), (8, "ending"), (1, "ending")])
def test_an_offset_that_kafka_does_not_hold_is_refused(kafka, seven, offset, setting):
    resolve, symbol = (starting, -2) if setting == "starting" else (ending, -1)
    with pytest.raises(OffsetsOutOfRange) as error:
        resolve(kafka, seven, {seven: {0: offset}})
    assert str(error.value) == (
        f"[OFFSETS_OUT_OF_RANGE] flow f: {setting}_offsets: offset {offset} of topic {seven} partition 0 is "
        "outside of what can be read, 2 to 7; nothing was read\n"
        f"  hint: {setting}_offsets: {{{seven}: {{0: {symbol}}}}}"
    )


def test_committed_offsets_that_kafka_no_longer_holds_are_refused(kafka, seven):
    kafka.commit("slow", {seven: {0: 1}})
    with pytest.raises(OffsetsOutOfRange) as error:
        starting(kafka, seven, {"group": "slow"})
    assert str(error.value) == (
        f"[OFFSETS_OUT_OF_RANGE] flow f: starting_offsets {{group: slow}}: offset 1 of topic {seven} partition 0 "
        "is outside of what can be read, 2 to 7; nothing was read\n"
        "  hint: starting_offsets: earliest"
    )


def test_offsets_for_a_topic_that_the_flow_does_not_read_are_refused(kafka, seven):
    with pytest.raises(SourceNotRead) as error:
        starting(kafka, seven, {f"{seven}s": {0: 3}})
    assert str(error.value) == (
        f"[SOURCE_NOT_READ] flow f: starting_offsets names topic '{seven}s', which the flow does not read; "
        "nothing was read\n"
        f"  hint: did you mean '{seven}'?"
    )


def test_offsets_for_a_partition_that_is_not_assigned_are_refused(kafka, seven):
    with pytest.raises(SourceNotRead) as error:
        starting(kafka, seven, {seven: {1: 0}}, assign={seven: [0]})
    assert str(error.value) == (
        f"[SOURCE_NOT_READ] flow f: starting_offsets names partition 1 of topic '{seven}', which the flow does not "
        "read; nothing was read\n"
        f"  hint: assign: {{{seven}: [0, 1]}}"
    )


def test_offsets_for_a_partition_that_does_not_exist_are_refused(kafka, seven):
    with pytest.raises(PartitionMissing) as error:
        ending(kafka, seven, {seven: {2: 0}})
    assert str(error.value) == (
        f"[PARTITION_MISSING] flow f: topic '{seven}' has no partition 2 (it has 2); nothing was read\n"
        "  hint: correct the partition in assign, starting_offsets or ending_offsets"
    )


VECTORS = st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.integers(0, 3), st.integers(-1001, 5), min_size=1))


@given(VECTORS, VECTORS)
def test_filling_takes_each_offset_from_the_first_vector_that_has_one(offsets, rest):
    known = {(topic, partition): offset for topic, partition, offset in flat_offsets(rest)}
    known |= {(topic, partition): offset for topic, partition, offset in flat_offsets(offsets) if offset >= 0}
    result = completed(offsets, rest)
    assert {(topic, partition): offset for topic, partition, offset in flat_offsets(result)} == known


# --- no answer, or a refusal ---------------------------------------------------------------------


@pytest.mark.parametrize("source", [{"topics": ["orders"]}, {"topic_pattern": "orders-.*"}])
def test_a_broker_that_does_not_answer_is_named_after_the_bound(source):
    address = f"127.0.0.1:{free_port()}"
    with Kafka(address, timeout_s=0.5) as kafka, pytest.raises(BrokerUnreachable) as error:
        kafka.topics(a_flow(**source))
    assert str(error.value) == (
        f"[BROKER_UNREACHABLE] no Kafka broker answered at {address} within 0.5 s: nothing listens there; "
        "nothing was read\n"
        f"  hint: rivermouth dev kafka --port {address.partition(':')[2]}"
    )


def test_a_value_that_the_client_cannot_use_is_refused_without_showing_it(capfd):
    with Kafka("localhost:1", {"security.protocol": "s3cret"}) as kafka, pytest.raises(KafkaOptionRefused) as error:
        kafka.cluster_id()
    assert str(error.value) == (
        "[KAFKA_OPTION_REFUSED] kafka option 'security.protocol' is refused: the client cannot use its value; "
        "nothing was run\n"
        "  hint: correct its value in kafka: options"
    )
    assert "s3cret" not in "".join(capfd.readouterr())


def test_the_client_writes_nothing_to_the_terminal(capfd):
    with Kafka(f"127.0.0.1:{free_port()}", timeout_s=0.3) as kafka, pytest.raises(BrokerUnreachable):
        kafka.cluster_id()
    assert capfd.readouterr() == ("", "")
