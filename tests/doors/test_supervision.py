"""Flows side by side: what stops one, what stops all, and what none of it may do to the tables."""

import json
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rivermouth import LossDecision, Project
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.domain.project.locations import resolve
from rivermouth.domain.project.table_per_topic import child_of
from rivermouth.engine.batch.shared_batch import process_alone
from rivermouth.engine.events import (
    BatchDone,
    BatchRetried,
    BrokerAway,
    BrokerBack,
    CheckpointReplaced,
    FlowFailed,
    FlowFinished,
    FlowOpened,
    FlowRestarted,
    Warned,
)
from rivermouth.engine.flow.jobs import FamilyJob, FlowJob, StartActions
from rivermouth.engine.flow.table_per_topic import DiscoveredTables
from rivermouth.engine.flow.table_per_topic import look as look_for_topics
from rivermouth.engine.open.sources import source_of
from rivermouth.engine.run import restart_policy, run_state, workers
from rivermouth.engine.run import run_flow as one_flow
from rivermouth.engine.run import supervisor as supervision
from rivermouth.engine.run.requests import handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import BrokerUnreachable, TopicPatternEmpty
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.project.resolved.jobs import run_jobs
from rivermouth.spec import Flow, ProjectSpec


class Scene:
    """A lake, a cluster and flows over them, run by a real supervisor."""

    def __init__(self, spark, lake, bootstrap_servers):
        self.spark = spark
        self.lake = lake
        self.bootstrap_servers = bootstrap_servers
        self.events = []

    def order(self, name, topic, options=(), **settings):
        topics = {} if topic is None else {"topics": [topic]}
        settings = {"format": "text", "table": f"bronze.{name}", **topics, **settings}
        flow = Flow.model_validate({"name": name, **settings})
        places = resolve(ProjectSpec(lake=str(self.lake)), flow, base=Path(self.lake), environ={})
        return FlowJob(flow, places, self.bootstrap_servers, dict(options), at="rivermouth.yml:9")

    def supervisor(self):
        return Supervisor(self.spark, self.events.append, handle_pending)

    def drain(self, *orders):
        return self.supervisor().run(orders, keep_following=False)

    def follow(self, *orders):
        """Starts to follow; gives the supervisor and a function that stops it and returns the outcomes."""
        supervisor, outcomes = self.supervisor(), []
        thread = threading.Thread(target=lambda: outcomes.extend(supervisor.run(orders, keep_following=True)))
        thread.start()

        def end():
            supervisor.stop()
            thread.join(90)
            assert not thread.is_alive()
            return outcomes

        return end

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]

    def offsets(self, order):
        rows = self.spark.read.format("delta").load(order.places.table)
        return sorted(tuple(row) for row in rows.select("kafka_partition", "kafka_offset").collect())


def test_the_clusters_options_reach_sparks_consumer():
    flow = Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t"})
    options = {"isolation.level": "read_uncommitted", "kafka.security.protocol": "SSL"}
    found = source_of(flow, "host:9092", options)._options()
    assert (found["kafka.isolation.level"], found["kafka.security.protocol"]) == ("read_uncommitted", "SSL")
    assert not [name for name in found if name.startswith("kafka.kafka.")]


