"""Kafka as a sink of pipelines: each record once, wherever a run ends, and what is said where that cannot be."""

import json
import shutil
import threading
import time
from collections import Counter
from itertools import takewhile

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from tests.pipelines.conftest import records

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.errors import RivermouthError, SinkUnreachable
from rivermouth.pipelines import commands
from rivermouth.pipelines.running.flows.sinks import names_of
from rivermouth.pipelines.status import status
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.kafka.kafka_transactions import KafkaTransactions, SinkCluster, SinkNames

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, expr, lit, struct, to_json

dp.create_sink("copies", "kafka", {options})

@dp.append_flow(target="copies", name="copy")
def copy():
    rows = spark.readStream.schema("id bigint, shop string, kind string").json("in")
    return rows.select({columns})
"""
COLUMNS = "col('shop').alias('key'), to_json(struct('*')).alias('value')"


def ids(broker, topic, **more):
    return Counter(json.loads(value)["id"] for _, value, _ in records(broker.bootstrap_servers, topic, **more))


@pytest.fixture
def copied(folder, broker):
    """A pipeline that copies files of rows into a topic."""
    folder.sent = 0

    def write(topic, columns=COLUMNS, **options):
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, **({"topic": topic} if topic else {}), **options}
        folder.write(
            "src/a.py", PIPELINE.format(options=given, columns=columns).replace('"in"', f'"{folder.folder}/in"')
        )
        return folder

    def more(count=5):
        first, folder.sent = folder.sent, folder.sent + count
        rows = [{"id": each, "shop": f"s{each % 3}", "kind": "sale"} for each in range(first, folder.sent)]
        folder.feed(f"in/{first}.json", *rows)

    folder.copy_to, folder.more = write, more
    return folder


class _End(Exception):
    pass


def end_at(wanted):
    def step(name):
        if name == wanted:
            raise _End(name)

    return step


def checkpoints(folder):
    return folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints"


def test_each_record_is_there_once_though_a_run_ended_before_and_after_its_commit(copied, topic, broker):
    name = topic()
    copied.copy_to(name)
    for at, there in (("sink_sent", 0), ("sink_written", 5)):
        copied.more()
        assert "_End" in str(copied.run(step=end_at(at))["copies"].error)
        assert sum(ids(broker, name).values()) == copied.sent - 5 + there
        if at == "sink_written":
            shutil.rmtree(checkpoints(copied))
        else:
            assert copied.run()["copies"].error is None
    found = copied.run()["copies"]
    assert (found.error, found.counts.read) == (None, 0)
    assert ids(broker, name) == dict.fromkeys(range(copied.sent), 1)
    # What was aborted is in the log, and only readers of uncommitted records see it.
    assert sum(ids(broker, name, isolation="read_uncommitted").values()) == copied.sent + 5
    (said,) = status(copied.pipeline()).datasets
    assert said.totals.written == copied.sent
    assert said.message.startswith("its last batch is ledger entry ")
    planned = copied.plan()["copies"].flows[0]
    assert planned.reason == "what is new since its last batch, exactly once: each batch is a transaction of Kafka"


@pytest.mark.long
def test_each_record_is_there_once_wherever_a_run_ends_and_whatever_becomes_of_the_checkpoint(copied, topic, broker):
    name = topic()
    copied.copy_to(name)
    for kept in ("kept", "deleted", "older"):
        for at in ("sink", "sink_sent", "sink_written"):
            copied.more()
            backup = copied.folder / "backup"
            shutil.rmtree(backup, ignore_errors=True)
            if checkpoints(copied).exists():
                shutil.copytree(checkpoints(copied), backup)
            found = copied.run(step=end_at(at))["copies"]
            assert found.error is not None
            assert "_End" in str(found.error)
            there = sum(ids(broker, name).values())
            assert there == copied.sent - (0 if at == "sink_written" else 5), (kept, at)
            if kept != "kept":
                shutil.rmtree(checkpoints(copied))
            if kept == "older":
                shutil.copytree(backup, checkpoints(copied))
            assert copied.run()["copies"].error is None
            assert ids(broker, name) == dict.fromkeys(range(copied.sent), 1), (kept, at)
    # What was aborted is in the log, and only readers of uncommitted records see it.
    assert sum(ids(broker, name, isolation="read_uncommitted").values()) > copied.sent
    found = copied.run()["copies"]
    assert (found.error, found.counts.read) == (None, 0)
    (said,) = status(copied.pipeline()).datasets
    assert said.totals.written == copied.sent
    assert said.message.startswith("its last batch is ledger entry ")
    planned = copied.plan()["copies"].flows[0]
    assert planned.reason == "what is new since its last batch, exactly once: each batch is a transaction of Kafka"
    # All of it again, because somebody asks for it.
    assert copied.run(reset_checkpoint=("copies",))["copies"].counts.written == copied.sent
    assert ids(broker, name) == dict.fromkeys(range(copied.sent), 2)


def test_at_least_once_gives_copies_of_a_record_the_same_id(copied, topic, broker):
    name = topic()
    copied.copy_to(name, deliveryGuarantee="at-least-once")
    copied.more()
    assert copied.run(step=end_at("sink_written"))["copies"].error is not None
    assert copied.run()["copies"].error is None
    assert ids(broker, name) == dict.fromkeys(range(5), 2)
    by_id = Counter(headers["rivermouth-id"] for _, _, headers in records(broker.bootstrap_servers, name))
    assert sorted(by_id.values()) == [2] * 5
    planned = copied.plan()["copies"].flows[0]
    assert planned.reason == ("what is new since its checkpoint, at least once: copies have one rivermouth-id header")


def test_topic_option_wins_over_the_column_and_all_columns_reach_the_record(copied, topic, broker):
    first, second = topic(partitions=3), topic(partitions=3)
    copied.copy_to(
        None,
        f"lit('{first}').alias('topic'), lit(2).alias('partition'), to_json(struct('*')).alias('value'),"
        "expr(\"array(struct('h' AS key, cast('x' AS binary) AS value))\").alias('headers')",
    )
    copied.more(3)
    assert copied.run()["copies"].error is None
    found = records(broker.bootstrap_servers, first, partitions=3)
    assert {(key, str(headers)) for key, _, headers in found} == {(None, "{'h': b'x'}")}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    assert admin.list_topics(first, timeout=30).topics[first].partitions.keys() == {0, 1, 2}
    assert records(broker.bootstrap_servers, first, partitions=2) == []
    planned = copied.plan()["copies"].flows[0]
    assert planned.reason.endswith(
        "; its rows have no key: Kafka spreads them over the partitions, one may get more than "
        "others, and rows of one thing are not in order"
    )
    copied.copy_to(second, f"lit('{first}').alias('topic'), to_json(struct('*')).alias('value')")
    copied.more(2)
    assert copied.run()["copies"].error is None
    assert sorted(ids(broker, second, partitions=3)) == [3, 4]


def failed(folder):
    error = folder.run()["copies"].error
    assert error is not None
    return str(error).replace(str(folder.folder), "FOLDER")


def test_topics_are_made_when_asked_and_compared_when_they_are_there(copied, topic, broker):
    name = f"{topic()}-new"
    copied.copy_to(name, **{"kafka.max.block.ms": "4000"})
    copied.more()
    assert failed(copied) == (
        f"[SINK_TOPIC_MISSING] flow copy: topic '{name}' does not exist, and the broker does not create it; "
        "the batch was not written to it\n  at: src/a.py:7\n"
        '  hint: add "topic.partitions": "3" to the options of the sink, and the topic is created'
    )
    made = {"topic.partitions": "2", "topic.cleanup.policy": "compact"}
    copied.copy_to(name, **made)
    assert copied.run()["copies"].error is None
    assert ids(broker, name, partitions=2) == dict.fromkeys(range(5), 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    settings = next(iter(admin.describe_configs([resource]).values())).result(30)
    assert settings["cleanup.policy"].value == "compact"
    copied.copy_to(name, **(made | {"topic.cleanup.policy": "delete"}))
    assert failed(copied) == (
        f"[SINK_TOPIC_DIFFERS] flow copy: topic '{name}' has cleanup.policy = compact, and the sink asks for delete; "
        "nothing was written\n  at: src/a.py:7\n"
        f"  hint: kafka-configs.sh --alter --entity-type topics --entity-name {name}, or correct the option of the sink"
    )


def test_a_record_that_kafka_does_not_take_fails_the_batch_and_nothing_is_lost(copied, topic, broker):
    name = topic(**{"max.message.bytes": "100000"})
    copied.copy_to(name, "expr(\"repeat('x', 200000)\").alias('value')")
    copied.more()
    assert failed(copied) == (
        "[SINK_RECORD_TOO_LARGE] flow copy: a record is too large for sink copies: The request included a message "
        "larger than the max message size the server will accept; the batch was not written to the topic\n  at: "
        "src/a.py:7\n  hint: kafka.max.request.size in the options of the sink, and max.message.bytes of the topic"
    )
    copied.copy_to(
        None,
        "expr(\"cast(null as string)\").alias('topic'), col('kind').alias('value')",
    )
    assert failed(copied) == (
        "[SINK_RECORD_INVALID] flow copy: a row cannot be a record of sink copies: Topic cannot be null; the batch "
        "was not written to the topic\n  at: src/a.py:7\n"
        "  hint: the columns topic, partition and headers need values that Kafka takes"
    )
    copied.copy_to(name)
    assert copied.run()["copies"].error is None
    assert ids(broker, name) == dict.fromkeys(range(5), 1)


@pytest.mark.long
def test_a_broker_that_goes_away_in_the_middle_is_told_and_nothing_is_lost(copied, tmp_path):
    with Broker.start(data_dir=tmp_path / "kafka", heap="256m") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("out", 1, 1)])["out"].result(30)
        soon = {f"kafka.{name}": "3000" for name in ("delivery.timeout.ms", "max.block.ms", "default.api.timeout.ms")}
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.request.timeout.ms": "2000"}
        copied.copy_to("out", **soon, **servers)
        copied.more()

        def step(name):
            if name == "sink_sent":
                broker.kill()

        told = copied.run(step=step)["copies"].error
        assert told.code == "SINK_UNREACHABLE"
        port = int(broker.bootstrap_servers.rpartition(":")[2])
    said = failed(copied)
    detail = said.partition("do not answer: ")[2].partition("; the batch")[0]
    assert detail.startswith("Timed out waiting for a node assignment")
    assert said == (
        f"[SINK_UNREACHABLE] flow copy: the brokers of sink copies do not answer: {detail}; the batch was not written "
        "to the topic\n  at: src/a.py:7\n  hint: rivermouth run, when the brokers answer again"
    )
    with Broker.start(port=port, data_dir=tmp_path / "kafka", heap="256m") as broker:
        runs = (copied.run()["copies"].error for _ in range(20))  # a broker has yet to load its transactions
        told = list(takewhile(lambda error: error is not None, runs))
        assert {error.code for error in told} <= {"SINK_UNREACHABLE"}
        assert len(told) < 20
        assert ids(broker, "out") == dict.fromkeys(range(5), 1)


def test_what_kafka_says_may_pass_is_told_as_brokers_that_do_not_answer(spark):
    """A broker that starts again says so in many ways; a flow is tried again for all of them."""
    options = read_options({"topic": "t", "kafka.bootstrap.servers": "localhost:9092"})
    cluster = SinkCluster(spark, options, SinkNames.of("copy", "copies", "copy", "place"))

    def told(name):
        future = spark._jvm.java.util.concurrent.CompletableFuture()
        future.completeExceptionally(java_class(spark, f"org.apache.kafka.common.errors.{name}Exception")("said."))
        with pytest.raises(RivermouthError) as caught, cluster.failures():
            future.join()
        assert caught.value.facts["detail"] == "said"
        return caught.value.code

    passing = ("Timeout", "Disconnect", "NotLeaderOrFollower", "CoordinatorLoadInProgress", "KafkaStorage")
    assert {name: told(name) for name in passing} == dict.fromkeys(passing, "SINK_UNREACHABLE")
    assert {name: told(name) for name in ("ProducerFenced", "TopicAuthorization")} == {
        "ProducerFenced": "SINK_FENCED",
        "TopicAuthorization": "SINK_REFUSED",
    }
    away = read_options({"topic": "t", "kafka.bootstrap.servers": "nowhere.invalid:9092"})
    with pytest.raises(SinkUnreachable, match="No resolvable bootstrap urls given in bootstrap"):
        SinkCluster(spark, away, cluster.names).ensure_topics(ledger=True)


def test_a_second_writer_ends_the_transaction_of_the_first(copied, topic, broker, spark):
    name = topic()
    copied.copy_to(name)
    copied.more()
    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}

    def step(reached):
        if reached == "sink_sent":
            with commands.opened(copied.pipeline(), writes=False) as loaded:
                (node,) = loaded.graph.nodes
                names = names_of(loaded.pipeline, node, node.flows[0])
            with KafkaTransactions(spark, read_options({"topic": name, **servers}), names) as second:
                # As behind a commit that timed out, there is nothing that can be aborted: the first error is told.
                second.abandon()

    found = copied.run(step=step)["copies"].error
    assert str(found).replace(str(copied.folder), "FOLDER") == (
        "[SINK_FENCED] flow copy: its transaction into sink copies was ended: There is a newer producer with the same "
        "transactionalId which fences the current one; the batch was not written to the topic\n  at: src/a.py:7\n"
        "  hint: see that no other process runs this flow; where a batch takes longer than "
        "kafka.transaction.timeout.ms, raise it, or read less in a batch: maxOffsetsPerTrigger, or "
        "max_offsets in the trigger of a flow"
    )
    copied.copy_to(name, **{"kafka.transaction.timeout.ms": "100000000"})
    refused = failed(copied)
    own = refused.partition("transactional id ")[2].partition(",")[0]
    assert own.startswith("rivermouth-shop-copies-copy-")
    assert refused == (
        "[SINK_REFUSED] flow copy: the broker refused sink copies: The transaction timeout is larger than the maximum "
        "value allowed by the broker (as configured by transaction.max.timeout.ms); the batch was not written to the "
        f"topic\n  at: src/a.py:7\n  hint: see that its user may write the topic, use the transactional id {own}, and "
        f"create and read the topic {own}-ledger"
    )
    copied.copy_to(name)
    assert copied.run()["copies"].error is None
    assert ids(broker, name) == dict.fromkeys(range(5), 1)


STATEFUL = """
from pyspark import pipelines as dp

