"""Topics that change under a flow: recreated, cut by retention, grown by partitions, joined by others."""

from __future__ import annotations

import signal

import pytest
from tests.crashes import oracle
from tests.crashes.deciding import CLUSTER, GOOD, RECORD, decided, hinted, status_of
from tests.crashes.scene import CaughtUp

from rivermouth.engine.events import BatchDone, StepReached
from rivermouth.ports.kafka.kafka_cluster import Kafka


def test_a_topic_that_was_deleted_and_made_again_is_refused(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.produce(100, partitions=1)
    assert scene.drain(spark).error is None
    before, stood = scene.topic_id, oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["next"]["0"]
    scene.make_topic_anew(1)
    # With more records than before, so that its offsets alone would look right.
    scene.produce(300, partitions=1)
    with Kafka(scene.bootstrap_servers) as kafka:
        found, held = kafka.describe([scene.topic]), None
        # The marks of its transactions come a moment after these were ended.
        while held is None or kafka.end_offsets(found)[scene.topic][0] != held:
            held = kafka.end_offsets(found, "read_uncommitted")[scene.topic][0]
    for outcome in (scene.drain(spark), scene.follow(spark, until=lambda _event: False)):
        assert str(outcome.error) == (
            f"[TOPIC_RECREATED] flow shop: topic {scene.topic} was deleted and created again: its id is "
            f"{scene.topic_id}, the ledger knows {before} and ends at {scene.topic}-0:{stood}; none of the {held} "
            "offsets that it holds now was read; nothing was written\n"
            f'  hint: {CLUSTER}{RECORD}rivermouth run shop --new-epoch {scene.topic} --why "REASON"'
        )


def test_records_that_kafka_dropped_before_they_were_read_are_a_stop(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[b'{"id": 1}'] * 10)
    assert scene.drain(spark).error is None
    scene.send(*[b'{"id": 1}'] * 20)
    scene.drop_before(25)
    for outcome in (scene.drain(spark), scene.follow(spark, until=lambda _event: False)):
        assert str(outcome.error) == (
            f"[OFFSETS_EXPIRED] flow shop: topic {scene.topic} partition 0: offsets 10 to 25 (exclusive) are no "
            "longer in Kafka, which lacks 15 offsets in total; nothing was written\n"
            f'  hint: {RECORD}rivermouth run shop --accept-loss {scene.topic}-0:10-25 --why "REASON"'
        )


def test_records_that_kafka_dropped_after_they_were_read_are_none(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[b'{"id": 1}'] * 10)
    assert scene.drain(spark).error is None
    scene.drop_before(10)
    scene.send(*[b'{"id": 2, "amount": 1, "name": "x"}'] * 5)
    outcome = scene.drain(spark)
    assert outcome.error is None
    assert outcome.counts.written == 5


def test_a_ledger_ahead_of_the_topic_is_a_stop(make_scene, spark):
    """The same topic id with fewer records: what a broker that lost its disk may come back with."""
    scene = make_scene(partitions=1)
    scene.send(*[b'{"id": 1}'] * 10)
    assert scene.drain(spark).error is None
    scene.pretend_the_ledger_is_at(99, instead_of=10)
    assert str(scene.drain(spark).error) == (
        f"[OFFSETS_BEYOND_END] flow shop: topic {scene.topic} partition 0: the ledger expects offset 99, the topic "
        "ends at 10; nothing was written\n"
        "  hint: check that bootstrap_servers names the right cluster; if the topic was cut: "
        f'rivermouth run shop --rewind {scene.topic}-0:10 --why "REASON"'
    )


@pytest.mark.long
def test_partitions_that_are_added_while_the_flow_follows(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.produce(400, partitions=1)

    def grow(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            scene.add_partitions(3)
            scene.produce(600, partitions=3, seed=2)
            caught_up.append(CaughtUp(scene))
        return bool(caught_up) and caught_up[0](event)

    caught_up = []
    outcome = scene.follow(spark, until=grow)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)
    assert {at[1] for at in scene.records()} == {0, 1, 2}


@pytest.mark.long
def test_records_of_an_added_partition_that_kafka_dropped_before_the_flow_saw_it_are_a_stop(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(GOOD, GOOD)
    assert scene.drain(spark).error is None
    scene.add_partitions(2)
    scene.send(*[GOOD] * 5, partition=1)
    scene.drop_before(3, partition=1)
    error = scene.drain(spark).error
    assert str(error) == (
        f"[OFFSETS_EXPIRED] flow shop: topic {scene.topic} partition 1: offsets 0 to 3 (exclusive) are no longer in "
        "Kafka, which lacks 3 offsets in total; nothing was written\n"
        f'  hint: {RECORD}rivermouth run shop --accept-loss {scene.topic}-1:0-3 --why "REASON"'
    )
    outcome = decided(scene, spark, **hinted(error))
    assert (outcome.error, outcome.counts.written) == (None, 2)
    assert status_of(scene).lost == 3
    assert scene.follow(spark).error is None


@pytest.mark.long
def test_killed_in_the_first_batch_of_a_partition_that_was_added(make_scene, children, spark):
    scene = make_scene(partitions=1)
    scene.produce(300, partitions=1)
    assert scene.drain(spark).error is None
    scene.add_partitions(3)
    scene.produce(600, partitions=3, seed=2)
    child = children.run(scene, own_jvm=False, kill={"on": "write_dead_letters", "nth": 1, "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_topics_that_come_to_match_the_pattern_while_the_flow_follows(make_scene, spark):
    scene = make_scene(partitions=1)
    # The name alone would also be found inside of another topic's name.
    scene.options["topic_pattern"] = f"{scene.topic}(-more)?"
    scene.make_topic(f"x{scene.topic}", 1)
    scene.send(b'{"id": 1}', topic=f"x{scene.topic}")
    scene.produce(300, partitions=1)

    def join(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            more = f"{scene.topic}-more"
            scene.make_topic(more, 2)
            scene.topics.append(more)
            scene.produce(300, topic=more, seed=2)
            caught_up.append(CaughtUp(scene))
        return bool(caught_up) and caught_up[0](event)

    caught_up = []
    outcome = scene.follow(spark, until=join)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)
    # And a run that drains afterwards finds the same topics.
    scene.produce(100, topic=f"{scene.topic}-more", seed=3)
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean


def test_ranges_in_which_no_record_is_visible_move_the_ledger_too(make_scene, spark):
    from confluent_kafka import Producer

    scene = make_scene(partitions=1)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "transactional.id": scene.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(scene.topic, value=b'{"id": 1}')
    producer.flush(30)
    producer.abort_transaction(30)
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    assert (outcome.batches, outcome.counts.consumed) == (1, 0)
    assert scene.audit().is_clean
    assert scene.drain(spark).batches == 0


def test_an_open_transaction_is_waited_for(make_scene, spark):
    from confluent_kafka import Producer

    scene = make_scene(partitions=1)
    scene.send(b'{"id": 1, "amount": 1, "name": "x"}')
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "transactional.id": scene.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(scene.topic, value=b'{"id": 2, "amount": 1, "name": "x"}')
    producer.flush(30)
    scene.send(b'{"id": 3, "amount": 1, "name": "x"}')
    first = scene.drain(spark)
    assert (first.error, first.counts.written) == (None, 1)
    producer.commit_transaction(30)
    second = scene.drain(spark)
    assert (second.error, second.counts.written) == (None, 2)
    assert scene.audit().is_clean


def test_a_topic_that_is_recreated_between_two_batches_is_noticed(make_scene, spark):
    scene = make_scene(partitions=1, trigger={"max_offsets": 100})
    scene.send(*[b'{"id": 1}'] * 300)
    before = scene.topic_id

    def recreate(event):
        if isinstance(event, StepReached) and event.step == "complete" and len(scene.told(BatchDone)) == 1:
            scene.make_topic_anew(1)
            scene.send(*[b'{"id": 2}'] * 300)

    outcome = scene.drain(spark, recreate)
    assert outcome.batches == 2
    assert str(outcome.error) == (
        f"[TOPIC_RECREATED] flow shop: topic {scene.topic} was deleted and created again: its id is "
        f"{scene.topic_id}, the ledger knows {before} and ends at {scene.topic}-0:200; none of the 300 offsets that "
        "it holds now was read; nothing was written\n"
        f'  hint: {CLUSTER}{RECORD}rivermouth run shop --new-epoch {scene.topic} --why "REASON"'
    )