def test_a_decision_is_handed_over_once_a_run(monkeypatch):
    """What an earlier run recorded is nothing new at first; after a batch it would be."""
    flow = Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t"})
    decision, handed, calls = LossDecision(epochs=("t",)), [], []

    def opened(*_arguments, start, **_more):
        handed.append(start.decision)
        if len(handed) == 1:
            raise RuntimeError
        entry = SimpleNamespace(number=7, totals=Counts())
        position = SimpleNamespace(entry=entry, counts=None)
        return SimpleNamespace(stopping=threading.Event(), entry=entry, position=position, delivery=None)

    def following(*_arguments):
        calls.append(1)
        if len(calls) == 1:
            raise BrokerUnreachable(bootstrap_servers="s", timeout_s=1, reason="r", fix="f")
        return 0

    for name, fake in {
        "open_flow": opened,
        "follow": following,
        "reading": lambda *_, **__: nullcontext((None, SimpleNamespace(with_new_consumers=lambda: None))),
        "TableLease": lambda *_, **__: nullcontext(),
        "files_for": lambda *_: None,
        "check_fenced": lambda *_: None,
        "has_ended": lambda _: False,
    }.items():
        monkeypatch.setattr(one_flow, name, fake)
    monkeypatch.setattr(restart_policy, "FIRST_DELAY_S", 0.01)
    for module in (run_state, supervision):
        monkeypatch.setattr(module, "has_ended", lambda _: False)
        monkeypatch.setattr(module, "files_for", lambda *_: None, raising=False)
    places = SimpleNamespace(lake="", table="", dead_letter_table="", state="", lease_file="", failures="")
    order = FlowJob(flow, places, "s", {}, start=StartActions(decision=decision))
    (outcome,) = Supervisor(None, lambda _: None, lambda _: None).run([order], keep_following=True)
    assert (outcome.error, handed) == (None, [decision, decision, None])


def families_of(monkeypatch, look, carry, after_loss=lambda: None):
    """A supervisor of families that are found by ``look`` and carried by ``carry``; its sessions end as they say."""
    sessions = [SimpleNamespace(ended=False) for _ in range(3)]
    for name, fake in {
        "look": look,
        "files_for": lambda *_: None,
        "finding": lambda *_: nullcontext(),
        "has_ended": lambda spark: spark.ended,
    }.items():
        monkeypatch.setattr(workers, name, fake)
    for module in (supervision, run_state):
        monkeypatch.setattr(module, "has_ended", lambda spark: spark.ended)
    monkeypatch.setattr(supervision, "abandon", lambda _: after_loss())
    monkeypatch.setattr(workers, "LOOK_EVERY_S", (0.01, 0.01))
    rest = iter(sessions[1:])
    events = []
    found = Supervisor(sessions[0], events.append, lambda _: None, restart=lambda: next(rest))
    monkeypatch.setattr(workers, "run_flow", lambda state, order, _listener, **_: carry(state, order))
    return found, events


def family_of(name):
    flow = Flow.model_validate({"name": name, "topic_pattern": ".*", "format": "text", "table": "bronze.{topic}"})
    places = SimpleNamespace(lake="", failures="")
    return FamilyJob(flow, places, "s", {}, child=lambda child: FlowJob(child, places, "s", {}))