dp.create_sink("copies", "kafka", {options})

@dp.{decorator}(target="copies", name="copy")
def copy():
    rows = spark.readStream.schema("id bigint, shop string, kind string").json("{folder}/in")
    return rows.{query}.selectExpr({columns})
"""
MODES = {
    "append": ("append_flow", "dropDuplicates(['shop'])", "'shop AS key', 'shop AS value'"),
    "update": ("update_flow", "groupBy('shop').count()", "'shop AS key', 'CAST(count AS string) AS value'"),
    "complete": ("append_flow", "groupBy('shop').count()", "'shop AS key', 'CAST(count AS string) AS value'"),
}
# What two runs of three rows each give, of one and two shops.
WANTED = {
    "append": [("s0", "s0"), ("s1", "s1"), ("s2", "s2")],
    "update": [("s0", "1"), ("s1", "1"), ("s2", "1"), ("s0", "2")],
    "complete": [("s0", "1"), ("s1", "1"), ("s2", "1"), ("s0", "2"), ("s1", "1"), ("s2", "1")],
}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["update", "append", "complete"])
def test_a_query_with_state_writes_each_result_once_in_its_output_mode(copied, topic, broker, mode):
    name, (decorator, query, columns) = topic(), MODES[mode]
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name}
    texts = {"decorator": decorator, "query": query, "columns": columns, "folder": copied.folder}
    copied.write("src/a.py", STATEFUL.format(options=options, **texts))
    copied.more(3)
    assert copied.run(step=end_at("sink_sent"))["copies"].error is not None
    assert copied.run(step=end_at("sink_written"))["copies"].error is not None
    copied.more(1)
    assert copied.run()["copies"].error is None
    assert sorted(each[:2] for each in records(broker.bootstrap_servers, name)) == sorted(WANTED[mode])
    if mode == "append":
        shutil.rmtree(checkpoints(copied))
        assert failed(copied) == (
            f"[SINK_STATE_LOST] flow copy keeps state, and its checkpoint {checkpoints(copied)}/sink.copies/copy is "
            "not the one of sink copies: there is none; the flow was not started\n  at: src/a.py:6\n"
            "  hint: restore the checkpoint, or rivermouth run --reset-checkpoint copies: all records are written again"
        ).replace(str(copied.folder), "FOLDER")


REFUSED = {
    "a transactional id": (
        {"kafka.transactional.id": "mine"},
        "'kafka.transactional.id' is refused: rivermouth names the transactions, so that a run finds the one before",
        "remove it from the sink",
    ),
    "an unknown guarantee": (
        {"deliveryGuarantee": "often"},
        "'deliveryGuarantee' is refused: it is exactly_once or at_least_once",
        "deliveryGuarantee: exactly_once",
    ),
    "an unknown option": (
        {"topics": "a"},
        "'topics' is refused: a Kafka sink does not know it",
        "did you mean 'topic'?",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_options_that_cannot_be_are_refused_before_anything_runs(copied, case):
    options, said, fix = REFUSED[case]
    copied.copy_to("t", **options)
    copied.more()
    with pytest.raises(RivermouthError) as refused:
        copied.plan()
    text = f"[KAFKA_OPTION_REFUSED] kafka option {said}; nothing was run\n  at: src/a.py:5\n  hint: {fix}"
    assert str(refused.value).replace(str(copied.folder), "FOLDER") == text


REAL_TIME = """
from pyspark import pipelines as dp