def test_children_that_lost_their_jvm_are_found_again_by_their_family(monkeypatch):
    """As many at a time as before, with smaller batches; one whose topic is gone by then has not failed."""
    topics, side, most, limits = [f"t{number:02}" for number in range(20)], [], [], {}
    first = []

    def look(order, _files, _kafka, *, known, waits):
        if order.flow.name == "late" and first:
            while not first[0].ended:
                time.sleep(0.01)
            raise RuntimeError
        there = topics if first else topics[1:]
        return DiscoveredTables([order.child(child_of(order.flow, each)) for each in there if each not in known])

    def carry(state, order):
        side.append(order.flow.name)
        most.append(len([each for each in side if each.startswith("shop.")]))
        time.sleep(0.02)
        side.remove(order.flow.name)
        if state.spark in first:
            state.spark.ended = True
            raise RuntimeError
        limits[order.flow.name] = order.flow.trigger.max_offsets

    found, events = families_of(monkeypatch, look, carry, after_loss=first.clear)
    first.append(found.state.spark)
    outcomes = found.run([family_of("shop"), family_of("late")], keep_following=False)
    assert {each.flow: each.error for each in outcomes if each.error} == {}
    assert {each.flow for each in outcomes} >= {f"shop.{each}" for each in topics}
    assert not [each for each in events if isinstance(each, FlowFailed)]
    assert max(most) == workers.SIDE_BY_SIDE
    assert limits == {
        **{f"shop.{each}": supervision.max_offsets(family_of("shop").flow) // 2 for each in topics[1:]},
        **{f"late.{each}": None for each in topics[1:]},
    }


def test_a_jvm_that_ends_again_and_again_is_given_up(monkeypatch, tmp_path):
    """With half as many offsets each time: what does not fit into memory then will not fit at all."""
    sessions, carried, events = [], [], []

    def start():
        sessions.append(SimpleNamespace(ended=False))
        return sessions[-1]

    def carry(_state, order, _listener, **_):
        carried.append(order.flow.trigger.max_offsets)
        sessions[-1].ended = True
        raise RuntimeError

    for module in (workers, supervision, run_state):
        monkeypatch.setattr(module, "has_ended", lambda spark: spark.ended)
    monkeypatch.setattr(supervision, "abandon", lambda _: None)
    found = Supervisor(start(), events.append, lambda _: None, restart=start)
    monkeypatch.setattr(workers, "run_flow", carry)
    trigger = {"max_offsets": 1000}
    flow = Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t", "trigger": trigger})
    (outcome,) = found.run([FlowJob(flow, SimpleNamespace(lake="", failures=""), "s", {})], keep_following=True)
    assert carried == [1000, 500, 250, 125, 62, 31, 15, 7, 3]
    assert str(outcome.error) == (
        "[ENGINE_LOST] flow f: Spark's JVM ended 9 times, most likely for lack of memory, the last time with at most 3 "
        "offsets a batch; the current batch was not written, or will be found at the next start\n"
        "  hint: spark: {driver_memory: 4g}"
    )
    assert [each.error for each in events if isinstance(each, FlowFailed)] == [str(outcome.error)]


def test_a_family_that_follows_outlasts_a_broker_that_is_away_before_it_has_topics(monkeypatch):
    looks, carried = [], []

    def look(order, _files, _kafka, *, known, waits):
        looks.append(waits)
        if len(looks) == 1:
            raise TopicPatternEmpty(flow=order.flow.name, pattern=".*")
        if len(looks) == 2:
            raise BrokerUnreachable(bootstrap_servers="s", timeout_s=1, reason="r", fix="f")
        return DiscoveredTables([] if "t" in known else [order.child(child_of(order.flow, "t"))])

    def carry(state, order):
        carried.append(order.flow.name)
        state.stop()

    found, _ = families_of(monkeypatch, look, carry)
    (outcome,) = found.run([family_of("shop")], keep_following=True)
    assert (outcome.flow, outcome.error, carried) == ("shop.t", None, ["shop.t"])


def test_of_two_families_that_find_one_table_one_gets_it(monkeypatch, tmp_path):
    text = "{lake: ./lake, kafka: {bootstrap_servers: 'localhost:9092'}, flows: {%s}}"
    settings = "format: text, table: 'bronze.{topic}'"
    flows = f"shop: {{topic_pattern: '.*', {settings}}}, all: {{topic_pattern: '.*[a-z]', {settings}}}"
    (tmp_path / "rivermouth.yml").write_text(text % flows)
    project = Project.load(tmp_path / "rivermouth.yml")
    carried = []
    found, _ = families_of(monkeypatch, look_for_topics, lambda _, order: carried.append(order.flow.topics))
    kafka = SimpleNamespace(topics=lambda _: ["a", "b"])
    monkeypatch.setattr(workers, "files_for", lambda *_: LocalFiles())
    monkeypatch.setattr(workers, "finding", lambda *_: nullcontext(kafka))
    outcomes = found.run(run_jobs(project), keep_following=False)
    assert sorted(carried) == [("a",), ("b",)]
    refused = [str(each.error).splitlines()[0] for each in outcomes if each.error]
    assert [each.partition("share")[2] for each in sorted(refused)] == [
        " the table bronze.a; neither was run",
        " the table bronze.b; neither was run",
    ]


@pytest.fixture
def scene(spark, tmp_path, broker):
    return Scene(spark, tmp_path / "lake", broker.bootstrap_servers)


def produce(bootstrap_servers, topic, count, partition=0, start=0):
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(start, start + count):
        producer.produce(topic, value=f"value {number}", key=str(number), partition=partition)
    assert producer.flush(30) == 0


def until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def test_a_flow_that_fails_does_not_stop_the_others(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 20)
    orders = [scene.order("good", name), scene.order("lost", f"{name}-x"), scene.order("fine", name)]
    outcomes = scene.drain(*orders)
    assert [(outcome.flow, outcome.counts.written) for outcome in outcomes] == [("good", 20), ("lost", 0), ("fine", 20)]
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert str(outcomes[1].error) == (
        f"[TOPIC_MISSING] flow lost: topic '{name}-x' does not exist on the broker; nothing was read\n"
        "  at: rivermouth.yml:9\n"
        f"  hint: did you mean '{name}'?"
    )
    assert [event.flow for event in scene.of(FlowFailed)] == ["lost"]
    assert sorted(event.flow for event in scene.of(FlowFinished)) == ["fine", "good"]


@pytest.mark.long
def test_a_batch_that_always_fails_is_cut_down_to_the_range_that_does(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 64)
    # A function in Python is not attempted: what it raises ends the batch.
    scene.spark.udf.register("rm_poison", lambda offset: 1 // (offset - 57) < 2, "boolean")
    order = scene.order("poisoned", name, expectations=[{"name": "sound", "condition": "rm_poison(kafka_offset)"}])
    (outcome,) = scene.drain(order)
    assert str(outcome.error).startswith(f"[BATCH_FAILED] flow poisoned: offsets {name}-0:57..58 failed ")
    assert str(outcome.error).endswith(
        "they were not written\n"
        "  at: rivermouth.yml:9\n"
        "  hint: rivermouth run poisoned, after the cause is corrected; nothing before these offsets is affected"
    )
    assert scene.offsets(order) == [(0, offset) for offset in range(57)]
    assert [event.next_offsets for event in scene.of(BatchRetried)][:3] == [64, 64, 32]


@pytest.mark.long
def test_an_expectation_that_may_not_fail_stops_the_flow_before_the_batch_is_written(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 30)
    rule = {"name": "early", "condition": "kafka_offset < 23", "action": "fail"}
    order = scene.order("strict", name, expectations=[rule], trigger={"max_offsets": 10})
    (outcome,) = scene.drain(order)
    assert str(outcome.error) == (
        f"[EXPECTATION_FAILED] flow strict: expectation 'early' failed at {name}-0 offset 23; "
        "the batch was not written\n"
        "  at: rivermouth.yml:9\n"
        "  hint: rivermouth run strict, once the record is explained; or action: dead_letter"
    )
    assert scene.offsets(order) == [(0, offset) for offset in range(20)]
    assert scene.of(BatchRetried) == []


@pytest.mark.long
def test_max_offsets_bounds_every_batch_of_a_drain(scene, topic):
    name = topic(partitions=2)
    produce(scene.bootstrap_servers, name, 25, partition=0)
    produce(scene.bootstrap_servers, name, 5, partition=1)
    order = scene.order("slow", name, trigger={"max_offsets": 10})
    (outcome,) = scene.drain(order)
    batches = scene.of(BatchDone)
    assert outcome.error is None
    assert outcome.batches == len(batches) >= 3
    assert all(batch.counts.consumed <= 10 for batch in batches)
    assert [batch.entry for batch in batches] == list(range(1, len(batches) + 1))
    assert batches[0].backlog == 30 - batches[0].counts.consumed
    assert batches[-1].backlog == 0
    assert scene.offsets(order) == [(0, n) for n in range(25)] + [(1, n) for n in range(5)]


def test_ending_offsets_bound_a_run_and_the_next_run_goes_on(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 10)
    order = scene.order("half", name, ending_offsets={name: {0: 4}})
    (outcome,) = scene.drain(order)
    assert (outcome.error, outcome.counts.written) == (None, 4)
    (outcome,) = scene.drain(scene.order("half", name))
    assert (outcome.error, outcome.counts.written) == (None, 6)
    assert scene.offsets(order) == [(0, n) for n in range(10)]


def test_other_starting_offsets_have_no_effect_on_a_flow_with_a_ledger(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 3)
    scene.drain(scene.order("begun", name))
    produce(scene.bootstrap_servers, name, 2, start=3)
    (outcome,) = scene.drain(scene.order("begun", name, starting_offsets="latest"))
    assert outcome.counts.written == 2
    assert [event.message for event in scene.of(Warned)] == [
        "starting_offsets: latest has no effect: the table was begun with earliest and goes on at its ledger"
    ]


def test_progress_is_told_to_the_consumer_group(scene, topic):
    name, group = topic(partitions=2), f"lag-{time.time_ns()}"
    produce(scene.bootstrap_servers, name, 7, partition=1)
    (outcome,) = scene.drain(scene.order("told", name, group_id=group))
    assert outcome.error is None
    assert scene.of(Warned) == []
    admin = AdminClient({"bootstrap.servers": scene.bootstrap_servers})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    parts = asked[group].result(10).topic_partitions
    assert {(part.topic, part.partition): part.offset for part in parts} == {(name, 0): 0, (name, 1): 7}
    # What the flow no longer reads is not told, whether it is there or not.
    other = topic()
    produce(scene.bootstrap_servers, other, 2)
    admin.delete_topics([name])[name].result(30)
    (outcome,) = scene.drain(scene.order("told", other, group_id=group))
    assert (outcome.error, outcome.counts.written, scene.of(Warned)) == (None, 2, [])
    parts = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(10).topic_partitions
    assert {part.topic: part.offset for part in parts if part.topic == other} == {other: 2}


def test_following_carries_what_comes_and_stops_without_a_trace(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 5)
    order = scene.order("live", name, trigger={"every": "200 ms"})
    end = scene.follow(order)
    until(lambda: len(scene.of(BatchDone)) == 1)
    produce(scene.bootstrap_servers, name, 5, start=5)
    until(lambda: sum(batch.counts.consumed for batch in scene.of(BatchDone)) == 10)
    (outcome,) = end()
    assert (outcome.error, outcome.counts.written) == (None, 10)
    assert scene.of(FlowRestarted) == []
    assert scene.offsets(order) == [(0, n) for n in range(10)]
    side = json.loads(Path(order.places.ledger_file).read_text())
    assert side["counts"]["consumed"] in {5, 10}
    assert not Path(order.places.lease_file).exists()
    # The checkpoint agrees with the ledger and is used again; a drain in between makes it stale.
    produce(scene.bootstrap_servers, name, 3, start=10)
    scene.drain(order)
    produce(scene.bootstrap_servers, name, 2, start=13)
    end = scene.follow(order)
    until(lambda: sum(batch.counts.consumed for batch in scene.of(BatchDone)) == 15)
    assert end()[0].error is None
    assert scene.offsets(order) == [(0, n) for n in range(15)]


@pytest.mark.long
def test_flows_follow_on_after_their_topics_were_edited(scene, topic):
    """Spark's query fails at partitions of its checkpoint that it does not read, and at others that lost records."""
    kept, gone, short, old = topic(partitions=2), topic(), topic(), topic()
    before = {
        "removed": {"topics": [kept, gone]},
        "added": {"topics": [kept]},
        "narrowed": {"assign": {kept: [0, 1]}},
        "widened": {"assign": {kept: [0]}},
        "pattern": {"topic_pattern": f"{kept}|{old}"},
    }
    after = {
        "removed": {"topics": [kept]},
        "added": {"topics": [kept, short]},
        "narrowed": {"assign": {kept: [0]}},
        "widened": {"assign": {kept: [0, 1]}},
        "pattern": before["pattern"],
    }
    admin = AdminClient({"bootstrap.servers": scene.bootstrap_servers})

    def sent(*counts, start=0):
        for (name, partition), count in zip(((kept, 0), (kept, 1), (gone, 0), (short, 0), (old, 0)), counts):  # noqa: B905
            produce(scene.bootstrap_servers, name, count, partition=partition, start=start)

    def of(flow, kind):
        return [event for event in scene.of(kind) if event.flow == flow]

    def carried():
        return {name: sum(batch.counts.consumed for batch in of(name, BatchDone)) for name in before}

    def is_done(expected):
        # A flow that restarts for ever carries nothing more.
        return all(found == expected[name] or len(of(name, FlowRestarted)) > 2 for name, found in carried().items())

    sent(3, 3, 2, 5, 4)
    for name, partition, offset in ((kept, 1, 2), (short, 0, 3)):
        place = TopicPartition(name, partition, offset)
        admin.delete_records([place])[place].result(30)
    orders = [scene.order(name, None, trigger={"every": "200 ms"}, **settings) for name, settings in before.items()]
    end = scene.follow(*orders)
    until(lambda: is_done({"removed": 6, "added": 4, "narrowed": 4, "widened": 3, "pattern": 8}), 180)
    assert [outcome.error for outcome in end()] == [None] * 5

    sent(2, 2, start=3)
    orders = [scene.order(name, None, trigger={"every": "200 ms"}, **settings) for name, settings in after.items()]
    end = scene.follow(*orders)
    until(lambda: is_done({"removed": 10, "added": 10, "narrowed": 6, "widened": 8, "pattern": 12}), 180)
    admin.delete_topics([old])[old].result(30)
    until(lambda: of("pattern", FlowRestarted), 180)
    sent(1, start=5)
    expected = {"removed": 11, "added": 11, "narrowed": 7, "widened": 9, "pattern": 13}
    until(lambda: is_done(expected), 180)
    assert [outcome.error for outcome in end()] == [None] * 5
    assert (carried(), {event.flow for event in scene.of(FlowRestarted)}) == (expected, {"pattern"})
    replaced = {event.flow: event.reason for event in scene.of(CheckpointReplaced)}
    assert replaced == dict.fromkeys(before, "the flow reads other partitions")
    for order in orders:
        rows = scene.spark.read.format("delta").load(order.places.table)
        found = rows.select("kafka_topic", "kafka_partition", "kafka_offset").collect()
        assert len(found) == len(set(found)) == expected[order.flow.name]


def test_only_failures_in_a_row_make_the_pauses_longer(scene, topic, monkeypatch):
    name, carried, real = topic(), iter([0, 0, 1, 1, 0]), one_flow.follow
    order = scene.order("stumbles", name)

    def stumbling(run, between):
        count = next(carried, None)
        if count is None:
            return real(run, between)
        produce(scene.bootstrap_servers, name, count)
        one_flow.drain(run, process_alone)
        raise OSError("the network is down")

    monkeypatch.setattr(one_flow, "follow", stumbling)
    monkeypatch.setattr(restart_policy, "FIRST_DELAY_S", 0.01)
    end = scene.follow(order)
    until(lambda: len(scene.of(FlowRestarted)) == 5)
    (outcome,) = end()
    assert [(each.error, each.delay_s) for each in scene.of(FlowRestarted)] == [
        ("the network is down", delay_s) for delay_s in (0.01, 0.02, 0.01, 0.01, 0.02)
    ]
    assert (outcome.error, outcome.counts.written) == (None, 2)


def test_min_offsets_wait_and_max_delay_bounds_the_wait(scene, topic):
    name = topic()
    produce(scene.bootstrap_servers, name, 3)
    # More than a batch takes where its greatest size is not set.
    trigger = {"every": "200 ms", "min_offsets": 5_000_000, "max_delay": "3 seconds"}
    end = scene.follow(scene.order("patient", name, trigger=trigger))
    until(lambda: len(scene.of(BatchDone)) == 1)
    produce(scene.bootstrap_servers, name, 2, start=3)
    until(lambda: len(scene.of(BatchDone)) == 2)
    assert end()[0].counts.written == 5
    assert [batch.counts.consumed for batch in scene.of(BatchDone)] == [3, 2]


@pytest.mark.long
def test_a_broker_that_goes_away_and_comes_back_costs_nothing(spark, tmp_path):
    data = tmp_path / "broker"
    quick = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "300"}
    with Broker.start(data_dir=data, properties=quick) as first:
        port = int(first.bootstrap_servers.rpartition(":")[2])
        scene = Scene(spark, tmp_path / "lake", first.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        admin.create_topics([NewTopic("comes-back", 1, 1)])["comes-back"].result(30)
        produce(first.bootstrap_servers, "comes-back", 5)
        order = scene.order("steady", "comes-back", trigger={"every": "200 ms"})
        end = scene.follow(order)
        until(lambda: len(scene.of(BatchDone)) == 1)
    with Broker.start(port=port, data_dir=data, properties=quick):
        produce(scene.bootstrap_servers, "comes-back", 5, start=5)
        until(lambda: sum(batch.counts.consumed for batch in scene.of(BatchDone)) == 10, timeout_s=120)
        (outcome,) = end()
    assert (outcome.error, outcome.counts.written) == (None, 10)
    assert scene.offsets(order) == [(0, n) for n in range(10)]


@pytest.mark.long
def test_a_dead_broker_is_told_soon_and_costs_no_checkpoint(spark, tmp_path):
    """Spark waits for minutes by itself; these options make it give up in seconds, which is the same error."""
    data, options = tmp_path / "broker", {"request.timeout.ms": "1000", "default.api.timeout.ms": "2000"}
    first = Broker.start(data_dir=data, heap="512m")
    port = int(first.bootstrap_servers.rpartition(":")[2])
    try:
        scene = Scene(spark, tmp_path / "lake", first.bootstrap_servers)
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        admin.create_topics([NewTopic("dies", 1, 1)])["dies"].result(30)
        produce(first.bootstrap_servers, "dies", 5)
        order = scene.order("steady", "dies", options, trigger={"every": "200 ms"})
        end = scene.follow(order)
        until(lambda: len(scene.of(BatchDone)) == 1)
        assert end()[0].error is None
        # Once more, with the checkpoint of the first time: until records come no batch shows that it is sound.
        end = scene.follow(order)
        until(lambda: len(scene.of(FlowOpened)) == 2)
        until(lambda: spark.streams.active or any(thread.name == "broker-watch" for thread in threading.enumerate()))
        time.sleep(3)
    finally:
        first.kill()
    died_at = time.monotonic()
    until(lambda: scene.of(BrokerAway), timeout_s=30)
    assert time.monotonic() - died_at < 10
    (away,) = scene.of(BrokerAway)
    assert (away.bootstrap_servers, away.reason) == (first.bootstrap_servers, "nothing listens there")
    until(lambda: scene.of(FlowRestarted), timeout_s=120)
    assert scene.of(FlowRestarted)[0].error.startswith("[BROKER_UNREACHABLE] no Kafka broker answered at ")
    with Broker.start(port=port, data_dir=data, heap="512m"):
        until(lambda: scene.of(BrokerBack), timeout_s=60)
        produce(scene.bootstrap_servers, "dies", 5, start=5)
        until(lambda: sum(batch.counts.consumed for batch in scene.of(BatchDone)) == 10, timeout_s=120)
        (outcome,) = end()
    assert outcome.error is None
    assert scene.of(CheckpointReplaced) == []
    assert [path.name for path in Path(order.places.checkpoint).parent.iterdir()] == ["bronze.steady"]
    assert scene.offsets(order) == [(0, n) for n in range(10)]