dp.create_sink("copies", "kafka", {options})
dp.create_sink("archive", "parquet", {{"path": "archive"}})

@dp.append_flow(target="{target}", name="copy", spark_conf={{"pipelines.trigger": "{trigger}"}})
def copy():
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{servers}")
    kafka = kafka.option("subscribe", "{source}").option("startingOffsets", "earliest")
    return {query}
"""
COPY = "kafka.load().select('key', 'value')"
NOT_IN_REAL_TIME = {
    "exactly once": ({"guarantee": "exactly_once"}, "this mode writes at least once, and the sink is exactly once"),
    "state": ({"query": f"{COPY}.dropDuplicates(['value'])"}, "its query keeps state"),
    "another source": (
        {"query": "spark.readStream.format('rate').load().selectExpr('CAST(value AS string) AS value')"},
        "it reads a stream that is not Kafka",
    ),
    "another sink": ({"target": "archive"}, "it does not write to a Kafka sink"),
    "another word": ({"trigger": "Continuous"}, "its only value is RealTime"),
}


@pytest.fixture
def real_time(folder, broker):
    def write(source, out, *, guarantee="at_least_once", query=COPY, target="copies", trigger="RealTime"):
        servers = broker.bootstrap_servers
        options = {"kafka.bootstrap.servers": servers, "topic": out, "deliveryGuarantee": guarantee}
        texts = {"servers": servers, "source": source, "query": query, "target": target, "trigger": trigger}
        folder.write("src/a.py", REAL_TIME.format(options=options, **texts))
        return folder

    return write


@pytest.mark.parametrize("case", NOT_IN_REAL_TIME)
def test_real_time_mode_is_refused_where_it_cannot_be(real_time, case):
    other, reason = NOT_IN_REAL_TIME[case]
    folder = real_time("a", "b", **other)
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    fix = "remove pipelines.trigger from the flow, or from the configuration"
    if case == "exactly once":
        fix = 'add "deliveryGuarantee": "at_least_once" to the options of the sink'
    text = f"[REAL_TIME_REFUSED] flow copy: pipelines.trigger is set, and {reason}; the pipeline was not run"
    assert str(refused.value) == f"{text}\n  at: src/a.py:7\n  hint: {fix}"


def test_records_are_copied_in_real_time_until_it_is_stopped(real_time, topic, broker):
    source, out = topic(), topic()
    folder = real_time(source, out)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    stopping, outcomes = threading.Event(), []

    def follow():
        with commands.opened(folder.pipeline(), writes=True) as loaded:
            outcomes.extend(commands.updated(loaded, commands.UpdateOptions(follow=True), stopping))

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        deadline, sent = time.monotonic() + 90, 0
        while len(found := records(broker.bootstrap_servers, out)) < 3 and time.monotonic() < deadline:
            producer.produce(source, f"v{sent}", key="k")
            producer.flush(30)
            sent += 1
            time.sleep(0.5)
    finally:
        stopping.set()
        thread.join(60)
    assert [each[:2] for each in found[:3]] == [("k", "v0"), ("k", "v1"), ("k", "v2")]
    assert [each.error for each in outcomes] == [None] * len(outcomes)
    # A run that ends reads what is left by micro-batches.
    assert folder.run()["copies"].error is None
    there = {each[1] for each in records(broker.bootstrap_servers, out)}
    assert there == {f"v{number}" for number in range(sent)}


ONCE = """
from pyspark import pipelines as dp
from pyspark.sql.functions import struct, to_json

SCHEMA = "id bigint, shop string, kind string"
dp.create_sink("copies", "kafka", {options})
dp.create_sink("archive", "parquet", {{"path": "{folder}/archive"}})

@dp.append_flow(target="copies", name="copy", once=True)
def copy():
    return spark.read.schema(SCHEMA).json("{folder}/in").select(to_json(struct("*")).alias("value"))

@dp.append_flow(target="archive", name="keep", once=True)
def keep():
    return spark.readStream.schema(SCHEMA).json("{folder}/in")
"""


@pytest.mark.long
def test_flows_that_run_once_write_their_rows_once_also_of_a_batch_query(copied, topic, broker, spark):
    name = topic()
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name}
    copied.write("src/a.py", ONCE.format(options=options, folder=copied.folder))
    copied.more()
    assert copied.plan()["copies"].flows[0].reason == "its rows once, exactly once; nothing, if it has run"
    assert {each.error is None for each in copied.run(step=end_at("sink_sent")).values()} == {False}
    for written in (5, 0):
        found = copied.run()
        assert {name: (each.error, each.counts.written) for name, each in found.items()} == {
            "copies": (None, written),
            "archive": (None, written),
        }
        assert ids(broker, name) == dict.fromkeys(range(5), 1)
        assert spark.read.parquet(f"{copied.folder}/archive").count() == 5
        copied.more()


@pytest.mark.parametrize(
    ("arguments", "read", "detail", "hint"),
    [
        (
            "",
            "read",
            "its query reads no stream",
            "read a stream: spark.readStream or STREAM(...)",
        ),
        (
            ", once=True",
            "readStream",
            "it runs once, and only sinks of Kafka and of files that are exactly once know that it has",
            "remove once=True, and read a stream",
        ),
    ],
)
def test_a_sink_that_cannot_tell_whether_a_flow_has_run_refuses_one_that_runs_once(
    folder, arguments, read, detail, hint
):
    folder.write(
        "src/a.py",
        'from pyspark import pipelines as dp\n\ndp.create_sink("out", "console")\n\n'
        f'@dp.append_flow(target="out"{arguments})\ndef shown():\n'
        f'    return spark.{read}.schema("id int").json("{folder.folder}")\n',
    )
    with pytest.raises(RivermouthError) as raised:
        folder.plan()
    assert str(raised.value) == (
        f"[DEFINITION_INVALID] flow shown into sink out: {detail}; the pipeline was not run\n"
        f"  at: src/a.py:5\n  hint: {hint}"
    )
